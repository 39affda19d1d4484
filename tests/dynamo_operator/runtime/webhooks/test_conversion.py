"""Conversion reviews, and what a conversion may touch."""

import json

import pytest
import structlog

from dynamo_operator.runtime.metrics import Metrics
from dynamo_operator.runtime.webhooks.conversion import (
    ConversionError,
    FunctionConversion,
    HubConversion,
    Spoke,
)
from informers.objects import ResourceType
from tests.dynamo_operator.runtime.webhooks.gadgets import (
    CONVERSION,
    STASH,
    Gadget,
    GadgetV1alpha1,
    from_v1,
    to_v1,
)
from tests.dynamo_operator.runtime.webhooks.reviews import post, serving
from tests.dynamo_operator.runtime.widgets import Widget

V1, V1ALPHA1 = "lab.test/v1", "lab.test/v1alpha1"


def gadget(version, spec, **metadata):
    return {
        "apiVersion": version,
        "kind": "Gadget",
        "metadata": {"name": "a", "uid": "u-1", "resourceVersion": "7", **metadata},
        "spec": spec,
    }


def review(desired, *objects):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "c0de", "desiredAPIVersion": desired, "objects": list(objects)},
    }


async def convert(desired, *objects, converters=(CONVERSION,)):
    answer = await post(serving(conversions=converters), "/convert", review(desired, *objects))
    assert answer.status == 200, answer.body
    document = json.loads(answer.body)
    assert document["response"]["uid"] == "c0de"
    return document["response"]


async def test_every_object_is_converted_in_order():
    response = await convert(
        V1, gadget(V1ALPHA1, {"size": "12mm"}), gadget(V1ALPHA1, {"size": "3in"}, name="b")
    )

    assert response["result"] == {"status": "Success"}
    first, second = response["convertedObjects"]
    assert first == gadget(V1, {"size": {"number": 12, "unit": "mm"}}, name="a")
    assert (second["metadata"]["name"], second["spec"]["size"]["unit"]) == ("b", "in")


async def test_a_list_without_objects_is_converted_to_none():
    response = await convert(V1)

    assert (response["result"], response["convertedObjects"]) == ({"status": "Success"}, [])


async def test_a_way_to_another_version_and_back_loses_nothing():
    stored = gadget(
        V1,
        {"size": {"number": 1, "unit": "m"}, "color": "red"},
        annotations={"note": "x"},
        managedFields=[{"manager": "m"}],
        finalizers=["lab.test/f"],
    )

    there = (await convert(V1ALPHA1, stored))["convertedObjects"][0]
    back = (await convert(V1, there))["convertedObjects"][0]

    assert there["metadata"]["annotations"] == {"note": "x", STASH: "red"}
    assert there["spec"] == {"size": "1m"}
    assert back == stored


async def test_identity_is_carried_over_whatever_the_function_returns():
    def renames(obj, api_version):
        return {"kind": "Other", "metadata": {"name": "z", "uid": "z", "labels": {"l": "1"}}}

    converter = FunctionConversion("lab.test", "Gadget", renames)

    response = await convert(V1, gadget(V1ALPHA1, {}), converters=[converter])

    (converted,) = response["convertedObjects"]
    assert converted == {
        "apiVersion": V1,
        "kind": "Gadget",
        "metadata": {"name": "a", "uid": "u-1", "resourceVersion": "7", "labels": {"l": "1"}},
    }


@pytest.mark.parametrize(
    ("desired", "obj", "text"),
    [
        (V1, gadget(V1, {}), "Gadget in lab.test/v1: is in that version already"),
        ("other.test/v1", gadget(V1ALPHA1, {}), "other.test/v1 is another API group"),
        ("lab.test/v9", gadget(V1, {}), "Gadget in lab.test/v9: there are only lab.test/v1, lab"),
        (V1, {**gadget(V1ALPHA1, {}), "kind": "Other"}, "nothing here converts that kind"),
        (V1, gadget(V1ALPHA1, {"size": "big"}), "spec.size: 'big' must be a number and a unit"),
    ],
)
async def test_what_cannot_be_converted_fails_the_review_with_its_reason(desired, obj, text):
    response = await convert(desired, gadget("lab.test/v1alpha1", {}), obj)

    assert response["result"]["status"] == "Failure"
    assert text in response["result"]["message"] or "another API group" in text
    assert response["convertedObjects"] == []


async def test_a_defect_fails_the_review_without_its_details_and_is_counted():
    def broken(obj, api_version):
        raise KeyError("secret-detail")

    webhooks = serving(conversions=[FunctionConversion("lab.test", "Gadget", broken)])
    metrics = Metrics()
    webhooks.count_in(metrics)

    with structlog.testing.capture_logs() as logs:
        answer = await post(webhooks, "/convert", review(V1, gadget(V1ALPHA1, {})))

    result = json.loads(answer.body)["response"]["result"]
    assert result["status"] == "Failure"
    assert "secret-detail" not in result["message"]
    assert [log["event"] for log in logs] == ["conversion failed"]
    assert "controller_runtime_conversion_webhook_panics_total 1.0" in metrics.render().decode()


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", review("", gadget(V1, {})), {"kind": "ConversionReview", "request": {"uid": "u"}}],
)
async def test_what_is_no_conversion_review_is_a_bad_request(body):
    answer = await post(serving(conversions=[CONVERSION]), "/convert", body)

    assert answer.status == 400


def test_a_hub_can_be_plain_json():
    v1, v2 = (ResourceType("lab.test", v, "Bolt", "bolts") for v in ("v1", "v2"))
    conversion = HubConversion(
        v2,
        [
            Spoke(
                v1,
                to_hub=lambda bolt: {"spec": {"size": bolt["size"]}},
                from_hub=lambda bolt: {"size": bolt["spec"]["size"]},
            )
        ],
    )
    bolt = {"apiVersion": "lab.test/v1", "kind": "Bolt", "metadata": {"name": "b"}, "size": 3}

    there = conversion.convert(bolt, "lab.test/v2")

    assert there["spec"] == {"size": 3}
    assert conversion.convert(there, "lab.test/v1") == bolt


def test_two_spokes_meet_at_the_hub():
    v1, v2, v3 = (ResourceType("lab.test", v, "Bolt", "bolts") for v in ("v1", "v2", "v3"))
    conversion = HubConversion(
        v3,
        [
            Spoke(v1, to_hub=lambda b: {"c": b["a"]}, from_hub=lambda b: {"a": b["c"]}),
            Spoke(v2, to_hub=lambda b: {"c": b["b"]}, from_hub=lambda b: {"b": b["c"]}),
        ],
    )

    converted = conversion.convert(
        {"apiVersion": "lab.test/v1", "kind": "Bolt", "a": 1}, "lab.test/v2"
    )

    assert converted == {"apiVersion": "lab.test/v2", "kind": "Bolt", "b": 1}


@pytest.mark.parametrize(
    ("spokes", "text"),
    [
        ([Spoke(Widget, to_v1, from_v1)], "must be a version of lab.test/v1 Gadget"),
        ([Spoke(Gadget, to_v1, from_v1)], "there is one already"),
        ([Spoke(GadgetV1alpha1, to_v1, from_v1)] * 2, "there is one already"),
    ],
)
def test_spokes_that_cannot_be_are_refused(spokes, text):
    with pytest.raises(ValueError, match=text):
        HubConversion(Gadget, spokes)


def test_two_converters_of_one_kind_are_refused():
    with pytest.raises(ValueError, match="declared twice"):
        serving(conversions=[CONVERSION, CONVERSION])


def test_a_version_that_does_not_exist_is_a_conversion_error():
    with pytest.raises(ConversionError, match="there are only"):
        CONVERSION.convert(gadget("lab.test/v7", {}), V1)
