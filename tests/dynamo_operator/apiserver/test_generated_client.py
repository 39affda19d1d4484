"""The generated client, unmodified, as an independent judge of the embedded API server."""

from __future__ import annotations

import pytest
from kubernetes_asyncio import client, config, watch

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing.cluster import Cluster
from tests.reconcilers.search import SPEC

# The generated client closes over deprecated standard library calls while it is imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


async def api_client(cluster: Cluster) -> client.ApiClient:
    configuration = client.Configuration()
    await config.load_kube_config(
        config_file=str(cluster.kubeconfig()), client_configuration=configuration
    )
    return client.ApiClient(configuration)


async def test_typed_objects_make_the_round_trip():
    async with Cluster.start(mode="http") as cluster, await api_client(cluster) as api:
        core = client.CoreV1Api(api)
        body = client.V1ConfigMap(
            metadata=client.V1ObjectMeta(name="a", labels={"x": "y"}), data={"k": "v"}
        )
        created = await core.create_namespaced_config_map("default", body)
        listed = await core.list_namespaced_config_map("default", label_selector="x=y")
        created.data["k"] = "w"
        replaced = await core.replace_namespaced_config_map("a", "default", created)
        with pytest.raises(client.ApiException) as stale:
            await core.replace_namespaced_config_map("a", "default", created)
        await core.delete_namespaced_config_map("a", "default")

    assert [item.metadata.uid for item in listed.items] == [created.metadata.uid]
    assert replaced.data == {"k": "w"}
    assert stale.value.status == 409


async def test_its_watch_sees_what_happens():
    async with Cluster.start(mode="http") as cluster, await api_client(cluster) as api:
        core = client.CoreV1Api(api)
        listed = await core.list_namespaced_secret("default")
        await core.create_namespaced_secret(
            "default", client.V1Secret(metadata=client.V1ObjectMeta(name="s"))
        )
        await core.delete_namespaced_secret("s", "default")
        seen = []
        async with watch.Watch() as stream:
            async for event in stream.stream(
                core.list_namespaced_secret,
                "default",
                resource_version=listed.metadata.resource_version,
                timeout_seconds=5,
            ):
                seen.append((event["type"], event["object"].metadata.name))
                if len(seen) == 2:
                    break

    assert seen == [("ADDED", "s"), ("DELETED", "s")]


async def test_custom_objects_obey_their_schema():
    definitions = custom_resource_definitions()
    async with (
        Cluster.start(mode="http", crds=definitions) as cluster,
        await api_client(cluster) as api,
    ):
        custom = client.CustomObjectsApi(api)
        place = ("nvidia.com", "v1beta2", "default", "dynamographdeploymentrequests")
        good = {
            "apiVersion": "nvidia.com/v1beta2",
            "kind": "DynamoGraphDeploymentRequest",
            "metadata": {"name": "llama"},
            "spec": SPEC,
        }
        await custom.create_namespaced_custom_object(*place, good)
        bad = {
            **good,
            "metadata": {"name": "bad"},
            "spec": {**SPEC, "workload": {"static": {"inputTokens": -1}}},
        }
        with pytest.raises(client.ApiException) as refused:
            await custom.create_namespaced_custom_object(*place, bad)

    assert refused.value.status == 422
    assert "spec.workload.static.inputTokens" in str(refused.value.body)
