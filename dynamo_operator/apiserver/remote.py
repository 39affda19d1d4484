"""What is asked outside the server before a request can go on.

Handlers never await, so that what they read and what they commit belong together. A handler that
needs an answer from a webhook raises `Unanswered`; the questions are asked, and the handler runs
again from its beginning, now knowing. It then sees the store as it is: when an object changed while
a webhook was asked about it, the new state is another question. What a handler draws at random and
the time that it sees stay the same from one run to the next. What follows a commit is run again by
itself (`after_commit`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from dynamo_operator.apiserver.calls import Call
from informers.clock import Clock, Random

T = TypeVar("T")

Question = Callable[[], Awaitable[None]]
"""Asks, and remembers the answer where the handler will look for it."""


class Unanswered(Exception):
    """Raised by a handler that cannot go on before these questions are answered."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(f"{len(questions)} questions are unanswered")
        self._questions = questions
        self.rest: Callable[[], Any] | None = None
        """What to run then, in place of the whole handler."""

    async def ask(self) -> None:
        """Ask all questions at once.

        Raises:
            StatusError: one cannot be answered.
        """
        if len(self._questions) == 1:
            await self._questions[0]()
            return
        try:
            async with asyncio.TaskGroup() as group:
                for question in self._questions:
                    group.create_task(_awaited(question))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None


async def settled(handler: Callable[[Call], T], call: Call) -> T:
    """Run a handler until nothing is unanswered."""
    clock, tape = _HeldClock(call.world.clock), _Tape.of(call.world.random)
    call.world = replace(call.world, clock=clock, random=tape)
    warnings = len(call.warnings)
    run: Callable[[], T] = partial(handler, call)
    while True:
        try:
            result = run()
        except Unanswered as unanswered:
            if unanswered.rest is not None:
                run = unanswered.rest
                await unanswered.ask()
                continue
            del call.warnings[warnings:]
            tape.rewind()
            await unanswered.ask()
        else:
            clock.release()
            return result


def after_commit(rest: Callable[[], T]) -> T:
    """Do what is left of a handler that has committed something, which it must not do again."""
    try:
        return rest()
    except Unanswered as unanswered:
        unanswered.rest = rest
        raise


async def _awaited(question: Question) -> None:
    await question()


class _HeldClock:
    """Shows one moment until it is released."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moment: datetime | None = clock.now()

    def now(self) -> datetime:
        return self._moment or self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def release(self) -> None:
        self._moment = None


class _Tape(Random):
    """Draws from another generator, and the same again after each rewind."""

    _source: Random
    _bits: list[int]
    _floats: list[float]

    @classmethod
    def of(cls, source: Random) -> _Tape:
        tape = cls(0)
        tape._source = source
        tape._bits, tape._floats = [], []
        tape.rewind()
        return tape

    def rewind(self) -> None:
        self._next_bits = self._next_float = 0

    def getrandbits(self, k: int, /) -> int:
        if self._next_bits == len(self._bits):
            self._bits.append(self._source.getrandbits(k))
        self._next_bits += 1
        return self._bits[self._next_bits - 1] & ((1 << k) - 1)

    def random(self) -> float:
        if self._next_float == len(self._floats):
            self._floats.append(self._source.random())
        self._next_float += 1
        return self._floats[self._next_float - 1]
