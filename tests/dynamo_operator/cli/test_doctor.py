"""`doctor` on an installation that is well, and on each one that was broken on purpose."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dynamo_operator.certificates import CertificateAuthority
from dynamo_operator.cli.local import grant_operator
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.generate.layout import MANAGER, NAMESPACE
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    EndpointSlice,
    Node,
    Secret,
    Service,
)
from dynamo_operator.runtime.client import PatchType
from dynamo_operator.settings import WEBHOOK_CONFIGURATION
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.cli.calls import call, call_to
from tests.dynamo_operator.cli.installed import (
    CONFIGURATIONS,
    GRAPH_CRD,
    SECRET_KEY,
    SERVICE_KEY,
    deploy,
    endpoints,
    expired,
    installed,
    put_secret,
)
from tests.dynamo_operator.cli.test_commands import free_port, requests_crd

REQUESTS = "dynamographdeploymentrequests.nvidia.com"
DEPLOYMENT = ObjectKey(NAMESPACE, MANAGER)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with installed(tmp_path) as started:
        yield started


async def findings(cluster: Cluster, *words: str, only: str = "") -> tuple[int, list[str]]:
    """Exit code, and every line that is not ok."""
    chosen = ["--only", only] if only else []
    answer = await call_to(cluster, "doctor", *words, *chosen)
    assert answer.errors == ""
    *lines, _ = answer.output.splitlines()
    return answer.code, [line for line in lines if not line.startswith("ok ")]


async def test_an_installation_that_is_well_has_no_finding(cluster: Cluster):
    answer = await call_to(cluster, "doctor")

    *lines, total = answer.output.splitlines()
    assert answer.code == 0, answer
    assert total == f"ok: {len(lines)}"
    checks = list(dict.fromkeys(line[9:].partition(":")[0] for line in lines))
    assert checks == [
        *("server", "kinds", "operator", "rights", "webhooks", "certificate"),
        *("admission", "policy", "graphs", "gpus", "pull-secrets"),
    ]


async def no_crds(cluster: Cluster) -> None:
    ours = {each["metadata"]["name"] for each in custom_resource_definitions()}
    for name in ours:
        await cluster.client.delete(CustomResourceDefinition, ObjectKey("", name))
    await cluster.eventually(
        lambda: cluster.client.list(CustomResourceDefinition),
        lambda found: ours.isdisjoint(crd.key.name for crd in found),
    )


async def old_crds(cluster: Cluster) -> None:
    definition = custom_resource_definitions()[0]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["rerun"]
    await cluster.client.apply(CustomResourceDefinition.model_validate(definition), force=True)


async def missing_right(cluster: Cluster) -> None:
    key = ObjectKey("", MANAGER)
    role = await cluster.client.get(ClusterRole, key)
    rules = [each for each in role.rules if "jobs" not in each["resources"]]
    await cluster.client.patch(ClusterRole, key, {"rules": rules})


async def webhook_without_endpoints(cluster: Cluster) -> None:
    await cluster.client.apply(endpoints(ready=False), force=True)


async def expired_certificate(cluster: Cluster) -> None:
    await put_secret(cluster.client, expired())


async def wrong_ca_bundle(cluster: Cluster) -> None:
    other = base64.b64encode(CertificateAuthority.create(datetime.now(UTC)).pem).decode()
    for kind in CONFIGURATIONS:
        key = ObjectKey("", WEBHOOK_CONFIGURATION)
        patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": other}]
        await cluster.client.patch(kind, key, patch, patch_type=PatchType.JSON)


async def no_gpu_nodes(cluster: Cluster) -> None:
    await cluster.client.delete(Node, ObjectKey("", "gpu-a"))


async def missing_pull_secret(cluster: Cluster) -> None:
    await grant_operator(cluster.client, image_pull_secrets=["registry-lab"])
    await deploy(cluster.client, "--image-pull-secrets=registry-lab")


@pytest.mark.parametrize(
    ("break_it", "told", "mend"),
    [
        pytest.param(no_crds, f"kinds: CRD {REQUESTS} is missing", "crds apply", id="no CRDs"),
        pytest.param(
            old_crds,
            f"kinds: CRD {REQUESTS} is of another release:"
            " schema.openAPIV3Schema.properties.spec.properties.rerun differs",
            "crds apply",
            id="old CRDs",
        ),
        pytest.param(
            missing_right,
            "rights: system:serviceaccount:dynamo-operator-system:dynamo-operator may not get, "
            "list, watch, create, patch, delete jobs.batch",
            "kubectl apply --server-side -k manifests/rbac",
            id="missing right",
        ),
        pytest.param(
            webhook_without_endpoints,
            f"webhooks: Service {SERVICE_KEY} has no ready endpoint",
            f"kubectl -n {NAMESPACE} get pods",
            id="webhook without endpoints",
        ),
        pytest.param(
            expired_certificate,
            f"certificate: of Secret {SECRET_KEY} expired at ",
            "a ready operator mends it within 10 s",
            id="expired certificate",
        ),
        pytest.param(
            wrong_ca_bundle,
            f"certificate: ValidatingWebhookConfiguration {WEBHOOK_CONFIGURATION}: caBundle of ",
            "a ready operator mends it within 10 s",
            id="wrong caBundle",
        ),
        pytest.param(
            no_gpu_nodes,
            "gpus: no node with GPUs was found",
            "name spec.hardware.gpu.sku and .budget",
            id="no GPU nodes",
        ),
        pytest.param(
            missing_pull_secret,
            "pull-secrets: Secret default/registry-lab is missing",
            "kubectl -n default create secret docker-registry registry-lab",
            id="missing pull secret",
        ),
    ],
)
async def test_each_broken_installation_is_found_with_how_to_mend_it(
    cluster: Cluster, break_it: Callable[[Cluster], Awaitable[None]], told: str, mend: str
):
    await break_it(cluster)

    code, lines = await findings(cluster)

    assert code == 1
    (line,) = [line for line in lines if line.startswith(f"problem  {told}")]
    assert "; mend: " in line
    assert mend in line.partition("; mend: ")[2]


async def test_a_right_that_is_missing_names_the_role_that_is_to_grant_it(cluster: Cluster):
    await missing_right(cluster)

    _, lines = await findings(cluster, only="rights")

    (line,) = [line for line in lines if "rights:" in line]
    assert f"the role {MANAGER} is to grant it" in line


async def test_gpus_that_the_operator_may_not_look_for_are_a_warning(cluster: Cluster):
    await cluster.client.delete(ClusterRole, ObjectKey("", GPU_DISCOVERY_ROLE))

    code, lines = await findings(cluster, only="rights")

    assert code == 0
    assert [line[:7] for line in lines] == ["warning"]
    assert f"the role {GPU_DISCOVERY_ROLE} is to grant it" in lines[0]


async def test_a_wrong_ca_bundle_fails_the_dry_run_of_a_request(cluster: Cluster):
    await wrong_ca_bundle(cluster)

    _, lines = await findings(cluster, only="admission")

    (line,) = [line for line in lines if line.startswith("problem  admission: ")]
    assert "failed calling webhook" in line


async def test_a_cluster_without_an_operator_says_how_to_get_one():
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        code, lines = await findings(cluster)

    assert code == 1
    assert lines[0].startswith("problem  operator: no operator is deployed; mend: helm install")


async def test_an_operator_that_does_not_run_says_why(cluster: Cluster):
    status = {"replicas": 1, "readyReplicas": 0, "availableReplicas": 0}
    await cluster.client.patch(Deployment, DEPLOYMENT, {"status": status}, subresource="status")

    code, lines = await findings(cluster, only="operator")

    assert code == 1
    assert f"operator: Deployment {DEPLOYMENT}: 0 of 1 Pods are available" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--run-history-limit=0"], "--run-history-limit: must be at least 1, not '0'"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--config=/etc/x.yaml"], "--config /etc/x.yaml: is on no volume of a ConfigMap"),
    ],
    ids=["value", "flag", "file"],
)
async def test_settings_that_the_operator_would_refuse_are_found(
    cluster: Cluster, arguments: list[str], told: str
):
    await deploy(cluster.client, *arguments)

    code, lines = await findings(cluster, only="operator")

    assert code == 1
    assert told in lines[0]


async def test_settings_are_read_from_the_config_map_of_the_deployment(cluster: Cluster):
    data = {"config.yaml": "imagePullSecrets: [registry-lab]\n"}
    await cluster.client.create(ConfigMap.new("settings", namespace=NAMESPACE, data=data))
    deployment = await cluster.client.get(Deployment, DEPLOYMENT)
    spec = deployment.to_dict()["spec"]["template"]["spec"]
    container = spec["containers"][0]
    container["args"].append("--config=/etc/operator/config.yaml")
    container["volumeMounts"].append({"name": "settings", "mountPath": "/etc/operator"})
    spec["volumes"].append({"name": "settings", "configMap": {"name": "settings"}})
    await cluster.client.patch(Deployment, DEPLOYMENT, {"spec": {"template": {"spec": spec}}})

    _, lines = await findings(cluster, only="pull-secrets")

    assert "Secret default/registry-lab is missing" in lines[-1]


async def test_the_pull_secret_of_another_namespace_does_not_count(cluster: Cluster):
    await missing_pull_secret(cluster)
    await cluster.client.create(Secret.new("registry-lab", namespace=NAMESPACE))

    in_default = await findings(cluster, only="pull-secrets")
    in_its_own = await findings(cluster, "-n", NAMESPACE, only="pull-secrets")

    assert in_default[0] == 1
    assert in_its_own == (0, [])


async def test_a_crd_without_our_version_is_told_with_the_ways_out(cluster: Cluster):
    await no_crds(cluster)
    await cluster.install(requests_crd("v1alpha1", "v1beta1"))

    _, lines = await findings(cluster, only="kinds")

    assert f"kinds: CRD {REQUESTS} serves v1alpha1, v1beta1, not v1beta2" in lines[0]
    assert "dgdrV1Beta2.enabled=false" in lines[0]
    assert "--take-over" in lines[0]


async def test_a_crd_of_others_that_serves_our_version_too_is_compared(cluster: Cluster):
    await no_crds(cluster)
    for definition in custom_resource_definitions()[1:]:
        await cluster.install(definition)
    foreign = requests_crd("v1beta1", "v1beta2")
    for version in foreign["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["theirs"] = {"type": "string"}
    await cluster.install(foreign)

    code, lines = await findings(cluster, only="kinds")

    assert code == 0
    assert lines == [
        f"warning  kinds: CRD {REQUESTS} is somebody else's and used as it is; it differs from"
        " ours in schema.openAPIV3Schema.properties.spec.properties.theirs"
    ]


async def test_what_you_may_not_see_is_unknown_and_no_problem(cluster: Cluster):
    kubeconfig = str(cluster.kubeconfig("ann", ()))

    answer = await call("doctor", "--kubeconfig", kubeconfig)

    assert "unknown  operator: cannot be looked for: " in answer.output
    assert "--operator-namespace" in answer.output
    assert not [line for line in answer.output.splitlines() if line.startswith("problem  operator")]


async def test_no_secret_is_ever_shown(cluster: Cluster):
    await cluster.client.patch(
        Secret,
        SECRET_KEY,
        {"data": {"tls.key": base64.b64encode(b"hidden-key").decode()}},
    )

    for output in ("table", "json", "yaml"):
        answer = await call_to(cluster, "doctor", "-o", output, "--only=certificate,webhooks")

        assert "hidden-key" not in answer.output
        assert base64.b64encode(b"hidden-key").decode() not in answer.output


async def test_findings_are_given_as_json_and_yaml(cluster: Cluster):
    await no_gpu_nodes(cluster)

    as_json = await call_to(cluster, "doctor", "-o", "json", "--only=gpus,policy")
    as_yaml = await call_to(cluster, "doctor", "-o", "yaml", "--only=gpus,policy")

    told = json.loads(as_json.output)
    assert as_json.code == as_yaml.code == 1
    assert told == YAML(typ="safe", pure=True).load(as_yaml.output)
    (problem,) = [each for each in told if each["severity"] == "problem"]
    assert problem["check"] == "gpus"
    assert problem["mend"]


async def test_a_service_and_configurations_that_are_missing_are_found(cluster: Cluster):
    await cluster.client.delete(Service, SERVICE_KEY)
    for slice_ in await cluster.client.list(EndpointSlice, namespace=NAMESPACE):
        await cluster.client.delete(EndpointSlice, slice_.key)
    for kind in CONFIGURATIONS:
        await cluster.client.delete(kind, ObjectKey("", WEBHOOK_CONFIGURATION))

    _, lines = await findings(cluster, only="webhooks")

    assert [line.partition(" is missing")[0] for line in lines] == [
        f"problem  webhooks: MutatingWebhookConfiguration {WEBHOOK_CONFIGURATION}",
        f"problem  webhooks: ValidatingWebhookConfiguration {WEBHOOK_CONFIGURATION}",
        f"problem  webhooks: Service {SERVICE_KEY}",
    ]


async def test_an_installation_without_searches_needs_only_its_relays(cluster: Cluster):
    await no_crds(cluster)
    (relays,) = [
        each
        for each in custom_resource_definitions()
        if each["spec"]["names"]["kind"] == "DynamoPoolRelay"
    ]
    await cluster.install(relays)
    await deploy(cluster.client, "--feature-gates.dgdr-v1-beta2=false")

    assert await findings(cluster) == (0, [])


async def test_a_server_that_cannot_be_reached_is_told_in_a_line(tmp_path: Path):
    kubeconfig = tmp_path / "config"
    server = f"http://127.0.0.1:{free_port()}"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, users: [],"
        f" clusters: [{{name: c, cluster: {{server: '{server}'}}}}],"
        " contexts: [{name: c, context: {cluster: c}}]}"
    )

    answer = await call("doctor", "--kubeconfig", str(kubeconfig))

    assert answer.code == 1
    assert answer.output == ""
    assert len(answer.errors.splitlines()) == 1


async def test_a_cluster_where_nothing_can_be_deployed_is_a_warning(cluster: Cluster):
    key = ObjectKey("", GRAPH_CRD["metadata"]["name"])
    await cluster.client.delete(CustomResourceDefinition, key)

    code, lines = await findings(cluster, only="graphs")

    assert code == 0
    assert lines[0].startswith("warning  graphs: nvidia.com/v1beta1 DynamoGraphDeployment is not")


async def test_a_check_that_there_is_not_is_told_with_those_that_there_are():
    answer = await call("doctor", "--only=weather")

    assert answer.code == 2
    assert "--only: 'weather' is none of server, kinds, operator, rights" in answer.errors
