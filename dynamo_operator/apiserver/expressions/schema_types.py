"""How expressions see values of a structural schema: their types, and how large they can be."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dynamo_operator.apiserver.expressions.costs import Range
from dynamo_operator.apiserver.expressions.syntax import RESERVED
from dynamo_operator.apiserver.expressions.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from dynamo_operator.apiserver.expressions.values import (
    Fields,
    SetItems,
    parse_duration,
    parse_timestamp,
)
from dynamo_operator.apiserver.schema import Schema

LARGEST_REQUEST: Final = 3 * 1024 * 1024
_KEYWORDS: Final = RESERVED | {"true", "false", "null", "in"}
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPABLE: Final = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")
_READABLE_METADATA: Final = ("name", "generateName")
_OF_FORMATS: Final[Mapping[str, tuple[Type, int, int]]] = {
    # format: type, the fewest bytes of one in a request, the most characters
    "duration": (DURATION, 3, 32),
    "date": (TIMESTAMP, 12, 12),
    "date-time": (TIMESTAMP, 21, 32),
}
_SCALARS: Final = {"boolean": (BOOL, 4), "number": (DOUBLE, 1), "integer": (INT, 1)}


def escape(name: str) -> str:
    """Return the identifier by which an expression names a property; nothing if it cannot."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if _ESCAPABLE.fullmatch(name) is None:
        return ""
    return re.sub(r"__|[.\-/]", lambda match: _ESCAPES[match.group()], name)


@dataclass(frozen=True, slots=True)
class Declared:
    """A schema as a type with bounds.

    Args:
        type: of its values.
        most: characters, items or entries of one at most.
        fewest_bytes: that one takes in a request.
        item: of lists and maps.
        fields: of objects, by their escaped names.
    """

    type: Type
    most: int = 0
    fewest_bytes: int = 2
    item: Declared | None = None
    fields: Mapping[str, Declared] = field(default_factory=dict)

    def size_of(self, path: tuple[str, ...]) -> Range | None:
        """Return how large what is at a path of an expression can be; the first name is cut."""
        at: Declared | None = self
        for name in path[1:]:
            if at is None:
                return None
            if name in ("@items", "@values"):
                at = at.item
            elif name == "@keys":
                return Range(0, 0) if at.item is not None else None
            else:
                at = at.fields.get(name)
        return None if at is None else Range(0, at.most)

    @property
    def most_often(self) -> int:
        """How often a value can be in one request."""
        return LARGEST_REQUEST // (self.fewest_bytes + 1)


def declared(schema: Schema, name: str = "selfType1") -> Declared | None:
    """Return a schema as a type; None where expressions cannot see its values.

    Args:
        schema: of the values.
        name: of the type, if it is one of objects.
    """
    source = schema.source
    if schema.int_or_string:
        longest = source.get("maxLength")
        most = LARGEST_REQUEST - 2 if longest is None else max(longest, 0) * 4
        return Declared(DYN, most, 1)
    if schema.type == "array":
        item = declared(schema.items, f"{name}.@idx") if schema.items is not None else None
        if item is None:
            return None
        most = source.get("maxItems")
        if most is None:
            most = (LARGEST_REQUEST - 2) // (item.fewest_bytes + 1)
        return Declared(list_of(item.type), max(most, 0), item=item)
    if schema.type == "object":
        return _declared_object(schema, name)
    if schema.type == "string":
        return _declared_text(source)
    if schema.type in _SCALARS:
        kind, fewest = _SCALARS[schema.type]
        return Declared(kind, 0, fewest)
    return None


def _declared_object(schema: Schema, name: str) -> Declared | None:
    if schema.additional is not None:
        item = declared(schema.additional, f"{name}.@elem")
        if item is None:
            return None
        most = schema.source.get("maxProperties")
        if most is None:
            most = (LARGEST_REQUEST - 2) // (item.fewest_bytes + 6)
        return Declared(map_of(STRING, item.type), max(most, 0), item=item)
    fields: dict[str, Declared] = {}
    fewest = 2
    for property_name, child in _seen_properties(schema).items():
        escaped = escape(property_name)
        known = declared(child, f"{name}.{escaped}")
        if known is None:
            continue
        if escaped:
            fields[escaped] = known
        if property_name in schema.required and "default" not in child.source:
            fewest += len(property_name) + known.fewest_bytes + 4
    types = {each: known.type for each, known in fields.items()}
    return Declared(Type("object", name, fields=types), 0, fewest, fields=fields)


def _seen_properties(schema: Schema) -> Mapping[str, Schema]:
    """The properties of an object; of metadata expressions see the names alone."""
    if not schema.names_objects or "metadata" not in schema.properties:
        return schema.properties
    metadata = schema.properties["metadata"]
    names = {each: Schema({"type": "string"}, "string") for each in _READABLE_METADATA}
    seen = replace(metadata, properties=names)
    return {**schema.properties, "metadata": seen}


def _declared_text(source: Mapping[str, Any]) -> Declared:
    form, longest = source.get("format", ""), source.get("maxLength")
    if form == "byte":
        return Declared(BYTES, LARGEST_REQUEST - 2 if longest is None else max(longest, 0), 2)
    if form in _OF_FORMATS:
        kind, fewest, most = _OF_FORMATS[form]
        return Declared(kind, most, fewest)
    if longest is not None:
        return Declared(STRING, max(longest, 0) * 4)
    if source.get("enum"):
        texts = [len(each.encode()) for each in source["enum"] if isinstance(each, str)]
        return Declared(STRING, max(texts, default=0))
    return Declared(STRING, LARGEST_REQUEST - 2)


def seen(value: Any, schema: Schema | None) -> Any:
    """Return a value as an expression sees it.

    A number of type `number` is a double, property names are escaped, texts of some formats are
    moments, durations and bytes, and of metadata only the names are there.
    """
    if schema is None or value is None:
        return value
    if isinstance(value, dict):
        return Fields(
            (escape(name) if name in schema.properties else name, _seen_child(name, item, schema))
            for name, item in value.items()
        )
    if isinstance(value, list):
        items = [seen(item, schema.items) for item in value]
        return SetItems(items) if schema.list_type == "set" else items
    if isinstance(value, str):
        read = _READ.get(schema.source.get("format", ""))
        return read(value) if read and schema.type == "string" else value
    if schema.type == "number" and not isinstance(value, bool):
        return float(value)
    return value


def _seen_child(name: str, value: Any, schema: Schema) -> Any:
    if name == "metadata" and schema.names_objects and isinstance(value, dict):
        return {k: value[k] for k in _READABLE_METADATA if k in value}
    return seen(value, schema.child(name))


def _moment(text: str) -> Any:
    return parse_timestamp(text.upper().replace(" ", "T"))


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "date-time": _moment,
    "date": lambda text: parse_timestamp(f"{text}T00:00:00Z"),
    "duration": parse_duration,
    "byte": base64.b64decode,
}
