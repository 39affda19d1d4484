"""The audit log: every request as it was answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict, Unpack
from urllib.parse import parse_qs, urlsplit

from dynamo_operator.apiserver.messages import UserInfo

_CREATED = 201
WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_METHODS = {  # of what an audit event calls by its verb only
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "get": "GET",
    "list": "GET",
    "watch": "GET",
}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request.

    Args:
        stage: ResponseComplete, or ResponseStarted for a watch.
        impersonated_by: who really asked, where headers named another user.
        object_uid: of the object that was read or written, where there was one.
        annotations: what authorization and admission noted.
    """

    audit_id: str
    stage: str
    received: datetime
    answered: datetime
    user: UserInfo
    impersonated_by: UserInfo | None
    verb: str
    method: str
    request_uri: str
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    object_uid: str
    code: int
    reason: str
    user_agent: str
    source_address: str
    dry_run: bool
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_write(self) -> bool:
        """Whether the request could change something: dry runs cannot, nor questions."""
        asks = self.group in _REVIEW_GROUPS and self.resource.endswith("reviews")
        return self.verb in WRITE_VERBS and not self.dry_run and not asks

    def to_json(self) -> dict[str, Any]:
        """Return the entry as an audit.k8s.io/v1 Event."""
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.audit_id,
            "stage": self.stage,
            "requestURI": self.request_uri,
            "verb": self.verb,
            "user": _user(self.user),
            "sourceIPs": [self.source_address] if self.source_address else [],
            "userAgent": self.user_agent,
            "responseStatus": {"metadata": {}, "code": self.code},
            "requestReceivedTimestamp": _micro_time(self.received),
            "stageTimestamp": _micro_time(self.answered),
        }
        if self.reason:
            event["responseStatus"]["reason"] = self.reason
        if self.impersonated_by is not None:
            event["user"] = _user(self.impersonated_by)
            event["impersonatedUser"] = _user(self.user)
        if self.resource:
            reference = {
                "resource": self.resource,
                "namespace": self.namespace,
                "name": self.name,
                "uid": self.object_uid,
                "apiGroup": self.group,
                "apiVersion": self.version,
                "subresource": self.subresource,
            }
            event["objectRef"] = {k: v for k, v in reference.items() if v}
        if self.annotations:
            event["annotations"] = dict(self.annotations)
        return event

    @classmethod
    def from_json(cls, event: Mapping[str, Any]) -> AuditEntry:
        """Read an audit.k8s.io/v1 Event, of any level and any server."""
        asking, reference = _user_info(event["user"]), event.get("objectRef", {})
        impersonated, status = event.get("impersonatedUser"), event.get("responseStatus", {})
        uri = urlsplit(event["requestURI"])
        return cls(
            audit_id=event["auditID"],
            stage=event["stage"],
            received=_moment(event["requestReceivedTimestamp"]),
            answered=_moment(event["stageTimestamp"]),
            user=_user_info(impersonated) if impersonated else asking,
            impersonated_by=asking if impersonated else None,
            verb=event["verb"],
            method=_METHODS.get(event["verb"], event["verb"].upper()),
            request_uri=event["requestURI"],
            group=reference.get("apiGroup", ""),
            version=reference.get("apiVersion", ""),
            resource=reference.get("resource", ""),
            subresource=reference.get("subresource", ""),
            namespace=reference.get("namespace", ""),
            name=reference.get("name", ""),
            object_uid=reference.get("uid", ""),
            code=status.get("code", 0),
            reason=status.get("reason", ""),
            user_agent=event.get("userAgent", ""),
            source_address=next(iter(event.get("sourceIPs") or []), ""),
            dry_run="dryRun" in parse_qs(uri.query),
            annotations=event.get("annotations", {}),
        )


class AuditLog:
    """Keeps entries in memory, and passes each on as a JSON line.

    Args:
        write_line: takes each entry's line, without its end; e.g. writes it to a file.
        keep: how many of the latest entries stay in memory, at least.
    """

    def __init__(
        self, write_line: Callable[[str], object] | None = None, *, keep: int = 200_000
    ) -> None:
        self.entries: list[AuditEntry] = []
        self._write_line = write_line
        self._keep = keep

    def record(self, entry: AuditEntry) -> None:
        """Add an entry."""
        self.entries.append(entry)
        if len(self.entries) > 2 * self._keep:
            del self.entries[: -self._keep]
        if self._write_line is not None:
            self._write_line(json.dumps(entry.to_json(), separators=(",", ":")))

    def writes(self, **which: Unpack[Which]) -> list[AuditEntry]:
        """Return the writes of that kind, whether they succeeded or not."""
        return writes_in(self.entries, **which)

    def created(self, resource: str, **which: Unpack[Which]) -> list[AuditEntry]:
        """Return the writes that made a new object of a resource, e.g. `created("jobs")`."""
        return creations_in(self.entries, resource, **which)


class Which(TypedDict, total=False):
    """Which entries: those of which everything that is given holds.

    Args:
        user: who asked, or in whose name.
        user_agent: how the client's user agent starts.
        namespace: of the object.
        name: of the object.
        since: answered then or later.
        until: received before then.
    """

    user: str
    user_agent: str
    namespace: str
    name: str
    since: datetime
    until: datetime


def writes_in(entries: Iterable[AuditEntry], **which: Unpack[Which]) -> list[AuditEntry]:
    """Return the writes of that kind, whether they succeeded or not."""
    return [entry for entry in entries if entry.is_write and _is_such(entry, which)]


def creations_in(
    entries: Iterable[AuditEntry], resource: str, **which: Unpack[Which]
) -> list[AuditEntry]:
    """Return the writes that made a new object; one answered 409 made none, an apply may have."""
    return [
        entry
        for entry in writes_in(entries, **which)
        if (entry.resource, entry.subresource, entry.code) == (resource, "", _CREATED)
    ]


def _is_such(entry: AuditEntry, which: Which) -> bool:
    return (
        which.get("user", entry.user.name) == entry.user.name
        and entry.user_agent.startswith(which.get("user_agent", ""))
        and which.get("namespace", entry.namespace) == entry.namespace
        and which.get("name", entry.name) == entry.name
        and which.get("since", entry.answered) <= entry.answered
        and ("until" not in which or entry.received < which["until"])
    )


def _user(user: UserInfo) -> dict[str, Any]:
    fields = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in fields.items() if value}


def _user_info(fields: Mapping[str, Any]) -> UserInfo:
    return UserInfo(
        fields.get("username", ""),
        uid=fields.get("uid", ""),
        groups=tuple(fields.get("groups", ())),
        extra={key: tuple(values) for key, values in fields.get("extra", {}).items()},
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
