"""One run: the same again and again, with the faults that are planned."""

import asyncio
from dataclasses import replace

import pytest
import structlog

from dynamo_operator.runtime import Controller
from dynamo_operator.simulation import STANDARD, At, Fault, Plan, run
from dynamo_operator.simulation.invariants import Silent
from dynamo_operator.simulation.plans import Fail, Kill, Lose
from dynamo_operator.simulation.runs import LIVES, SOUND
from tests.dynamo_operator.simulation.scenarios import Echo, operator_of, scenario
from tests.simulation.relay import Relay


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    first, again, other = (run(scenario(), seed=seed) for seed in (1, 1, 2))

    assert first.passed
    assert (first.trace_hash, first.steps) == (again.trace_hash, again.steps)
    assert other.trace_hash != first.trace_hash


@pytest.mark.parametrize("phase", ["before", "applied", "after"])
def test_a_killed_process_is_followed_by_another_that_ends_the_work(phase):
    reference = run(scenario())
    fault = Fault(at=At(verb="apply", phase=phase), do=Kill())

    outcome = run(scenario(), plan=Plan(faults=(fault,)), reference=reference.end)

    assert outcome.passed, outcome.violations
    assert outcome.reached == {fault}
    assert outcome.history.calls_of("operator")[-1].incarnation == 2
    applied = [call for call in outcome.history.calls if call.verb == "apply"]
    first = applied[0]
    assert bool(first.commits) is (phase != "before")
    assert first.code == {"before": 0, "applied": 0, "after": 201}[phase]
    assert list(reference.end.differences(outcome.end)) == []


def test_a_kill_runs_no_finally_block_while_the_run_goes_on():
    seen = []

    class Tidy(Echo):
        async def write(self, found):
            try:
                await super().write(found)
            finally:
                seen.append(found.key.name)

    async def workload(world):
        await scenario().workload(world)
        await world.settle()
        world.client_of("witness")
        seen.append("end")

    fault = Fault(at=At(verb="apply", phase="applied"), do=Kill(restart_after=None))
    run(scenario(Tidy, workload=workload), plan=Plan(faults=(fault,)))

    assert seen[0] == "end"


def test_an_operator_that_ends_by_itself_is_a_violation():
    def operator(client, **seams):
        raise ValueError("no such setting")

    outcome = run(scenario(converge_seconds=30.0, quiet_seconds=30.0), plan=Plan())
    assert outcome.passed

    broken = scenario()
    object.__setattr__(broken, "operator", operator)
    found = run(broken).violations
    assert "operator/1 ended by itself: ValueError: no such setting" in found[0].what


def test_an_operator_may_end_for_want_of_its_caches_only_if_a_fault_kept_them_from_it():
    away = Fault(at=At(verb="list", occurrence=0), do=Lose(what="connection"))
    no_watch_list = Fault(at=At(verb="watch", occurrence=0), do=Fail(code=500))

    async def nothing_for_long(world):
        await asyncio.sleep(180.0)

    cut_off = run(scenario(workload=nothing_for_long), plan=Plan(faults=(away, no_watch_list)))

    assert cut_off.passed, cut_off.violations
    assert [m.incarnation for m in cut_off.history.marks if m.what == "started"] == [1, 2]

    def wants_what_is_not_there(client, **seams):
        manager = operator_of(Echo)(client, **seams)
        manager.add(Controller(Relay, reconciler=Echo, name="relay"))
        return manager

    alone = replace(scenario(workload=nothing_for_long), operator=wants_what_is_not_there)
    (found,) = {v.invariant: v for v in run(alone).violations if v.invariant == LIVES}.values()
    assert "ended by itself: CacheSyncError" in found.what


@pytest.mark.parametrize("seed", range(12))
def test_what_a_seed_draws_replays_from_its_plan_alone(seed):
    drawn = run(scenario(), plan=Plan.drawn(seed))
    written = Plan.model_validate_json(drawn.plan.to_json())

    replayed = run(scenario(), plan=written)

    assert written.weather is None
    assert (replayed.trace_hash, replayed.steps) == (drawn.trace_hash, drawn.steps)
    assert drawn.passed, drawn.violations


def test_a_reconcile_that_fails_by_a_defect_is_a_violation():
    class Broken(Echo):
        async def write(self, found):
            if found.key.name == "a":
                raise TypeError("None is no echo")
            await super().write(found)

    violations = run(scenario(Broken, invariants=())).violations

    (violation,) = violations
    assert violation.invariant == SOUND
    assert violation.what.endswith(" reconciles failed by a defect")


def test_invariants_see_caches_queues_and_logs_at_rest():
    seen = []

    class Looks(Silent):
        name = "looks"

        def at_rest(self, rest):
            seen.append(rest)
            return ()

    class Complains(Echo):
        async def write(self, found):
            structlog.get_logger().warning("the secret is out", name=found.key.name)
            await super().write(found)

    run(scenario(Complains, invariants=(Looks(), *STANDARD)))

    (rest,) = seen
    cached = rest.caches["operator"]["", "configmaps"]
    assert {key.name for key in cached} == {"b", "b-echo"}
    assert rest.leftovers["operator"] == {"keys ready": 0}
    assert any("the secret is out" in line for line in rest.lines)
