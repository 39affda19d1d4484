import json
from typing import Any

import pytest
from pydantic import ValidationError

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Secret
from dynamo_operator.runtime.models import KubeModel, KubeStruct
from informers.objects import KubeObject, ObjectKey, OwnerReference, ResourceType, controller_ref


class Part(KubeStruct):
    part_name: str = ""
    tags: list[str] = []


class Spec(KubeStruct):
    size: int = 1
    main_part: Part = Part()
    parts: list[Part] = []


class Widget(KubeModel):
    resource_type = ResourceType("lab.test", "v1", "Widget", "widgets")
    spec: Spec = Spec()
    status: dict[str, Any] = {}


def test_a_new_object_carries_its_identity_and_what_was_given():
    widget = Widget.new("a", namespace="lab", labels={"x": "y"}, spec={"size": 2})

    assert widget.to_dict() == {
        "apiVersion": "lab.test/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "namespace": "lab", "labels": {"x": "y"}},
        "spec": {"size": 2},
    }


def test_the_wire_is_camel_case_and_python_is_not():
    widget = Widget.new("a", spec=Spec(main_part=Part(part_name="m")))

    assert widget.to_dict()["spec"] == {"mainPart": {"partName": "m"}}
    assert Widget.model_validate(widget.to_dict()).spec.main_part.part_name == "m"


def test_fields_that_the_class_does_not_know_survive():
    stored = {"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}, "extra": {"k": None}}

    assert Widget.model_validate(stored).to_dict() == stored


def test_null_means_absent():
    widget = Widget.model_validate({"metadata": {"labels": None}, "spec": None, "status": None})

    assert (widget.labels, widget.spec, widget.status) == ({}, Spec(), {})
    assert widget.to_dict() == {"metadata": {}}


def test_a_default_that_is_filled_in_place_counts_as_set():
    widget = Widget.new("a")

    widget.metadata.labels["x"] = "y"
    widget.spec.main_part.tags.append("t")
    widget.spec.parts.append(Part())
    widget.spec.parts[0].tags.append("u")
    widget.status["ready"] = True

    sent = widget.to_dict()
    assert sent["metadata"] == {"name": "a", "labels": {"x": "y"}}
    assert sent["spec"] == {"mainPart": {"tags": ["t"]}, "parts": [{"tags": ["u"]}]}
    assert sent["status"] == {"ready": True}
    assert Widget.new("b").to_dict().keys() == {"apiVersion", "kind", "metadata"}


def test_a_default_that_was_set_is_sent_and_one_that_was_not_is_not():
    assert Widget.new("a", spec={"size": 1}).to_dict()["spec"] == {"size": 1}
    assert Widget.new("a", spec={}).to_dict()["spec"] == {}


def test_a_model_is_a_kube_object():
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "j",
        "uid": "ju",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    obj: KubeObject = Job.model_validate(
        {
            "metadata": {
                "name": "a",
                "namespace": "lab",
                "uid": "u",
                "resourceVersion": "7",
                "generation": 2,
                "annotations": {"k": "v"},
                "ownerReferences": [reference],
                "deletionTimestamp": "2030-01-01T00:00:00Z",
            }
        }
    )

    assert (obj.key, obj.uid) == (ObjectKey("lab", "a"), "u")
    assert (obj.resource_version, obj.generation) == ("7", 2)
    assert obj.annotations == {"k": "v"}
    assert obj.is_deleting
    assert controller_ref(obj) == OwnerReference("batch/v1", "Job", "j", "ju", True, True)


def test_a_wrong_type_is_refused():
    with pytest.raises(ValidationError, match=r"spec\.size"):
        Widget.new("a", spec={"size": "many"})


def test_a_secret_does_not_show_its_data():
    secret = Secret.new("s", namespace="lab", data={"password": "c4nary"})

    assert "c4nary" not in f"{secret} {secret!r} {[secret]}"
    assert json.loads(json.dumps(secret.to_dict()))["data"] == {"password": "c4nary"}


def test_objects_do_not_share_their_defaults():
    ConfigMap.new("a").data["k"] = "v"

    assert ConfigMap.new("b").data == {}
