"""What a relay's children look like: what Pods run with, who may do what, and what is hashed."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.api.relay_contract import OWNED_VARIABLES, REVISION_VARIABLE
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from reconcilers.pool_relay.manifests import (
    connection_revision,
    render_deployment,
    render_disruption_budget,
    render_role,
    render_role_binding,
    render_service,
    render_service_account,
)
from reconcilers.pool_relay.settings import RelaySettings
from tests.reconcilers.pool_relay.relays import RELAY

SETTINGS = RelaySettings()


def relay(**spec: Any) -> DynamoPoolRelay:
    """A relay as it was stored."""
    body = RELAY.to_dict()
    body["metadata"]["uid"] = "u-1"
    return DynamoPoolRelay.model_validate({**body, "spec": {**body["spec"], **spec}})


def pod_spec(made: DynamoPoolRelay, settings: RelaySettings = SETTINGS) -> dict[str, Any]:
    template: dict[str, Any] = render_deployment(made, settings).spec["template"]
    spec: dict[str, Any] = template["spec"]
    return spec


def container(made: DynamoPoolRelay, settings: RelaySettings = SETTINGS) -> dict[str, Any]:
    (found,) = pod_spec(made, settings)["containers"]
    return dict(found)


def test_two_relays_are_rolled_one_by_one_and_none_goes_before_another_is_ready():
    spec = render_deployment(relay(), SETTINGS).spec

    assert spec["replicas"] == 2
    limits = {"maxUnavailable": 0, "maxSurge": 1}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": limits}
    assert render_disruption_budget(relay()).spec["maxUnavailable"] == 1


def test_relays_spread_over_nodes_where_there_are_several():
    (term,) = pod_spec(relay())["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]

    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe"])
def test_a_relay_is_ready_when_its_listener_says_so(probe):
    assert container(relay())[probe]["grpc"] == {
        "port": 5561,
        "service": "dynamo.kvrelay.v1.KvEventRelay",
    }
    other = RelaySettings(health_service="lab.Health")
    assert container(relay(), other)[probe]["grpc"]["service"] == "lab.Health"


def test_the_module_is_the_settings_and_a_cluster_id_is_no_option_and_no_reference():
    made = container(relay(clusterID="-x $(POD_IP)"), RelaySettings(module="dynamo.kv_dc_relay"))

    assert made["command"] == ["python3", "-m", "dynamo.kv_dc_relay"]
    assert made["args"][0] == "--dc-id=-x $$(POD_IP)"


def test_the_sources_are_mounted_as_a_directory_so_that_changes_arrive():
    made = container(relay())
    (mount,) = [m for m in made["volumeMounts"] if m["name"] == "sources"]

    assert "subPath" not in mount
    assert f"--sources-file={mount['mountPath']}/sources.json" in made["args"]
    assert mount["readOnly"] is True


def test_a_relay_runs_restricted_with_its_own_identity():
    spec = pod_spec(relay(imagePullSecrets=[{"name": "regcred"}]))

    assert spec["serviceAccountName"] == "aurora-pool-relay"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(relay())["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert spec["imagePullSecrets"] == [{"name": "regcred"}]
    assert render_service_account(relay()).to_dict()["automountServiceAccountToken"] is False


def test_a_relay_may_find_workers_and_register_itself_in_its_namespace_and_no_more():
    role, binding = render_role(relay()), render_role_binding(relay())

    granted = {(r["apiGroups"][0], *r["resources"]): r["verbs"] for r in role.rules}
    read = ["get", "list", "watch"]
    assert granted == {
        ("nvidia.com", "dynamoworkermetadatas"): [*read, "create", "patch", "delete"],
        ("discovery.k8s.io", "endpointslices"): read,
        ("", "pods"): ["get"],
    }
    assert binding.role_ref["name"] == role.key.name
    assert [subject["name"] for subject in binding.subjects] == ["aurora-pool-relay"]


def test_the_service_is_for_this_cluster_and_for_this_relays_pods():
    service = render_service(relay())

    assert service.spec["type"] == "ClusterIP"
    assert "publishNotReadyAddresses" not in service.spec
    (port,) = service.spec["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("grpc", 5561, "grpc")
    labels = render_deployment(relay(), SETTINGS).spec["template"]["metadata"]["labels"]
    assert service.spec["selector"].items() <= labels.items()
    assert "u-1" in service.spec["selector"].values(), "never another relay's Pods"


def test_every_variable_of_the_operators_is_one_that_a_user_may_not_set():
    ours = {variable["name"] for variable in container(relay(env=[]))["env"]}

    assert ours <= set(OWNED_VARIABLES)
    assert REVISION_VARIABLE in ours


@pytest.mark.parametrize(
    "change",
    [
        {"clusterID": "dc-b"},
        {"env": [{"name": "LAB_MODE", "value": "b"}]},
        {"env": [{"name": "LAB_MODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
        {"env": []},
    ],
)
def test_what_a_relay_is_started_with_is_its_connection(change):
    assert connection_revision(relay(**change)) != connection_revision(relay())


@pytest.mark.parametrize(
    "change",
    [
        {"image": "registry.lab/relay:2"},
        {"replicas": 5},
        {"resources": {"limits": {"memory": "1Gi"}}},
        {"imagePullSecrets": [{"name": "regcred"}]},
    ],
)
def test_what_it_is_not_started_with_leaves_the_connection(change):
    assert connection_revision(relay(**change)) == connection_revision(relay())
