import asyncio

import pytest

from tests.dynamo_operator.apiserver.api import (
    CONFIG_MAPS,
    CORE,
    PODS,
    Api,
    Json,
    config_map,
    pod,
)

pytestmark = pytest.mark.virtual_time

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def held(name: str, *finalizers: str) -> Json:
    body = config_map(name)
    body["metadata"]["finalizers"] = list(finalizers)
    return body


def job(name: str) -> Json:
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
        }
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


async def test_an_object_that_nothing_holds_is_gone_at_once():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.delete(f"{CONFIG_MAPS}/a")

    assert (answer.status, answer.body["status"]) == (200, "Success")
    assert answer.body["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": made.body["metadata"]["uid"],
    }
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_a_deletion_with_a_wrong_precondition_conflicts(field):
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": {field: "99"}})

    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert "precondition (99) does not match" in answer.message
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 200


async def test_a_deletion_with_right_preconditions_succeeds():
    api = Api()
    metadata = (await api.create(CONFIG_MAPS, config_map("a"))).body["metadata"]
    preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}

    answer = await api.delete(f"{CONFIG_MAPS}/a", {"preconditions": preconditions})

    assert answer.status == 200


async def test_a_finalizer_holds_the_object_until_it_is_removed():
    api = Api()
    await api.create(CONFIG_MAPS, held("a", "lab.test/x"))
    events = await api.watch(CONFIG_MAPS, resourceVersion=str(api.server.storage.resource_version))

    marked = await api.delete(f"{CONFIG_MAPS}/a")
    await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})

    assert marked.body["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:00Z"
    assert marked.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await events.take(2) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404
    await events.close()


async def test_deleting_twice_keeps_the_first_time():
    api = Api()
    await api.create(CONFIG_MAPS, held("a", "lab.test/x"))
    first = await api.delete(f"{CONFIG_MAPS}/a")
    await asyncio.sleep(10)

    second = await api.delete(f"{CONFIG_MAPS}/a")

    assert second.body == first.body


async def test_the_mark_of_deletion_is_a_new_generation():
    api = Api()
    body = job("j")
    body["metadata"]["finalizers"] = ["lab.test/x"]
    made = await api.create(JOBS, body)

    marked = await api.delete(f"{JOBS}/j", {"propagationPolicy": "Background"})

    generation = made.body["metadata"]["generation"]
    assert marked.body["metadata"]["generation"] == generation + 1


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])],
)
async def test_a_propagation_policy_leaves_the_collectors_finalizer(policy, finalizers):
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": policy})

    assert answer.body["metadata"]["finalizers"] == finalizers
    assert answer.body["metadata"]["deletionTimestamp"]


async def test_background_deletion_drops_an_earlier_policys_finalizer():
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))
    await api.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": "Foreground"})

    await api.delete(f"{CONFIG_MAPS}/a", {"propagationPolicy": "Background"})

    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404


async def test_a_job_orphans_by_default_and_warns():
    api = Api()
    await api.create(JOBS, job("j"))

    answer = await api.delete(f"{JOBS}/j")

    assert answer.body["metadata"]["finalizers"] == ["orphan"]
    assert "child pods are preserved by default when jobs are deleted" in answer.headers["warning"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"propagationPolicy": "Sideways"}, 'Unsupported value: "Sideways"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "cannot be both set"),
    ],
    ids=["unknown", "both"],
)
async def test_delete_options_that_make_no_sense_are_refused(options, text):
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.delete(f"{CONFIG_MAPS}/a", options)

    assert answer.status == 422
    assert text in answer.message


async def test_a_pod_on_a_node_gets_its_grace_period_and_goes_when_the_node_says_so():
    api = Api()
    await api.create(PODS, pod("p", node="n1"))

    marked = await api.delete(f"{PODS}/p")
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})

    assert marked.body["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:30Z"
    assert marked.body["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await api.get(f"{PODS}/p")).status == 404


async def test_the_grace_period_of_a_pod_can_only_shrink():
    api = Api()
    await api.create(PODS, pod("p", node="n1"))
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})

    longer = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 60})
    shorter = await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})

    assert longer.body["metadata"]["deletionGracePeriodSeconds"] == 20
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert shorter.body["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:05Z"


async def test_a_pod_on_no_node_is_marked_and_gone_at_once():
    api = Api()
    await api.create(PODS, pod("p"))
    events = await api.watch(PODS, resourceVersion=str(api.server.storage.resource_version))

    await api.delete(f"{PODS}/p")

    assert await events.take(2) == [("MODIFIED", "p"), ("DELETED", "p")]
    await events.close()


async def test_deleting_a_collection_takes_what_the_selector_matches():
    api = Api()
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        body = config_map(name)
        body["metadata"]["labels"] = {"l": label}
        await api.create(CONFIG_MAPS, body)

    deleted = await api.delete(CONFIG_MAPS, labelSelector="l=x")

    assert deleted.names == ["a", "c"]
    assert (await api.get(CONFIG_MAPS)).names == ["b"]


async def test_a_deleted_namespace_terminates_and_refuses_new_content():
    api = Api()
    await api.create(f"{CORE}/namespaces", {"metadata": {"name": "ns"}})

    marked = await api.delete(f"{CORE}/namespaces/ns")
    refused = await api.create(f"{CORE}/namespaces/ns/configmaps", config_map("a"))

    assert marked.body["status"]["phase"] == "Terminating"
    assert (refused.status, refused.message) == (
        403,
        'configmaps "a" is forbidden: unable to create new content in namespace ns because it is '
        "being terminated",
    )
    assert refused.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace ns is being terminated",
            "field": "metadata.namespace",
        }
    ]


async def test_a_deleted_namespace_goes_with_its_last_finalizer():
    api = Api()
    await api.create(f"{CORE}/namespaces", {"metadata": {"name": "ns"}})
    marked = await api.delete(f"{CORE}/namespaces/ns")

    body = marked.body | {"spec": {"finalizers": []}}
    await api.replace(f"{CORE}/namespaces/ns/finalize", body)

    assert (await api.get(f"{CORE}/namespaces/ns")).status == 404


async def test_the_default_namespace_may_not_be_deleted():
    answer = await Api().delete(f"{CORE}/namespaces/default")

    assert (answer.status, answer.message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )
