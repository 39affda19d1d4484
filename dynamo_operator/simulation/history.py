"""Everything that was asked of an API server and everything that it committed, in order.

A `Call` is one request of one process, recorded when the process sends it, whatever becomes of it.
A `Commit` is one change of the store; it knows the call that caused it, because the server works in
the task of whoever asks: what is committed inside `History.calling(call)` was asked by that call.

A call's identifier says which of a run's calls it is without counting the others, so that the same
identifier finds the same call in a run that a fault has changed:

    operator: create jobs/default/llama-1 #1
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.routes import RequestInfo, parse_route
from dynamo_operator.apiserver.storage import Change, Storage, StorageKey
from dynamo_operator.runtime.client.http import HttpRequest
from informers.objects import ObjectKey

WRITE_VERBS = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})
READ_VERBS = frozenset({"get", "list", "watch"})
LEASES: StorageKey = ("coordination.k8s.io", "leases")
EVENTS: StorageKey = ("events.k8s.io", "events")

INTRUDER = "intruder"
"""The actor that deletes, and makes anew, what a plan says."""
WAITED_IN_VAIN = "waited in vain"
"""What a workload marks when it goes on although what it waited for has not come about."""

_APPLY = "application/apply-patch+yaml"
_VERBS = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


@dataclass(slots=True)
class Call:
    """One request of one process.

    Args:
        number: counts a run's calls from 1.
        actor: the process' name; the same after a restart.
        incarnation: counts the actor's starts from 1.
        verb: get, list, watch, create, update, patch, apply, delete, deletecollection; of what is
            not about a resource the lower-case method.
        resource: group and plural; ("", "") of what is not about a resource.
        subresource: e.g. status, or "".
        key: of the object; the name of a create is the one in its body.
        occurrence: counts the calls of this actor, verb, resource, subresource and key, from 1.
        sent_seconds: virtual time at which the process sent it.
        path: of the request.
        query: of the request, in order.
        body: what was sent, None when it is no JSON object.
        reconcile: controller, key and identifier of the reconcile that asked, None outside of one.
    """

    number: int
    actor: str
    incarnation: int
    verb: str
    resource: StorageKey
    subresource: str
    key: ObjectKey
    occurrence: int
    sent_seconds: float
    path: str = ""
    query: Sequence[tuple[str, str]] = ()
    body: Mapping[str, Any] | None = None
    reconcile: Reconcile | None = None
    code: int = 0
    """Status of the answer that the process got; 0 while there is none, and when there never is."""
    reason: str = ""
    """Of a refusal, the Status' reason."""
    answered_seconds: float | None = None
    retry_after_seconds: float | None = None
    """What the answer asked for; None when it did not."""
    commits: list[Commit] = field(default_factory=list)
    fault: str = ""
    """What the network did to it, in words; empty for nothing."""

    @property
    def is_write(self) -> bool:
        """Whether it can change something, dry runs excepted."""
        return self.verb in WRITE_VERBS and ("dryRun", "All") not in self.query

    @property
    def id(self) -> str:
        """Identify the call within its run, and the same call in a similar run."""
        return f"{self.actor}: {self.what} #{self.occurrence}"

    @property
    def what(self) -> str:
        """Say what was asked of which object, e.g. `patch jobs/default/a/status`."""
        return what(self.verb, self.resource, self.subresource, self.key) or self.path

    def __str__(self) -> str:
        answer = str(self.code) if self.code else "no answer"
        fault = f" ({self.fault})" if self.fault else ""
        return (
            f"{self.sent_seconds:.3f} {self.actor}/{self.incarnation} {self.what}: {answer}{fault}"
        )


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Which attempt at which key of which controller."""

    controller: str
    key: ObjectKey
    id: str


@dataclass(frozen=True, slots=True)
class Commit:
    """One change of the store.

    Args:
        resource_version: that it made.
        seconds: virtual time.
        actor: whose call made it; "cluster" when no process is known.
        incarnation: likewise; 0 then.
        verb: create, update or delete: what it meant for the object.
        resource: group and plural.
        key: of the object.
        before: the object as it was; None of a create.
        after: as it is; None of a delete.
        call: that caused it, if one is known.
    """

    resource_version: int
    seconds: float
    actor: str
    incarnation: int
    verb: str
    resource: StorageKey
    key: ObjectKey
    before: Object | None
    after: Object | None
    call: Call | None = None

    @property
    def object(self) -> Object:
        """The object: as it is, or of a delete as it was."""
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found

    @property
    def uid(self) -> str:
        """UID of the object."""
        return str(self.object["metadata"].get("uid", ""))

    @property
    def what(self) -> str:
        """Say what became of which object."""
        return what(self.verb, self.resource, "", self.key)

    def __str__(self) -> str:
        return f"version {self.resource_version}, {self.seconds:.3f} s: {self.actor} {self.what}"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened to a process: started, killed, stopped, led, deposed, healed, ...

    Args:
        seconds: virtual time.
        actor: the process' name, or "world".
        incarnation: counts the actor's starts; 0 for the world.
        what: one word of those above, or the description of a fault.
    """

    seconds: float
    actor: str
    incarnation: int
    what: str


OnCommit = Callable[[Commit], None]
OnCall = Callable[[Call], None]
OnMark = Callable[[Mark], None]

_calling: ContextVar[Call | None] = ContextVar("calling", default=None)


class History:
    """The calls, commits and marks of one run.

    Args:
        clock: returns the virtual time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.calls: list[Call] = []
        self.commits: list[Commit] = []
        self.marks: list[Mark] = []
        self._clock = clock
        self._occurrences: Counter[tuple[str, str, StorageKey, str, ObjectKey]] = Counter()
        self._on_commit: list[OnCommit] = []
        self._on_call: list[OnCall] = []
        self._on_mark: list[OnMark] = []
        self._objects: dict[StorageKey, dict[ObjectKey, Object]] = {}
        self._uids: dict[str, tuple[StorageKey, ObjectKey]] = {}

    def follow(self, storage: Storage) -> None:
        """Record every commit from now on; what is there already counts as committed."""
        for resource in storage.storage_keys():
            table = self._objects.setdefault(resource, {})
            for stored in storage.objects(resource):
                key = ObjectKey(stored.namespace, stored.name)
                table[key] = stored.value
                self._uids[stored.value["metadata"].get("uid", "")] = resource, key
        storage.on_commit(self._committed)

    def subscribe(
        self,
        on_commit: OnCommit | None = None,
        on_call: OnCall | None = None,
        on_mark: OnMark | None = None,
    ) -> None:
        """Call back after each commit, after each call was answered or given up, at each mark."""
        if on_commit is not None:
            self._on_commit.append(on_commit)
        if on_call is not None:
            self._on_call.append(on_call)
        if on_mark is not None:
            self._on_mark.append(on_mark)

    def called(
        self,
        request: HttpRequest,
        *,
        actor: str,
        incarnation: int = 1,
        reconcile: Reconcile | None = None,
    ) -> Call:
        """Record that a process sends a request; `answered` ends the call."""
        info = parse_route(
            request.method, unquote(request.path), watch=("watch", "true") in request.query
        )
        body = _object_in(request.body)
        verb = _verb_of(request, info)
        resource = (info.group, info.plural) if info.is_resource else ("", "")
        key = ObjectKey(info.namespace, info.name or _name_in(verb, body))
        place = actor, verb, resource, info.subresource, key
        if not info.is_resource:
            place = actor, verb, resource, request.path, key
        self._occurrences[place] += 1
        call = Call(
            number=len(self.calls) + 1,
            actor=actor,
            incarnation=incarnation,
            verb=verb,
            resource=resource,
            subresource=info.subresource,
            key=key,
            occurrence=self._occurrences[place],
            sent_seconds=self._clock(),
            path=request.path,
            query=tuple(request.query),
            body=body,
            reconcile=reconcile,
        )
        self.calls.append(call)
        return call

    @contextmanager
    def calling(self, call: Call) -> Iterator[None]:
        """Attribute what is committed in this block, in this task, to a call."""
        token = _calling.set(call)
        try:
            yield
        finally:
            _calling.reset(token)

    def answered(
        self,
        call: Call,
        code: int,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        fault: str = "",
    ) -> None:
        """Record what a process learnt of its call.

        Args:
            call: that `called` returned.
            code: of the answer; 0 when there is none.
            headers: of the answer, names in lower case.
            body: of the answer; read when it is a refusal.
            fault: what the network did, in words.
        """
        call.code = code
        call.answered_seconds = self._clock()
        call.fault = fault or call.fault
        call.retry_after_seconds = _seconds((headers or {}).get("retry-after", ""))
        if code >= 400:
            call.reason = str((_object_in(body) or {}).get("reason", ""))
        for callback in self._on_call:
            callback(call)

    def mark(self, what: str, *, actor: str = "world", incarnation: int = 0) -> None:
        """Record that something happened to a process, or to the world."""
        mark = Mark(self._clock(), actor, incarnation, what)
        self.marks.append(mark)
        for callback in self._on_mark:
            callback(mark)

    def objects(self, resource: StorageKey) -> Mapping[ObjectKey, Object]:
        """Return the current objects of a resource; not to be changed."""
        return self._objects.get(resource, {})

    def resources(self) -> Sequence[StorageKey]:
        """Return the resources that have objects, sorted."""
        return sorted(resource for resource, table in self._objects.items() if table)

    def living(self, uid: str) -> Object | None:
        """Return the object of a UID, if it exists now."""
        place = self._uids.get(uid)
        if place is None:
            return None
        found = self.objects(place[0]).get(place[1])
        return found if found is not None and found["metadata"].get("uid") == uid else None

    def calls_of(self, actor: str = "", *, incarnation: int | None = None) -> list[Call]:
        """Return the calls of an actor, of all actors by default."""
        return [
            call
            for call in self.calls
            if (not actor or call.actor == actor)
            and (incarnation is None or call.incarnation == incarnation)
        ]

    def _committed(self, resource: StorageKey, change: Change) -> None:
        call = _calling.get()
        stored = change.object
        key = ObjectKey(stored.namespace, stored.name)
        is_delete = change.type == "DELETED"
        commit = Commit(
            resource_version=change.resource_version,
            seconds=self._clock(),
            actor=call.actor if call else "cluster",
            incarnation=call.incarnation if call else 0,
            verb=_VERBS[change.type],
            resource=resource,
            key=key,
            before=change.previous.value if change.previous else None,
            after=None if is_delete else stored.value,
            call=call,
        )
        table = self._objects.setdefault(resource, {})
        if is_delete:
            table.pop(key, None)
        else:
            table[key] = stored.value
            self._uids[commit.uid] = resource, key
        if call is not None:
            call.commits.append(commit)
        self.commits.append(commit)
        for callback in self._on_commit:
            callback(commit)


def what(verb: str, resource: StorageKey, subresource: str, key: ObjectKey) -> str:
    """Say what is done to which object; empty for what is not about a resource."""
    if not resource[1]:
        return ""
    parts = (resource[1], key.namespace, key.name, subresource)
    return f"{verb} {'/'.join(part for part in parts if part)}"


def _verb_of(request: HttpRequest, info: RequestInfo) -> str:
    headers = {name.lower(): value for name, value in request.headers.items()}
    if info.verb == "patch" and headers.get("content-type", "") == _APPLY:
        return "apply"
    return info.verb


def _name_in(verb: str, body: Mapping[str, Any] | None) -> str:
    metadata = (body or {}).get("metadata")
    if verb != "create" or not isinstance(metadata, Mapping):
        return ""
    return str(metadata.get("name") or metadata.get("generateName") or "")


def _object_in(body: bytes | None) -> Mapping[str, Any] | None:
    if not body:
        return None
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
