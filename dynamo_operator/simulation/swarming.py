"""Plans with many random faults: each seed draws a few classes of faults, and how many of each.

A run with all faults at once hides those that need others to be absent; so each seed leaves most
classes out: Groce et al., "Swarm Testing", ISSTA 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.simulation.enumeration import CLASSES, Enumeration, Trial
from dynamo_operator.simulation.history import History
from dynamo_operator.simulation.plans import (
    At,
    Compact,
    Cut,
    Deed,
    Delay,
    Fail,
    Fault,
    Freeze,
    Jump,
    Kill,
    Lose,
    Overlap,
    Partition,
    Pause,
    Plan,
    Stall,
    Terminate,
)
from informers.clock import Random

_MOST_FAULTS = 12
_TIMED: tuple[Callable[[Random], Deed], ...] = (
    lambda random: Kill(restart_after=random.choice((0.0, 1.0, 20.0))),
    lambda random: Terminate(),
    lambda random: Pause(seconds=random.choice((1.0, 12.0, 60.0))),
    lambda random: Overlap(seconds=random.choice((5.0, 30.0))),
    lambda random: Partition(
        seconds=random.choice((2.0, 20.0, 90.0)), silent=random.random() < 0.5
    ),
    lambda random: Compact(keep=random.choice((0, 5))),
    lambda random: Jump(seconds=random.choice((-3600.0, 3600.0))),
)
_CALLED: tuple[Callable[[Random], Deed], ...] = (
    lambda random: Fail(code=random.choice((409, 429, 500, 503))),
    lambda random: Fail(code=504, applied=True),
    lambda random: Lose(what=random.choice(("connection", "request", "answer"))),
    lambda random: Delay(seconds=random.choice((0.5, 5.0, 25.0))),
    lambda random: Kill(restart_after=random.choice((0.0, 5.0))),
)
_SEEN: tuple[Callable[[Random], Deed], ...] = (
    lambda random: Delay(seconds=random.choice((0.5, 5.0, 30.0))),
    lambda random: Stall(seconds=random.choice((5.0, 90.0))),
    lambda random: Cut(how=random.choice(("end", "reset", "middle", "expired", "error"))),
)


class SwarmPlans:
    """Draws plans for a scenario.

    Args:
        history: of its run without faults: its calls are those that faults are aimed at.
        primaries: kinds that users delete while the operator works.
    """

    def __init__(
        self, history: History, primaries: Sequence[type[KubeModel] | StorageKey] = ()
    ) -> None:
        trials = Enumeration(history, primaries).trials()
        self._by_class: dict[str, list[Trial]] = {name: [] for name in CLASSES}
        for trial in trials:
            self._by_class[trial.fault_class].append(trial)
        calls = [call for call in history.calls if call.incarnation]
        self._resources = sorted({call.resource[1] for call in calls if call.resource[1]})
        self._verbs = sorted({call.verb for call in calls if call.resource[1]})
        self._end = max((c.sent_seconds for c in Enumeration(history).calls()), default=10.0)

    def trial(self, seed: int) -> Trial:
        """Return the plan of a seed."""
        random = Random(seed)
        names = [name for name in (*CLASSES, "timed", "called", "seen", "frozen")]
        chosen = random.sample(names, random.randint(1, 4))
        faults: list[Fault] = []
        for _ in range(random.randint(1, _MOST_FAULTS)):
            faults += self._draw(random.choice(chosen), random)
        distinct = {str(fault): fault for fault in faults}
        plan = Plan(faults=tuple(distinct.values()), seed=seed)
        return Trial("swarm", "+".join(sorted(chosen)), "", "", plan, comparable=False)

    def _draw(self, name: str, random: Random) -> Sequence[Fault]:
        match name:
            case "timed":
                return [Fault(at=self._moment(random), do=random.choice(_TIMED)(random))]
            case "frozen":
                freeze = Freeze(
                    resource=random.choice(self._resources), seconds=random.choice((5.0, 40.0))
                )
                return [Fault(at=self._moment(random), do=freeze)]
            case "called":
                return [Fault(at=self._call(random), do=random.choice(_CALLED)(random))]
            case "seen":
                watch = At(
                    verb="watch",
                    resource=random.choice(self._resources),
                    occurrence=random.randint(1, 3),
                    event=random.randint(1, 12),
                )
                return [Fault(at=watch, do=random.choice(_SEEN)(random))]
        trials = self._by_class[name]
        return random.choice(trials).plan.faults if trials else ()

    def _moment(self, random: Random) -> At:
        return At(seconds=round(random.uniform(0.0, self._end * 1.5 + 1.0), 2))

    def _call(self, random: Random) -> At:
        return At(
            verb=random.choice(self._verbs),
            resource=f"{random.choice(self._resources)}*",
            occurrence=random.randint(1, 6),
            phase=random.choice(("before", "applied", "after")),
        )
