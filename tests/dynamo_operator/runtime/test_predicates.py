import pytest

from dynamo_operator.runtime.predicates import (
    and_,
    annotations_changed,
    generation_changed,
    label_selector,
    labels_changed,
    not_,
    or_,
    resource_version_changed,
)
from informers.events import Added, Deleted, Updated
from tests.dynamo_operator.runtime.objects import cached

OLD = cached(version=1, generation=1, labels={"a": "1"}, annotations={"x": "1"})
ADDED, DELETED = Added(OLD), Deleted(OLD)


def updated(**changes):
    fields = {"generation": 1, "labels": {"a": "1"}, "annotations": {"x": "1"}, "version": 2}
    return Updated(OLD, cached(**{**fields, **changes}))


STATUS_UPDATE = updated()
RESYNC = Updated(OLD, OLD)


@pytest.mark.parametrize(
    "predicate",
    [generation_changed, resource_version_changed, labels_changed, annotations_changed],
)
def test_an_object_that_appears_or_goes_always_passes(predicate):
    assert predicate(ADDED)
    assert predicate(DELETED)
    assert not predicate(RESYNC)


@pytest.mark.parametrize(
    ("predicate", "event", "passes"),
    [
        pytest.param(generation_changed, updated(generation=2), True, id="generation"),
        pytest.param(generation_changed, STATUS_UPDATE, False, id="status"),
        pytest.param(generation_changed, updated(labels={}), False, id="labels-only"),
        pytest.param(generation_changed, updated(is_deleting=True), True, id="deletion-begins"),
        pytest.param(generation_changed, updated(uid="other"), True, id="recreated"),
        pytest.param(
            generation_changed,
            Updated(cached(version=1), cached(version=2)),
            True,
            id="kind-without-generation",
        ),
        pytest.param(resource_version_changed, STATUS_UPDATE, True, id="version"),
        pytest.param(labels_changed, updated(labels={"a": "2"}), True, id="label"),
        pytest.param(labels_changed, STATUS_UPDATE, False, id="no-label"),
        pytest.param(annotations_changed, updated(annotations={}), True, id="annotation"),
        pytest.param(annotations_changed, STATUS_UPDATE, False, id="no-annotation"),
    ],
)
def test_an_update_passes_when_what_matters_changed(predicate, event, passes):
    assert predicate(event) is passes


def test_a_label_selector_looks_at_the_new_state():
    assert label_selector("a=2")(updated(labels={"a": "2"}))
    assert not label_selector({"a": "1"})(updated(labels={"a": "2"}))
    assert label_selector({})(ADDED)


def test_predicates_combine_and_stop_at_the_first_that_decides():
    asked = []

    def answer(value):
        def predicate(event):
            asked.append(value)
            return value

        return predicate

    assert not and_(answer(False), answer(True))(ADDED)
    assert or_(answer(True), answer(False))(ADDED)
    assert not not_(answer(True))(ADDED)
    assert asked == [False, True, True]
