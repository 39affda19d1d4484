"""What our client promises, on every API server."""

import pytest
from kubernetes_asyncio import client as generated

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Pod, Secret, ServiceAccount
from dynamo_operator.runtime.client import (
    BadRequestError,
    ConflictError,
    InvalidError,
    NotFoundError,
    Write,
    merge_patch,
)
from informers.objects import ObjectKey

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


async def test_a_dry_run_is_checked_and_stores_nothing(cluster, namespace):
    client = cluster.client.in_namespace(namespace)
    live = await client.create(ConfigMap.new("a", data={"k": "v"}))
    trying = client.with_dry_run()

    created = await trying.create(ConfigMap.new("b"))
    applied = await trying.apply(ConfigMap.new("a", data={"l": "w"}))
    patched = await trying.patch(ConfigMap, live.key, {"data": {"k": "x"}})
    replaced = await trying.replace(live.model_copy(update={"data": {"m": "y"}}))
    await trying.delete(ConfigMap, live.key)
    await trying.delete_all(ConfigMap, namespace=namespace)
    with pytest.raises(InvalidError):
        await trying.create(ConfigMap.new("Not_A_Name"))

    assert created.uid
    assert applied.data == {"k": "v", "l": "w"}
    assert (patched.data, replaced.data) == ({"k": "x"}, {"m": "y"})
    assert await client.get(ConfigMap, live.key) == live
    assert await client.find(ConfigMap, ObjectKey(namespace, "b")) is None


async def test_unknown_fields_are_refused_or_warned_of(cluster, namespace):
    warnings: list[str] = []
    client = cluster.client.in_namespace(namespace).with_warning_observer(warnings.append)
    wrong = {"metadata": {"name": "a"}, "datum": {"k": "v"}}

    with pytest.raises(BadRequestError, match='unknown field "datum"'):
        await client.create(wrong, kind=ConfigMap.resource_type)
    await client.with_field_validation("Ignore").create(
        {**wrong, "metadata": {"name": "b"}}, kind=ConfigMap.resource_type
    )
    assert warnings == []
    await client.with_field_validation("Warn").create(wrong, kind=ConfigMap.resource_type)

    assert warnings == ['unknown field "datum"']


async def test_many_are_deleted_by_their_labels(cluster, namespace):
    client = cluster.client.in_namespace(namespace)
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        await client.create(Secret.new(name, labels={"color": color}))
    told: list[Write] = []

    await client.with_write_observer(told.append).delete_all(
        Secret, namespace=namespace, labels="color=red"
    )

    assert [found.key.name for found in await client.list(Secret)] == ["b"]
    assert [(write.key.name, write.deleted, write.in_doubt) for write in told] == [
        ("a", True, True),
        ("c", True, True),
    ]


async def test_pages_are_of_the_size_that_was_asked_for(cluster, namespace):
    client = cluster.client.in_namespace(namespace)
    for number in range(5):
        await client.create(Secret.new(f"n{number}"))

    pages = [[s.key.name for s in page] async for page in client.pages(Secret, limit=2)]

    assert pages == [["n0", "n1"], ["n2", "n3"], ["n4"]]


async def test_a_pod_has_subresources_of_its_own(cluster, namespace):
    client = cluster.client.in_namespace(namespace)
    await cluster.eventually(lambda: client.get(ServiceAccount, ObjectKey("", "default")))
    pod = await client.create(
        Pod.new("a", spec={"containers": [{"name": "c", "image": "i"}]}, labels={"a": "b"})
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}

    answer = await client.create_subresource(Pod, pod.key, "eviction", eviction, dry_run=True)
    assert answer["status"] == "Success"
    assert await client.find(Pod, pod.key) is not None
    await client.create_subresource(Pod, pod.key, "eviction", eviction)

    assert await client.find(Pod, pod.key) is None  # on no node, so nothing has to end
    with pytest.raises(NotFoundError):
        await client.get_subresource(Pod, pod.key, "scale")


async def test_a_merge_patch_with_a_lock_is_for_one_version(cluster, namespace):
    client = cluster.client.in_namespace(namespace)
    before = await client.create(ConfigMap.new("a", data={"k": "v", "l": "w"}))
    after = before.model_copy(update={"data": {"k": "x"}})
    locked = merge_patch(before, after, optimistic_lock=True)

    changed = await client.patch(ConfigMap, before.key, locked)
    with pytest.raises(ConflictError):
        await client.patch(ConfigMap, before.key, locked)

    assert changed.data == {"k": "x"}


async def test_the_generated_clients_calls_and_models_go_the_same_way(cluster, namespace):
    metadata = generated.V1ObjectMeta(name="a", namespace=namespace)
    created = await cluster.client.create(generated.V1ConfigMap(metadata=metadata, data={"k": "v"}))

    async with cluster.client.api_client() as api:
        core = generated.CoreV1Api(api)
        found = await core.read_namespaced_config_map("a", namespace)
        with pytest.raises(generated.ApiException) as refused:
            await core.create_namespaced_config_map(
                namespace, generated.V1ConfigMap(metadata=metadata)
            )
        listed = await core.list_namespaced_config_map(namespace, field_selector="metadata.name=a")

    assert found.to_dict() == created.to_dict()
    assert [item.metadata.uid for item in listed.items] == [created.metadata.uid]
    assert (refused.value.status, "AlreadyExists" in str(refused.value.body)) == (409, True)
