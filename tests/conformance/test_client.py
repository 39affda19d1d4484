"""What our client promises, on every API server."""

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client.errors import ConflictError, InvalidError

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_apply_to_one_instance_touches_no_other(cluster, namespace):
    desired = ConfigMap.new("a", namespace=namespace, data={"k": "v"})
    another = "4f1c2a00-0000-4000-8000-000000000001"
    with pytest.raises(ConflictError):
        await cluster.client.apply(desired, uid=another, force=True)
    live = await cluster.client.create(ConfigMap.new("a", namespace=namespace))

    with pytest.raises(ConflictError, match=r"metadata\.uid"):
        await cluster.client.apply(desired, uid=another, force=True)
    assert (await cluster.client.get(ConfigMap, live.key)).resource_version == live.resource_version
    assert (await cluster.client.apply(desired, uid=live.uid, force=True)).data == {"k": "v"}


async def test_what_is_wrong_otherwise_stays_invalid(cluster, namespace):
    live = await cluster.client.create(ConfigMap.new("a", namespace=namespace))
    wrong = ConfigMap.new("a", namespace=namespace, labels={"a b": "c"})

    with pytest.raises(InvalidError):
        await cluster.client.apply(wrong, uid=live.uid)
