"""Invariants about whose an object is, and how many there ever were."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.simulation.history import EVENTS, INTRUDER, LEASES, Call, Commit, History
from dynamo_operator.simulation.invariants.invariant import (
    Rest,
    Silent,
    controller_uid,
    is_operator,
    storage_key,
)
from informers.objects import ObjectKey

_OWN_PLACES = frozenset({EVENTS, LEASES, ("", "events")})


class AtMostOne(Silent):
    """I3: of a kind, each controller gets one object in the whole of history, or as `per` says.

    "One at the end" is not enough: a second one that is deleted again was made all the same.

    Args:
        kind: of the objects.
        per: "controller", or what returns by which the objects are counted ("" for not at all).
        again: whether there may be another one once somebody else has deleted the first, or what
            decides that by the deletion.
    """

    def __init__(
        self,
        kind: type[KubeModel] | StorageKey,
        per: Literal["controller"] | Callable[[Object], str] = "controller",
        *,
        again: bool | Callable[[Commit, History], bool] = False,
    ) -> None:
        self._resource = storage_key(kind)
        self._again = again if callable(again) else lambda commit, history: bool(again)
        self._per = controller_uid if per == "controller" else per
        self._first: dict[str, Commit] = {}
        self.name = f"I3 at most one of {self._resource[1]} each"

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Count what is created."""
        if commit.resource != self._resource:
            return
        of = self._per(commit.object)
        is_theirs = commit.verb == "delete" and not is_operator(commit.actor)
        if is_theirs and self._again(commit, history):
            self._first.pop(of, None)
        if commit.verb != "create":
            return
        first = self._first.setdefault(of, commit)
        if of and first.uid != commit.uid:
            yield f"{commit}: another one of {of}, which had {first.key} at {first.seconds:.3f} s"


class Justified(Silent):
    """I3: operators make, or delete, an object of a kind only for a reason that holds.

    Args:
        kind: of the objects.
        name: of the claim, e.g. "a Job is made only for a Run that goes on".
        wrong: returns why a commit is not justified, or "".
        verb: create or delete; a deletion counts when it begins.
    """

    def __init__(
        self,
        kind: type[KubeModel] | StorageKey,
        name: str,
        wrong: Callable[[Commit, History], str],
        *,
        verb: Literal["create", "delete"] = "create",
    ) -> None:
        self._resource = storage_key(kind)
        self._wrong = wrong
        self._verb = verb
        self.name = f"I3 {name}"

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Ask for the reason."""
        if commit.resource != self._resource or not is_operator(commit.actor):
            return
        if self._verb == "create":
            is_such = commit.verb == "create"
        else:
            is_such = commit.before is not None and _begins_deletion(commit)
        if is_such and (why := self._wrong(commit, history)):
            yield f"{commit}: {why}"


class NoForeignTouch(Silent):
    """I4: operators change only what belongs to the owner they reconcile, and delete only by UID.

    An object belongs to the owner that controls it, by UID. Once that is gone, its name and labels
    give nobody a right to the object; only finalizers may still be removed.

    Args:
        primaries: the kinds that operators reconcile; their own status and metadata are theirs.
        ownerless: resources of which operators make objects without an owner.
        is_own: whether an object that no primary controls is the operator's all the same.
    """

    name = "I4 nothing foreign is touched"

    def __init__(
        self,
        *primaries: type[KubeModel] | StorageKey,
        ownerless: Collection[StorageKey] = (),
        is_own: Callable[[Object, History], bool] = lambda obj, history: False,
    ) -> None:
        self._primaries = {storage_key(kind) for kind in primaries}
        self._free = _OWN_PLACES | set(ownerless)
        self._is_own = is_own
        self._owners: dict[str, ObjectKey] = {}
        self._put: dict[tuple[str, str], str] = {}

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Look whose the object is that an operator changed."""
        if commit.resource in self._primaries and commit.verb == "create":
            self._owners[commit.uid] = commit.key
        yield from self._removed_finalizers(commit)
        if not is_operator(commit.actor) or commit.resource in self._free:
            return
        if commit.verb == "create":
            if not controller_uid(commit.object) and not self._is_own(commit.object, history):
                yield f"{commit}: made without an owner"
            return
        is_status = commit.resource in self._primaries and not _is_deletion(commit)
        if not is_status and not _only_removes_finalizers(commit):
            yield from self._foreign(commit, history)

    def on_call(self, call: Call, history: History) -> Iterator[str]:
        """Look whether a deletion says which instance it means."""
        if not is_operator(call.actor) or call.resource in self._free:
            return
        if call.verb == "deletecollection":
            yield f"{call}: deletes whatever matches"
        elif call.verb == "delete":
            preconditions = (call.body or {}).get("preconditions") or {}
            if not preconditions.get("uid"):
                yield f"{call}: without the precondition on the UID"

    def _removed_finalizers(self, commit: Commit) -> Iterator[str]:
        """Note who puts finalizers, and tell those that an operator removes and others had put."""
        was, now = _finalizers(commit.before), _finalizers(commit.after)
        for name in now - was:
            self._put[commit.uid, name] = commit.actor
        if not is_operator(commit.actor):
            return
        if commit.after is None and not _only_removes_finalizers(commit):
            return
        for name in sorted(was - now):
            by = self._put.get((commit.uid, name), "")
            if by and not is_operator(by):
                yield f"{commit}: the finalizer {name} of {by} was removed"

    def _foreign(self, commit: Commit, history: History) -> Iterator[str]:
        assert commit.before is not None
        if self._is_own(commit.before, history):
            return
        uid = controller_uid(commit.before)
        owner = self._owners.get(uid)
        reconcile = commit.call.reconcile if commit.call else None
        if not uid:
            yield f"{commit}: no owner controls it"
        elif owner is None:
            yield f"{commit}: it belongs to {uid}, which is none of ours"
        elif reconcile is not None and owner != reconcile.key:
            yield f"{commit}: it belongs to {owner}, not to {reconcile.key}"
        elif not _is_deletion(commit) and self._has_successor(uid, owner, history):
            # Such a deletion names the instance, and does what the garbage collector will do.
            yield f"{commit}: it belongs to {owner} of an earlier time ({uid})"

    def _has_successor(self, uid: str, key: ObjectKey, history: History) -> bool:
        living = [history.objects(kind).get(key) for kind in self._primaries]
        uids = {obj["metadata"]["uid"] for obj in living if obj is not None}
        return bool(uids) and uid not in uids


class NoLeak(Silent):
    """I5: at rest nothing refers to an owner that is gone.

    Args:
        kinds: whose instances own something.
        labels: that hold an owner's UID; what somebody made anew by hand has them of its own.
    """

    name = "I5 nothing is left of what is gone"

    def __init__(self, *kinds: type[KubeModel] | StorageKey, labels: Collection[str] = ()) -> None:
        self._kinds = {storage_key(kind) for kind in kinds}
        self._labels = tuple(labels)
        self._gone: dict[str, str] = {}
        self._by_hand: set[str] = set()

    def on_commit(self, commit: Commit, history: History) -> Iterable[str]:
        """Remember who is gone, and what was made by hand."""
        if commit.verb == "create" and commit.actor == INTRUDER:
            self._by_hand.add(commit.uid)
        if commit.verb == "delete" and commit.resource in self._kinds:
            self._gone[commit.uid] = commit.key.name
        return ()

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Look for their UIDs."""
        for resource in rest.history.resources():
            for key, obj in rest.history.objects(resource).items():
                metadata = obj["metadata"]
                uids = {r["uid"] for r in metadata.get("ownerReferences") or ()}
                values = metadata.get("labels") or {}
                if metadata["uid"] not in self._by_hand:
                    uids |= {values[name] for name in self._labels if name in values}
                for uid in sorted(uids & self._gone.keys()):
                    yield f"{resource[1]} {key} is left of {self._gone[uid]} ({uid})"


class NoClobber(Silent):
    """I18: what others put into an object's labels, annotations and conditions stays.

    Who put what is what `managedFields` say.
    """

    name = "I18 what others wrote stays"
    _PLACES = (("f:metadata", "f:labels"), ("f:metadata", "f:annotations"))

    def on_commit(self, commit: Commit, history: History) -> Iterator[str]:
        """Compare what others own before and after an operator's change."""
        if not is_operator(commit.actor) or commit.verb != "update":
            return
        assert commit.before is not None
        assert commit.after is not None
        mine = _managers_by(commit)
        for place in self._PLACES:
            part = place[1].removeprefix("f:")
            was = commit.before["metadata"].get(part) or {}
            now = commit.after["metadata"].get(part) or {}
            for manager, fields in _managers_of(commit.before, place).items():
                if manager in mine:
                    continue
                for name in sorted(f.removeprefix("f:") for f in fields if f.startswith("f:")):
                    if name in was and now.get(name) != was[name]:
                        yield f"{commit}: {part} {name} of {manager} became {now.get(name)!r}"
        theirs = _conditions_of_others(commit.before, mine)
        left = {c["type"]: c for c in (commit.after.get("status") or {}).get("conditions") or ()}
        for kind, condition in theirs.items():
            if left.get(kind) != condition:
                yield f"{commit}: the condition {kind} of somebody else became {left.get(kind)}"


def _begins_deletion(commit: Commit) -> bool:
    assert commit.before is not None
    return _is_deletion(commit) and "deletionTimestamp" not in commit.before["metadata"]


def _is_deletion(commit: Commit) -> bool:
    if commit.after is None:
        return True
    assert commit.before is not None
    return (
        "deletionTimestamp" in commit.after["metadata"]
        and "deletionTimestamp" not in commit.before["metadata"]
    )


def _only_removes_finalizers(commit: Commit) -> bool:
    if commit.before is None:
        return False
    if commit.after is None:
        # The last finalizer of what was being deleted already.
        return "deletionTimestamp" in commit.before["metadata"]
    was, now = _finalizers(commit.before), _finalizers(commit.after)
    return now < was and commit.before.get("spec") == commit.after.get("spec")


def _finalizers(obj: Object | None) -> set[str]:
    return set(obj["metadata"].get("finalizers") or ()) if obj is not None else set()


def _managers_by(commit: Commit) -> set[str]:
    """Return the field managers as which the change was written."""
    query = commit.call.query if commit.call is not None else ()
    return {value for name, value in query if name == "fieldManager"}


def _managers_of(obj: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, set[str]]:
    """Return by manager the members that it owns of what is at a path."""
    found: dict[str, set[str]] = {}
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        fields: Any = entry.get("fieldsV1") or {}
        for part in path:
            fields = fields.get(part) or {}
        if fields:
            found.setdefault(entry.get("manager", ""), set()).update(fields)
    return found


def _conditions_of_others(obj: Object, mine: set[str]) -> dict[str, Any]:
    owned = _managers_of(obj, ("f:status", "f:conditions"))
    ours = {member for manager in mine for member in owned.get(manager, ())}
    theirs = {m for manager, members in owned.items() if manager not in mine for m in members}
    return {
        c["type"]: c
        for c in (obj.get("status") or {}).get("conditions") or ()
        if f'k:{{"type":"{c["type"]}"}}' in theirs - ours
    }
