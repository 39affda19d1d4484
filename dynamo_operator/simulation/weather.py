"""How often each kind of fault meets a call, drawn anew for every seed.

A swarm has a random subset of the kinds in each run, at random rates: a run in which everything
goes wrong hides what few faults do in a certain order.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from informers.clock import Random

_RATES = (0.01, 0.03, 0.1)
_DELAYS = (0.01, 0.5, 8.0)
_SHARES = (0.15, 0.3, 0.6)
_UPHEAVALS = frozenset({"killed", "terminated", "overlapped", "partitioned", "hanging"})
"""Kinds of which few go a long way."""


class Weather(BaseModel):
    """How often a call of an operator meets each kind of fault, from 0 to 1.

    Args:
        refused: 429, 500, 503: nothing was done.
        lost: the connection, the request or the answer.
        late: done, and answered 500 or 504.
        conflict: a change refused with 409.
        garbled: not what it should be.
        hanging: no answer at all.
        slow: delayed by up to `longest_delay_seconds` on its way; of a watch: each event.
        longest_delay_seconds: see `slow`.
        touched: somebody else writes the object just before.
        killed: the process is, at any phase of the call.
        terminated: likewise.
        paused: for up to a minute.
        overlapped: another process starts beside.
        partitioned: from all or from the Leases, for up to a minute.
        frozen: sees a kind late for up to two minutes.
        jumping: the wall clock is, by up to an hour.
        compacted: the server's history is.
        watch_cut: a watch ends before an event.
        watch_repeated: a watch delivers an event twice.
        watch_stalled: a watch says nothing for up to two minutes.
        most: how many faults there are in a run, delays not counted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    refused: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    conflict: float = 0.0
    garbled: float = 0.0
    hanging: float = 0.0
    slow: float = 0.0
    longest_delay_seconds: float = 1.0
    touched: float = 0.0
    killed: float = 0.0
    terminated: float = 0.0
    paused: float = 0.0
    overlapped: float = 0.0
    partitioned: float = 0.0
    frozen: float = 0.0
    jumping: float = 0.0
    compacted: float = 0.0
    watch_cut: float = 0.0
    watch_repeated: float = 0.0
    watch_stalled: float = 0.0
    most: int = Field(default=40, ge=0)

    @classmethod
    def drawn(cls, random: Random) -> Weather:
        """Draw a subset of the kinds, and their rates."""
        share = random.choice(_SHARES)
        rates: dict[str, float] = {}
        for name, field in cls.model_fields.items():
            if field.annotation is float and name != "longest_delay_seconds":
                rate = random.choice(_RATES) / (3 if name in _UPHEAVALS else 1)
                if random.random() < share:
                    rates[name] = rate
        return cls.model_validate({**rates, "longest_delay_seconds": random.choice(_DELAYS)})
