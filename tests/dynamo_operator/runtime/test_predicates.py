import pytest

from dynamo_operator.runtime.predicates import (
    Predicate,
    and_,
    annotations_changed,
    by_event,
    generation_changed,
    intent_changed,
    label_selector,
    labels_changed,
    name_of,
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


@pytest.mark.parametrize(
    ("event", "passes"),
    [
        pytest.param(ADDED, True, id="added"),
        pytest.param(DELETED, True, id="deleted"),
        pytest.param(updated(generation=2), True, id="spec"),
        pytest.param(updated(is_deleting=True), True, id="deletion-begins"),
        pytest.param(updated(labels={"a": "1", "paused": "true"}), True, id="chosen-label-added"),
        pytest.param(updated(annotations={}), True, id="chosen-annotation-removed"),
        pytest.param(updated(labels={"a": "2"}), False, id="other-label"),
        pytest.param(updated(annotations={"x": "1", "y": "1"}), False, id="other-annotation"),
        pytest.param(STATUS_UPDATE, False, id="status"),
        pytest.param(RESYNC, False, id="resync"),
    ],
)
def test_intent_is_spec_deletion_and_chosen_metadata(event, passes):
    assert intent_changed(labels=["paused"], annotations=["x"])(event) is passes


def test_each_kind_of_event_may_have_a_predicate_of_its_own():
    predicate = by_event(
        added=lambda event: event.initial,
        updated=lambda event: event.object.generation > 1,
        deleted=lambda event: event.final_state_unknown,
    )

    assert [predicate(Added(OLD, initial=True)), predicate(ADDED)] == [True, False]
    assert [predicate(updated(generation=2)), predicate(STATUS_UPDATE)] == [True, False]
    assert [predicate(Deleted(OLD, final_state_unknown=True)), predicate(DELETED)] == [True, False]
    assert [by_event()(event) for event in (ADDED, RESYNC, DELETED)] == [True] * 3


def test_combined_predicates_decide_for_each_kind_of_event():
    never_deleted = by_event(deleted=lambda event: False)

    either = or_(generation_changed, labels_changed)
    both = and_(generation_changed, never_deleted)
    none = not_(both)

    assert [either(e) for e in (ADDED, updated(labels={}), STATUS_UPDATE)] == [True, True, False]
    assert [both(e) for e in (ADDED, updated(generation=2), DELETED)] == [True, True, False]
    assert [none(e) for e in (ADDED, updated(generation=2), DELETED)] == [False, False, True]


def test_predicates_have_names_for_logs_and_metrics():
    class Often:
        def __call__(self, event):
            return True

    predicates: list[Predicate] = [
        generation_changed,
        label_selector("a"),
        not_(labels_changed),
        intent_changed(),
        Often(),
    ]

    assert [name_of(predicate) for predicate in predicates] == [
        "generation_changed",
        "label_selector",
        "not_(labels_changed)",
        "intent_changed",
        "Often",
    ]


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
