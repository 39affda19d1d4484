"""This module computes sets of field paths and encodes them as managedFields' FieldsV1.

A path is a tuple of FieldsV1 path elements: `f:name` (field or map key), `k:{"key":"value"}`
(item of a map list), `v:"value"` (member of a set). A value's set holds its leaves, the items of
map and set lists, and the keys of free maps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.value_checks import TYPE_TESTS, json_type, same

Path = tuple[str, ...]
FieldSet = frozenset[Path]

EMPTY: Final[FieldSet] = frozenset()

_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "object": ("map", TYPE_TESTS["object"]),
    "array": ("list", TYPE_TESTS["array"]),
    "string": ("string", TYPE_TESTS["string"]),
    "boolean": ("boolean", TYPE_TESTS["boolean"]),
    "integer": ("numeric (int or float)", TYPE_TESTS["number"]),
    "number": ("numeric (int or float)", TYPE_TESTS["number"]),
}

_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class TypingError(ValueError):
    """A value does not fit its schema's list or map type; the text begins with the path."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two values differ, as sets of paths."""

    added: FieldSet
    removed: FieldSet
    modified: FieldSet


@lru_cache(maxsize=1024)  # objects that are made alike have the same sets
def encode(fields: FieldSet) -> dict[str, Any]:
    """Return the set as FieldsV1; it is shared and must not be changed."""
    root: dict[str, Any] = {}
    members = set(fields)
    for path in sorted(fields):
        node = root
        for depth, element in enumerate(path, start=1):
            child = node.get(element)
            if child is None:
                child = node[element] = {}
            elif not child and path[:depth] in members and depth < len(path):
                child["."] = {}
            node = child
    return root


def decode(fields_v1: Any) -> FieldSet:
    """Return the set that FieldsV1 describes; what a client made up besides is left out."""
    return frozenset(_decode(fields_v1, ())) if isinstance(fields_v1, dict) else EMPTY


def _decode(node: Mapping[str, Any], path: Path) -> Iterator[Path]:
    for element, child in node.items():
        if element == ".":
            yield path
        elif isinstance(child, dict) and child:
            yield from _decode(child, (*path, element))
        else:
            yield (*path, element)


def words(path: Path) -> str:
    """Return the path as conflict messages show it, e.g. `.spec.env[name="A"].value`."""
    text = ""
    for element in path:
        kind, content = element[:2], element[2:]
        if kind == "f:":
            text += f".{content}"
        elif kind == "k:":
            keys = json.loads(content)
            text += f"[{','.join(f'{k}={compact(v)}' for k, v in keys.items())}]"
        elif kind == "v:":
            text += f"[={content}]"
        else:
            text += f"[{content}]"
    return text


def compact(value: Any) -> str:
    """Return compact JSON with sorted keys."""
    return encode_basestring(value) if type(value) is str else _ENCODER.encode(value)


def is_granular_map(value: Any, schema: Schema | None) -> bool:
    """Whether a value merges key by key."""
    return isinstance(value, dict) and not (schema is not None and schema.atomic_map)


def is_granular_list(value: Any, schema: Schema | None) -> bool:
    """Whether a value merges item by item."""
    return isinstance(value, list) and schema is not None and schema.list_type in ("set", "map")


def entries(value: Any, schema: Schema | None) -> list[tuple[str, Any, Schema | None]]:
    """Return (path element, child, child's schema) of a granular map or list; [] of a leaf.

    Of items with the same key the first stands for all: a stored list may be older than its type.
    """
    if is_granular_map(value, schema):
        return [
            (f"f:{n}", child, schema.child(n) if schema else None) for n, child in value.items()
        ]
    if is_granular_list(value, schema):
        assert schema is not None
        found: dict[str, Any] = {}
        for item in value:
            found.setdefault(item_element(item, schema), item)
        return [(element, item, schema.items) for element, item in found.items()]
    return []


def item_element(item: Any, schema: Schema) -> str:
    """Return the path element of an item of a set or map list."""
    if schema.list_type == "set" or not isinstance(item, dict):
        return f"v:{compact(item)}"
    keys = {name: _key_value(item, name, schema) for name in schema.list_keys}
    known = (
        f"{compact(name)}:{compact(keys[name])}" for name in sorted(keys) if keys[name] is not None
    )
    return f"k:{{{','.join(known)}}}"


def check_types(value: Any, schema: Schema | None) -> None:
    """Check that a configuration fits the schema's fields and lists.

    Raises:
        TypingError: a value of another type, a field the schema does not know, an item without its
            key, or a duplicate; of several it tells each.
    """
    problems = list(_mistyped(value, schema, ()))
    if len(problems) > 1:
        raise TypingError("\n  ".join(["errors:", *problems]))
    for problem in problems:
        raise TypingError(problem)


def _mistyped(value: Any, schema: Schema | None, path: Path) -> Iterator[str]:
    if schema is not None and value is not None and (wrong := _wrong_kind(value, schema, path)):
        yield wrong
        return
    if isinstance(value, dict):
        for name in value:
            yield from _unknown_field(name, schema, path)
    elif is_granular_list(value, schema):
        assert schema is not None
        problems = list(_wrong_items(value, schema, path))
        yield from problems
        if problems:
            return
    for element, child, child_schema in _children(value, schema):
        yield from _mistyped(child, child_schema, (*path, element))


def _children(value: Any, schema: Schema | None) -> list[tuple[str, Any, Schema | None]]:
    """Return the `entries` of anything, atomic lists and maps included."""
    if isinstance(value, list) and not is_granular_list(value, schema):
        items = schema.items if schema else None
        return [(f"i:{index}", item, items) for index, item in enumerate(value)]
    if isinstance(value, dict) and not is_granular_map(value, schema):
        return [
            (f"f:{n}", child, schema.child(n) if schema else None) for n, child in value.items()
        ]
    return entries(value, schema)


def _wrong_kind(value: Any, schema: Schema, path: Path) -> str:
    kind, fits = _KINDS.get(schema.type, ("", lambda _: True))
    if schema.int_or_string or fits(value):
        return ""
    return f"{words(path)}: expected {kind}, got {_shown(kind, value)}"


def _shown(expected: str, value: Any) -> str:
    """Return a value as the error about its type shows it: by Go's ways to print, one a type."""
    if expected.startswith("numeric"):
        return json_type(value)
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, list):
        text = f"[{' '.join(map(str, value))}]"
    else:
        text = str(value)
    if expected == "string":
        return f"&value.valueUnstructured{{Value:{text}}}"
    return f"&{{{text}}}"


def _unknown_field(name: str, schema: Schema | None, path: Path) -> Iterator[str]:
    if schema is None or schema.keeps(name) or not (schema.type or schema.properties):
        return
    yield f"{words((*path, f'f:{name}'))}: field not declared in schema"


def _wrong_items(value: list[Any], schema: Schema, path: Path) -> Iterator[str]:
    seen = set()
    for index, item in enumerate(value):
        for name in schema.list_keys if schema.list_type == "map" else ():
            missing = not isinstance(item, dict) or _key_value(item, name, schema) is None
            if missing and not _may_be_absent(schema, name):
                detail = "associative list with keys has an element that omits key field"
                yield f"{words(path)}: element {index}: {detail} {compact(name)}"
                return
        element = item_element(item, schema)
        if element in seen:
            yield f"{words(path)}: duplicate entries for key {words((element,))}"
        seen.add(element)


def _key_value(item: dict[str, Any], name: str, schema: Schema) -> Any:
    child = schema.items.properties.get(name) if schema.items else None
    return item.get(name, child.default if child else None)


def _may_be_absent(schema: Schema, name: str) -> bool:
    """Built-in kinds leave out some keys of several."""
    return len(schema.list_keys) > 1 and name not in (schema.items.required if schema.items else ())


def field_set(value: Any, schema: Schema | None) -> FieldSet:
    """Return the set of paths that `value` mentions."""
    return frozenset(_field_set(value, schema, ()))


def _field_set(value: Any, schema: Schema | None, path: Path) -> Iterator[Path]:
    if not (is_granular_map(value, schema) or is_granular_list(value, schema)):
        yield path
        return
    for element, child, child_schema in entries(value, schema):
        below = (*path, element)
        yield from _field_set(child, child_schema, below)
        if child == {} or not _is_named_field(schema, element):
            yield below


def _is_named_field(schema: Schema | None, element: str) -> bool:
    return schema is not None and element.startswith("f:") and element[2:] in schema.properties


def with_named_parents(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """Return the set with the declared fields above each path as members too."""
    result = set(fields)
    for path in fields:
        node = schema
        for depth, element in enumerate(path, start=1):
            if node is None:
                break
            if _is_named_field(node, element):
                result.add(path[:depth])
            node = node.child(element[2:]) if element.startswith("f:") else node.items
    return frozenset(result)


def compare(old: Any, new: Any, schema: Schema | None) -> Comparison:
    """Return how `new` differs from `old`."""
    found: dict[str, list[Path]] = {"added": [], "removed": [], "modified": []}
    _compare(old, new, schema, (), found)
    return Comparison(*(frozenset(found[name]) for name in ("added", "removed", "modified")))


_ABSENT: Final = object()


def _compare(
    old: Any, new: Any, schema: Schema | None, path: Path, found: dict[str, list[Path]]
) -> None:
    if old is _ABSENT or new is _ABSENT:
        side, present = ("removed", old) if new is _ABSENT else ("added", new)
        if path:
            found[side].append(path)
        for element, child, child_schema in entries(present, schema):
            pair = (child, _ABSENT) if side == "removed" else (_ABSENT, child)
            _compare(*pair, child_schema, (*path, element), found)
        return
    old, new = _filled(old, new, schema), _filled(new, old, schema)
    if same(old, new):
        return
    both_maps = is_granular_map(old, schema) and is_granular_map(new, schema)
    both_lists = is_granular_list(old, schema) and is_granular_list(new, schema)
    if not (both_maps or both_lists) or (not old and not new):
        found["modified"].append(path)
        return
    before = {element: (child, s) for element, child, s in entries(old, schema)}
    after = {element: (child, s) for element, child, s in entries(new, schema)}
    for element in dict.fromkeys([*before, *after]):
        old_child, child_schema = before.get(element, (_ABSENT, None))
        new_child, child_schema = after.get(element, (_ABSENT, child_schema))
        _compare(old_child, new_child, child_schema, (*path, element), found)


def _filled(value: Any, other: Any, schema: Schema | None) -> Any:
    """Return null as the empty map or list that it stands for beside one that merges."""
    if value is not None:
        return value
    if is_granular_map(other, schema):
        return {}
    return [] if is_granular_list(other, schema) else None


def remove(value: Any, schema: Schema | None, doomed: FieldSet) -> Any:
    """Return a copy of `value` without the doomed paths and everything below them.

    What is empty then becomes null, as the API server leaves it.
    """
    return _remove(value, schema, (), doomed, _prefixes(doomed))


def _prefixes(paths: Iterable[Path]) -> set[Path]:
    return {path[:depth] for path in paths for depth in range(len(path))}


def _remove(
    value: Any, schema: Schema | None, path: Path, doomed: FieldSet, inside: set[Path]
) -> Any:
    if path not in inside:
        return value
    kept = [
        (element, _remove(child, child_schema, (*path, element), doomed, inside))
        for element, child, child_schema in entries(value, schema)
        if (*path, element) not in doomed
    ]
    if isinstance(value, dict) and is_granular_map(value, schema):
        return {element[2:]: child for element, child in kept} or None
    return [child for _, child in kept] or None if is_granular_list(value, schema) else value


def merge(live: Any, applied: Any, schema: Schema | None) -> Any:
    """Return `live` with everything `applied` mentions; applied items come in their own order.

    A null mentions nothing below: maps and lists that merge stay as they are.
    """
    if applied is None and (is_granular_map(live, schema) or is_granular_list(live, schema)):
        return live
    if is_granular_map(live, schema) and is_granular_map(applied, schema):
        merged = dict(live)
        for element, child, child_schema in entries(applied, schema):
            name = element[2:]
            merged[name] = merge(live[name], child, child_schema) if name in live else child
        return merged
    if is_granular_list(live, schema) and is_granular_list(applied, schema):
        assert schema is not None
        return _merge_lists(live, applied, schema)
    return applied


def _merge_lists(live: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    """Interleave: applied items in applied order; live-only ones stay after what they followed."""
    before = {element: item for element, item, _ in entries(live, schema)}
    after = {element: item for element, item, _ in entries(applied, schema)}
    items = {
        element: merge(before[element], item, schema.items) if element in before else item
        for element, item in after.items()
    }
    return [items.get(e, before.get(e)) for e in _interleave(list(before), list(after))]


def _interleave(live: Sequence[str], applied: Sequence[str]) -> list[str]:
    in_live, in_applied = set(live), set(applied)
    shared = iter([element for element in applied if element in in_live])
    next_shared = next(shared, None)
    order: list[str] = []
    left = right = 0
    while left < len(live) or right < len(applied):
        if left < len(live):
            element = live[left]
            if element not in in_applied:
                order.append(element)
                left += 1
                continue
            if element != next_shared:  # already placed, or placed later in applied order
                left += 1
                continue
        element = applied[right]
        order.append(element)
        right += 1
        if element == next_shared:
            next_shared = next(shared, None)
            if left < len(live) and live[left] == element:
                left += 1
    return order
