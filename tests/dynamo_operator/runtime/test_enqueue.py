from dynamo_operator.runtime.enqueue import (
    by_label,
    enqueue_mapped,
    enqueue_owner,
    enqueue_self,
)
from informers.events import Added, Updated
from informers.objects import ObjectKey, ResourceType
from tests.dynamo_operator.runtime.objects import cached, owner

WIDGET = ResourceType("lab.test", "v1", "Widget", "widgets")
RACK = ResourceType("lab.test", "v1", "Rack", "racks", namespaced=False)


def owned_by(*owners, **fields):
    return cached("child", owner_references=owners, **fields)


def keys(enqueue, event):
    return [str(key) for key in enqueue(event)]


def test_an_object_enqueues_itself():
    assert keys(enqueue_self, Updated(cached("a", version=1), cached("a", version=2))) == ["lab/a"]


def test_only_the_controller_of_the_right_group_and_kind_is_enqueued():
    child = owned_by(
        owner("plain", controller=False),
        owner("other-kind", kind="Gadget"),
        owner("other-group", api_version="other.test/v1"),
        owner("newer-version", api_version="lab.test/v2"),
    )

    assert keys(enqueue_owner(WIDGET), Added(child)) == ["lab/newer-version"]
    assert keys(enqueue_owner(WIDGET, only_controller=False), Added(child)) == [
        "lab/plain",
        "lab/newer-version",
    ]


def test_a_change_of_owner_enqueues_the_old_one_and_the_new_one():
    event = Updated(owned_by(owner("a"), version=1), owned_by(owner("b"), version=2))

    assert keys(enqueue_owner(WIDGET), event) == ["lab/a", "lab/b"]


def test_the_owner_of_a_cluster_scoped_kind_has_no_namespace():
    assert keys(enqueue_owner(RACK), Added(owned_by(owner("r1", kind="Rack")))) == ["r1"]


def test_a_mapped_key_is_enqueued_once_for_an_event():
    twice = enqueue_mapped(lambda obj: [ObjectKey("x", obj.resource_version), ObjectKey("x", "0")])

    event = Updated(cached(version=1), cached(version=2))

    assert keys(twice, event) == ["x/1", "x/0", "x/2"]


def test_a_label_names_the_object_concerned():
    labelled = Added(cached(labels={"lab/widget": "w"}))

    assert keys(by_label("lab/widget"), labelled) == ["lab/w"]
    assert keys(by_label("lab/widget", namespace="other"), labelled) == ["other/w"]
    assert keys(by_label("lab/widget"), Added(cached())) == []
