"""OpenAPI v2 documents as protobuf (gnostic's openapi.v2.Document), which kubectl insists on."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dynamo_operator.apiserver.messages import to_json

MEDIA_TYPES = (
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_STRINGS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_INTEGERS = {
    "exclusiveMaximum": 8,
    "exclusiveMinimum": 10,
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "uniqueItems": 16,
    "maxProperties": 17,
    "minProperties": 18,
    "readOnly": 27,
}


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Encode a Swagger 2.0 document."""
    info = document["info"]
    definitions = document["definitions"].items()
    return b"".join(
        (
            _text(1, document["swagger"]),
            _message(2, _text(1, info["title"]) + _text(2, info["version"])),
            _message(8, _each(2, document["paths"].items(), _path_item)),
            _message(9, _each(1, definitions, _schema)),
        )
    )


def _path_item(operations: Mapping[str, Any]) -> bytes:
    return b"".join(
        _message(_METHODS[method], _operation(operation))
        for method, operation in operations.items()
    )


def _operation(operation: Mapping[str, Any]) -> bytes:
    responses = _each(1, operation["responses"].items(), _response)
    return b"".join(
        (
            _text(5, operation["operationId"]),
            *(_message(8, _query_parameter(p)) for p in operation["parameters"]),
            _message(9, responses),
            _extensions(13, operation),
        )
    )


def _query_parameter(parameter: Mapping[str, Any]) -> bytes:
    fields = _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])
    # ParametersItem, Parameter, NonBodyParameter and its query variant wrap each other.
    return _message(1, _message(2, _message(3, fields)))


def _response(response: Mapping[str, Any]) -> bytes:
    return _message(1, _text(1, response["description"]))


def _schema(schema: Mapping[str, Any]) -> bytes:
    parts = [_text(number, schema[key]) for key, number in _STRINGS.items() if key in schema]
    parts += [_double(number, schema[key]) for key, number in _DOUBLES.items() if key in schema]
    parts += [_integer(number, schema[key]) for key, number in _INTEGERS.items() if key in schema]
    if "default" in schema:
        parts.append(_message(5, _any(schema["default"])))
    parts += [_text(19, name) for name in schema.get("required") or ()]
    parts += [_message(20, _any(value)) for value in schema.get("enum") or ()]
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        parts.append(_message(21, _message(1, _schema(additional))))
    elif additional is not None:
        parts.append(_message(21, _integer(2, additional)))
    if schema.get("type"):
        parts.append(_message(22, _text(1, schema["type"])))
    if isinstance(schema.get("items"), Mapping):
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if schema.get("properties"):
        parts.append(_message(25, _each(1, schema["properties"].items(), _schema)))
    return b"".join((*parts, _extensions(31, schema)))


def _extensions(number: int, holder: Mapping[str, Any]) -> bytes:
    extensions = [(key, value) for key, value in holder.items() if key.startswith("x-")]
    return _each(number, extensions, _any)


def _any(value: Any) -> bytes:
    """Encode any value as YAML, of which JSON is a part."""
    return _text(2, to_json(value).decode())


def _each(number: int, items: Iterable[tuple[str, Any]], encode: Callable[[Any], bytes]) -> bytes:
    """Encode named values, each a message of name and value."""
    return b"".join(
        _message(number, _text(1, name) + _message(2, encode(value))) for name, value in items
    )


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(int(value))


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _varint(value: int) -> bytes:
    data = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
