"""The chart installed, upgraded, rolled back and uninstalled by helm on a real API server."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.generate.rbac import manager_role
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    CustomResourceDefinition,
    Deployment,
    Lease,
    MutatingWebhookConfiguration,
    Namespace,
    Secret,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.webhooks import SecretCertificate
from informers.objects import ObjectKey
from tests.manifests.crds import REQUESTS, remove_crds, upstream_crd
from tests.manifests.releases import Helm, inventory
from tests.manifests.rendering import CHART, NAMESPACE, RELEASE

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

CRDS = {
    f"CustomResourceDefinition /{plural}.nvidia.com"
    for plural in (
        "dynamographdeploymentcandidates",
        "dynamographdeploymentrequests",
        "dynamographdeploymentruns",
        "dynamopoolrelays",
    )
}
SERVED = {"APIService /v1alpha1.nvidia.com", "APIService /v1beta2.nvidia.com"}
"""What the API server makes of CRDs itself."""

CONFIGURATIONS = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
RELAYS_ONLY = {"dgdrV1Beta2": {"enabled": False}}


@pytest.fixture
def helm(kubeconfig: Path, tmp_path: Path) -> Helm:
    return Helm(kubeconfig, tmp_path)


@pytest_asyncio.fixture(loop_scope="session")
async def client(admin: Client, helm: Helm) -> AsyncIterator[Client]:
    """An administrator's client; the release and all CRDs that the test leaves are removed."""
    yield admin
    await helm("uninstall", "--ignore-not-found")
    await remove_crds(admin)


async def upstreams(client: Client) -> dict[str, Any]:
    """The Request's CRD as it is, but for what the API server says of it."""
    found = (await client.get(CustomResourceDefinition, REQUESTS)).to_dict()
    del found["status"], found["metadata"]["resourceVersion"], found["metadata"]["managedFields"]
    return found


async def fill_in(client: Client) -> None:
    """Do what the operator does: make a certificate and have it trusted; hold the Lease."""
    certificate = SecretCertificate(
        client,
        ObjectKey(NAMESPACE, "dynamo-operator-webhook-certificate"),
        hosts=["dynamo-operator-webhook.dynamo-operator-system.svc"],
        mutating=["dynamo-operator"],
        validating=["dynamo-operator"],
    )
    await certificate.check()
    lease = ObjectKey(NAMESPACE, "dynamo-operator.nvidia.com")
    await client.patch(Lease, lease, {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}})


async def trusted(client: Client) -> list[bytes]:
    """The authorities that the API server trusts the webhooks by."""
    key = ObjectKey("", "dynamo-operator")
    webhooks = [
        *(await client.get(MutatingWebhookConfiguration, key)).webhooks,
        *(await client.get(ValidatingWebhookConfiguration, key)).webhooks,
    ]
    return [base64.b64decode(it["clientConfig"].get("caBundle", "")) for it in webhooks]


async def test_of_a_release_only_the_crds_and_the_users_objects_are_left(
    helm: Helm, client: Client
):
    await client.apply(Namespace.new(NAMESPACE))
    before = await inventory(client)

    await helm.install()
    await fill_in(client)
    await helm.done("upgrade", str(CHART), values={"controllerManager": {"replicas": 2}})
    await helm.done("uninstall")
    request = DynamoGraphDeploymentRequest.new("llama", spec={"model": {"name": "m"}})
    await client.create(request)

    left = await inventory(client) - before
    assert left == CRDS | SERVED | {"DynamoGraphDeploymentRequest default/llama"}


async def test_an_upgrade_keeps_what_the_operator_filled_in_and_a_rollback_takes_it_back(
    helm: Helm, client: Client
):
    deployment = ObjectKey(NAMESPACE, "dynamo-operator-manager")
    secret = ObjectKey(NAMESPACE, "dynamo-operator-webhook-certificate")
    await helm.install()
    await fill_in(client)
    authorities, kept = await trusted(client), (await client.get(Secret, secret)).data
    first = await client.get(Deployment, deployment)

    await helm.done(
        "upgrade",
        str(CHART),
        values={"controllerManager": {"replicas": 2}, "config": {"runHistoryLimit": 3}},
    )
    second = await client.get(Deployment, deployment)
    assert second.spec["replicas"] == 2
    assert second.spec["template"] != first.spec["template"]

    await helm.done("rollback")
    third = await client.get(Deployment, deployment)
    assert (third.spec, third.uid) == (first.spec, first.uid)
    assert all(authorities)
    assert await trusted(client) == authorities
    assert (await client.get(Secret, secret)).data == kept
    lease = await client.get(Lease, ObjectKey(NAMESPACE, "dynamo-operator.nvidia.com"))
    assert lease.spec["holderIdentity"] == "a"


async def test_reinstalling_takes_the_crds_that_were_kept_and_their_objects(
    helm: Helm, client: Client
):
    await helm.install()
    request = DynamoGraphDeploymentRequest.new("kept", spec={"model": {"name": "m"}})
    await helm.done("uninstall")
    made = await client.create(request)

    await helm.install()

    assert (await client.get(DynamoGraphDeploymentRequest, made.key)).uid == made.uid


@pytest.mark.parametrize("versions", [["v1alpha1"], ["v1alpha1", "v1beta1"]], ids=" ".join)
async def test_beside_an_upstream_crd_of_older_versions_install_refuses_with_one_line(
    helm: Helm, client: Client, versions: list[str]
):
    await client.create(upstream_crd(*versions))
    before = await upstreams(client)

    told = await helm.refusal()

    assert f"CRD {REQUESTS.name} serves {', '.join(versions)}, not v1beta2" in told
    for way in ("dgdrV1Beta2.enabled=false", "candidate deploy --context", "--take-over"):
        assert way in told
    names = [definition.key for definition in await client.list(CustomResourceDefinition)]
    assert names == [REQUESTS]
    assert await upstreams(client) == before


async def test_beside_an_upstream_crd_relays_can_be_installed_and_it_is_left_untouched(
    helm: Helm, client: Client
):
    await client.create(upstream_crd("v1alpha1", "v1beta1"))
    before = await upstreams(client)

    await helm.install(RELAYS_ONLY)
    told = await helm("upgrade", str(CHART), values={"dgdrV1Beta2": {"enabled": True}})
    await helm.done("uninstall")

    assert told.exit_code != 0
    assert "serves v1alpha1, v1beta1, not v1beta2" in told.error
    assert await upstreams(client) == before


async def test_a_crd_of_others_that_serves_our_version_is_used_as_it_is(helm: Helm, client: Client):
    await client.create(upstream_crd("v1alpha1", "v1beta1", "v1beta2"))
    before = await upstreams(client)

    notes = await helm.install()
    await helm.done("upgrade", str(CHART), values={})
    await helm.done("uninstall")

    assert f"CRD {REQUESTS.name} was there, and is used as it is" in notes
    assert await upstreams(client) == before


UPSTREAM_NAMES = ("dynamo-operator-mutating", "dynamo-operator-validating")


async def test_what_the_upstream_operator_has_stands_beside_a_release_untouched(
    helm: Helm, client: Client
):
    lease = await client.create(
        Lease.new("dynamo.nvidia.com", namespace="kube-system", spec={"holderIdentity": "theirs"})
    )
    theirs: list[Any] = [
        await client.create(kind.new(name))
        for kind, name in zip(CONFIGURATIONS, UPSTREAM_NAMES, strict=True)
    ]
    secret = await client.create(Secret.new("webhook-server-cert", namespace="kube-system"))
    theirs += [lease, secret]

    await helm.install()
    await helm.done("upgrade", str(CHART), values={"controllerManager": {"replicas": 2}})
    await helm.done("uninstall")

    for one in theirs:
        found = await client.get(type(one), one.key)
        assert (found.uid, found.resource_version) == (one.uid, one.resource_version)
        await client.delete(type(one), one.key)


async def test_a_webhook_configuration_of_our_name_that_is_not_ours_is_not_taken(
    helm: Helm, client: Client
):
    foreign = await client.create(MutatingWebhookConfiguration.new("dynamo-operator"))
    try:
        told = await helm.refusal()
    finally:
        await client.delete(MutatingWebhookConfiguration, foreign.key, uid=foreign.uid)

    assert 'MutatingWebhookConfiguration "dynamo-operator"' in told
    assert "exists and cannot be imported into the current release" in told


async def test_a_secret_of_our_name_that_is_not_ours_is_not_taken(helm: Helm, client: Client):
    await client.apply(Namespace.new(NAMESPACE))
    name = "dynamo-operator-webhook-certificate"
    secret = await client.create(Secret.new(name, namespace=NAMESPACE, data={"a": "YQ=="}))
    try:
        told = await helm.refusal()
    finally:
        await client.delete(Secret, secret.key, uid=secret.uid)

    assert f'Secret "{name}" in namespace "{NAMESPACE}" exists and cannot be imported' in told


async def test_the_lease_of_an_operator_on_somebodys_machine_is_used_and_survives(
    helm: Helm, client: Client
):
    await client.apply(Namespace.new(NAMESPACE))
    name, held = "dynamo-operator.nvidia.com", {"holderIdentity": "a laptop"}
    lease = await client.create(Lease.new(name, namespace=NAMESPACE, spec=held))

    await helm.install()
    await helm.done("uninstall")

    found = await client.get(Lease, lease.key)
    assert (found.uid, found.resource_version) == (lease.uid, lease.resource_version)
    await client.delete(Lease, lease.key)


async def test_a_second_operator_of_all_namespaces_is_refused_and_of_one_it_is_not(
    helm: Helm, client: Client
):
    role = ClusterRole.model_validate(manager_role())
    await client.create(role)
    told = await helm.refusal()
    assert "works in all namespaces already, by an installation without Helm" in told
    await client.delete(ClusterRole, role.key)

    second = replace(helm, release="second")
    await helm.install()
    told = await second.refusal()
    assert f"by release {RELEASE} in namespace {NAMESPACE}" in told
    await second.install({"namespaceRestriction": {"enabled": True}, "webhook": {"enabled": False}})
    await second.done("uninstall")
