"""The `fieldPath` of a rule: a JSON path of names, some in brackets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dynamo_operator.apiserver.schema import Schema

_STEP: Final = re.compile(r"\.(?P<name>[^.\[\]]+)|\['(?P<quoted>(?:\\.|[^'\\])*)'\]")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "'": "'",
    "\\": "\\",
}


def field_path(rule: Mapping[str, Any], schema: Schema) -> str:
    """Return where a rule's errors are, after the path of its value; nothing where it is bad."""
    text = rule.get("fieldPath") or ""
    return read_field_path(text, schema) or "" if text else ""


def read_field_path(text: str, schema: Schema) -> str | None:
    """Return a JSON path (`.a['b.c']`) as error paths are written, None if it leads nowhere."""
    at, shown = 0, ""
    where: Schema | None = schema
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None or where is None:
            return None
        name = step.group("name")
        if name is None:
            name = _unescaped(step.group("quoted"))
        if name is None:
            return None
        if where.properties:
            if name not in where.properties:
                return None
            where, shown = where.properties[name], f"{shown}.{name}"
        elif where.additional is not None:
            where, shown = where.additional, f"{shown}[{name}]"
        else:
            return None
        at = step.end()
    return shown


def _unescaped(text: str) -> str | None:
    if any(match.group(1) not in _ESCAPES for match in _ESCAPE.finditer(text)):
        return None
    return _ESCAPE.sub(lambda match: _ESCAPES[match.group(1)], text)


def selectable_path(text: str, schema: Schema) -> tuple[tuple[str, ...], Schema]:
    """Return the names of a path without brackets, and the schema of what it leads to.

    Raises:
        ValueError: it is no such path, or leads nowhere.
    """
    if not text.startswith((".", "[")):
        raise ValueError(f"expected [ or . but got: {re.split('[.]', text)[0]}")
    names: list[str] = []
    where: Schema | None = schema
    for part in text[1:].split("."):
        name, bracket, _ = part.partition("[")
        child = where.properties.get(name) if where is not None else None
        if child is None:
            raise ValueError("does not refer to a valid field")
        if bracket:
            raise ValueError("array notation is not allowed")
        names.append(name)
        where = child
    assert where is not None
    return tuple(names), where
