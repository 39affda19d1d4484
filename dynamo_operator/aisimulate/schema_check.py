"""Checks a document against AISimulate's JSON Schema, with errors for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from dynamo_operator.aisimulate.violations import Path, Violation, shown

Node = Mapping[str, Any]

_SCHEMA_FILE: Final = "recommendation_schema.json"
_TYPE_NAMES: Final = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


@cache
def recommendation_schema() -> Node:
    """Return the schema of the core sections; `x-aisimulate-version` says of which release."""
    file = resources.files("dynamo_operator.aisimulate").joinpath(_SCHEMA_FILE)
    schema: Node = json.loads(file.read_text(encoding="utf-8"))
    return schema


def core_sections() -> frozenset[str]:
    """Return the keys of a document that are AISimulate's own; the others belong to adapters."""
    return frozenset(recommendation_schema()["properties"])


def schema_violations(document: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield what the schema refuses in the core sections."""
    core = {key: value for key, value in document.items() if key in core_sections()}
    yield from _check(core, recommendation_schema(), ())


def _check(value: Any, node: Node, path: Path) -> Iterator[Violation]:
    node = _resolved(node)
    if "discriminator" in node:
        yield from _check_tagged(value, node, path)
    elif "anyOf" in node:
        yield from _check_any(value, node["anyOf"], path)
    elif not _has_type(value, node) or not _is_within(value, node):
        yield Violation(path, f"must be {_expected(node)}, not {shown(value)}")
    elif isinstance(value, Mapping):
        yield from _check_object(value, node, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check(item, node.get("items", {}), (*path, index))


def _check_tagged(value: Any, node: Node, path: Path) -> Iterator[Violation]:
    tag, mapping = node["discriminator"]["propertyName"], node["discriminator"]["mapping"]
    if not isinstance(value, Mapping):
        yield Violation(path, f"must be an object, not {shown(value)}")
    elif not isinstance(value.get(tag), str) or value[tag] not in mapping:
        kinds = ", ".join(sorted(mapping))
        given = f"not {shown(value[tag])}" if tag in value else "and is missing"
        yield Violation((*path, tag), f"must be one of {kinds}, {given}")
    else:
        yield from _check(value, {"$ref": mapping[value[tag]]}, path)


def _check_any(value: Any, options: list[Node], path: Path) -> Iterator[Violation]:
    results = [list(_check(value, option, path)) for option in options]
    if any(not result for result in results):
        return
    if isinstance(value, Mapping | list):
        inner = [result for result in results if result[0].path != path or len(result) > 1]
        if inner:
            yield from min(inner, key=len)
            return
    accepted = [_expected(_resolved(option)) for option in options if option.get("type") != "null"]
    yield Violation(path, f"must be {' or '.join(accepted)}, not {shown(value)}")


def _check_object(value: Mapping[str, Any], node: Node, path: Path) -> Iterator[Violation]:
    properties = node.get("properties", {})
    for name in node.get("required", ()):
        if name not in value:
            yield Violation((*path, name), "is missing")
    for name, item in value.items():
        if name in properties:
            yield from _check(item, properties[name], (*path, name))
        elif node.get("additionalProperties", True) is False:
            accepted = ", ".join(properties)
            yield Violation((*path, name), f"is not known here; accepted are {accepted}")
        elif isinstance(node.get("additionalProperties"), Mapping):
            yield from _check(item, node["additionalProperties"], (*path, name))


def _resolved(node: Node) -> Node:
    reference = node.get("$ref")
    if reference is None:
        return node
    definition: Node = recommendation_schema()["$defs"][reference.removeprefix("#/$defs/")]
    return definition


def _has_type(value: Any, node: Node) -> bool:
    if "enum" in node:
        return any(type(value) is type(member) and value == member for member in node["enum"])
    if "const" in node:
        return type(value) is type(node["const"]) and bool(value == node["const"])
    match node.get("type"):
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "object":
            return isinstance(value, Mapping)
        case "array":
            return isinstance(value, list)
        case "null":
            return value is None
        case _:
            return True


def _is_within(value: Any, node: Node) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(
            value >= node.get("minimum", value)
            and value <= node.get("maximum", value)
            and ("exclusiveMinimum" not in node or value > node["exclusiveMinimum"])
            and ("exclusiveMaximum" not in node or value < node["exclusiveMaximum"])
        )
    if isinstance(value, str):
        return len(value) >= int(node.get("minLength", 0))
    if isinstance(value, list):
        return len(value) >= int(node.get("minItems", 0))
    return True


def _expected(node: Node) -> str:
    if "enum" in node:
        return f"one of {', '.join(shown(member).strip(chr(39)) for member in node['enum'])}"
    if "const" in node:
        return shown(node["const"])
    if "anyOf" in node:
        return " or ".join(_expected(_resolved(option)) for option in node["anyOf"])
    properties = list(node.get("properties", ()))
    if properties in (["choices"], ["range"]):
        return "{choices: [...]}" if properties == ["choices"] else "{range: {min, max, ...}}"
    bounds = [
        f"{word} {node[keyword]}"
        for keyword, word in (
            ("exclusiveMinimum", "above"),
            ("minimum", "of at least"),
            ("exclusiveMaximum", "below"),
            ("maximum", "of at most"),
        )
        if keyword in node
    ]
    name = _TYPE_NAMES.get(node.get("type", ""), "something else")
    if node.get("minLength") or node.get("minItems"):
        name = f"{name} that is not empty"
    return " ".join([name, " and ".join(bounds)]).strip()
