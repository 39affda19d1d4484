"""What controllers and caches promise, on every API server."""

import asyncio
import json
from uuid import uuid4

import pytest

from dynamo_operator.runtime import (
    AccessReviews,
    CacheSyncError,
    Controller,
    KubeModel,
    Manager,
    Metrics,
    NotCachedError,
    Result,
    Watch,
    by_field,
    by_label,
    definition_permission,
)
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    CustomResourceDefinition,
    Event,
    Namespace,
    Secret,
)
from dynamo_operator.runtime.client.errors import ForbiddenError, NotFoundError
from dynamo_operator.runtime.client.http import HttpRequest
from informers.indexers import BY_OWNER_UID
from informers.objects import ObjectKey, ResourceType

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATIENCE_SECONDS = 20.0


class Recorder:
    """Remembers which keys it was called with."""

    def __init__(self):
        self.names = []

    async def reconcile(self, key):
        self.names.append(key.name)
        return Result.done()


def ours(name, namespace, **fields):
    """A ConfigMap that is told from those which the cluster itself makes."""
    return ConfigMap.new(name, namespace=namespace, labels={"made-by": "test"}, **fields)


def watching_config_maps(reconciler, **options):
    """A controller of Secrets that hears of our ConfigMaps too."""
    by_name = by_label("for")
    watches = [Watch(ConfigMap, enqueue=by_name, labels="made-by=test")]
    return Controller(Secret, reconciler=reconciler, watches=watches, **options)


async def test_reads_are_copies_and_what_is_missing_is_not_found(cluster, namespace):
    key = ObjectKey(namespace, "a")
    await cluster.client.create(ours("a", namespace, data={"k": "v"}))
    controller = watching_config_maps(Recorder())
    async with cluster.manager(controller, namespaces=[namespace]) as manager:
        first = await manager.reader.get(ConfigMap, key)
        first.data["k"] = "changed"

        assert (await manager.reader.get(ConfigMap, key)).data == {"k": "v"}
        assert (await manager.reader.get(ConfigMap.resource_type, key))["data"] == {"k": "v"}
        with pytest.raises(NotFoundError, match='configmaps "nobody" not found'):
            await manager.reader.get(ConfigMap, ObjectKey(namespace, "nobody"))
        with pytest.raises(NotCachedError, match="not cached in namespace 'elsewhere'"):
            await manager.reader.get(ConfigMap, ObjectKey("elsewhere", "a"))
        accounts = ResourceType("", "v1", "ServiceAccount", "serviceaccounts")
        with pytest.raises(NotCachedError, match="serviceaccounts"):
            await manager.reader.list(accounts)


async def test_reads_are_never_older_than_own_writes(cluster, namespace):
    async with cluster.manager(watching_config_maps(Recorder()), namespaces=[namespace]) as manager:
        reader, client = manager.reader, manager.client
        for number in range(6):
            key = ObjectKey(namespace, f"c{number}")
            made = await client.create(ours(key.name, namespace, data={"n": "0"}))
            assert (await reader.get(ConfigMap, key)).uid == made.uid
            await client.patch(ConfigMap, key, {"data": {"n": "1"}})
            assert (await reader.get(ConfigMap, key)).data == {"n": "1"}
            assert len(await reader.list(ConfigMap, namespace=namespace)) == 1
            await client.delete(ConfigMap, key)
            assert await reader.find(ConfigMap, key) is None
            again = await client.create(ours(key.name, namespace))
            assert (await reader.get(ConfigMap, key)).uid == again.uid
            await client.delete(ConfigMap, key)


async def test_an_object_with_a_generated_name_is_made_once(cluster, namespace):
    class MakesOne:
        def __init__(self, reader, client):
            self.reader, self.client = reader, client

        async def reconcile(self, key):
            parent = await self.reader.find(Secret, key)
            if parent and not await self.reader.by_index(ConfigMap, BY_OWNER_UID, parent.uid):
                body = {"metadata": {"generateName": "child-", "namespace": namespace}}
                await self.client.create(ConfigMap.model_validate(body), owner=parent)
            return Result.done()

    controller = Controller(
        Secret, owns=[ConfigMap], reconciler=MakesOne, max_concurrent_reconciles=4
    )
    async with cluster.manager(controller, namespaces=[namespace]):
        parent = await cluster.client.create(Secret.new("p", namespace=namespace))
        for number in range(10):
            patch = {"metadata": {"annotations": {"n": str(number)}}}
            await cluster.client.patch(Secret, parent.key, patch)

        async def children():
            found = await cluster.client.list(ConfigMap, namespace=namespace)
            return [c for c in found if c.owner_references]

        await cluster.eventually(children, timeout=PATIENCE_SECONDS)
        await asyncio.sleep(0.5)
        assert len(await children()) == 1


async def test_fields_select_the_same_cached_and_live(cluster, namespace):
    for name, size in (("a", "1"), ("b", "2"), ("c", "2")):
        await cluster.client.create(ours(name, namespace, data={"size": size}))
    controller = Controller(ConfigMap, reconciler=Recorder(), indexes=[by_field("data.size")])

    async with cluster.manager(controller, namespaces=[namespace]) as manager:
        for fields, expected in {
            "metadata.name=a": "a",
            "metadata.name!=a,data.size=2": "bc",
            "data.size!=2,metadata.name in (a,b)": "a",
            "data.size in (1,2),metadata.name notin (a)": "bc",
        }.items():
            for reader in (manager.reader, manager.uncached_reader):
                found = await reader.list(
                    ConfigMap, namespace=namespace, labels="made-by=test", fields=fields
                )
                assert "".join(c.key.name for c in found) == expected, fields


async def test_what_a_watch_does_not_select_is_invisible(cluster, namespace):
    recorder = Recorder()
    labels = {"made-by": "test", "for": "x"}
    inside = ObjectKey(namespace, "inside")
    async with cluster.manager(watching_config_maps(recorder), namespaces=[namespace]) as manager:
        await cluster.client.create(ConfigMap.new("outside", namespace=namespace))
        await cluster.client.create(ConfigMap.new("inside", namespace=namespace, labels=labels))
        await cluster.eventually(lambda: recorder.names, timeout=PATIENCE_SECONDS)
        assert await manager.reader.find(ConfigMap, ObjectKey(namespace, "outside")) is None
        assert await manager.reader.find(ConfigMap, inside) is not None

        patch = {"metadata": {"labels": {"made-by": None}}}
        await cluster.client.patch(ConfigMap, inside, patch)
        await cluster.eventually(lambda: len(recorder.names) == 2, timeout=PATIENCE_SECONDS)
        assert await manager.reader.find(ConfigMap, inside) is None


async def test_a_type_that_is_not_served_fails_the_start_and_is_named(cluster, namespace):
    gadgets = ResourceType("lab.test", "v1", "Gadget", "gadgets")
    controller = Controller(gadgets, reconciler=Recorder(), cache_sync_timeout_seconds=2)

    with pytest.raises(CacheSyncError, match=r"'gadget': .*gadgets\.v1\.lab\.test.*: 404"):
        async with cluster.manager(controller, namespaces=[namespace]):
            pass


async def test_watches_come_and_go_while_a_controller_runs(cluster, namespace):
    recorder = Recorder()
    labels = {"for": "x"}
    await cluster.client.create(ConfigMap.new("a", namespace=namespace, labels=labels))
    async with cluster.manager(namespaces=[namespace]) as manager:
        running = manager.add(Controller(Secret, reconciler=recorder))
        watch = running.watch(Watch(ConfigMap, enqueue=by_label("for"), labels="for"))
        await watch.wait_synced()
        await cluster.eventually(lambda: recorder.names == ["x"], timeout=PATIENCE_SECONDS)

        watch.close()
        with pytest.raises(NotCachedError):
            await manager.reader.list(ConfigMap)
        await cluster.client.create(ConfigMap.new("b", namespace=namespace, labels=labels))
        again = running.watch(Watch(ConfigMap, enqueue=by_label("for"), labels="for"))
        await again.wait_synced()
        assert len(await manager.reader.list(ConfigMap)) == 2

        await running.stop()
        manager.add(Controller(Secret, reconciler=recorder))


async def test_an_optional_kind_comes_goes_and_comes_again(cluster, namespace):
    group = f"g{uuid4().hex[:8]}.lab.test"

    class Thing(KubeModel):
        resource_type = ResourceType(group, "v1", "Thing", "things")

    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    key = ObjectKey("", f"things.{group}")
    things, secrets = Recorder(), Recorder()
    async with cluster.manager(
        Controller(Thing, reconciler=things, optional=True),
        Controller(Secret, reconciler=secrets),
        namespaces=[namespace],
    ) as manager:
        await cluster.client.create(Secret.new("s", namespace=namespace))
        await cluster.eventually(lambda: secrets.names == ["s"], timeout=PATIENCE_SECONDS)
        assert await manager.reader.list(Thing) == []

        for name in ("first", "second"):
            things.names.clear()
            await cluster.install(definition)
            await cluster.client.create(Thing.new(name, namespace=namespace))
            await cluster.eventually(lambda: things.names, timeout=PATIENCE_SECONDS)
            assert things.names == [name]
            found = await manager.reader.list(Thing)
            assert [thing.key.name for thing in found] == [name]

            await cluster.client.delete(CustomResourceDefinition, key)
            await cluster.eventually(
                lambda: cluster.client.find(CustomResourceDefinition, key),
                lambda found: found is None,
                timeout=PATIENCE_SECONDS,
            )
            await cluster.eventually(
                lambda: manager.reader.list(Thing),
                lambda found: not found,
                timeout=PATIENCE_SECONDS,
            )


async def test_namespaces_are_watched_while_their_labels_match(cluster, namespace):
    recorder, team = Recorder(), f"team-{uuid4().hex[:8]}"

    async def give(label):
        patch = {"metadata": {"labels": {"lab/team": label}}}
        await cluster.client.patch(Namespace, ObjectKey("", namespace), patch)

    await cluster.client.create(Secret.new("before", namespace=namespace))
    async with cluster.manager(
        Controller(Secret, reconciler=recorder), namespace_selector={"lab/team": team}
    ) as manager:
        assert await manager.reader.list(Secret) == []
        await give(team)
        await cluster.eventually(lambda: "before" in recorder.names, timeout=PATIENCE_SECONDS)

        await give(None)
        await cluster.eventually(
            lambda: manager.reader.list(Secret), lambda s: not s, timeout=PATIENCE_SECONDS
        )
        await cluster.client.create(Secret.new("after", namespace=namespace))
        await asyncio.sleep(0.5)

    assert "after" not in recorder.names


async def test_metadata_is_all_that_is_fetched_where_nothing_else_is_wanted(cluster, namespace):
    await cluster.client.create(ours("a", namespace, data={"k": "v" * 1000}))
    controller = Controller(
        Secret, reconciler=Recorder(), watches=[Watch(ConfigMap, metadata_only=True)]
    )
    async with cluster.manager(controller, namespaces=[namespace]) as manager:
        found = await manager.reader.list_metadata(ConfigMap, labels="made-by=test")
        with pytest.raises(NotCachedError, match="cached as metadata only"):
            await manager.reader.list(ConfigMap)

    assert [(obj.key.name, obj.data) for obj in found] == [("a", b"")]


async def test_long_and_odd_notes_of_events_are_stored(cluster, namespace):
    made = await cluster.client.create(Secret.new("about", namespace=namespace))
    notes = {"Long": "拉" * 500, "Lines": "first\nsecond", "Empty": ""}

    manager = Manager(cluster.client, name="lab.test/widgets", identity="pod-0")
    async with manager.running():
        for reason, note in notes.items():
            manager.events.record(made, type="Warning", reason=reason, action="Pull", note=note)

        async def stored():
            events = await cluster.client.list(Event, namespace=namespace)
            return {event.reason: event for event in events if event.reason in notes}

        found = await cluster.eventually(
            stored, lambda events: len(events) == 3, timeout=PATIENCE_SECONDS
        )

    assert len(found["Long"].note.encode()) <= 1024
    assert found["Long"].note.startswith("拉拉")
    assert found["Long"].note.endswith("…")
    assert found["Lines"].note == notes["Lines"]
    for event in found.values():
        assert (event.action, event.model_extra["reportingController"]) == (
            "Pull",
            "lab.test/widgets",
        )
        assert event.model_extra["reportingInstance"] == "pod-0"


async def test_a_page_is_shown_to_service_accounts_that_may_see_it(cluster, namespace):
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    role = f"scraper-{uuid4().hex[:8]}"

    async def token_of(name):
        body = json.dumps(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        )
        await cluster.client.request("POST", accounts, body=body.encode())
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
        answer = await cluster.client.request(
            "POST", f"{accounts}/{name}/token", body=body.encode()
        )
        return json.loads(answer.body)["status"]["token"]

    scraper, other = await token_of("scraper"), await token_of("other")
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    await cluster.client.create(ClusterRole.new(role, rules=[rule]))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": "scraper", "namespace": namespace}
    await cluster.client.create(ClusterRoleBinding.new(role, roleRef=reference, subjects=[subject]))
    page = AccessReviews(cluster.client).guard(Metrics().answer)

    async def status_for(token):
        headers = {"authorization": f"Bearer {token}"}
        return (await page(HttpRequest("GET", "/metrics", (), headers))).status

    try:
        assert await status_for(scraper) == 200
        assert await status_for(other) == 403
        assert await status_for("nobody's") == 401
    finally:
        await cluster.client.delete(ClusterRoleBinding, ObjectKey("", role))
        await cluster.client.delete(ClusterRole, ObjectKey("", role))


async def test_an_optional_kind_needs_its_own_definition_and_no_other(cluster, namespace):
    gadgets = ResourceType(f"g{uuid4().hex[:8]}.lab.test", "v1", "Gadget", "gadgets")
    needed = definition_permission(gadgets)
    role, user = f"narrow-{uuid4().hex[:8]}", f"narrow-{uuid4().hex[:8]}"
    rule = {
        "apiGroups": [needed.group],
        "resources": list(needed.resources),
        "verbs": list(needed.verbs),
        "resourceNames": list(needed.names),
    }
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    await cluster.client.create(ClusterRole.new(role, rules=[rule]))
    await cluster.client.create(ClusterRoleBinding.new(role, roleRef=reference, subjects=[subject]))
    client = cluster.client_of(user, ["system:authenticated"])
    try:
        with pytest.raises(ForbiddenError):
            await client.list(CustomResourceDefinition)
        controller = Controller(
            gadgets, reconciler=Recorder(), optional=True, cache_sync_timeout_seconds=10
        )
        async with cluster.manager(controller, client=client, namespaces=[namespace]) as manager:
            assert await manager.reader.list(gadgets) == []
    finally:
        await cluster.client.delete(ClusterRoleBinding, ObjectKey("", role))
        await cluster.client.delete(ClusterRole, ObjectKey("", role))
