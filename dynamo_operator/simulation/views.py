"""What a process sees of a kind while its API server lags behind: an older state of it.

A lagging server is one that real clusters have: its watch cache stands at an older version, so
watches show nothing newer, and lists that take any version (`resourceVersion=0`) or one that it has
are answered from there. Gets, writes and lists without a version ask the store, and see what is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from dynamo_operator.apiserver.storage import Storage, StorageKey
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.simulation.answers import refused
from dynamo_operator.simulation.history import Call
from dynamo_operator.simulation.plans import Fail

_TOO_LARGE = "Too large resource version: {wanted}, current: {version}"
_NO_WATCH_LIST = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch"


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """An older state of some kinds.

    Args:
        resource: pattern of plurals.
        version: that the view stands at.
        events: what is older than so many later changes of its kind shows all the same; None:
            nothing that is newer than `version`.
        is_old_server: whether its server is of a version that cannot send initial events, so that
            whoever begins there begins with a list.
    """

    resource: str
    version: int
    events: int | None = None
    is_old_server: bool = False

    def is_about(self, call: Call) -> bool:
        """Whether a call reads one of the kinds."""
        return fnmatchcase(call.resource[1], self.resource)

    def shows(self, storage: Storage, resource: StorageKey, line: bytes) -> bool:
        """Whether an event is to be seen yet."""
        version = version_of(line)
        if version <= self.version:
            return True
        if self.events is None:
            return False
        if version < storage.compacted_version:
            return True
        return len(storage.changes_after(resource, version)) >= self.events

    def asked(
        self, request: HttpRequest, call: Call, storage: Storage
    ) -> HttpRequest | HttpResponse:
        """Return the request as the lagging server takes it, or its refusal."""
        query = dict(request.query)
        version = query.get("resourceVersion", "")
        if call.verb == "watch":
            if self.is_old_server and query.get("sendInitialEvents") == "true":
                return refused(Fail(code=422), _NO_WATCH_LIST)
            return request
        if call.verb != "list" or not version or "continue" in query:
            return request
        if query.get("resourceVersionMatch") == "Exact":
            return request
        here = self._version_for(storage, call.resource)
        if version.isdigit() and int(version) > here:
            text = _TOO_LARGE.format(wanted=version, version=here)
            return refused(Fail(code=504, reason="Timeout"), text)
        if here <= storage.compacted_version or here >= storage.resource_version:
            return request
        return replace(request, query=_at(request.query, here))

    def _version_for(self, storage: Storage, resource: StorageKey) -> int:
        """Return the version that a list shows."""
        if self.events is None or self.version < storage.compacted_version:
            return self.version
        later = storage.changes_after(resource, self.version)
        shown = later[: max(0, len(later) - self.events)]
        return shown[-1].resource_version if shown else self.version


def version_of(line: bytes) -> int:
    """Return the resource version of a watch event; 0 of an error."""
    try:
        found = json.loads(line)["object"]["metadata"].get("resourceVersion", "")
    except (ValueError, KeyError, TypeError):
        return 0
    return int(found) if str(found).isdigit() else 0


def _at(query: Sequence[tuple[str, str]], version: int) -> list[tuple[str, str]]:
    kept = [
        (name, value)
        for name, value in query
        if name not in ("resourceVersion", "resourceVersionMatch")
    ]
    return [*kept, ("resourceVersion", str(version)), ("resourceVersionMatch", "Exact")]
