"""What happens in a run beside the ordinary: faults, and the moments at which they happen.

A plan is data: it goes to JSON and back, and a run with the same scenario, seed, schedule and
faults is the same run, step by step.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from dynamo_operator.simulation.decisions import (
    Decisions,
    Prioritized,
    Replayed,
    Schedule,
    Shuffled,
)
from dynamo_operator.simulation.history import Call
from dynamo_operator.simulation.weather import Weather
from informers.clock import Random

Phase = Literal["before", "applied", "after"]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class At(_Data):
    """A moment of a run: a call, or a time. Texts are patterns as of shells, matched whole.

    Args:
        seconds: of virtual time, from the begin of the run; the rest is about calls then, and not
            looked at, but for the actor.
        actor: who calls; the name of a process without its incarnation.
        verb: get, list, watch, create, update, patch, apply, delete, deletecollection.
        resource: plural, with a subresource after a slash: `jobs`, `runs/status`.
        name: of the object, `namespace/name` or the name of a cluster-wide one; "" for collections.
        occurrence: which of the calls that match, from 1; 0 for each.
        phase: `before` the server is given the call, when it has `applied` it and the answer is on
            its way, or `after` the caller has the answer.
        event: of a watch the number of the event, from 1, initial ones included; 0 is its opening.
    """

    seconds: float | None = None
    actor: str = "operator*"
    verb: str = "*"
    resource: str = "*"
    name: str = "*"
    occurrence: int = 1
    phase: Phase = "before"
    event: int = 0

    def matches(self, call: Call) -> bool:
        """Whether it is such a call, whichever its number."""
        return (
            self.seconds is None
            and fnmatchcase(call.actor, self.actor)
            and fnmatchcase(call.verb, self.verb)
            and fnmatchcase(resource_of(call), self.resource)
            and fnmatchcase(name_of(call), self.name)
        )

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"at {self.seconds:g} s"
        number = f"#{self.occurrence}" if self.occurrence else "(each)"
        event = f" event {self.event}" if self.event else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.phase} {self.actor}: {self.verb} {self.resource}{name} {number}{event}"


def at(call: Call, phase: Phase = "before", *, event: int = 0) -> At:
    """Return the moment of exactly this call."""
    return At(
        actor=call.actor,
        verb=call.verb,
        resource=resource_of(call),
        name=_escaped(name_of(call)),
        occurrence=call.occurrence,
        phase=phase,
        event=event,
    )


def resource_of(call: Call) -> str:
    """Return plural and subresource, as `At.resource` has them."""
    plural = call.resource[1]
    return f"{plural}/{call.subresource}" if call.subresource else plural


def name_of(call: Call) -> str:
    """Return the object's key, as `At.name` has it."""
    return "/".join(part for part in (call.key.namespace, call.key.name) if part)


def _escaped(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


class _Deed(_Data):
    do: str

    @model_serializer(mode="wrap")
    def _with_its_name(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"do": self.do, **serialize(self)}


class Kill(_Deed):
    """The process is gone in the middle of what it does; no `finally` of it runs.

    Args:
        restart_after: seconds until it is started again; None leaves that to the healing.
        behind: for a restart on an API server that is behind: how many of the latest changes it
            does not know yet; it learns of them within a minute.
    """

    do: Literal["kill"] = "kill"
    restart_after: float | None = 1.0
    behind: int = 0


class Terminate(_Deed):
    """The process is told to stop (SIGTERM), stops in good order, and is started again."""

    do: Literal["terminate"] = "terminate"
    restart_after: float | None = 1.0


class Pause(_Deed):
    """Nothing of the process runs for a while, as when its machine is frozen (SIGSTOP)."""

    do: Literal["pause"] = "pause"
    seconds: float


class Overlap(_Deed):
    """One more process of the operator runs for a while, whoever leads: two leaders.

    Args:
        seconds: until it is terminated.
    """

    do: Literal["overlap"] = "overlap"
    seconds: float = 60.0


class Partition(_Deed):
    """The process does not reach the API server.

    Args:
        seconds: how long; None until the healing.
        resource: pattern of what is cut off only, e.g. `leases`; with a `!` before it: all but.
        silent: whether packets vanish, so that calls wait for their deadline and watches go
            silent; else connections are refused, and watches reset.
    """

    do: Literal["partition"] = "partition"
    seconds: float | None = 30.0
    resource: str = "*"
    silent: bool = False


class Fail(_Deed):
    """The call is answered with an error.

    Args:
        code: HTTP status.
        reason: of the Status; by default the usual one of the code.
        retry_after: the header's text, "" for none.
        applied: whether the server did nevertheless what was asked.
    """

    do: Literal["fail"] = "fail"
    code: int
    reason: str = ""
    retry_after: str = ""
    applied: bool = False


class Lose(_Deed):
    """The connection breaks.

    Args:
        what: the `connection` cannot be made, the `request` is lost on its way, or the `answer` is;
            the caller of a write cannot tell the last two apart.
    """

    do: Literal["lose"] = "lose"
    what: Literal["connection", "request", "answer"]


class Delay(_Deed):
    """The call takes longer; `before`: to the server, else: the answer. Of a watch: the event.

    Whoever called may have given up or be dead when the request arrives: it is done all the same.
    """

    do: Literal["delay"] = "delay"
    seconds: float


class Hang(_Deed):
    """The request vanishes, and the connection stays open: the caller waits for its deadline."""

    do: Literal["hang"] = "hang"


class Garble(_Deed):
    """The answer's body is not what it should be, though the status is.

    Args:
        body: `truncated` in the middle and then cut off, a proxy's `html`, or `empty`.
    """

    do: Literal["garble"] = "garble"
    body: Literal["truncated", "html", "empty"] = "html"


class Cut(_Deed):
    """A watch ends before the event.

    Args:
        how: in good order (`end`), by a `reset`, in the `middle` of the event's line, by an ERROR
            event that says 410 (`expired`) or 500 (`error`).
    """

    do: Literal["cut"] = "cut"
    how: Literal["end", "reset", "middle", "expired", "error"] = "end"


class Drop(_Deed):
    """A watch loses events and does not say so, which no correct server does.

    Args:
        events: how many, from the one at which this happens.
    """

    do: Literal["drop"] = "drop"
    events: int = 1


class Duplicate(_Deed):
    """A watch delivers the event twice."""

    do: Literal["duplicate"] = "duplicate"


class Stall(_Deed):
    """A watch says nothing for a while, not even bookmarks; then everything at once."""

    do: Literal["stall"] = "stall"
    seconds: float


class Freeze(_Deed):
    """The process sees a kind as it is now and no newer: its watches and its stale lists.

    Args:
        resource: pattern of plurals; empty: of what the call is about.
        seconds: how long; None until the healing.
        events: it sees what is older than so many later events of the kind; None: nothing.
    """

    do: Literal["freeze"] = "freeze"
    resource: str = ""
    seconds: float | None = 30.0
    events: int | None = None


class Compact(_Deed):
    """The API server forgets its history: watches from before are answered 410.

    Args:
        keep: how many of the latest versions stay.
    """

    do: Literal["compact"] = "compact"
    keep: int = 0


class Delete(_Deed):
    """A user deletes an object, and perhaps makes it anew under the same name.

    Args:
        resource: plural.
        name: `namespace/name`, may be a pattern; the first that matches is meant.
        propagation: Background, Foreground or Orphan.
        recreate: whether the same object is created again as soon as it is gone: with another UID.
        force: whether finalizers are taken off it.
    """

    do: Literal["delete"] = "delete"
    resource: str
    name: str = "*"
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    recreate: bool = False
    force: bool = False


class Touch(_Deed):
    """Somebody else writes an object, which gets a new resource version.

    Args:
        resource: plural.
        name: `namespace/name`, may be a pattern; the first that matches is meant. Empty: the object
            that the call is about.
    """

    do: Literal["touch"] = "touch"
    resource: str = ""
    name: str = ""


class Jump(_Deed):
    """The process' wall clock is set forward or back; its monotonic one is not."""

    do: Literal["jump"] = "jump"
    seconds: float


class Perform(_Deed):
    """One of the scenario's own `actions` happens.

    Args:
        action: its name.
    """

    do: Literal["perform"] = "perform"
    action: str


ProcessFault = Kill | Terminate | Pause | Overlap | Partition | Freeze | Jump
CallFault = Fail | Lose | Delay | Hang | Garble
WatchFault = Cut | Drop | Duplicate | Stall
WorldFault = Compact | Delete | Touch | Perform
Deed = Annotated[ProcessFault | CallFault | WatchFault | WorldFault, Field(discriminator="do")]
"""What happens. Faults of calls and watches need a call as their moment."""


class Fault(_Data):
    """Something that happens at a moment."""

    at: At
    do: Deed

    def __str__(self) -> str:
        return f"{describe(self.do)} {self.at}"


class Order(_Data):
    """How it is decided which of several ready callbacks goes on.

    Args:
        by: `arrival` is asyncio's own order; `chance` lets another one go first now and then;
            `priority` gives tasks random priorities that change at few moments (PCT).
        rate: how often chance has a say, from 0 to 1.
        changes: how often priorities change in a run.
    """

    by: Literal["arrival", "chance", "priority"] = "arrival"
    rate: float = Field(default=0.1, ge=0, le=1)
    changes: int = Field(default=3, ge=0)

    def schedule(self, random: Random) -> Schedule | None:
        """Return what decides; None for the order of arrival."""
        match self.by:
            case "chance":
                return Shuffled(random, self.rate)
            case "priority":
                return Prioritized(random, changes=self.changes)
        return None

    @classmethod
    def drawn(cls, random: Random) -> Order:
        """Draw one."""
        return cls(
            by=random.choice(("arrival", "chance", "chance", "priority")),
            rate=random.choice((0.02, 0.1, 0.5, 1.0)),
            changes=random.randrange(1, 6),
        )


class Plan(_Data):
    """A run's deviations from the ordinary.

    Args:
        faults: what happens, and when.
        seed: of everything in the run that is random.
        weather: faults at random, in addition.
        order: of callbacks.
        tape: the decisions in which the order of callbacks differs from that of arrival, in place
            of `order`: number of the decision, and position of who went on.
    """

    faults: tuple[Fault, ...] = ()
    seed: int = 0
    weather: Weather | None = None
    order: Order = Order()
    tape: dict[int, int] = {}

    @classmethod
    def drawn(cls, seed: int) -> Plan:
        """Draw everything at random: which kinds of faults there are, how often, and the order."""
        random = Decisions(seed).random("plan")
        return cls(seed=seed, weather=Weather.drawn(random), order=Order.drawn(random))

    def schedule(self) -> Schedule | None:
        """Return what decides who goes on; None for the order of arrival."""
        if self.tape:
            return Replayed(self.tape)
        return self.order.schedule(Decisions(self.seed).random("order"))

    @property
    def decisions(self) -> int:
        """How much it deviates: its faults, and its entries on the tape."""
        return len(self.faults) + len(self.tape)

    def to_json(self) -> str:
        """Return it as JSON, defaults left out."""
        return self.model_dump_json(exclude_defaults=True)


class Recording(_Data):
    """A plan, and each step of the run that it made.

    Args:
        plan: that was run.
        trail: the steps, a line each.
    """

    plan: Plan
    trail: tuple[str, ...] = ()


def describe(deed: BaseModel) -> str:
    """Say in a few words what happens."""
    details = [
        str(value)
        for name, value in deed.model_dump(exclude_defaults=True).items()
        if name != "do" and value not in ("", None)
    ]
    return " ".join([str(getattr(deed, "do", "")), *details])


def note(call: Call, deed: BaseModel) -> None:
    """Write down at a call what happened to it."""
    told = describe(deed)
    call.fault = f"{call.fault}, {told}" if call.fault else told
