"""The operator as the chart configures it, with the identity that the chart gives it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Job,
    Lease,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.testing.polling import eventually
from dynamo_operator.testing.real_control_plane import RealControlPlane, free_ports
from informers.objects import ObjectKey
from tests.main_job.operator_process import OperatorProcess
from tests.manifests.crds import remove_crds
from tests.manifests.releases import Helm
from tests.manifests.rendering import NAMESPACE

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

USER = f"system:serviceaccount:{NAMESPACE}:dynamo-operator"
EXPLICIT = {
    "model": {"name": "meta-llama/Meta-Llama-3.1-8B"},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
}
RESTRICTED = {
    "namespaceRestriction": {"enabled": True},
    "webhook": {"enabled": False},
    "config": {"fallbackGpusPerNode": 8},
}


async def test_restricted_to_a_namespace_it_searches_without_a_call_to_the_cluster(
    control_plane: RealControlPlane, admin: Client, kubeconfig: Path, tmp_path: Path
):
    helm = Helm(kubeconfig, tmp_path)
    await helm.install(RESTRICTED)
    operator = await configured(control_plane, admin, tmp_path)
    before = len(control_plane.audit.entries)
    try:
        await operator.start()
        request = DynamoGraphDeploymentRequest.new("llama", namespace=NAMESPACE, spec=EXPLICIT)
        await admin.create(request)
        await eventually(lambda: admin.list(Job, namespace=NAMESPACE), timeout=30)
    finally:
        await operator.stop()
        await helm.done("uninstall")
        await remove_crds(admin)

    asked = [it for it in control_plane.audit.entries[before:] if it.user.name == USER]
    assert [entry.request_uri for entry in asked if entry.code == 403] == []
    # Whether it may do what it needs to, anybody may ask; no role grants that.
    cluster_scoped = {entry.resource for entry in asked if entry.resource and not entry.namespace}
    assert cluster_scoped == {"selfsubjectaccessreviews"}
    assert {entry.namespace for entry in asked} == {NAMESPACE, ""}


@pytest.mark.parametrize("name", ["everything", "relays only"])
async def test_its_rights_are_enough_to_become_ready_and_to_lead(
    control_plane: RealControlPlane, admin: Client, kubeconfig: Path, tmp_path: Path, name: str
):
    searches = name == "everything"
    helm = Helm(kubeconfig, tmp_path)
    await helm.install({"dgdrV1Beta2": {"enabled": searches}})
    operator = await configured(control_plane, admin, tmp_path)
    before = len(control_plane.audit.entries)
    lease = ObjectKey(NAMESPACE, "dynamo-operator.nvidia.com")
    try:
        await operator.start()
        await eventually(lambda: admin.get(Lease, lease), lambda it: it.spec.get("holderIdentity"))
        if searches:
            key = ObjectKey("", "dynamo-operator")
            (webhook,) = (await admin.get(ValidatingWebhookConfiguration, key)).webhooks
            assert webhook["clientConfig"]["caBundle"]
    finally:
        await operator.stop()
        await helm.done("uninstall")
        await remove_crds(admin)

    asked = [it for it in control_plane.audit.entries[before:] if it.user.name == USER]
    assert [entry.request_uri for entry in asked if entry.code == 403] == []
    requests = "dynamographdeploymentrequests"
    assert (requests in {entry.resource for entry in asked}) == searches


async def configured(
    control_plane: RealControlPlane, admin: Client, directory: Path
) -> OperatorProcess:
    """The operator's process with the file of the release, as the release's ServiceAccount."""
    file = await admin.get(ConfigMap, ObjectKey(NAMESPACE, "dynamo-operator-config"))
    config = YAML(typ="safe", pure=True).load(file.data["config.yaml"])
    for server in ("webhook", "metrics"):  # of which several may be on this machine
        if config["server"][server]["port"]:
            (config["server"][server]["port"],) = free_ports(1)
    (directory / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
    path = directory / "operator.kubeconfig"
    control_plane.write_kubeconfig(path, user=USER, groups=groups, namespace=NAMESPACE)
    flags = [f"--config={directory / 'config.yaml'}"]
    return OperatorProcess(path, log_directory=directory, flags=flags)
