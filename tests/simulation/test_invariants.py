"""Each invariant speaks of what it is there for, and is silent about what looks like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.simulation.end_state import Reference
from dynamo_operator.simulation.history import History
from dynamo_operator.simulation.invariants import (
    AtMostOne,
    Bounded,
    CachesTrue,
    CleanStop,
    Confidential,
    Converges,
    EndsAs,
    ErrorsSurface,
    HonoursRetryAfter,
    Invariant,
    Justified,
    NoClobber,
    NoForeignTouch,
    NoHotLoop,
    NoLeak,
    Observed,
    OneAtATime,
    Permitted,
    Quiet,
    RetryEconomy,
    SingleWriter,
    StatusForward,
    StatusTrue,
    WriteMinimal,
)
from informers.objects import ObjectKey
from tests.simulation.handmade import JOBS, LEASES, WIDGETS, Play, condition, managed, obj

Told = Callable[[Play], list[str]]
Left = tuple[StorageKey, dict[str, Any]]

PHASES = {
    "": ("Pending", "Running"),
    "Pending": ("Running", "Done"),
    "Running": ("Done",),
    "Done": (),
}
WIDGET = obj("w", generation=1)
CHILD = obj("c", owner="uid of w")


def with_owner(play: Play) -> Play:
    play.put(WIDGETS, WIDGET, "user")
    return play


def reference(*commits: Left) -> Reference:
    play = Play(Quiet())
    for resource, value in commits:
        play.put(resource, value, "operator")
    return Reference.of(play.history)


def two_jobs(play: Play) -> list[str]:
    play.put(JOBS, obj("a", owner="w"), "operator")
    play.remove(JOBS, obj("a", owner="w"))
    play.put(JOBS, obj("b", owner="w"), "operator")
    return play.said


def two_jobs_at_once(play: Play) -> list[str]:
    for name in "ab":
        play.put(JOBS, obj(name, owner="w"), "operator")
    return play.said


def one_job_each(play: Play) -> list[str]:
    for name in "ab":
        play.put(JOBS, obj(name, owner=f"uid of {name}"), "operator")
    play.put(JOBS, obj("a", owner="uid of a", status={"active": 1}), "jobs")
    return play.said


def changes_what_nobody_controls(play: Play) -> list[str]:
    with_owner(play).put(JOBS, obj("c"), "user")
    play.put(JOBS, CHILD, "operator")
    return play.said


def deletes_by_name(play: Play) -> list[str]:
    with_owner(play).ask(JOBS, "c", "operator", "delete", 200)
    return play.said


def touches_another_ones_child(play: Play) -> list[str]:
    with_owner(play).put(JOBS, CHILD, "operator")
    play.put(JOBS, {**CHILD, "spec": {"a": 1}}, "operator", reconcile=("other", "1"))
    return play.said


def touches_the_child_of_an_earlier_instance(play: Play) -> list[str]:
    with_owner(play).put(JOBS, CHILD, "operator")
    play.remove(WIDGETS, WIDGET)
    play.put(WIDGETS, obj("w", uid="new"), "user")
    play.put(JOBS, {**CHILD, "spec": {"a": 1}}, "operator", reconcile=("w", "1"))
    return play.said


def makes_without_owner(play: Play) -> list[str]:
    play.put(JOBS, obj("c"), "operator")
    return play.said


def strips_a_finalizer(play: Play) -> list[str]:
    mine = {**CHILD, "metadata": {**CHILD["metadata"], "finalizers": ["f"]}}
    field: Any = {"f:metadata": {"f:finalizers": {'v:"f"': {}}}}
    mine["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": field}]
    with_owner(play).put(JOBS, mine, "user")
    play.put(JOBS, CHILD, "operator", manager="operator")
    return play.said


def touches_its_own(play: Play) -> list[str]:
    with_owner(play).put(JOBS, CHILD, "operator", reconcile=("w", "1"))
    play.put(JOBS, {**CHILD, "spec": {"a": 1}}, "operator", reconcile=("w", "2"))
    play.put(WIDGETS, obj("w", status={"phase": "Done"}), "operator")
    play.put(LEASES, obj("lease"), "operator")
    play.remove(JOBS, CHILD, "operator")
    return play.said


def lets_go_of_a_child_of_what_is_gone(play: Play) -> list[str]:
    held = {**CHILD, "metadata": {**CHILD["metadata"], "finalizers": ["f"]}}
    with_owner(play).put(JOBS, held, "operator")
    play.remove(WIDGETS, WIDGET)
    play.put(WIDGETS, obj("w", uid="new"), "user")
    play.put(JOBS, CHILD, "operator", reconcile=("w", "1"))
    return play.said


def leaves_a_child(play: Play) -> list[str]:
    with_owner(play).put(JOBS, CHILD, "operator")
    play.remove(WIDGETS, WIDGET)
    return play.rest()


def leaves_a_labelled_one(play: Play) -> list[str]:
    with_owner(play).put(JOBS, obj("c", labels={"widget": "uid of w"}), "operator")
    play.remove(WIDGETS, WIDGET)
    return play.rest()


def leaves_one_made_by_hand(play: Play) -> list[str]:
    with_owner(play).put(JOBS, obj("c", labels={"widget": "uid of w"}), "intruder")
    play.remove(WIDGETS, WIDGET)
    return play.rest()


def leaves_nothing(play: Play) -> list[str]:
    with_owner(play).put(JOBS, CHILD, "operator")
    play.put(JOBS, obj("d", owner="uid of x"), "operator")
    play.remove(WIDGETS, WIDGET)
    play.remove(JOBS, CHILD)
    return play.rest()


def statuses(*told: dict[str, object]) -> Told:
    def play_them(play: Play) -> list[str]:
        for status in told:
            play.put(WIDGETS, obj("w", status=status), "operator")
        return play.said

    return play_them


def sends(
    *calls: tuple[float, int], verb: str = "patch", retry_after: str = "", **more: object
) -> Told:
    def send_them(play: Play) -> list[str]:
        for seconds, code in calls:
            play.now = seconds
            headers = {"retry-after": retry_after} if retry_after else None
            play.ask(JOBS, "c", "operator", verb, code, headers=headers, body={"a": 1}, **more)
        return play.rest(quiet_since=10.0)

    return send_them


def refused_and_told(play: Play) -> list[str]:
    play.ask(JOBS, "c", "operator", "create", 422, reconcile=("w", "1"))
    play.put(
        WIDGETS, obj("w", status={"conditions": [{"type": "Ready", "message": "no"}]}), "operator"
    )
    return play.rest()


def refused_and_hidden(play: Play) -> list[str]:
    play.ask(JOBS, "c", "operator", "create", 422, reconcile=("w", "1"))
    play.put(WIDGETS, obj("w", status={"phase": "Ready"}), "operator")
    return play.rest()


def refused_again_and_again(play: Play) -> list[str]:
    for _ in range(5):
        play.ask(JOBS, "c", "operator", "update", 422)
    return play.said


def observed_late(play: Play) -> list[str]:
    play.put(WIDGETS, obj("w", generation=1), "user")
    play.now = 100.0
    play.put(WIDGETS, obj("w", generation=1, status={"observedGeneration": 1}), "operator")
    return play.rest()


def observed_soon_after_a_restart(play: Play) -> list[str]:
    play.put(WIDGETS, obj("w", generation=1), "user")
    play.now = 95.0
    play.history.mark("started", actor="operator", incarnation=2)
    play.now = 100.0
    play.put(WIDGETS, obj("w", generation=1, status={"observedGeneration": 1}), "operator")
    return play.rest()


def observed_after_a_call(fault: str) -> Told:
    def observe(play: Play) -> list[str]:
        play.put(WIDGETS, obj("w", generation=1), "user")
        for play.now, answered in ((1.0, 60.0), (30.0, 95.0)):  # two at once, in part
            call = play.call(WIDGETS, "w", "operator", "get")
            call.fault = fault
            play.now = answered
            play.history.answered(call, 0)
        play.now = 100.0
        play.put(WIDGETS, obj("w", generation=1, status={"observedGeneration": 1}), "operator")
        return play.rest()

    return observe


def never_observed(play: Play) -> list[str]:
    play.put(WIDGETS, obj("w", generation=2, status={"observedGeneration": 1}), "user")
    return play.rest()


def renewed(*seconds: float, write_at: float, incarnation: int = 1) -> Told:
    def renew_and_write(play: Play) -> list[str]:
        for play.now in seconds:
            body = {"spec": {"holderIdentity": "a"}}
            play.ask(LEASES, "l", "operator", "update", 200, body=body)
        play.now = write_at
        play.put(JOBS, CHILD, "operator", incarnation=incarnation)
        return play.said

    return renew_and_write


def attempts(*ids: str) -> Told:
    def make_them(play: Play) -> list[str]:
        for each in ids:
            play.ask(JOBS, "c", "operator", "get", 200, reconcile=("w", each))
        return play.said

    return make_them


def sends_after_its_end(play: Play, *, incarnation: int = 1) -> list[str]:
    play.history.mark("killed", actor="operator", incarnation=1)
    play.now = 1.0
    play.ask(JOBS, "c", "operator", "get", 200, incarnation=incarnation)
    return play.rest()


def its_successor_sends(play: Play) -> list[str]:
    return sends_after_its_end(play, incarnation=2)


def stops(*marks: tuple[float, str]) -> Told:
    def stop(play: Play) -> list[str]:
        for play.now, what in marks:
            play.history.mark(what, actor="operator", incarnation=1)
        return play.rest()

    return stop


def relabels(play: Play, *, label: str = "theirs", by: str = "operator") -> list[str]:
    labels = {"theirs": "a", "ours": "b"}
    entries = managed("kubectl", labels=["theirs"]) + managed("operator", labels=["ours"])
    play.put(JOBS, obj("c", labels=labels, managedFields=entries), "user")
    play.put(
        JOBS, obj("c", labels=labels | {label: "z"}, managedFields=entries), by, manager="operator"
    )
    return play.said


def relabels_its_own(play: Play) -> list[str]:
    return relabels(play, label="ours")


def a_user_relabels(play: Play) -> list[str]:
    return relabels(play, by="user")


def drops_a_condition(play: Play, *, kind: str = "Theirs") -> list[str]:
    conditions: Any = {"f:conditions": {'k:{"type":"Theirs"}': {".": {}}}}
    entries = [{"manager": "other", "fieldsV1": {"f:status": conditions}}]
    told = [condition("Theirs", "True"), condition("Ours", "True")]
    kept = [each for each in told if each["type"] != kind]
    play.put(WIDGETS, obj("w", status={"conditions": told}, managedFields=entries), "other")
    play.put(WIDGETS, obj("w", status={"conditions": kept}), "operator", manager="operator")
    return play.said


def drops_its_condition(play: Play) -> list[str]:
    return drops_a_condition(play, kind="Ours")


def writes_a_secret(play: Play, *, text: str = "token=hunter2") -> list[str]:
    play.put(WIDGETS, obj("w", status={"message": text}), "operator")
    return play.said


def writes_none(play: Play) -> list[str]:
    return writes_a_secret(play, text="token")


def ends(*left: Left) -> Told:
    def leave_them(play: Play) -> list[str]:
        for resource, value in left:
            play.put(resource, value, "operator")
        wanted = reference((WIDGETS, obj("w", status={"phase": "Done"})), (JOBS, CHILD))
        return play.rest(reference=wanted)

    return leave_them


def remakes(play: Play) -> list[str]:
    play.put(JOBS, CHILD, "operator")
    play.remove(JOBS, CHILD, "user")
    play.put(JOBS, obj("c", uid="again", owner="uid of w"), "operator")
    return play.rest(reference=reference((JOBS, CHILD)))


def makes_too_late(name: str) -> Told:
    def make_again(play: Play) -> list[str]:
        play.put(JOBS, CHILD, "operator")
        play.remove(JOBS, CHILD, "user")
        play.history.mark("killed", actor="operator", incarnation=1)
        play.now = 3.0
        play.put(JOBS, obj(name, uid="again", owner="uid of w"), "operator")
        return play.rest(reference=reference((JOBS, CHILD)))

    return make_again


def cache_of(play: Play, version: str) -> list[str]:
    play.put(JOBS, CHILD, "operator")
    return play.rest(caches={"operator": {JOBS: {ObjectKey("default", "c"): version}}})


def is_done_with_a_job(play: Play) -> list[str]:
    play.put(JOBS, CHILD)
    return statuses({"phase": "Done"})(play)


def has_ended_badly(history: History) -> Iterable[str]:
    return [] if history.objects(JOBS) else ["there is no Job"]


CASES: list[tuple[Callable[[], Invariant], Told, Told]] = [
    (
        Converges,
        ends((WIDGETS, obj("w", status={"phase": "Failed"})), (JOBS, CHILD)),
        ends(
            (
                WIDGETS,
                obj("w", uid="0f1b2c3d-0000-4000-8000-000000000000", status={"phase": "Done"}),
            ),
            (JOBS, CHILD),
        ),
    ),
    (
        Converges,
        ends((WIDGETS, obj("w", status={"phase": "Done"}))),
        ends((JOBS, CHILD), (WIDGETS, obj("w", status={"phase": "Done"})), (LEASES, obj("l"))),
    ),
    (
        Converges,
        ends((WIDGETS, obj("w", status={"phase": "Done"})), (JOBS, CHILD), (JOBS, obj("d"))),
        ends((WIDGETS, obj("w", status={"phase": "Done"})), (JOBS, CHILD)),
    ),
    (lambda: EndsAs("there is a Job", has_ended_badly), lambda play: play.rest(), remakes),
    (Quiet, sends((11.0, 200)), sends((9.0, 200))),
    (Quiet, sends(*[(11.0, 200)] * 201, verb="get"), sends(*[(11.0, 200)] * 3, verb="get")),
    (
        NoHotLoop,
        sends(*[(t / 4, 200) for t in range(20)]),
        sends(*[(t * 30.0, 200) for t in range(20)]),
    ),
    (lambda: AtMostOne(JOBS), two_jobs, one_job_each),
    (lambda: AtMostOne(JOBS, again=True), two_jobs_at_once, two_jobs),
    (
        lambda: AtMostOne(JOBS, again=lambda deletion, history: deletion.key.name != "a"),
        two_jobs,
        one_job_each,
    ),
    (
        lambda: Justified(JOBS, "no Job at all", lambda commit, history: "why?"),
        makes_without_owner,
        lambda play: with_owner(play).said,
    ),
    (
        lambda: Justified(JOBS, "no end at all", lambda commit, history: "why?", verb="delete"),
        touches_its_own,
        one_job_each,
    ),
    (Permitted, sends((0.0, 422)), sends((0.0, 409))),
    *[
        (lambda: NoForeignTouch(WIDGETS), wrong, right)
        for wrong, right in (
            (changes_what_nobody_controls, touches_its_own),
            (touches_another_ones_child, touches_its_own),
            (touches_the_child_of_an_earlier_instance, lets_go_of_a_child_of_what_is_gone),
            (makes_without_owner, touches_its_own),
            (strips_a_finalizer, touches_its_own),
            (deletes_by_name, touches_its_own),
        )
    ],
    (lambda: NoLeak(WIDGETS), leaves_a_child, leaves_nothing),
    (lambda: NoLeak(WIDGETS, labels=["widget"]), leaves_a_labelled_one, leaves_nothing),
    (lambda: NoLeak(WIDGETS, labels=["widget"]), leaves_a_labelled_one, leaves_one_made_by_hand),
    (
        lambda: StatusForward(WIDGETS, phases=PHASES),
        statuses({"phase": "Running"}, {"phase": "Pending"}),
        statuses({"phase": "Pending"}, {"phase": "Running"}, {"phase": "Done"}),
    ),
    (
        lambda: StatusForward(WIDGETS, phases=PHASES, frozen=["message"]),
        statuses({"phase": "Done", "message": "a"}, {"phase": "Done", "message": "b"}),
        statuses({"phase": "Running", "message": "a"}, {"phase": "Done", "message": "b"}),
    ),
    (
        lambda: StatusForward(WIDGETS),
        statuses({"observedGeneration": 2}, {"observedGeneration": 1}),
        statuses({"observedGeneration": 1}, {"observedGeneration": 2}),
    ),
    (
        lambda: StatusForward(WIDGETS, once=["startTime"]),
        statuses({"startTime": "a"}, {"startTime": "b"}),
        statuses({}, {"startTime": "a"}, {"startTime": "a", "phase": "Done"}),
    ),
    (
        lambda: StatusForward(WIDGETS),
        statuses(
            {"conditions": [condition("Ready", "True")]},
            {"conditions": [condition("Ready", "True", "2030-01-01T00:00:09Z")]},
        ),
        statuses(
            {"conditions": [condition("Ready", "True")]},
            {"conditions": [condition("Ready", "False", "2030-01-01T00:00:09Z")]},
        ),
    ),
    (
        lambda: StatusForward(WIDGETS),
        statuses(
            {"conditions": [condition("Ready", "True")]},
            {"conditions": [condition("Ready", "False", "2029-01-01T00:00:00Z")]},
        ),
        statuses(
            {"conditions": [condition("Ready", "True")]},
            {"conditions": [condition("Ready", "True")], "phase": "Done"},
        ),
    ),
    (
        lambda: StatusTrue(
            WIDGETS, "done is done", lambda w, h: "" if h.objects(JOBS) else "no Job"
        ),
        statuses({"phase": "Done"}),
        is_done_with_a_job,
    ),
    (
        lambda: SingleWriter(renew_deadline_seconds=10),
        renewed(0.0, write_at=20.0),
        renewed(0.0, 8.0, write_at=17.0),
    ),
    (
        lambda: SingleWriter(renew_deadline_seconds=10),
        renewed(0.0, write_at=1.0, incarnation=2),
        renewed(0.0, write_at=1.0),
    ),
    (
        HonoursRetryAfter,
        sends((0.0, 429), (1.0, 200), retry_after="5"),
        sends((0.0, 429), (5.0, 200), retry_after="5"),
    ),
    (
        HonoursRetryAfter,
        sends((0.0, 503), (29.0, 200), retry_after="3600"),
        sends((0.0, 503), (31.0, 200), retry_after="3600"),
    ),
    (
        RetryEconomy,
        sends(*[(t / 100, 503) for t in range(600)]),
        sends(*[(t * 2.0, 503) for t in range(600)]),
    ),
    (lambda: Observed(WIDGETS), never_observed, observed_late),
    (lambda: Observed(WIDGETS, within_seconds=10), observed_late, observed_soon_after_a_restart),
    (
        lambda: Observed(WIDGETS, within_seconds=10),
        observed_after_a_call(fault=""),
        observed_after_a_call(fault="hang"),
    ),
    (
        lambda: Observed(WIDGETS, within_seconds=5),
        observed_after_a_call(fault="hang"),
        observed_soon_after_a_restart,
    ),
    (OneAtATime, attempts("1", "2", "1"), attempts("1", "1", "2", "3")),
    (CachesTrue, lambda play: cache_of(play, "1"), lambda play: cache_of(play, "2")),
    (
        lambda: Bounded(tasks=3),
        lambda play: play.rest(leftovers={"operator": {"queued": 1}}),
        lambda play: play.rest(leftovers={"operator": {"queued": 0, "tasks": 3}}),
    ),
    (CleanStop, sends_after_its_end, its_successor_sends),
    (
        lambda: CleanStop(within_seconds=10),
        stops((0.0, "told to stop"), (11.0, "stopped")),
        stops((0.0, "told to stop"), (9.0, "stopped")),
    ),
    (
        lambda: CleanStop(within_seconds=10),
        stops((0.0, "told to stop"), (11.0, "killed")),
        stops((0.0, "told to stop"), (1.0, "paused"), (11.0, "killed")),
    ),
    (
        lambda: CleanStop(within_seconds=10),
        stops((0.0, "paused"), (1.0, "resumed"), (2.0, "told to stop"), (13.0, "stopped")),
        stops((0.0, "paused"), (1.0, "told to stop"), (12.0, "resumed"), (13.0, "stopped")),
    ),
    (lambda: ErrorsSurface(WIDGETS), refused_and_hidden, refused_and_told),
    (lambda: ErrorsSurface(WIDGETS), refused_again_and_again, refused_and_told),
    (NoClobber, relabels, relabels_its_own),
    (NoClobber, relabels, a_user_relabels),
    (NoClobber, drops_a_condition, drops_its_condition),
    (lambda: Confidential("hunter2"), writes_a_secret, writes_none),
    (
        lambda: Confidential("hunter2"),
        lambda play: play.rest(lines=["auth hunter2"]),
        lambda play: play.rest(lines=["auth"]),
    ),
    (WriteMinimal, remakes, ends((JOBS, CHILD))),
    (WriteMinimal, makes_too_late("another"), makes_too_late("c")),
]
NAMES = [f"{position} {make().name}" for position, (make, _, _) in enumerate(CASES)]


@pytest.mark.parametrize(("make", "wrong"), [(m, w) for m, w, _ in CASES], ids=NAMES)
def test_an_invariant_speaks_of_what_breaks_it(make, wrong):
    (said,) = wrong(Play(make()))

    assert said


@pytest.mark.parametrize(("make", "right"), [(m, r) for m, _, r in CASES], ids=NAMES)
def test_an_invariant_is_silent_about_what_does_not(make, right):
    assert right(Play(make())) == []


def test_every_numbered_invariant_has_a_case():
    numbers = {name.split()[1] for name in NAMES} | {"I11", "I13"}  # those two are I2's and I10's

    assert numbers == {f"I{number}" for number in range(1, 21)}
