"""Request bodies in Kubernetes' protobuf, as kubectl's typed commands and client-go send them.

`kubectl create deployment`, `auth can-i` or `drain` have no JSON form to fall back to; what they
send is decoded by the table kinds/protobuf_fields.txt, one message a line with its fields:
`number:name:type`, behind it `*` for a list, `%` for a map with keys of text, `?` where nothing and
zero differ, `=` for what JSON has in the outer object. A type that is left out is text.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from dynamo_operator.apiserver import kinds, status
from dynamo_operator.apiserver.codec import parse_json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_TABLE = resources.files(kinds) / "protobuf_fields.txt"
_DELETE_OPTIONS = "meta.DeleteOptions"


@dataclass(frozen=True, slots=True)
class _Field:
    """One field; the table says what its marks mean."""

    name: str
    type: str = "string"
    repeated: bool = False
    is_map: bool = False
    keeps_zero: bool = False
    is_inline: bool = False

    @classmethod
    def read(cls, entry: str) -> tuple[int, _Field]:
        """Read `number:name[:type[marks]]`."""
        number, name, *kind = entry.split(":")
        marked = kind[0] if kind else "string"
        bare = marked.rstrip("*%?=")
        marks = marked[len(bare) :]
        return int(number), cls(name, bare, "*" in marks, "%" in marks, "?" in marks, "=" in marks)


_Fields = Mapping[int, _Field]
_ENVELOPE: _Fields = {1: _Field("typeMeta", "TypeMeta"), 2: _Field("raw", "bytes")}
_TYPE_META: _Fields = {1: _Field("apiVersion"), 2: _Field("kind")}
_TIME: _Fields = {1: _Field("seconds", "int"), 2: _Field("nanos", "int")}
_INT_OR_STRING: _Fields = {
    1: _Field("type", "int"),
    2: _Field("int", "int"),
    3: _Field("string", keeps_zero=True),
}
_RAW: _Fields = {1: _Field("raw", "bytes")}
_QUANTITY: _Fields = {1: _Field("string")}
_DURATION: _Fields = {1: _Field("nanoseconds", "int")}


@cache
def _messages() -> Mapping[str, _Fields]:
    table: dict[str, _Fields] = {"TypeMeta": _TYPE_META}
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, *entries = line.split()
            table[name] = dict(_Field.read(entry) for entry in entries)
    return table


def parse_protobuf(data: bytes) -> dict[str, Any]:
    """Decode an object.

    Raises:
        StatusError: 400 for a body that is not what it claims, 415 for a kind without a table.
    """
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("provided data does not appear to be a protobuf message")
        envelope = _message(_ENVELOPE, data[len(_MAGIC) :])
        type_meta = envelope.get("typeMeta", {})
        api_version, kind = type_meta.get("apiVersion", ""), type_meta.get("kind", "")
        fields = _messages().get(_message_name(api_version, kind))
        if fields is None or not _is_object(fields):
            raise status.unsupported_media_type(("application/json", "application/yaml"))
        obj = _message(fields, base64.b64decode(envelope.get("raw", "")))
    except (ValueError, IndexError, struct.error) as error:
        raise status.bad_request(f"error decoding protobuf: {error}") from None
    return {"apiVersion": api_version, "kind": kind, **obj}


def _is_object(fields: _Fields) -> bool:
    """Whether a message is of its own: has metadata, or is what a deletion is sent with."""
    first = fields.get(1)
    is_options = fields is _messages()[_DELETE_OPTIONS]
    return is_options or (first is not None and first.type == "meta.ObjectMeta")


def _message_name(api_version: str, kind: str) -> str:
    """Return `package.version.Kind`: groups are named for their packages up to the first dot."""
    if kind == "DeleteOptions":  # every group has its own
        return _DELETE_OPTIONS
    group, _, version = api_version.rpartition("/")
    return f"{group.partition('.')[0] or 'core'}.{version}.{kind}"


def _message(fields: _Fields, data: bytes) -> dict[str, Any]:
    """Decode a message, without what JSON leaves out because it is empty."""
    result: dict[str, Any] = {}
    for number, value in _wire_fields(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.is_map:
            result.setdefault(field.name, {}).update(_entry(field, value))
        elif field.repeated:
            result.setdefault(field.name, []).extend(_items(field, value))
        elif field.is_inline:
            result |= _value(field, value)
        else:
            decoded = _value(field, value)
            if field.keeps_zero or decoded not in ("", 0, False, {}, None):
                result[field.name] = decoded
    return result


def _items(field: _Field, value: int | float | bytes) -> Iterator[Any]:
    """Yield what one occurrence of a list's field holds: an item, or numbers packed together."""
    if field.type != "int" or not isinstance(value, bytes):
        yield _value(field, value)
        return
    position = 0
    while position < len(value):
        number, position = _varint(value, position)
        yield _value(field, number)


def _value(field: _Field, value: int | float | bytes) -> Any:
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        if field.type == "bool":
            return bool(value)
        return value - (1 << 64) if value >> 63 else value
    match field.type:
        case "string":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "quantity":
            return _message(_QUANTITY, value).get("string", "0")
        case "time" | "microtime":
            return _moment(_message(_TIME, value), precise=field.type == "microtime")
        case "duration":
            return f"{_message(_DURATION, value).get('nanoseconds', 0) / 1e9:g}s"
        case "intorstring":
            either = _message(_INT_OR_STRING, value)
            return either.get("string", "") if either.get("type") else either.get("int", 0)
        case "json":
            raw = base64.b64decode(_message(_RAW, value).get("raw", ""))
            return parse_json(raw).value if raw else None
    return _message(_messages()[field.type], value)


def _moment(time: Mapping[str, int], *, precise: bool) -> str | None:
    """Return a time as JSON has it; the zero time is none."""
    if not time:
        return None
    moment = datetime.fromtimestamp(time.get("seconds", 0), UTC)
    fraction = f".{time.get('nanos', 0) // 1000:06}" if precise else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _entry(field: _Field, value: int | float | bytes) -> dict[str, Any]:
    if not isinstance(value, bytes):
        raise ValueError("a map entry is no message")
    pair = dict(_wire_fields(value))
    key = pair.get(1, b"")
    if not isinstance(key, bytes):
        raise ValueError("a map's key is no text")
    content = _value(field, pair.get(2, b""))
    if field.type.endswith(".ExtraValue"):
        content = content.get("items", [])
    return {key.decode(): content}


def _wire_fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield field numbers and raw values."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        match wire_type:
            case 0:
                value, position = _varint(data, position)
                yield number, value
            case 2:
                length, position = _varint(data, position)
                if position + length > len(data):
                    raise ValueError("unexpected end of data")
                yield number, data[position : position + length]
                position += length
            case 1:
                yield number, struct.unpack_from("<d", data, position)[0]
                position += 8
            case 5:
                position += 4
            case _:
                raise ValueError(f"unknown wire type {wire_type}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
