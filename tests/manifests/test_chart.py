"""What the Helm chart renders."""

from __future__ import annotations

import argparse
import re
import subprocess
from typing import Any

import pytest

from dynamo_operator.apiserver.pod_security_checks import Level, PodView, violations
from dynamo_operator.app import permissions
from dynamo_operator.cli.settings import add_settings_flags, load_settings
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.deployment import deployment
from dynamo_operator.generate.network_policies import operator_policy, run_policy
from dynamo_operator.generate.policy import publisher_policy
from dynamo_operator.generate.rbac import (
    gpu_discovery_role,
    leader_election_role,
    manager_role,
    role_rules,
    webhook_certificate_roles,
)
from dynamo_operator.generate.webhooks import webhook_configurations
from dynamo_operator.settings import LEASE_NAME, OperatorSettings, WebhookMode
from tests.manifests.rendering import (
    CHART,
    NAMESPACE,
    Objects,
    objects_of,
    rendered,
    require_helm,
    templated,
)
from tests.manifests.value_sets import VALUE_SETS

CLUSTER_SCOPED_RIGHTS = {"ClusterRole", "ClusterRoleBinding"}


def settings_of(objects: Objects, tmp_path: Any) -> OperatorSettings:
    """The settings as the operator itself reads them from the chart's file."""
    (file,) = [obj for (kind, _), obj in objects.items() if kind == "ConfigMap"]
    path = tmp_path / "config.yaml"
    path.write_text(file["data"]["config.yaml"], encoding="utf-8")
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    return load_settings(parser.parse_args(["--config", str(path)]), {})


def pod_of(objects: Objects) -> dict[str, Any]:
    """The Pod template of the operator."""
    (found,) = [obj for (kind, _), obj in objects.items() if kind == "Deployment"]
    template: dict[str, Any] = found["spec"]["template"]
    return template


def kinds(objects: Objects) -> set[str]:
    return {kind for kind, _ in objects}


def test_by_default_it_grants_calls_and_installs_what_the_kustomize_base_does():
    objects = rendered({})

    for crd in custom_resource_definitions():
        name = crd["metadata"]["name"]
        assert objects["CustomResourceDefinition", name]["spec"] == crd["spec"]
    secret_role, configuration_role = webhook_certificate_roles()
    for role in (
        manager_role(),
        gpu_discovery_role(),
        leader_election_role(),
        secret_role,
        configuration_role,
    ):
        assert objects[role["kind"], role["metadata"]["name"]]["rules"] == role["rules"]
    for configuration in webhook_configurations():
        found = objects[configuration["kind"], configuration["metadata"]["name"]]
        assert found["webhooks"] == configuration["webhooks"]
    policy = publisher_policy()
    assert objects[policy["kind"], policy["metadata"]["name"]]["spec"] == policy["spec"]


def test_every_role_is_bound_to_the_account_that_the_pods_run_as():
    for values in VALUE_SETS.values():
        objects = rendered(values)
        account = pod_of(objects)["spec"]["serviceAccountName"]
        for (kind, name), obj in objects.items():
            if kind.endswith("RoleBinding"):
                assert obj["roleRef"]["name"] == name
                subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
                assert obj["subjects"] == [subject]


def test_the_pod_is_that_of_the_kustomize_base_but_for_its_file():
    ours = deployment()["spec"]["template"]["spec"]
    pod = pod_of(rendered({}))["spec"]
    (container,), (its,) = pod["containers"], ours["containers"]

    for field in ("command", "image", "lifecycle", "resources", "securityContext"):
        assert container[field] == its[field]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe] == its[probe]
    assert [port for port in container["ports"] if port["name"] != "metrics"] == its["ports"]
    assert container["args"] == ["--config=/etc/dynamo-operator/config.yaml"]
    for field in ("securityContext", "serviceAccountName", "terminationGracePeriodSeconds"):
        assert pod[field] == ours[field]


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_operator_reads_the_file_that_the_chart_writes(name: str, tmp_path):
    values = VALUE_SETS[name]
    objects = rendered(values)
    settings = settings_of(objects, tmp_path)
    (container,) = pod_of(objects)["spec"]["containers"]

    assert settings.operator_image == container["image"]
    assert settings.server.health_probe.port == 8081
    assert settings.feature_gates.dgdr_v1_beta2 == ("dgdrV1Beta2" not in values)
    discovers = any(name.endswith("-gpu-discovery") for _, name in objects)
    assert (settings.feature_gates.dgdr_v1_beta2 and settings.discovers_gpus) == discovers
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert settings.server.metrics.port == ports.get("metrics")
    assert (settings.webhooks is WebhookMode.OFF) == ("webhook" not in ports)
    if settings.webhooks is not WebhookMode.OFF:
        assert settings.server.webhook.port == ports["webhook"]
        assert ("Service", settings.server.webhook.service_name) in objects
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            assert (kind, settings.server.webhook.configuration_name) in objects


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_pod_is_admitted_where_only_restricted_pods_are(name: str):
    template = pod_of(rendered(VALUE_SETS[name]))
    pod = PodView(template["metadata"]["annotations"], template["spec"])

    for minor in (30, 37):
        assert list(violations(Level.RESTRICTED, minor, pod)) == []
    for container in template["spec"]["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"]


def test_settings_of_the_operator_reach_it_as_they_were_given(tmp_path):
    settings = settings_of(rendered(VALUE_SETS["all settings"]), tmp_path)

    assert settings.pod_security.run_as_user == 1000750000
    assert settings.pool_relay.run_as_user is None
    assert settings.planner.resources.limits == {"cpu": "8", "memory": "16Gi"}
    assert settings.leader_election.lease_seconds == 30
    assert settings.discovery.backend == "etcd"
    assert settings.image_pull_secrets == ("registry", "other")


def test_a_changed_setting_rolls_the_pods_out():
    def checksum(**config: Any) -> str:
        annotations = pod_of(rendered({"config": config}))["metadata"]["annotations"]
        return str(annotations["checksum/config"])

    assert checksum(runHistoryLimit=3) != checksum(runHistoryLimit=4)
    assert checksum(runHistoryLimit=3) == checksum(runHistoryLimit=3)


def test_pull_secrets_of_runs_may_be_read_by_name_and_only_when_they_are_named():
    def of_secrets(values: dict[str, Any]) -> list[dict[str, Any]]:
        rules = rendered(values)["ClusterRole", "dynamo-operator-manager"]["rules"]
        return [rule for rule in rules if "secrets" in rule["resources"]]

    assert of_secrets({}) == []
    assert of_secrets({"config": {"imagePullSecrets": ["registry"]}}) == [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["registry"],
            "verbs": ["get"],
        }
    ]


@pytest.mark.parametrize("name", ["nothing", "several namespaces", "relays only"])
def test_pull_secrets_are_discovered_by_a_role_of_its_own_and_only_when_told(name: str):
    values = VALUE_SETS[name]
    told = {**values, "config": {"discoverImagePullSecrets": True}}
    kind = "Role" if "namespaceRestriction" in values else "ClusterRole"
    granted = [
        (obj["kind"], obj["metadata"]["name"], obj["rules"])
        for obj in objects_of(told)
        if any("secrets" in rule["resources"] for rule in of_resources(obj))
        and "certificate" not in obj["metadata"]["name"]
    ]

    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
    role = (kind, "dynamo-operator-pull-secret-discovery", rules)
    number = {"nothing": 1, "several namespaces": 2, "relays only": 0}[name]
    assert granted == [role] * number
    assert not any("discovery" in name and "pull" in name for _, name in rendered(values))


def of_resources(obj: dict[str, Any]) -> list[dict[str, Any]]:
    """The rules of a role that are about resources."""
    return [rule for rule in obj.get("rules") or () if "resources" in rule]


def test_without_searches_there_are_relays_only():
    objects = rendered({"dgdrV1Beta2": {"enabled": False}})
    role = objects["ClusterRole", "dynamo-operator-manager"]

    assert {name for kind, name in objects if kind == "CustomResourceDefinition"} == {
        "dynamopoolrelays.nvidia.com"
    }
    assert role["rules"] == role_rules(permissions(dgdr_v1_beta2=False))
    assert "jobs" not in {resource for rule in role["rules"] for resource in rule["resources"]}
    assert not kinds(objects) & {
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingWebhookConfiguration",
        "Secret",
    }


def test_restricted_to_a_namespace_nothing_is_cluster_scoped():
    objects = rendered(VALUE_SETS["one namespace"])

    assert {obj["metadata"].get("namespace") for obj in objects.values()} == {NAMESPACE}
    rules = [rule for obj in objects.values() for rule in obj.get("rules") or ()]
    granted = {resource for rule in rules for resource in rule["resources"]}
    assert not granted & {"nodes", "customresourcedefinitions", "tokenreviews"}


def test_restricted_to_several_namespaces_each_has_the_role_and_webhooks_select_them(tmp_path):
    values = VALUE_SETS["several namespaces"]
    objects = rendered(
        {**values, "gpuDiscovery": {"enabled": False}, "metrics": {"enabled": False}}
    )
    assert not kinds(objects) & CLUSTER_SCOPED_RIGHTS
    assert settings_of(objects, tmp_path).watch_namespaces == ("team-a", "team-b")
    assert not settings_of(objects, tmp_path).discovers_gpus
    discovering = rendered({**values, "gpuDiscovery": {"enabled": True}})
    assert settings_of(discovering, tmp_path).discovers_gpus
    (webhook,) = objects["MutatingWebhookConfiguration", "dynamo-operator"]["webhooks"]
    (own,) = webhook_configurations(namespaces=["team-a", "team-b"])[0]["webhooks"]
    assert webhook["namespaceSelector"] == own["namespaceSelector"]
    roles = [obj for obj in objects_of(values) if obj["kind"] == "Role"]
    assert [
        role["metadata"]["namespace"] for role in roles if "manager" in role["metadata"]["name"]
    ] == [
        "team-a",
        "team-b",
    ]


def test_names_that_are_chosen_are_granted_and_told():
    objects = rendered(VALUE_SETS["other names"])
    rules = [
        (rule["resources"], rule["resourceNames"])
        for obj in objects.values()
        for rule in obj.get("rules") or ()
        if rule.get("resourceNames")
    ]

    assert (["leases"], ["search.example.com"]) in rules
    assert (["secrets"], ["search-certificate"]) in rules
    configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    assert (configurations, ["search"]) in rules
    assert objects["Role", "search-leader-election"]["metadata"]["namespace"] == "kube-system"
    (webhook,) = objects["ValidatingWebhookConfiguration", "search"]["webhooks"]
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 5)
    assert webhook["clientConfig"]["service"]["name"] == "search-webhook"
    assert webhook["namespaceSelector"] == {"matchLabels": {"searches": "yes"}}


def test_network_policies_are_those_of_kustomize_with_the_api_servers_addresses():
    objects = rendered({"networkPolicy": {"enabled": True, "runs": {"namespaces": ["team-a"]}}})
    ours, of_runs = operator_policy()["spec"], run_policy()["spec"]
    found = objects["NetworkPolicy", "dynamo-operator-manager"]["spec"]
    runs = objects["NetworkPolicy", "dynamo-operator-runs"]

    assert (found["ingress"], found["egress"]) == (ours["ingress"], ours["egress"])
    assert runs["spec"] == of_runs
    assert runs["metadata"]["namespace"] == "team-a"
    narrowed = rendered(VALUE_SETS["network policies"])["NetworkPolicy", "dynamo-operator-manager"]
    assert narrowed["spec"]["egress"][-1] == {
        "ports": [{"protocol": "TCP", "port": 6443}],
        "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}, {"ipBlock": {"cidr": "10.0.0.2/32"}}],
    }


def test_replicas_stay_apart_and_one_survives_a_drain():
    objects = rendered({"controllerManager": {"replicas": 2}})
    affinity = pod_of(objects)["spec"]["affinity"]["podAntiAffinity"]
    (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    budget = objects["PodDisruptionBudget", "dynamo-operator-manager"]["spec"]

    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert budget["minAvailable"] == 1
    labels = pod_of(objects)["metadata"]["labels"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert ("PodDisruptionBudget", "dynamo-operator-manager") not in rendered({})


def test_every_selector_selects_the_pods():
    objects = rendered(VALUE_SETS["monitoring"])
    labels = pod_of(objects)["metadata"]["labels"]
    services = [obj for (kind, _), obj in objects.items() if kind == "Service"]

    assert len(services) == 2
    for service in services:
        assert service["spec"]["selector"].items() <= labels.items()
    monitor = objects["ServiceMonitor", "dynamo-operator-metrics"]
    selected = [
        service["metadata"]["name"]
        for service in services
        if monitor["spec"]["selector"]["matchLabels"].items()
        <= service["metadata"]["labels"].items()
    ]
    assert selected == ["dynamo-operator-metrics"]
    assert monitor["metadata"]["labels"]["release"] == "kps"


@pytest.mark.parametrize("tag", ["5060547", "0123456", "12e4567", "1.10", "yes", "20190612073634"])
def test_a_tag_that_is_given_as_text_is_rendered_to_the_letter(tag: str):
    image = {"repository": "r.example.com/a", "tag": tag}
    objects = rendered({"controllerManager": {"manager": {"image": image}}})
    (container,) = pod_of(objects)["spec"]["containers"]

    assert container["image"] == f"r.example.com/a:{tag}"


@pytest.mark.parametrize("release", ["a", "dynamo", "r" * 53])
def test_names_fit_whatever_the_release_is_called(release: str, tmp_path):
    objects = objects_of(VALUE_SETS["monitoring"], release=release)
    names = [
        obj["metadata"]["name"] for obj in objects if obj["kind"] != "CustomResourceDefinition"
    ]

    assert [name for name in names if len(name) > 63] == []
    assert all(name.startswith(release[:43]) for name in names if name != LEASE_NAME)
    labels = [obj["metadata"]["labels"] for obj in objects]
    assert [value for each in labels for value in each.values() if len(value) > 63] == []


def test_helm_finds_nothing_to_complain_of():
    command = [str(require_helm()), "lint", "--strict", str(CHART)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)

    assert told.returncode == 0, told.stdout


def test_the_page_about_installing_names_values_that_there_are():
    """Each row of its table renders."""
    page = (ROOT / "docs/install.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| ") and "=" in row]
    assert len(rows) >= 8
    for row in rows:
        values = re.findall(r"`([\w.]+=[^` ]+)`", row)
        assert values
        flags = [f"--set={value}" for value in values]
        done = templated({}, *COMPANIONS.get(values[0], ()), *flags)
        assert done.returncode == 0, f"{row}: {done.stderr}"
        assert done.stdout != templated({}).stdout


ROOT = CHART.parents[1]
COMPANIONS = {
    "namespaceRestriction.targetNamespaces={a,b}": (
        "--set=namespaceRestriction.enabled=true,webhook.enabled=false",
    ),
    "webhook.certificateSecret.external=true": (
        "--set=webhook.caBundle=LQ==,webhook.certificateSecret.name=own",
    ),
}
"""What a row leaves to the rows before, or to the reader."""
