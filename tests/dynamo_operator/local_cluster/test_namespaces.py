import pytest

from dynamo_operator.local_cluster.namespaces import ROOT_CA, Namespaces
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, Secret, ServiceAccount
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        controller = Namespaces(
            cluster.client, root_ca="PEM", clock=cluster.clock, random=cluster.random
        )
        async with cluster.manager(controller):
            yield cluster


async def test_a_namespace_gets_its_account_and_the_servers_ca(cluster):
    await cluster.client.create(Namespace.new("lab"))

    await cluster.eventually(
        lambda: cluster.client.get(ServiceAccount, ObjectKey("lab", "default"))
    )
    ca = await cluster.eventually(lambda: cluster.client.get(ConfigMap, ObjectKey("lab", ROOT_CA)))
    assert ca.data == {"ca.crt": "PEM"}


async def test_what_is_deleted_or_changed_is_put_back(cluster):
    await cluster.client.create(Namespace.new("lab"))
    account, ca = ObjectKey("lab", "default"), ObjectKey("lab", ROOT_CA)
    first = await cluster.eventually(lambda: cluster.client.get(ServiceAccount, account))
    await cluster.eventually(lambda: cluster.client.get(ConfigMap, ca))

    await cluster.client.delete(ServiceAccount, account)
    await cluster.client.patch(ConfigMap, ca, {"data": {"ca.crt": "forged"}})

    await cluster.eventually(
        lambda: cluster.client.get(ServiceAccount, account), lambda found: found.uid != first.uid
    )
    await cluster.eventually(
        lambda: cluster.client.get(ConfigMap, ca), lambda found: found.data == {"ca.crt": "PEM"}
    )


async def test_a_deleted_namespace_is_emptied_and_then_goes(cluster):
    namespace = await cluster.client.create(Namespace.new("lab"))
    await cluster.client.create(Secret.new("s", namespace="lab"))
    held = ConfigMap.new("held", namespace="lab").to_dict()
    held["metadata"]["finalizers"] = ["lab.test/hold"]
    await cluster.client.create(held, kind=ConfigMap.resource_type)

    await cluster.client.delete(Namespace, namespace.key)

    await cluster.eventually(lambda: cluster.client.list(Secret, namespace="lab"), lambda s: not s)
    assert (await cluster.client.get(Namespace, namespace.key)).is_deleting
    await cluster.client.patch(
        ConfigMap, ObjectKey("lab", "held"), {"metadata": {"finalizers": None}}
    )
    await cluster.eventually(
        lambda: cluster.client.list(Namespace), lambda ns: "lab" not in [n.key.name for n in ns]
    )
    assert await cluster.client.list(ConfigMap, namespace="lab") == []
