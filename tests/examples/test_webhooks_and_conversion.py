"""The example of webhooks and conversion works on a cluster."""

import pytest

from docs.examples import webhooks_and_conversion as example
from dynamo_operator.runtime.builtin_kinds import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client.errors import ForbiddenError, InvalidError
from dynamo_operator.runtime.webhooks import (
    Webhooks,
    conversion_strategy,
    mutating_configuration,
    validating_configuration,
)
from dynamo_operator.testing import Cluster, NoCertificate
from informers.objects import ObjectKey

FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

pytestmark = pytest.mark.virtual_time


def definition(conversion):
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": FREE}}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema}
        for name in ("v1", "v1beta1")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "tunnels.net.example"},
        "spec": {
            "group": "net.example",
            "scope": "Namespaced",
            "names": {"kind": "Tunnel", "plural": "tunnels"},
            "versions": versions,
            "conversion": conversion,
        },
    }


async def test_the_example_defaults_judges_and_converts():
    async with Cluster.start() as cluster:
        client = cluster.client
        endpoint = cluster.serve(
            Webhooks(
                [example.WEBHOOK], conversions=[example.CONVERSION], certificate=NoCertificate()
            )
        )
        await cluster.install(definition(conversion_strategy(endpoint)))
        for kind, made in (
            (MutatingWebhookConfiguration, mutating_configuration),
            (ValidatingWebhookConfiguration, validating_configuration),
        ):
            await client.create(kind.model_validate(made("tunnels", [example.WEBHOOK], endpoint)))
        key = ObjectKey("default", "home")

        old = {"peer": "gate.test:51820"}
        await client.create(example.TunnelV1beta1.new("home", namespace="default", spec=old))
        stored = await client.get(example.Tunnel, key)
        with pytest.raises(InvalidError, match="must be 576 to 9000"):
            await client.patch(example.Tunnel, key, {"spec": {"mtu": 1}})
        with pytest.raises(ForbiddenError, match=r"must stay gate\.test"):
            await client.patch(example.TunnelV1beta1, key, {"spec": {"peer": "other.test:1"}})

    assert (stored.spec.peer.host, stored.spec.peer.port) == ("gate.test", 51820)
    assert stored.spec.mtu == 1420


def test_the_example_shows_what_to_apply():
    mutating, validating, crd = example.manifests()

    assert mutating["webhooks"][0]["clientConfig"]["service"]["name"] == "tunnels-webhook"
    assert validating["webhooks"][0]["rules"][0]["operations"] == ["CREATE", "UPDATE"]
    assert crd["spec"]["conversion"]["strategy"] == "Webhook"
