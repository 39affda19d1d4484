"""Each fault does what it says, to the call that is meant, and the operator copes."""

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.simulation import At, Fault, Plan, run
from dynamo_operator.simulation.plans import (
    Compact,
    Cut,
    Delay,
    Delete,
    Drop,
    Duplicate,
    Fail,
    Freeze,
    Garble,
    Hang,
    Jump,
    Kill,
    Lose,
    Overlap,
    Partition,
    Pause,
    Perform,
    Stall,
    Terminate,
    Touch,
)
from informers.objects import ObjectKey
from tests.dynamo_operator.simulation.scenarios import NAMESPACE, RIGHT, scenario

APPLY = At(verb="apply")
WATCH = At(verb="watch", resource="configmaps", event=3)


def played(moment, deed, simulated=RIGHT):
    outcome = run(simulated, plan=Plan(faults=(Fault(at=moment, do=deed),)))
    assert len(outcome.reached) == 1
    assert outcome.passed, outcome.violations
    return outcome


def first_apply(outcome):
    return next(call for call in outcome.history.calls if call.verb == "apply")


def marks(outcome):
    return [mark.what for mark in outcome.history.marks if mark.actor.startswith("operator")]


@pytest.mark.parametrize(
    ("deed", "code", "is_done"),
    [
        (Fail(code=503), 503, False),
        (Fail(code=504, applied=True), 504, True),
        (Lose(what="connection"), 0, False),
        (Lose(what="request"), 0, False),
        (Lose(what="answer"), 0, True),
        (Garble(body="truncated"), 0, True),
        (Garble(body="html"), 201, True),
        (Garble(body="empty"), 201, True),
        (Hang(), 0, False),
        (Delay(seconds=3.0), 201, True),
    ],
    ids=str,
)
def test_a_call_is_answered_and_done_as_planned(deed, code, is_done):
    call = first_apply(played(APPLY, deed))

    assert call.code == code
    assert bool(call.commits) is is_done
    assert call.fault


def test_retry_after_reaches_the_caller():
    outcome = played(APPLY, Fail(code=429, retry_after="7"))

    first, again = [call for call in outcome.history.calls if call.verb == "apply"][::2][:2]
    assert first.code == 429
    assert again.sent_seconds >= first.answered_seconds + 7


def test_a_delayed_request_arrives_after_its_sender_is_dead():
    faults = (
        Fault(at=APPLY, do=Delay(seconds=5.0)),
        Fault(at=At(seconds=1.0), do=Kill(restart_after=30.0)),
    )
    outcome = run(RIGHT, plan=Plan(faults=faults))

    assert outcome.passed, outcome.violations
    commit = first_apply(outcome).commits[0]
    killed = next(mark for mark in outcome.history.marks if mark.what == "killed")
    assert commit.seconds > killed.seconds


@pytest.mark.parametrize(
    ("deed", "expected"),
    [
        (Kill(), ["started", "killed", "started", "killed"]),
        (Terminate(), ["started", "told to stop", "stopped", "started", "killed"]),
        (Pause(seconds=9.0), ["started", "paused", "resumed", "killed"]),
        (Partition(seconds=9.0), ["started", "cut off", "reconnected", "killed"]),
        (Overlap(seconds=4.0), ["started", "started", "told to stop", "stopped", "killed"]),
    ],
    ids=str,
)
def test_processes_live_as_planned(deed, expected):
    assert marks(played(APPLY, deed)) == expected


def test_a_paused_process_sends_nothing():
    outcome = played(APPLY, Pause(seconds=4.0))

    paused, resumed = (
        next(m.seconds for m in outcome.history.marks if m.what == what)
        for what in ("paused", "resumed")
    )
    sent = [c.sent_seconds for c in outcome.history.calls_of("operator")]
    assert not [seconds for seconds in sent if paused < seconds < resumed]


def test_what_is_cut_off_by_resource_reaches_the_rest():
    outcome = played(APPLY, Partition(seconds=None, resource="!leases", silent=True))

    assert first_apply(outcome).code == 0


@pytest.mark.parametrize("how", ["end", "reset", "middle", "expired", "error"])
def test_a_watch_that_is_cut_is_opened_again(how):
    outcome = played(WATCH, Cut(how=how))

    opened = [c for c in outcome.history.calls_of("operator") if c.verb == "watch"]
    assert len(opened) >= 2


def test_a_watch_that_stalls_or_repeats_itself_does_no_harm():
    for deed in (Stall(seconds=300.0), Duplicate(), Delay(seconds=20.0)):
        played(WATCH, deed)


def test_a_lost_event_is_lost():
    async def one_after_the_other(world):
        for name in ("a", "b"):
            await world.client.create(ConfigMap.new(name, namespace=NAMESPACE))
            await world.settle()

    seen = At(verb="watch", resource="configmaps", event=4)  # a, a bookmark and the echo are before
    lossy = Plan(faults=(Fault(at=seen, do=Drop()),))

    outcome = run(scenario(workload=one_after_the_other, invariants=()), plan=lossy)

    applied = [c.key.name for c in outcome.history.calls if c.verb == "apply"]
    assert applied == ["a-echo"]


@pytest.mark.parametrize("events", [None, 1])
def test_a_frozen_kind_is_seen_late_and_written_truly(events):
    outcome = played(At(verb="watch"), Freeze(seconds=60.0, events=events))

    assert first_apply(outcome).sent_seconds > (5.0 if events is None else 0.0)


def test_a_process_may_begin_on_a_server_that_is_behind():
    outcome = played(At(verb="apply", occurrence=2, phase="after"), Kill(behind=3))

    lists = [c for c in outcome.history.calls_of("operator", incarnation=2) if c.verb == "list"]
    assert lists[0].query[-1] == ("resourceVersion", "0")
    refused = [c for c in outcome.history.calls_of("operator", incarnation=2) if c.code == 422]
    assert refused[0].verb == "watch"


def test_somebody_deletes_and_makes_anew_what_an_operator_works_on():
    again = Delete(resource="configmaps", name="*/b", recreate=True)
    outcome = played(At(verb="apply", occurrence=2), again)

    uids = {c.uid for c in outcome.history.commits if c.key == ObjectKey(NAMESPACE, "b")}
    assert len(uids) == 2
    echo = outcome.history.objects(("", "configmaps"))[ObjectKey(NAMESPACE, "b-echo")]
    assert echo["metadata"]["ownerReferences"][0]["uid"] in uids


def test_somebody_writes_and_history_is_forgotten():
    touched = played(At(verb="apply", occurrence=2), Touch(resource="configmaps", name="*/a"))
    assert any(c.actor == "intruder" for c in touched.history.commits)

    played(At(seconds=2.0), Compact())


def test_a_scenario_has_actions_of_its_own():
    async def say_hello(world):
        await world.client.create(ConfigMap.new("hello", namespace=NAMESPACE))

    outcome = played(APPLY, Perform(action="hello"), scenario(actions={"hello": say_hello}))

    assert ObjectKey(NAMESPACE, "hello-echo") in outcome.history.objects(("", "configmaps"))


def test_a_wall_clock_that_jumps_leaves_timers_alone():
    played(APPLY, Jump(seconds=-3600.0))


def test_faults_end_when_the_world_heals():
    forever = Fault(at=At(verb="apply", occurrence=0), do=Fail(code=500))

    outcome = run(RIGHT, plan=Plan(faults=(forever,)))

    assert outcome.passed, outcome.violations
    healed = next(mark.seconds for mark in outcome.history.marks if mark.what == "healed")
    codes = {(c.code, c.sent_seconds > healed) for c in outcome.history.calls if c.verb == "apply"}
    assert codes == {(500, False), (201, True)}
