"""Who goes on next, and every other choice of a run: drawn from a seed, and noted on a tape.

A run's only source of randomness is `Decisions`. Streams of random numbers have names, so that a
run with one fault less draws the same numbers everywhere else. Which of several ready callbacks
goes on is decided by a schedule; the tape has each decision that differed from asyncio's own order,
by its number among those where there was a choice. An empty tape is asyncio's order.
"""

from __future__ import annotations

import hashlib
from asyncio import Handle
from collections.abc import Mapping, Sequence
from typing import Protocol

from informers.clock import Random

Tape = Mapping[int, int]
"""Number of a decision, and which of the ready callbacks went on: not the first one."""


class Schedule(Protocol):
    """Decides which of several ready callbacks goes on."""

    deviations: dict[int, int]
    """The tape so far."""

    def pick(self, ready: Sequence[Handle]) -> int:
        """Return the position of the one that goes on; there are at least two."""


class Decisions:
    """The randomness of one run.

    Args:
        seed: the same seed gives the same numbers.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def random(self, name: str) -> Random:
        """Return a stream of random numbers; the same name gives the same stream."""
        digest = hashlib.blake2b(f"{self.seed}/{name}".encode(), digest_size=16).digest()
        return Random(int.from_bytes(digest))


class Shuffled:
    """Lets another one than the first go on, now and then.

    Args:
        random: draws.
        rate: how often, from 0 to 1.
        remembers: whether there is a tape; a run of days has no use for it.
    """

    def __init__(self, random: Random, rate: float, *, remembers: bool = True) -> None:
        self.deviations: dict[int, int] = {}
        self._remembers = remembers
        self._random = random.random
        self._rate = rate
        self._made = -1

    def pick(self, ready: Sequence[Handle]) -> int:
        """Return any position."""
        self._made += 1
        if self._random() >= self._rate:
            return 0
        position = int(self._random() * len(ready))
        if position and self._remembers:
            self.deviations[self._made] = position
        return position


class Prioritized:
    """PCT: tasks have random priorities, which change at few random moments.

    A bug that needs `changes + 1` ordered steps is found with a probability that does not depend on
    how many other steps a run has: Burckhardt et al., "A Randomized Scheduler with Probabilistic
    Guarantees of Finding Bugs", ASPLOS 2010.

    Args:
        random: draws priorities and moments.
        changes: how many moments.
        decisions: about how many decisions a run has, for the moments.
    """

    def __init__(self, random: Random, *, changes: int = 3, decisions: int = 5_000) -> None:
        self.deviations: dict[int, int] = {}
        self._random = random
        self._priorities: dict[int, float] = {}
        self._moments = {random.randrange(decisions) for _ in range(changes)}
        self._lowest = 0.0
        self._made = -1

    def pick(self, ready: Sequence[Handle]) -> int:
        """Return the position of the task with the highest priority."""
        self._made += 1
        best, position, chosen = -1e9, 0, 0
        for place, handle in enumerate(ready):
            # What is no task only passes something on, and does so at once.
            number = _task_number(handle)
            priority = 2.0 if number is None else self._priority(number)
            if priority > best:
                best, position, chosen = priority, place, number or 0
        if self._made in self._moments:
            self._lowest -= 1.0
            self._priorities[chosen] = self._lowest
        if position:
            self.deviations[self._made] = position
        return position

    def _priority(self, number: int) -> float:
        found = self._priorities.get(number)
        if found is None:
            found = self._priorities[number] = self._random.random()
        return found


class Replayed:
    """Decides as a tape has it."""

    def __init__(self, tape: Tape) -> None:
        self.deviations: dict[int, int] = {}
        self._tape = tape
        self._made = -1

    def pick(self, ready: Sequence[Handle]) -> int:
        """Return the position that is on the tape; on a shorter queue the nearest."""
        self._made += 1
        position = self._tape.get(self._made, 0)
        if position:
            position = min(position, len(ready) - 1)
            self.deviations[self._made] = position
        return position


def _task_number(handle: Handle) -> int | None:
    owner = getattr(getattr(handle, "_callback", None), "__self__", None)
    return getattr(owner, "number", None)
