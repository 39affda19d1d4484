"""What must hold in every run of an operator, whatever happens to it.

I1   Converges, EndsAs      the end is that of the run without faults
I2   Quiet, NoHotLoop       no write where nothing is to do; nothing written over and over
I3   AtMostOne              one child each, over all of history
I4   NoForeignTouch         nothing of others is changed; deletions name the instance
I5   NoLeak                 nothing is left of an owner that is gone
I6   StatusForward          phases, generations and times never go back
I7   StatusTrue             what a status claims is so
I8   SingleWriter           who does not lead does not write
I9   HonoursRetryAfter,     servers in trouble are left alone
     RetryEconomy
I10  Observed               every generation is observed, without a resync's help
I11  Quiet                  a new process finds nothing to write either
I12  OneAtATime             no key is reconciled twice at once
I13  Observed               within seconds, beside an object that cannot be served
I14  CachesTrue             caches are what the server has
I15  Bounded                nothing piles up
I16  CleanStop              what ended sends nothing
I17  ErrorsSurface          refusals are told, not repeated
I18  NoClobber              what others wrote stays
I19  Confidential           nothing secret is told
I20  WriteMinimal           faults make no more objects than their absence
"""

from __future__ import annotations

from dynamo_operator.simulation.invariants.ends import (
    Bounded,
    CachesTrue,
    Converges,
    EndsAs,
    WriteMinimal,
)
from dynamo_operator.simulation.invariants.invariant import OPERATOR, Invariant, Rest, Silent
from dynamo_operator.simulation.invariants.ownership import (
    AtMostOne,
    Justified,
    NoClobber,
    NoForeignTouch,
    NoLeak,
)
from dynamo_operator.simulation.invariants.statuses import (
    ErrorsSurface,
    Observed,
    StatusForward,
    StatusTrue,
)
from dynamo_operator.simulation.invariants.traffic import (
    CleanStop,
    Confidential,
    HonoursRetryAfter,
    NoHotLoop,
    OneAtATime,
    Permitted,
    Quiet,
    RetryEconomy,
    SingleWriter,
)

STANDARD: tuple[Invariant, ...] = (
    Quiet(),
    NoHotLoop(),
    HonoursRetryAfter(),
    RetryEconomy(),
    OneAtATime(),
    CachesTrue(),
    Bounded(),
    CleanStop(),
    NoClobber(),
)
"""What holds for every operator; each run works on copies."""

__all__ = [
    "OPERATOR",
    "STANDARD",
    "AtMostOne",
    "Bounded",
    "CachesTrue",
    "CleanStop",
    "Confidential",
    "Converges",
    "EndsAs",
    "ErrorsSurface",
    "HonoursRetryAfter",
    "Invariant",
    "Justified",
    "NoClobber",
    "NoForeignTouch",
    "NoHotLoop",
    "NoLeak",
    "Observed",
    "OneAtATime",
    "Permitted",
    "Quiet",
    "Rest",
    "RetryEconomy",
    "Silent",
    "SingleWriter",
    "StatusForward",
    "StatusTrue",
    "WriteMinimal",
]
