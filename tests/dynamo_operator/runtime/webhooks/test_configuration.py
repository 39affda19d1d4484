import base64

from dynamo_operator.runtime.webhooks.configuration import (
    ServiceEndpoint,
    UrlEndpoint,
    conversion_strategy,
    mutating_configuration,
    validating_configuration,
)
from dynamo_operator.runtime.webhooks.webhook import Webhook
from informers.objects import ResourceType
from tests.dynamo_operator.runtime.widgets import Widget

SERVICE = ServiceEndpoint("webhook", "system")


def nothing(*_):
    return None


def test_a_mutating_configuration_says_what_the_declaration_says():
    webhook = Webhook(
        Widget,
        default=nothing,
        timeout_seconds=5,
        failure_policy="Ignore",
        match_policy="Exact",
        reinvocation_policy="IfNeeded",
        namespace_selector={"matchLabels": {"a": "b"}},
        object_selector={"matchLabels": {"c": "d"}},
        match_conditions={"not-mine": "request.userInfo.username != 'me'"},
    )

    configuration = mutating_configuration(
        "lab", [webhook], SERVICE, ca_bundle=b"PEM", labels={"app": "lab"}
    )

    assert configuration == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "lab", "labels": {"app": "lab"}},
        "webhooks": [
            {
                "name": "default.v1.widgets.lab.test",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {
                        "name": "webhook",
                        "namespace": "system",
                        "path": "/mutate-lab-test-v1-widget",
                        "port": 443,
                    },
                    "caBundle": base64.b64encode(b"PEM").decode(),
                },
                "rules": [
                    {
                        "apiGroups": ["lab.test"],
                        "apiVersions": ["v1"],
                        "resources": ["widgets"],
                        "operations": ["CREATE", "UPDATE"],
                        "scope": "Namespaced",
                    }
                ],
                "failurePolicy": "Ignore",
                "matchPolicy": "Exact",
                "sideEffects": "None",
                "timeoutSeconds": 5,
                "namespaceSelector": {"matchLabels": {"a": "b"}},
                "objectSelector": {"matchLabels": {"c": "d"}},
                "matchConditions": [
                    {"name": "not-mine", "expression": "request.userInfo.username != 'me'"}
                ],
                "reinvocationPolicy": "IfNeeded",
            }
        ],
    }


def test_a_validating_configuration_has_the_operations_that_are_judged():
    nodes = ResourceType("", "v1", "Node", "nodes", namespaced=False)
    webhooks = [
        Webhook(Widget, default=nothing),
        Webhook(Widget, validate_update=nothing, subresource="status"),
        Webhook(nodes, validate_create=nothing, validate_delete=nothing),
    ]

    entries = validating_configuration("lab", webhooks, UrlEndpoint("https://here:1/"))["webhooks"]

    assert [entry["name"] for entry in entries] == [
        "validate.status.v1.widgets.lab.test",
        "validate.v1.nodes.core",
    ]
    assert [entry["rules"][0]["operations"] for entry in entries] == [
        ["UPDATE"],
        ["CREATE", "DELETE"],
    ]
    assert [entry["rules"][0]["resources"] for entry in entries] == [["widgets/status"], ["nodes"]]
    assert [entry["rules"][0]["scope"] for entry in entries] == ["Namespaced", "Cluster"]
    assert entries[1]["clientConfig"] == {"url": "https://here:1/validate--v1-node"}
    assert all("reinvocationPolicy" not in entry for entry in entries)


def test_a_definition_is_converted_at_the_same_endpoint():
    assert conversion_strategy(SERVICE)["webhook"] == {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"name": "webhook", "namespace": "system", "path": "/convert", "port": 443}
        },
    }
