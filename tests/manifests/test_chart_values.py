"""Values that the chart does not take, and what helm then says: where it is wrong, in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.manifests.rendering import CHART, refusal, rendered, templated
from tests.manifests.value_sets import VALUE_SETS


def image(tag: Any) -> dict[str, Any]:
    return {"controllerManager": {"manager": {"image": {"tag": tag}}}}


def certificate(**values: Any) -> dict[str, Any]:
    return {"webhook": {"certificateSecret": {"external": True, **values}}}


RESTRICTED = {"enabled": True}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown value": ({"confg": {}}, "at '': additional properties 'confg' not allowed"),
    "an unknown value inside": (
        {"webhook": {"certmanager": {"enabled": True}}},
        "at '/webhook': additional properties 'certmanager' not allowed",
    ),
    "an unknown setting": (
        {"config": {"planner": {"nodeSelektor": {}}}},
        "at '/config/planner': additional properties 'nodeSelektor' not allowed",
    ),
    "a setting of the wrong type": (
        {"config": {"runHistoryLimit": "many"}},
        "at '/config/runHistoryLimit': got string, want integer",
    ),
    "a setting out of bounds": (
        {"config": {"runHistoryLimit": 0}},
        "at '/config/runHistoryLimit': minimum: got 0, want 1",
    ),
    "a setting that the chart knows better": (
        {"config": {"webhooks": "off"}},
        "at '/config': additional properties 'webhooks' not allowed",
    ),
    "a switch as text": (
        {"dgdrV1Beta2": {"enabled": "false"}},
        "at '/dgdrV1Beta2/enabled': got string, want boolean",
    ),
    "a timeout that no API server takes": (
        {"webhook": {"timeoutSeconds": 31}},
        "at '/webhook/timeoutSeconds': maximum: got 31, want 30",
    ),
    "a policy that does not exist": (
        {"webhook": {"failurePolicy": "Retry"}},
        "at '/webhook/failurePolicy': value must be one of 'Fail', 'Ignore'",
    ),
    "a namespace that cannot be": (
        {"namespaceRestriction": {**RESTRICTED, "targetNamespace": "Team_A"}},
        "at '/namespaceRestriction/targetNamespace': 'Team_A' does not match pattern",
    ),
    "a duration without a unit": (
        {"webhook": {"certManager": {"certificate": {"duration": "90"}}}},
        "at '/webhook/certManager/certificate/duration': '90' does not match pattern",
    ),
    "a digest that is a tag": (
        {"controllerManager": {"manager": {"image": {"digest": "v1"}}}},
        "at '/controllerManager/manager/image/digest': 'v1' does not match pattern",
    ),
    "a tag of digits": (image(5060547), "image.tag is not text: quote it in the values"),
    "a tag that is a float": (image(1.1), "image.tag is not text: quote it in the values"),
    "a tag that is a truth": (image(True), "image.tag is not text: quote it in the values"),
    "one namespace and several": (
        {
            "namespaceRestriction": {
                **RESTRICTED,
                "targetNamespace": "a",
                "targetNamespaces": ["b"],
            }
        },
        "namespaceRestriction.targetNamespace and .targetNamespaces are both set",
    ),
    "namespaces without the restriction": (
        {"namespaceRestriction": {"targetNamespace": "a"}},
        "namespaceRestriction names namespaces, but is not enabled",
    ),
    "a restricted operator with a certificate of its own": (
        {"namespaceRestriction": RESTRICTED},
        "set webhook.certManager.enabled=true, or webhook.certificateSecret.external=true",
    ),
    "two certificates": (
        {
            "webhook": {
                "certManager": {"enabled": True},
                "certificateSecret": {"external": True, "name": "a"},
            }
        },
        "webhook.certManager.enabled and webhook.certificateSecret.external are both true",
    ),
    "a certificate that nobody trusts": (certificate(name="a"), "webhook.caBundle is missing"),
    "a certificate that is nowhere": (
        {"webhook": {"caBundle": "LQ==", **certificate()["webhook"]}},
        "webhook.certificateSecret.name is missing",
    ),
    "metrics where webhooks are": ({"metrics": {"port": 9443}}, "metrics.port is 9443, where"),
    "a monitor of nothing": (
        {"metrics": {"enabled": False, "serviceMonitor": {"enabled": True}}},
        "metrics.serviceMonitor.enabled is true, but no metrics are served",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_helm_says_where_a_value_is_wrong(name: str):
    values, told = REFUSED[name]

    said = [line for line in refusal(values).splitlines() if told in line]

    assert len(said) == 1


def test_an_older_cluster_is_refused_by_its_version():
    assert "which is incompatible with Kubernetes v1.29.4" in refusal({}, "--kube-version=1.29.4")
    assert rendered({}, "--kube-version=1.30.0-gke.100")


@pytest.mark.parametrize("flag", ["--set", "--set-json"])
def test_a_tag_of_digits_on_the_command_line_is_refused_and_as_text_it_is_kept(flag: str):
    tag = "controllerManager.manager.image.tag=58467965"

    assert "give it with --set-string" in refusal({}, f"{flag}={tag}")
    assert "dynamo-operator:58467965" in templated({}, f"--set-string={tag}").stdout


def test_every_value_is_in_the_file_of_defaults_and_in_a_value_set():
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = YAML(typ="safe", pure=True).load((CHART / "values.yaml").read_text())
    shown, tried = paths(defaults), {path for it in VALUE_SETS.values() for path in paths(it)}
    declared = [path for path in declared_paths(schema) if path != "global"]

    assert [path for path in declared if not any(it.startswith(path) for it in tried)] == []
    own = [path for path in declared if not path.startswith("config.")]
    assert [path for path in own if not any(it.startswith(path) for it in shown)] == []


def paths(node: Any, path: str = "") -> set[str]:
    """The paths of all values that are no map, or an empty one."""
    if not isinstance(node, dict) or not node:
        return {path}
    return {
        leaf for key, value in node.items() for leaf in paths(value, f"{path}.{key}".strip("."))
    }


def declared_paths(node: dict[str, Any], path: str = "") -> list[str]:
    """The paths of all values that a schema names."""
    inside = node.get("properties")
    if not inside:
        return [path]
    return [
        leaf
        for key, value in inside.items()
        for leaf in declared_paths(value, f"{path}.{key}".strip("."))
    ]
