"""Custom resources in several versions, converted by a webhook wherever that is needed."""

import asyncio
from typing import Any

import pytest

from dynamo_operator.apiserver.crd_conversion import WebhookConversion
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.remote import Unanswered
from tests.dynamo_operator.apiserver.api import CRDS, Api
from tests.dynamo_operator.apiserver.scripted_webhooks import (
    VALIDATING,
    ScriptedWebhooks,
    configure,
    hook,
)
from tests.dynamo_operator.runtime.webhooks.gadgets import CONVERSION, STASH, gadget_crd

pytestmark = pytest.mark.virtual_time

V1 = "/apis/lab.test/v1/namespaces/default/gadgets"
OLD = "/apis/lab.test/v1alpha1/namespaces/default/gadgets"
WEBHOOK: dict[str, Any] = {
    "strategy": "Webhook",
    "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://hooks.test/convert"},
    },
}


def converted(request):
    objects = [CONVERSION.convert(o, request["desiredAPIVersion"]) for o in request["objects"]]
    return {"result": {"status": "Success"}, "convertedObjects": objects}


class Gadgets:
    def __init__(self, api, webhooks):
        self.api = api
        self.webhooks = webhooks

    @property
    def conversions(self):
        """Wanted version and number of objects of every conversion; forgotten when told."""
        asked = [
            (request["desiredAPIVersion"].rpartition("/")[2], len(request["objects"]))
            for path, request in self.webhooks.reviews
            if path == "/convert"
        ]
        self.webhooks.reviews.clear()
        return asked


@pytest.fixture
async def gadgets():
    api = Api()
    webhooks = ScriptedWebhooks(api)
    webhooks.scripts["/convert"] = converted
    assert (await api.create(CRDS, gadget_crd(WEBHOOK))).status == 201
    return Gadgets(api, webhooks)


def new(name, number=1):
    return {
        "apiVersion": "lab.test/v1",
        "kind": "Gadget",
        "metadata": {"name": name},
        "spec": {"size": {"number": number, "unit": "mm"}},
    }


def old(name, size="1mm", **metadata):
    return {
        "apiVersion": "lab.test/v1alpha1",
        "kind": "Gadget",
        "metadata": {"name": name, **metadata},
        "spec": {"size": size},
    }


async def test_what_is_written_in_the_stored_version_is_read_in_another(gadgets):
    made = await gadgets.api.create(V1, new("a", 12))

    read = await gadgets.api.get(f"{OLD}/a")

    assert read.body["apiVersion"] == "lab.test/v1alpha1"
    assert read.body["spec"] == {"size": "12mm"}
    assert read.body["metadata"] == made.body["metadata"]
    assert gadgets.conversions == [("v1alpha1", 1)]


async def test_what_is_written_in_another_version_is_kept_in_the_stored_one(gadgets):
    answer = await gadgets.api.create(OLD, old("a", "3in", annotations={STASH: "red"}))

    kept = await gadgets.api.get(f"{V1}/a")

    assert answer.body["spec"] == {"size": "3in"}
    assert answer.body["metadata"]["annotations"] == {STASH: "red"}
    assert kept.body["spec"] == {"size": {"number": 3, "unit": "in"}, "color": "red"}
    assert "annotations" not in kept.body["metadata"]
    assert (
        gadgets.api.server.storage.get(("lab.test", "gadgets"), "default", "a").value["apiVersion"]
        == "lab.test/v1"
    )


async def test_every_verb_works_in_another_version(gadgets):
    api = gadgets.api
    await api.create(OLD, old("a"))

    merged = await api.merge(f"{OLD}/a", {"spec": {"size": "2mm"}})
    replaced = await api.replace(f"{OLD}/a", {**merged.body, "spec": {"size": "3mm"}})
    applied = await api.apply(f"{OLD}/a", old("a", "4mm"), force="true")
    status = await api.merge(f"{OLD}/a/status", {"status": {"ready": True}})
    stored = await api.get(f"{V1}/a")
    deleted = await api.delete(f"{OLD}/a")

    sizes = [answer.body["spec"]["size"] for answer in (merged, replaced, applied, status)]
    assert sizes == ["2mm", "3mm", "4mm", "4mm"]
    assert stored.body["spec"]["size"] == {"number": 4, "unit": "mm"}
    assert stored.body["status"] == {"ready": True}
    assert stored.body["metadata"]["generation"] == 4
    assert deleted.status == 200


async def test_a_list_is_converted_at_once(gadgets):
    for number in range(5):
        await gadgets.api.create(V1, new(f"g{number}", number))
    gadgets.webhooks.reviews.clear()

    listed = await gadgets.api.get(OLD)
    again = await gadgets.api.get(OLD)

    assert [item["spec"]["size"] for item in listed.body["items"]] == [
        f"{number}mm" for number in range(5)
    ]
    assert again.body == listed.body
    assert gadgets.conversions == [("v1alpha1", 5)]


async def test_a_watch_shows_the_version_that_it_asked_for(gadgets):
    await gadgets.api.create(V1, new("a", 1))
    events = await gadgets.api.watch(OLD)

    await gadgets.api.merge(f"{V1}/a", {"spec": {"size": {"number": 2}}})
    await gadgets.api.delete(f"{V1}/a")
    seen = [await events.next() for _ in range(3)]
    await events.close()

    assert [(e["type"], e["object"]["spec"]["size"]) for e in seen] == [
        ("ADDED", "1mm"), ("MODIFIED", "2mm"), ("DELETED", "2mm"),
    ]  # fmt: skip
    assert {e["object"]["apiVersion"] for e in seen} == {"lab.test/v1alpha1"}


async def test_a_collection_is_deleted_in_another_version(gadgets):
    for name in ("a", "b"):
        await gadgets.api.create(V1, new(name))

    deleted = await gadgets.api.delete(OLD)

    assert deleted.names == ["a", "b"]
    assert (await gadgets.api.get(V1)).names == []


async def test_an_admission_webhook_gets_the_version_that_it_wants(gadgets):
    rule = {
        "apiGroups": ["lab.test"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["gadgets"],
    }
    await configure(gadgets.api, VALIDATING, hook("validate", rules=[rule]))

    await gadgets.api.create(OLD, old("a", "7mm"))
    await gadgets.api.merge(f"{OLD}/a", {"spec": {"size": "8mm"}})

    judged = [request for path, request in gadgets.webhooks.reviews if path == "/validate"]
    assert [request["object"]["spec"]["size"]["number"] for request in judged] == [7, 8]
    assert judged[1]["oldObject"]["spec"]["size"]["number"] == 7
    assert {request["requestKind"]["version"] for request in judged} == {"v1alpha1"}


async def test_what_cannot_be_converted_is_refused_with_the_reason(gadgets):
    gadgets.webhooks.scripts["/convert"] = lambda request: {
        "result": {"status": "Failure", "message": "spec.size: no"}
    }

    refused = await gadgets.api.create(OLD, old("a", "no"))

    assert refused.status == 500
    assert refused.message == (
        "conversion webhook for lab.test/v1alpha1, Kind=Gadget failed: spec.size: no"
    )
    assert (await gadgets.api.get(V1)).names == []


def edited(change):
    def script(request):
        response = converted(request)
        for obj in response["convertedObjects"]:
            change(obj)
        return response

    return script


FAULTS: list[tuple[Any, str]] = [
    (
        lambda r: {"result": {"status": "Success"}, "convertedObjects": []},
        "returned 0 objects, expected 1",
    ),
    (
        edited(lambda o: o.update(apiVersion="lab.test/v9")),
        "returned invalid object at index 0: invalid groupVersion (expected lab.test/v1alpha1, "
        "received lab.test/v9)",
    ),
    (
        edited(lambda o: o.update(kind="Zz")),
        "returned invalid object at index 0: invalid kind (expected Gadget, received Zz)",
    ),
    (
        edited(lambda o: o["metadata"].update(name="zz")),
        "returned invalid object: must have the same name: a != zz",
    ),
    (
        edited(lambda o: o["metadata"].update(uid="zz")),
        "returned invalid object: must have the same UID: ",
    ),
    (
        edited(lambda o: o["metadata"].update(labels={"x": "!!!"})),
        'returned invalid metadata: metadata.labels: Invalid value: "!!!"',
    ),
    (
        lambda r: {"result": {"status": "Success"}, "convertedObjects": [1]},
        "returned invalid object at index 0",
    ),
    (lambda r: {"result": {"status": "Failure", "message": "because"}}, "failed: because"),
    (
        lambda r: {"result": {"status": "Failure"}},
        "failed: response.result.status was 'Failure', not 'Success'",
    ),
    (lambda r: Response(500, {}, b"kaputt"), 'failed: an error on the server ("kaputt")'),
    (lambda r: {"uid": "other"}, 'failed: expected response.uid="'),
]


@pytest.mark.parametrize(("script", "text"), FAULTS)
async def test_an_answer_that_is_no_conversion_fails_the_request(gadgets, script, text):
    await gadgets.api.create(V1, new("a"))
    gadgets.webhooks.scripts["/convert"] = script

    for path in (f"{OLD}/a", OLD):
        refused = await gadgets.api.get(path)

        assert refused.status == 500
        assert refused.message.startswith(f"conversion webhook for lab.test/v1, Kind=Gadget {text}")
    assert (await gadgets.api.get(f"{V1}/a")).status == 200


async def test_metadata_is_not_the_webhooks_to_change_but_for_labels_and_annotations(gadgets):
    def change(obj):
        obj["metadata"].update(
            labels={"l": "1"}, annotations={"n": "2"}, finalizers=["x/y"], generation=99
        )

    made = await gadgets.api.create(V1, new("a"))
    gadgets.webhooks.scripts["/convert"] = edited(change)

    read = await gadgets.api.get(f"{OLD}/a")

    changed = {"labels": {"l": "1"}, "annotations": {"n": "2"}}
    assert read.body["metadata"] == dict(made.body["metadata"], **changed)


async def test_what_comes_from_a_webhook_is_pruned_and_defaulted(gadgets):
    def careless(obj):
        if obj["apiVersion"] == "lab.test/v1":
            obj["spec"] = {"size": {"number": 3}, "bogus": 1}

    gadgets.webhooks.scripts["/convert"] = edited(careless)

    await gadgets.api.create(OLD, old("a"))

    assert (await gadgets.api.get(f"{V1}/a")).body["spec"] == {"size": {"number": 3, "unit": "mm"}}


@pytest.mark.parametrize(
    ("conversion", "field", "text"),
    [
        ({"webhook": {"clientConfig": {"url": "https://x"}}}, "conversionReviewVersions",
         "Required value"),
        ({"webhook": {**WEBHOOK["webhook"], "conversionReviewVersions": ["v9"]}},
         "conversionReviewVersions", "must include at least one of v1, v1beta1"),
        ({"webhook": {"conversionReviewVersions": ["v1"]}}, "webhookClientConfig",
         "required when strategy is set to Webhook"),
        ({"strategy": "None"}, "webhookClientConfig", "should not be set when strategy is not set"),
        ({"webhook": {**WEBHOOK["webhook"], "clientConfig": {"url": "http://x"}}},
         "webhookClientConfig.url", "'https' is the only allowed URL scheme"),
        ({"webhook": {**WEBHOOK["webhook"], "clientConfig": {}}}, "webhookClientConfig",
         "exactly one of url or service is required"),
        ({"webhook": {**WEBHOOK["webhook"], "clientConfig": {"service": {"name": "a"}}}},
         "webhookClientConfig.service.namespace", "Required value"),
    ],
)  # fmt: skip
async def test_a_definition_whose_conversion_cannot_work_is_refused(conversion, field, text):
    refused = await Api().create(CRDS, gadget_crd({**WEBHOOK, **conversion}))

    assert refused.status == 422
    fields = [cause["field"] for cause in refused.body["details"]["causes"]]
    assert f"spec.conversion.{field}" in fields
    assert text in refused.message


async def test_a_watch_ends_with_an_error_when_conversion_fails(gadgets):
    events = await gadgets.api.watch(OLD)
    gadgets.webhooks.scripts["/convert"] = lambda request: {
        "result": {"status": "Failure", "message": "out of order"}
    }

    await gadgets.api.create(V1, new("a"))
    (error,) = await events.rest()

    assert error["type"] == "ERROR"
    assert "out of order" in error["object"]["message"]


async def test_another_webhook_is_asked_anew_once_the_definition_names_it(gadgets):
    await gadgets.api.create(V1, new("a"))
    await gadgets.api.get(f"{OLD}/a")
    webhook = {"clientConfig": {"url": "https://hooks.test/other"}}
    gadgets.webhooks.scripts["/other"] = edited(lambda o: o["spec"].update(size="other"))

    await gadgets.api.merge(
        f"{CRDS}/gadgets.lab.test", {"spec": {"conversion": {"webhook": webhook}}}
    )
    read = await gadgets.api.get(f"{OLD}/a")

    assert read.body["spec"] == {"size": "other"}


async def test_objects_kept_in_an_earlier_storage_version_are_read_in_both(gadgets):
    await gadgets.api.create(V1, new("a", 5))
    crd = gadget_crd(WEBHOOK, storage="v1alpha1")

    await gadgets.api.merge(
        f"{CRDS}/gadgets.lab.test", {"spec": {"versions": crd["spec"]["versions"]}}
    )
    await gadgets.api.create(V1, new("b", 6))

    old_sizes = [item["spec"]["size"] for item in (await gadgets.api.get(OLD)).body["items"]]
    new_sizes = [
        item["spec"]["size"]["number"] for item in (await gadgets.api.get(V1)).body["items"]
    ]
    assert (old_sizes, new_sizes) == (["5mm", "6mm"], [5, 6])


async def test_reads_of_the_stored_version_need_no_webhook(gadgets):
    gadgets.api.server.webhooks.client = None

    assert (await gadgets.api.create(V1, new("a"))).status == 201
    assert (await gadgets.api.get(V1)).names == ["a"]
    refused = await gadgets.api.get(OLD)
    assert "the server has no connection to webhooks" in refused.message


async def test_readers_at_once_do_not_wait_for_one_another(gadgets):
    await gadgets.api.create(V1, new("a"))
    both = asyncio.Barrier(2)

    async def meet(request):
        await both.wait()
        return converted(request)

    gadgets.webhooks.scripts["/convert"] = meet

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(gadgets.api.get(f"{OLD}/a")) for _ in range(2)]

    assert [task.result().status for task in tasks] == [200, 200]


async def test_a_list_longer_than_what_is_remembered_is_converted_all_the_same(gadgets):
    objects = [old(f"g{n}", f"{n}mm", namespace="default") for n in range(8)]
    conversion = WebhookConversion(
        gadget_crd(WEBHOOK), gadgets.api.server.webhooks, {}, remembered=2
    )

    async def all_known(count):
        asked = 0
        while True:
            try:
                conversion.prefetch(objects[:count], "lab.test/v1")
            except Unanswered as unanswered:
                asked += 1
                await unanswered.ask()
            else:
                return asked

    asked = [await all_known(count) for count in (1, 5, 5, 8, 1)]

    assert asked == [1, 1, 0, 1, 0]
    converted_one = conversion.convert(objects[7], "lab.test/v1")
    assert converted_one["spec"]["size"]["number"] == 7
