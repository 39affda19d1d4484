"""Draws what meets each call, and writes it down as faults of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo_operator.simulation.history import Call
from dynamo_operator.simulation.plans import (
    Compact,
    Cut,
    Deed,
    Delay,
    Duplicate,
    Fail,
    Fault,
    Freeze,
    Garble,
    Hang,
    Jump,
    Kill,
    Lose,
    Overlap,
    Partition,
    Pause,
    Phase,
    Stall,
    Terminate,
    Touch,
    at,
)
from dynamo_operator.simulation.weather import Weather
from informers.clock import Random

_PHASES: tuple[Phase, ...] = ("before", "applied", "after")


class Sky:
    """Draws what meets each call, and writes it down.

    Args:
        weather: how often what happens.
        random: draws.
    """

    def __init__(self, weather: Weather, random: Random) -> None:
        self.drawn: list[Fault] = []
        """Everything that happened so far."""
        self._weather = weather
        self._random = random
        self._left = weather.most
        self._calls = _table(weather, _CALL_KINDS)
        self._writes = _table(weather, {**_CALL_KINDS, **_WRITE_KINDS})
        self._changes = _table(weather, {**_CALL_KINDS, **_WRITE_KINDS, **_CHANGE_KINDS})
        self._events = _table(weather, _EVENT_KINDS)

    def for_call(self, call: Call) -> list[tuple[Phase, Deed]]:
        """Draw what happens to a call."""
        table = self._calls
        if call.is_write:
            table = self._changes if call.verb in ("update", "patch", "apply") else self._writes
        found: list[tuple[Phase, Deed]] = []
        if self._is_slow():
            phase = self._random.choice(_PHASES[:2])
            found.append((phase, Delay(seconds=self._some_seconds())))
        if (make := self._draw(table)) is not None:
            found.append(make(self._random))
        self.drawn += [Fault(at=at(call, phase), do=deed) for phase, deed in found]
        return found

    def for_event(self, call: Call, number: int) -> list[Deed]:
        """Draw what happens to an event of a watch."""
        found: list[Deed] = []
        if self._is_slow():
            found.append(Delay(seconds=self._some_seconds()))
        if (make := self._draw(self._events)) is not None:
            found.append(make(self._random)[1])
        self.drawn += [Fault(at=at(call, event=number), do=deed) for deed in found]
        return found

    def _is_slow(self) -> bool:
        return self._weather.slow > 0 and self._random.random() < self._weather.slow

    def _some_seconds(self) -> float:
        return round(self._random.uniform(0, self._weather.longest_delay_seconds), 4)

    def _draw(self, table: _Table) -> _Make | None:
        if self._left <= 0 or not table:
            return None
        drawn = self._random.random()
        for until, make in table:
            if drawn < until:
                self._left -= 1
                return make
        return None


_Make = Callable[[Random], tuple[Phase, Deed]]
_Table = list[tuple[float, _Make]]


def _table(weather: Weather, kinds: dict[str, _Make]) -> _Table:
    table: _Table = []
    until = 0.0
    for name, make in kinds.items():
        rate: float = getattr(weather, name)
        if rate > 0:
            until += rate
            table.append((until, make))
    return table


def _refused(random: Random) -> tuple[Phase, Deed]:
    code = random.choice((429, 500, 503))
    later = ""
    if code == 429 or (code == 503 and random.random() < 0.5):
        later = random.choice(("1", "1", "5", "30"))
    return "before", Fail(code=code, retry_after=later)


def _killed(random: Random) -> tuple[Phase, Deed]:
    return random.choice(_PHASES), Kill(
        restart_after=random.choice((0.1, 1.0, 20.0)), behind=random.choice((0, 0, 0, 1, 5, 20))
    )


def _partitioned(random: Random) -> tuple[Phase, Deed]:
    return "before", Partition(
        seconds=round(random.uniform(1, 60), 2),
        resource=random.choice(("*", "*", "leases", "!leases")),
        silent=random.random() < 0.5,
    )


def _frozen(random: Random) -> tuple[Phase, Deed]:
    return random.choice(_PHASES[:2]), Freeze(
        resource="*" if random.random() < 0.2 else "",
        seconds=round(random.uniform(1, 120), 2),
        events=random.choice((None, None, 1, 2)),
    )


def _seconds(random: Random, most: float) -> float:
    return round(random.uniform(0, most), 2)


def _lost(random: Random) -> tuple[Phase, Deed]:
    what: Any = random.choice(("connection", "request", "answer"))
    return "before", Lose(what=what)


def _garbled(random: Random) -> tuple[Phase, Deed]:
    body: Any = random.choice(("truncated", "html", "empty"))
    return "applied", Garble(body=body)


def _cut(random: Random) -> tuple[Phase, Deed]:
    how: Any = random.choice(("end", "reset", "middle", "expired", "error"))
    return "before", Cut(how=how)


_CALL_KINDS: dict[str, _Make] = {
    "refused": _refused,
    "lost": _lost,
    "garbled": _garbled,
    "hanging": lambda random: (random.choice(_PHASES[:2]), Hang()),
    "killed": _killed,
    "terminated": lambda random: (random.choice(_PHASES), Terminate()),
    "paused": lambda random: (random.choice(_PHASES), Pause(seconds=_seconds(random, 60))),
    "overlapped": lambda random: ("before", Overlap(seconds=_seconds(random, 60))),
    "partitioned": _partitioned,
    "frozen": _frozen,
    "jumping": lambda random: ("before", Jump(seconds=round(random.uniform(-3600, 3600)))),
    "compacted": lambda random: ("before", Compact(keep=random.choice((0, 5, 20)))),
}
_WRITE_KINDS: dict[str, _Make] = {
    "late": lambda random: ("before", Fail(code=random.choice((500, 504)), applied=True)),
    "touched": lambda random: ("before", Touch()),
}
_CHANGE_KINDS: dict[str, _Make] = {"conflict": lambda random: ("before", Fail(code=409))}
_EVENT_KINDS: dict[str, _Make] = {
    "watch_cut": _cut,
    "watch_repeated": lambda random: ("before", Duplicate()),
    "watch_stalled": lambda random: ("before", Stall(seconds=_seconds(random, 120))),
}
