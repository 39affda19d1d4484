"""Runs a scenario under many plans, on all cores, and reports what did not hold.

report = enumerate_faults(scenario, primaries=[Widget])       # each fault at each call, in turn
report = swarm(scenario, seeds=range(1000))                   # random faults, many at once
assert report.failures == [], report.told()
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.simulation.coverage import SOMETIMES, Coverage, Sometimes, cells_of
from dynamo_operator.simulation.end_state import Reference
from dynamo_operator.simulation.enumeration import CLASSES, Enumeration, Trial
from dynamo_operator.simulation.history import WAITED_IN_VAIN, History
from dynamo_operator.simulation.plans import Plan
from dynamo_operator.simulation.runs import Outcome, run, told
from dynamo_operator.simulation.scenario import Scenario
from dynamo_operator.simulation.search_order import most_different_first

CLUSTER_WORKS = "I0 the cluster around the operator works"
SERVED = "I1 users are served while faults go on"

_CHUNK = 4


class UnsoundScenarioError(ValueError):
    """A scenario does not hold even without faults; the text is what does not."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run in which something did not hold.

    Args:
        trial: what was run.
        plan: the same with all that was drawn at random written out: run again, it fails again.
        violations: what did not hold, in the order in which it was noticed.
        invariants: the names of what did not hold.
    """

    trial: Trial
    plan: Plan
    violations: Sequence[str]
    invariants: Sequence[str]

    def __str__(self) -> str:
        faults = "; ".join(str(fault) for fault in self.plan.faults[:5]) or "no fault"
        more = len(self.plan.faults) - 5
        rest = f" and {more} more" if more > 0 else ""
        return f"{self.trial.fault}: {faults}{rest}\n    {self.violations[0]}"


@dataclass(slots=True)
class Report:
    """What came of many runs.

    Args:
        scenario: its name.
        generated: plans that there are.
        pruned: further ones, left out because they cannot change anything.
        ran: plans that were run.
        reached: those of them whose faults all happened.
        crash_points: crash points among them that were reached.
        by_class: runs by class of faults.
        failures: runs in which something did not hold.
        coverage: which faults met which calls, and what rare things came about.
        seconds: how long it took.
        virtual_seconds: how long it took for those inside.
        traces: the trace hash of each run, in no order.
    """

    scenario: str
    generated: int = 0
    pruned: int = 0
    ran: int = 0
    reached: int = 0
    crash_points: int = 0
    by_class: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    seconds: float = 0.0
    virtual_seconds: float = 0.0
    traces: list[str] = field(default_factory=list)

    def told(self) -> str:
        """Return the report in a few lines."""
        classes = ", ".join(f"{name} {n}" for name, n in sorted(self.by_class.items()))
        lines = [
            f"{self.scenario}: {self.generated} plans generated, {self.pruned} pruned,"
            f" {self.ran} run ({self.reached} reached all their faults;"
            f" {self.crash_points} crash points), {len(self.failures)} failed,"
            f" {self.virtual_seconds / 3600:.0f} virtual hours in {self.seconds:.0f} s",
            f"  by class: {classes}",
        ]
        lines += [f"  {failure}" for failure in self.failures[:20]]
        return "\n".join(lines)


def waits_in_vain(history: History) -> list[str]:
    """Return what a workload waited for too long, in words; see `WAITED_IN_VAIN`."""
    return [
        f"a user waited in vain until {mark.seconds:.1f} s"
        for mark in history.marks
        if mark.what == WAITED_IN_VAIN
    ]


def reference_of(scenario: Scenario, *, seed: int = 0) -> Outcome:
    """Run a scenario without faults.

    Raises:
        UnsoundScenarioError: something does not hold even so.
    """
    outcome = run(scenario, plan=Plan(seed=seed))
    problems = [*map(str, outcome.violations), *waits_in_vain(outcome.history)]
    if problems:
        told = "; ".join(problems)
        raise UnsoundScenarioError(f"{scenario.name} without faults: {told}")
    return outcome


def enumerate_faults(
    scenario: Scenario,
    *,
    primaries: Sequence[type[KubeModel] | StorageKey] = (),
    classes: Collection[str] = CLASSES,
    seed: int = 0,
    workers: int | None = None,
    stop_at_first: bool = False,
    budget_seconds: float | None = None,
    sometimes: Sometimes = SOMETIMES,
) -> Report:
    """Run a scenario once for each fault at each moment; see `enumeration`.

    Where not all of them may be run, the most different ones come first.

    Args:
        scenario: what is simulated.
        primaries: kinds that users delete, and make anew, while the operator works.
        classes: which faults are tried.
        seed: of everything random in all runs.
        workers: processes; by default one each core.
        stop_at_first: whether to end with the first failure.
        budget_seconds: after which no further plan is run; `generated` then exceeds `ran`.
        sometimes: rare things to look out for.

    Raises:
        UnsoundScenarioError: something does not hold even without faults.
    """
    reference = reference_of(scenario, seed=seed)
    found = Enumeration(reference.history, primaries, classes, seed)
    trials: Sequence[Trial] = list(found.trials())
    if stop_at_first or budget_seconds is not None:
        trials = most_different_first(trials)
    return explore(
        scenario,
        trials,
        reference=reference.end,
        pruned=found.pruned,
        workers=workers,
        stop_at_first=stop_at_first,
        budget_seconds=budget_seconds,
        sometimes=sometimes,
    )


def swarm(
    scenario: Scenario,
    *,
    seeds: Iterable[int],
    workers: int | None = None,
    stop_at_first: bool = False,
    budget_seconds: float | None = None,
    sometimes: Sometimes = SOMETIMES,
) -> Report:
    """Run a scenario once for each seed, with random faults, many at once; see `Plan.drawn`.

    Each seed draws which kinds of faults there are in its run, how often they are, and in which
    order what is ready goes on. The end is not compared with that of a run without faults: what a
    workload does may depend on its seed. For the other arguments see `enumerate_faults`.

    Args:
        scenario: what is simulated.
        seeds: each decides all of one run.
        workers: processes; by default one each core.
        stop_at_first: whether to end with the first failure.
        budget_seconds: after which no further seed is run.
        sometimes: rare things to look out for.
    """
    trials = [Trial("swarm", f"seed {seed}", "", "", Plan.drawn(seed), False) for seed in seeds]
    return explore(
        scenario,
        trials,
        workers=workers,
        stop_at_first=stop_at_first,
        budget_seconds=budget_seconds,
        sometimes=sometimes,
    )


def explore(
    scenario: Scenario,
    trials: Sequence[Trial],
    *,
    reference: Reference | None = None,
    pruned: int = 0,
    workers: int | None = None,
    stop_at_first: bool = False,
    budget_seconds: float | None = None,
    sometimes: Sometimes = SOMETIMES,
) -> Report:
    """Run trials, each apart from all others; see `enumerate_faults`."""
    report = Report(scenario.name, generated=len(trials), pruned=pruned)
    job = _Job(scenario, trials, reference, sometimes)
    started = time.perf_counter()
    for judged in _judge_all(job, workers or os.cpu_count() or 1):
        _add(report, trials[judged.trial], judged)
        if stop_at_first and report.failures:
            break
        if budget_seconds is not None and time.perf_counter() - started > budget_seconds:
            break
    report.seconds = time.perf_counter() - started
    report.failures.sort(key=lambda failure: trials.index(failure.trial))
    return report


@dataclass(frozen=True, slots=True)
class _Job:
    scenario: Scenario
    trials: Sequence[Trial]
    reference: Reference | None
    sometimes: Sometimes


@dataclass(frozen=True, slots=True)
class _Judged:
    trial: int
    plan: Plan
    reached: bool
    violations: tuple[str, ...]
    invariants: tuple[str, ...]
    coverage: Coverage
    virtual_seconds: float = 0.0
    trace: str = ""


_job: list[_Job] = []
"""What a worker works on: it was there when the worker was forked."""


def _judge_all(job: _Job, workers: int) -> Iterator[_Judged]:
    _job[:] = [job]
    try:
        numbers = range(len(job.trials))
        if workers == 1 or len(job.trials) <= _CHUNK:
            yield from map(_judge, numbers)
            return
        gc.collect()
        gc.freeze()  # what is there already is shared with the workers
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            yield from pool.imap_unordered(_judge, numbers, chunksize=_CHUNK)
    finally:
        gc.unfreeze()
        _job.clear()


def _judge(number: int) -> _Judged:
    (job,) = _job
    trial = job.trials[number]
    reference = job.reference if trial.comparable else None
    try:
        outcome = run(job.scenario, plan=trial.plan, reference=reference)
    except Exception as error:  # noqa: BLE001 # of the cluster around, or of the scenario
        problem = f"{CLUSTER_WORKS}: {told(error)}"
        return _Judged(number, trial.plan, False, (problem,), (CLUSTER_WORKS,), Coverage())
    history = outcome.history
    violations = [(v.invariant, str(v)) for v in outcome.violations]
    if reference is not None and trial.fault_class != "restart":
        # A process on an old view may serve nobody until it is healed.
        violations += [(SERVED, f"{SERVED}: {each}") for each in waits_in_vain(history)]
    came_about = Counter(name for name, holds in job.sometimes.items() if holds(history))
    return _Judged(
        trial=number,
        plan=outcome.plan,
        reached=set(trial.plan.faults) <= outcome.reached,
        violations=tuple(text for _, text in violations),
        invariants=tuple(dict.fromkeys(name for name, _ in violations)),
        coverage=Coverage(cells_of(history), came_about),
        virtual_seconds=outcome.virtual_seconds,
        trace=outcome.trace_hash,
    )


def _add(report: Report, trial: Trial, judged: _Judged) -> None:
    report.ran += 1
    report.reached += judged.reached
    report.by_class[trial.fault_class] += 1
    report.virtual_seconds += judged.virtual_seconds
    report.traces.append(judged.trace)
    report.coverage.add(judged.coverage)
    if trial.fault_class == "crash":
        report.crash_points += judged.reached
    if judged.violations:
        report.failures.append(Failure(trial, judged.plan, judged.violations, judged.invariants))
