"""One run of a scenario, from the empty cluster to its rest, and what came of it."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dynamo_operator.simulation.decisions import Schedule
from dynamo_operator.simulation.end_state import Reference
from dynamo_operator.simulation.entropy import EntropyGuard
from dynamo_operator.simulation.history import Call, Commit, History
from dynamo_operator.simulation.inspection import caches_of, defects_of, leftovers_of
from dynamo_operator.simulation.invariants import Invariant, Rest
from dynamo_operator.simulation.isolation import dispose, isolated
from dynamo_operator.simulation.loop import SimulationLoop
from dynamo_operator.simulation.plans import Fault, Plan, Recording
from dynamo_operator.simulation.scenario import Scenario
from dynamo_operator.simulation.story import Step, first_difference, tell, trail
from dynamo_operator.simulation.world import World
from dynamo_operator.testing.virtual_time import DeadlockError

CONVERGES = "I1 everything settles"
LIVES = "I0 no process ends by itself"
GOES_ON = "I0 the run goes on"
DETERMINED = "I0 the seed alone decides"
SOUND = "I0 no reconcile fails by a defect"
WORKS = "I0 the workload ends well"


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that did not hold.

    Args:
        invariant: its name.
        what: was broken, in words.
        seconds: virtual time at which it was noticed.
        call: number of the latest call then.
    """

    invariant: str
    what: str
    seconds: float
    call: int

    def __str__(self) -> str:
        return f"{self.seconds:.3f} {self.invariant}: {self.what}"


@dataclass(slots=True)
class Outcome:
    """What a run came to.

    Args:
        scenario: its name.
        plan: all that the run was made of: run it again, and it is the same.
        violations: what did not hold, in the order in which it was noticed.
        history: everything that was asked and committed.
        end: the objects that are left, as compared with other runs.
        reached: the faults of the plan that happened.
        trace_hash: of every call and commit, with their times and bodies.
        steps: callbacks that the loop ran.
        virtual_seconds: how long it took for those inside.
        seconds: how long it took.
        steps_taken: every answered call, commit and mark, in order.
        diverged: the first step that was another one than in the recording that was played again.
    """

    scenario: str
    plan: Plan
    violations: list[Violation]
    history: History
    end: Reference
    reached: frozenset[Fault] = frozenset()
    trace_hash: str = ""
    steps: int = 0
    virtual_seconds: float = 0.0
    seconds: float = 0.0
    steps_taken: list[Step] = field(default_factory=list)
    diverged: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything held."""
        return not self.violations

    def story(self, scenario: Scenario | None = None) -> str:
        """Return the run told to people, with the command that runs it again.

        Args:
            scenario: that was run, to be named in the command.
        """
        return tell(self, scenario)

    def recording(self) -> Recording:
        """Return what is needed to play the run again, and to notice if it is another one then."""
        return Recording(plan=self.plan, trail=trail(self.steps_taken))


def run(
    scenario: Scenario,
    *,
    plan: Plan | Recording | None = None,
    seed: int | None = None,
    reference: Reference | None = None,
) -> Outcome:
    """Run a scenario once; needs no running event loop.

    Args:
        scenario: what is simulated.
        plan: what happens beside the ordinary; None: nothing. A recording is played again, and
            where the run differs from it is told in the outcome.
        seed: of everything random, in place of the plan's.
        reference: what the scenario came to without faults, for invariants that compare.
    """
    recording = plan if isinstance(plan, Recording) else None
    if isinstance(plan, Recording):
        plan = plan.plan
    plan = plan or Plan()
    if seed is not None:
        plan = plan.model_copy(update={"seed": seed})
    started = time.perf_counter()
    with isolated() as lines:
        outcome = _Run(scenario, plan, plan.schedule(), reference, lines).outcome()
    if recording is not None:
        outcome.diverged = first_difference(recording.trail, trail(outcome.steps_taken))
    outcome.seconds = time.perf_counter() - started
    return outcome


class _Run:
    def __init__(
        self,
        scenario: Scenario,
        plan: Plan,
        schedule: Schedule | None,
        reference: Reference | None,
        lines: Sequence[str],
    ) -> None:
        self._scenario = scenario
        self._plan = plan
        self._reference = reference
        self._lines = lines
        limit = scenario.safety_seconds + scenario.converge_seconds + scenario.quiet_seconds
        self._schedule = schedule
        self._loop = SimulationLoop(schedule, limit_seconds=2 * limit)
        self._invariants: list[Invariant] = [copy.deepcopy(i) for i in scenario.invariants]
        self._violations: list[Violation] = []
        self._trace = hashlib.blake2b(digest_size=16)
        self._guard = EntropyGuard(self._loop.time)
        self._steps: list[Step] = []
        self._world: World | None = None

    def outcome(self) -> Outcome:
        loop = self._loop
        try:
            asyncio.set_event_loop(None)
            with self._guard.watching():
                loop.run_until_complete(self._play())
        except DeadlockError as error:
            self._broken(GOES_ON, str(error))
        finally:
            loop.finish()
            dispose(loop)
        for found in self._guard.found:
            self._broken(DETERMINED, found)
        world = self._world
        assert world is not None
        return Outcome(
            scenario=self._scenario.name,
            plan=self._explicit(world),
            violations=self._violations,
            history=world.history,
            end=Reference.of(world.history, self._scenario.mask),
            reached=frozenset([*world.network.reached, *world.network.drawn, *world.happened]),
            trace_hash=self._trace.hexdigest(),
            steps=loop.steps,
            virtual_seconds=loop.time(),
            steps_taken=self._steps,
        )

    def _explicit(self, world: World) -> Plan:
        """Return the plan with everything that was drawn written out."""
        return Plan(
            faults=(*self._plan.faults, *world.network.drawn),
            seed=self._plan.seed,
            tape=self._schedule.deviations if self._schedule is not None else {},
        )

    async def _play(self) -> None:
        async with World.start(self._scenario, self._plan) as world:
            self._world = world
            world.history.subscribe(self._committed, self._called, self._steps.append)
            if self._scenario.setup is not None:
                await self._scenario.setup(world)
            loop = asyncio.get_running_loop()
            actors = [loop.create_task(act(world)) for act in self._scenario.actors.values()]
            try:
                await self._safety(world)
                await self._liveness(world)
            finally:
                world.phase = "over"
                world.kill_operators()
                for task in actors:
                    task.cancel()

    async def _safety(self, world: World) -> None:
        world.phase = "safety"
        world.start_operators()
        world.schedule(self._plan.faults)
        try:
            async with asyncio.timeout(self._scenario.safety_seconds):
                await self._scenario.workload(world)
        except TimeoutError:
            seconds = self._scenario.safety_seconds
            self._broken(GOES_ON, f"the workload was not done in {seconds:g} s")
        except Exception as error:  # noqa: BLE001 # told as what did not hold
            self._broken(WORKS, told(error))

    async def _liveness(self, world: World) -> None:
        world.phase = "liveness"
        world.heal()
        scenario = self._scenario
        settled = await world.settle(
            quiet=scenario.quiet_seconds,
            within=scenario.converge_seconds + scenario.quiet_seconds,
        )
        if not settled:
            calls = [str(c) for c in world.history.calls if c.is_write and c.incarnation][-3:]
            self._broken(
                CONVERGES,
                f"still writing {scenario.converge_seconds:g} s after the faults had ended, "
                f"at last {'; '.join(calls)}",
            )
        if scenario.settled is not None and (problem := await scenario.settled(world)):
            self._broken(CONVERGES, problem)
        for defect in world.defects:
            self._broken(LIVES, defect)
        running = {name: p.program for name, p in world.operators.items() if p.is_running}
        for process in world.processes:
            for defect in defects_of(process.program):
                self._broken(SOUND, f"{process.name}/{process.incarnation}: {defect}")
        rest = Rest(
            world.history,
            quiet_since=world.last_change_seconds + 1e-6,
            reference=self._reference,
            caches={name: caches_of(program) for name, program in running.items()},
            leftovers={name: leftovers_of(program) for name, program in running.items()},
            lines=self._lines,
        )
        for invariant in self._invariants:
            self._note(invariant, invariant.at_rest(rest))

    # What is noticed

    def _committed(self, commit: Commit) -> None:
        self._steps.append(commit)
        self._trace.update(
            f"{commit.seconds!r} {commit.actor} {commit.what} {self._loop.steps}".encode()
        )
        self._trace.update(json.dumps(commit.object).encode())
        history = self._history
        for invariant in self._invariants:
            self._note(invariant, invariant.on_commit(commit, history))

    def _called(self, call: Call) -> None:
        self._steps.append(call)
        self._trace.update(f"{call} {call.answered_seconds!r} {self._loop.steps}".encode())
        history = self._history
        for invariant in self._invariants:
            self._note(invariant, invariant.on_call(call, history))

    @property
    def _history(self) -> History:
        assert self._world is not None
        return self._world.history

    def _note(self, invariant: Invariant, found: Iterable[str]) -> None:
        for what in found:
            self._broken(invariant.name, what)

    def _broken(self, invariant: str, what: str) -> None:
        calls = len(self._world.history.calls) if self._world else 0
        self._violations.append(Violation(invariant, what, self._loop.time(), calls))


def told(error: BaseException) -> str:
    """Return an error in one line, with the place that raised it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
