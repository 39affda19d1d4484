"""What an invariant is, and what it is shown of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.simulation.end_state import Reference
from dynamo_operator.simulation.history import Call, Commit, History
from informers.objects import ObjectKey

OPERATOR = "operator"
"""How the names of all operator processes begin; others are users, or of the cluster."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A run whose faults are healed and that has settled, or should have.

    Args:
        history: of the whole run.
        quiet_since: virtual time since which nothing has been left to do.
        reference: what the same scenario came to without faults; None of that very run.
        caches: what each living operator process has cached: resource versions by object.
        leftovers: what each living operator process still holds, by name: tasks, queued keys, ...
        lines: what operator processes logged.
    """

    history: History
    quiet_since: float
    reference: Reference | None = None
    caches: Mapping[str, Mapping[StorageKey, Mapping[ObjectKey, str]]] = field(default_factory=dict)
    leftovers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    lines: Sequence[str] = ()


@runtime_checkable
class Invariant(Protocol):
    """Something that must hold; each run works on a copy of its own.

    Each method yields what is broken, in words, one line each.
    """

    name: str
    """Identifies it in reports and when a failing plan is shrunk, e.g. "I3 one Job each Run"."""

    def on_commit(self, commit: Commit, history: History) -> Iterable[str]:
        """Look at a change as it is committed; the history has it already."""

    def on_call(self, call: Call, history: History) -> Iterable[str]:
        """Look at a call as it is answered."""

    def at_rest(self, rest: Rest) -> Iterable[str]:
        """Look at the end of a run."""


class Silent:
    """An invariant that looks at nothing, for others to begin with."""

    name = ""

    def on_commit(self, commit: Commit, history: History) -> Iterable[str]:
        """Find nothing."""
        return ()

    def on_call(self, call: Call, history: History) -> Iterable[str]:
        """Find nothing."""
        return ()

    def at_rest(self, rest: Rest) -> Iterable[str]:
        """Find nothing."""
        return ()


def is_operator(actor: str) -> bool:
    """Whether an actor is an operator process."""
    return actor.startswith(OPERATOR)


def storage_key(kind: type[KubeModel] | StorageKey) -> StorageKey:
    """Return group and plural of a kind."""
    if isinstance(kind, tuple):
        return kind
    return kind.resource_type.group, kind.resource_type.plural


def controller_uid(obj: Object) -> str:
    """Return the UID of an object's controller, or ""."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((str(r["uid"]) for r in references if r.get("controller")), "")


def status_of(obj: Object | None) -> Mapping[str, Any]:
    """Return an object's status, empty when there is none."""
    return (obj or {}).get("status") or {}


def conditions_of(obj: Object | None) -> dict[str, Mapping[str, Any]]:
    """Return an object's conditions by type."""
    return {str(c.get("type")): c for c in status_of(obj).get("conditions") or ()}
