"""JSON to objects and back; decodes of an object only what its reader needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from sys import intern
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar, cast, overload

import msgspec
from pydantic import ValidationError

from dynamo_operator.runtime.client.errors import DecodeError
from dynamo_operator.runtime.client.generated_models import is_generated
from dynamo_operator.runtime.client.reader import M
from dynamo_operator.runtime.models import KubeModel
from informers.events import WatchEvent, WatchEventType, WatchStatus
from informers.list_watch import ListPage
from informers.objects import CachedObject, ObjectKey, OwnerReference, ResourceType

P = ParamSpec("P")
T = TypeVar("T")

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_LONGEST_WAIT_SECONDS = 300.0
_MALFORMED = (msgspec.MsgspecError, ValueError, RecursionError)


_DEEPEST = 10_000
"""Levels that an API server takes (k8s.io/apimachinery, json); Python's own limit is lower."""
_STACK_PER_LEVEL = 800


class MalformedJsonError(ValueError):
    """The bytes are not the JSON that belongs there; one line saying where."""


class UnexpectedKindError(Exception):
    """A watch brought an object of another kind than it was asked for; the text is that kind."""


@dataclass(frozen=True, slots=True)
class Status:
    """A Status object, null-free."""

    code: int
    reason: str = ""
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def _room_for_depth() -> Iterator[None]:
    """Let calls nest as deep as what an API server takes, as far as the stack suffices."""
    import resource  # not on every system, and rarely needed

    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    levels = _DEEPEST if stack == resource.RLIM_INFINITY else stack // _STACK_PER_LEVEL
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + min(_DEEPEST, levels))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _at_any_depth(function: Callable[P, T]) -> Callable[P, T]:
    """Do again what was too deep: one hostile object must not stop the reading of all others."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except MalformedJsonError as error:
            if not isinstance(error.__cause__, RecursionError):
                raise
        with _room_for_depth():
            return function(*args, **kwargs)

    return call


def encode(value: Any) -> bytes:
    """Return the JSON of plain data; NaN and infinities become null, which JSON has instead.

    Raises:
        ValueError: the value has no JSON form.
    """
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        with _room_for_depth():
            return msgspec.json.encode(value)
    except (TypeError, msgspec.MsgspecError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from error


@_at_any_depth
def decode_json(data: bytes) -> Any:
    """Return plain data.

    Raises:
        MalformedJsonError: the bytes are no JSON.
    """
    try:
        return _decode_any(data)
    except _MALFORMED as error:
        raise MalformedJsonError(f"not JSON: {error}") from error


@overload
def decode(kind: type[M], data: bytes) -> M: ...
@overload
def decode(kind: ResourceType, data: bytes) -> dict[str, Any]: ...
def decode(kind: type[M] | ResourceType, data: bytes) -> M | dict[str, Any]:
    """Return an object as a fresh model or dict that names its apiVersion and kind.

    Items of a list come without those two.

    Raises:
        MalformedJsonError: the bytes are no JSON object.
        DecodeError: the object does not fit the model.
    """
    value = decode_json(data)
    if not isinstance(value, dict):
        raise MalformedJsonError("not a JSON object")
    if "kind" not in value or "apiVersion" not in value:
        resource_type = resource_type_of(kind)
        identity = {"apiVersion": resource_type.api_version, "kind": resource_type.kind}
        value = {**identity, **value}
    if isinstance(kind, ResourceType):
        return value
    if not issubclass(kind, KubeModel) and is_generated(kind):
        from dynamo_operator.runtime.client import kubernetes_asyncio_bridge as bridge

        return cast("M", bridge.decode(kind, encode(value)))
    try:
        return cast("M", cast("type[KubeModel]", kind).model_validate(value))
    except ValidationError as error:
        raise DecodeError(_misfit(resource_type_of(kind), value, error)) from None


def resource_type_of(kind: type[Any] | ResourceType) -> ResourceType:
    """Return the resource type that a model class or a resource type stands for."""
    if isinstance(kind, ResourceType):
        return kind
    # Asked first, as it is always there in a model of ours, and what is missing costs much more.
    resource_type = getattr(kind, "resource_type", None)
    if isinstance(resource_type, ResourceType):
        return resource_type
    if is_generated(kind):
        from dynamo_operator.runtime.client import kubernetes_asyncio_bridge as bridge

        return bridge.resource_type_of(kind)
    return cast("type[KubeModel]", kind).resource_type


def decode_status(body: bytes) -> Status | None:
    """Return the Status object in a body, or None if it holds something else."""
    try:
        wire = _decode_wire_status(body)
    except _MALFORMED:
        return None
    return _status(wire) if wire.kind == "Status" else None


@_at_any_depth
def decode_list(body: bytes, *, keep_data: bool = True, for_cache: bool = False) -> ListPage:
    """Return one page of a list; the items keep their own copies of their bytes.

    Args:
        body: a list in JSON.
        keep_data: False to keep no bytes at all.
        for_cache: leave out what a cache does not keep: see `_without_updates`.

    Raises:
        MalformedJsonError: the body is no list.
    """
    try:
        wire = _decode_wire_list(body)
        items = tuple(_cached(raw, keep_data, trim=for_cache) for raw in wire.items or ())
    except _MALFORMED as error:
        raise MalformedJsonError(f"not a list: {error}") from error
    metadata = wire.metadata or _WireListMeta()
    return ListPage(items, metadata.resourceVersion or "", metadata.continue_ or "")


@_at_any_depth
def decode_watch_line(
    line: bytes, *, keep_data: bool = True, kinds: Container[str] = ()
) -> WatchEvent:
    """Return the event on one line of a watch, its object as a cache keeps it.

    Args:
        line: without its end.
        keep_data: False to keep no bytes at all.
        kinds: of which its object has to be; empty for any.

    Raises:
        MalformedJsonError: the line is no watch event.
        UnexpectedKindError: its object is of another kind.
    """
    # API servers write an event in just one way; where they do, its object is a slice of the line
    # and is read once. Anything else, e.g. a further field after the object, is taken apart first.
    middle = line.find(_BEFORE_OBJECT, len(_BEFORE_TYPE), _LONGEST_HEAD)
    if middle > 0 and line.startswith(_BEFORE_TYPE) and line.endswith(b"}"):
        kind = _EVENT_TYPES.get(line[len(_BEFORE_TYPE) : middle])
        if kind is not None:
            try:
                return _event(kind, line[middle + len(_BEFORE_OBJECT) : -1], keep_data, kinds)
            except _MALFORMED:
                pass
    try:
        wire = _decode_wire_event(line)
        return _event(WatchEventType(wire.type), wire.object, keep_data, kinds)
    except _MALFORMED as error:
        raise MalformedJsonError(f"not a watch event: {error}") from error


@_at_any_depth
def decode_cached(data: bytes) -> CachedObject:
    """Return one object, e.g. the answer to a write, and whole.

    Raises:
        MalformedJsonError: the bytes are no object.
    """
    try:
        return _cached(data, keep_data=True, trim=False)
    except _MALFORMED as error:
        raise MalformedJsonError(f"not an object: {error}") from error


class LineSplitter:
    """Cuts chunks of any size into lines, copying a long line once."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._pending: list[bytes] = []
        self._pending_size = 0

    def feed(self, chunk: bytes) -> Sequence[bytes]:
        """Return the lines that the chunk completes, without their ends and without empty ones.

        Raises:
            MalformedJsonError: a line is longer than allowed.
        """
        *lines, rest = chunk.split(b"\n")
        if lines and self._pending:
            self._pending.append(lines[0])
            lines[0] = b"".join(self._pending)
            self._pending.clear()
            self._pending_size = 0
        if rest:
            self._pending.append(rest)
            self._pending_size += len(rest)
            if self._pending_size > self._longest:
                raise MalformedJsonError(f"a line is longer than {self._longest} bytes")
        return [line for line in lines if line and not line.isspace()]

    @property
    def has_rest(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._pending)


class _WireOwner(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815 - the wire's own spelling, in all of these structs
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None  # noqa: N815


class _WireMeta(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815
    generation: int | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    ownerReferences: list[_WireOwner] | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    managedFields: msgspec.Raw = msgspec.Raw()  # noqa: N815


class _WireManager(msgspec.Struct):
    operation: str | None = None


class _WireObject(msgspec.Struct):
    kind: str | None = None
    metadata: _WireMeta | None = None


class _WireListMeta(msgspec.Struct):
    resourceVersion: str | None = None  # noqa: N815
    continue_: str | None = msgspec.field(name="continue", default=None)


class _WireList(msgspec.Struct):
    metadata: _WireListMeta | None = None
    items: list[msgspec.Raw] | None = None


class _WireEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _WireStatus(msgspec.Struct):
    kind: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


_BEFORE_TYPE = b'{"type":"'
_BEFORE_OBJECT = b'","object":'
_MANAGED = b',"managedFields":'
_LONGEST_HEAD = len(_BEFORE_TYPE) + len("MODIFIED") + len(_BEFORE_OBJECT)
_EVENT_TYPES = {kind.value.encode(): kind for kind in WatchEventType}
_BOOKMARK, _ERROR = WatchEventType.BOOKMARK, WatchEventType.ERROR

_decode_any = msgspec.json.Decoder().decode
_decode_wire_list = msgspec.json.Decoder(_WireList).decode
_decode_wire_object = msgspec.json.Decoder(_WireObject).decode
_decode_wire_event = msgspec.json.Decoder(_WireEvent).decode
_decode_wire_managers = msgspec.json.Decoder(list[_WireManager]).decode
_decode_raw_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_wire_status = msgspec.json.Decoder(_WireStatus).decode


def _cached(
    raw: msgspec.Raw | bytes, keep_data: bool, kinds: Container[str] = (), *, trim: bool
) -> CachedObject:
    wire = _decode_wire_object(raw)
    if kinds and wire.kind and wire.kind not in kinds:
        raise UnexpectedKindError(wire.kind)
    meta = wire.metadata or _WireMeta()
    data = bytes(raw) if keep_data else b""
    if trim and keep_data and (managed := bytes(meta.managedFields)):
        data = _without_updates(data, managed)
    # By position, as names cost as much again.
    return CachedObject(
        ObjectKey(intern(meta.namespace or ""), meta.name or ""),  # one text for all in a namespace
        meta.uid or "",
        meta.resourceVersion or "",
        meta.generation or 0,
        _strings(meta.labels),
        _strings(meta.annotations),
        tuple(map(_owner, meta.ownerReferences or ())),
        meta.deletionTimestamp is not None,
        data,
    )


def _without_updates(data: bytes, managed: bytes) -> bytes:
    """Return an object's JSON without the managedFields of updates, often a third of it.

    Those of applies stay: they tell an apply which fields it has to take back.
    """
    kept = b""
    if b"Apply" in managed:
        try:
            pairs = zip(_decode_wire_managers(managed), _decode_raw_list(managed), strict=True)
        except _MALFORMED:
            return data
        applies = [bytes(raw) for manager, raw in pairs if manager.operation == "Apply"]
        kept = _MANAGED + b"[" + b",".join(applies) + b"]" if applies else b""
    # Where the JSON is spelled in another way it is not found, and stays.
    return data.replace(_MANAGED + managed, kept, 1)


def _event(
    kind: WatchEventType, raw: msgspec.Raw | bytes, keep_data: bool, kinds: Container[str]
) -> WatchEvent:
    if kind is _ERROR:
        return WatchEvent(kind, status=_watch_status(_decode_wire_status(raw)))
    if kind is _BOOKMARK:
        return _bookmark(_decode_wire_object(raw).metadata or _WireMeta())
    return WatchEvent(kind, _cached(raw, keep_data, kinds, trim=True))


def _strings(values: dict[str, str | None] | None) -> Mapping[str, str]:
    if not values:
        return _NOTHING
    if None in values.values():
        return {name: value or "" for name, value in values.items()}
    return cast("dict[str, str]", values)


def _owner(wire: _WireOwner) -> OwnerReference:
    return OwnerReference(
        wire.apiVersion,
        wire.kind,
        wire.name,
        wire.uid,
        bool(wire.controller),
        bool(wire.blockOwnerDeletion),
    )


def _bookmark(meta: _WireMeta) -> WatchEvent:
    return WatchEvent(
        WatchEventType.BOOKMARK,
        resource_version=meta.resourceVersion or "",
        initial_events_end=(meta.annotations or {}).get(_INITIAL_EVENTS_END) == "true",
    )


def _status(wire: _WireStatus) -> Status:
    return Status(wire.code or 0, wire.reason or "", wire.message or "", wire.details or {})


def _watch_status(wire: _WireStatus) -> WatchStatus:
    asked = (wire.details or {}).get("retryAfterSeconds")
    seconds: float | None = None
    if isinstance(asked, int | float) and 0 <= asked <= _LONGEST_WAIT_SECONDS:
        seconds = float(asked)
    return WatchStatus(wire.code or 0, wire.reason or "", wire.message or "", seconds)


def _misfit(resource_type: ResourceType, value: dict[str, Any], error: ValidationError) -> str:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    key = ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"]) or "the object"
    return f"{resource_type} {key} does not fit its model: {path}: {first['msg']}"
