"""What we ship asks for as little as it can: its Pods of a node, its roles of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.apiserver.pod_security_checks import Level, PodView, violations
from dynamo_operator.generate.deployment import deployment
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.generate.rbac import (
    gpu_discovery_role,
    leader_election_role,
    manager_role,
    webhook_certificate_roles,
)
from reconcilers.run.execution import PlannerSettings, PodSecurity
from tests.reconcilers.run.test_job import TRACE_SPEC, rendered

FAR_REACHING = {
    "certificatesigningrequests/approval",
    "mutatingwebhookconfigurations",
    "namespaces",
    "nodes/proxy",
    "persistentvolumes",
    "pods/attach",
    "pods/ephemeralcontainers",
    "pods/exec",
    "pods/portforward",
    "serviceaccounts/token",
    "validatingwebhookconfigurations",
}
"""What reaches beyond the objects of searches: other identities, other Pods, other namespaces."""


def pods() -> dict[str, dict[str, Any]]:
    """Every Pod template that we make."""
    cache = PlannerSettings(cache_pvc="cache")
    jobs = {
        "a search": rendered(),
        "a search of a trace": rendered(TRACE_SPEC, planner_settings=cache),
        "a search by the image's own users": rendered(pod_security=PodSecurity(run_as_user=None)),
    }
    return {
        "the operator": deployment()["spec"]["template"],
        **{name: job.spec["template"] for name, job in jobs.items()},
    }


@pytest.mark.parametrize("name", pods())
def test_a_pod_that_we_ship_is_restricted_in_the_sense_of_every_version(name: str):
    template = pods()[name]
    pod = PodView(template["metadata"].get("annotations") or {}, template["spec"])

    assert {
        minor: found for minor in range(38) if (found := violations(Level.RESTRICTED, minor, pod))
    } == {}


@pytest.mark.parametrize("name", pods())
def test_a_container_that_we_ship_has_a_read_only_root_and_bounds(name: str):
    spec = pods()[name]["spec"]

    assert spec.get("shareProcessNamespace") is None
    for container in spec["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert set(container["resources"]["limits"]) >= {"cpu", "memory"}
        assert set(container["resources"]["requests"]) >= {"cpu", "memory"}
    for volume in spec["volumes"]:
        if "emptyDir" in volume:
            assert volume["emptyDir"]["sizeLimit"]


def test_no_role_reaches_beyond_what_searches_are_made_of():
    roles = (
        manager_role(image_pull_secrets=["registry"]),
        gpu_discovery_role(),
        leader_election_role(),
    )
    rules = [rule for role in roles for rule in role["rules"]]

    assert FAR_REACHING & {resource for rule in rules for resource in rule["resources"]} == set()
    (of_secrets,) = [rule for rule in rules if "secrets" in rule["resources"]]
    assert of_secrets == {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["registry"],
        "verbs": ["get"],
    }


def test_for_webhooks_the_operator_may_change_what_is_its_own_by_name():
    of_secret, of_configurations = webhook_certificate_roles()

    assert of_secret["metadata"]["namespace"] == NAMESPACE
    assert of_secret["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["dynamo-operator-webhook-certificate"],
            "verbs": ["get", "update"],
        },
    ]
    assert of_configurations["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "resourceNames": ["dynamo-operator"],
            "verbs": ["get", "patch"],
        }
    ]
