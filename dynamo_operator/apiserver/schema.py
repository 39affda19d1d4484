"""This module compiles structural schemas and prunes and defaults objects by them.

One representation serves custom and built-in kinds: what an object may hold (pruning, unknown
fields), what is filled in (defaulting), what is refused (`schema_validation`, `cel`), and how
lists and maps merge (`apply`, `strategic_merge`). The extensions carry their OpenAPI names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

METADATA_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_OBJECT_META_TYPES: Final[Mapping[str, Any]] = {
    "name": {"type": "string"},
    "generateName": {"type": "string"},
    "namespace": {"type": "string"},
    "selfLink": {"type": "string"},
    "uid": {"type": "string"},
    "resourceVersion": {"type": "string"},
    "generation": {"type": "integer", "format": "int64"},
    "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
    "deletionTimestamp": {"type": "string", "format": "date-time", "nullable": True},
    "deletionGracePeriodSeconds": {"type": "integer", "format": "int64", "nullable": True},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}, "nullable": True},
    "annotations": {"type": "object", "additionalProperties": {"type": "string"}, "nullable": True},
    "ownerReferences": {
        "type": "array",
        "nullable": True,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["uid"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "uid",
        "items": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "name": {"type": "string"},
                "uid": {"type": "string"},
                "controller": {"type": "boolean", "nullable": True},
                "blockOwnerDeletion": {"type": "boolean", "nullable": True},
            },
        },
    },
    "finalizers": {
        "type": "array",
        "nullable": True,
        "x-kubernetes-list-type": "set",
        "x-kubernetes-patch-strategy": "merge",
        "items": {"type": "string"},
    },
    "managedFields": {
        "type": "array",
        "nullable": True,
        "items": {
            "type": "object",
            "properties": {
                "manager": {"type": "string"},
                "operation": {"type": "string"},
                "apiVersion": {"type": "string"},
                "time": {"type": "string", "nullable": True},
                "fieldsType": {"type": "string"},
                "subresource": {"type": "string"},
                "fieldsV1": {
                    "type": "object",
                    "nullable": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        },
    },
}
OBJECT_META_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": _OBJECT_META_TYPES,
}
"""ObjectMeta, written as OpenAPI; every object's `metadata` has this type."""


@dataclass(frozen=True)
class Schema:
    """One compiled node of a structural schema. `source` is the OpenAPI it was made from."""

    source: Mapping[str, Any]
    type: str = ""
    nullable: bool = False
    int_or_string: bool = False
    preserve_unknown: bool = False
    embedded: bool = False
    is_root: bool = False
    properties: Mapping[str, Schema] = field(default_factory=dict)
    additional: Schema | None = None
    any_additional: bool = False
    items: Schema | None = None
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    atomic_map: bool = False
    has_defaults: bool = False
    merge_key: str = ""
    patch_strategies: frozenset[str] = frozenset()

    @classmethod
    def compile(cls, source: Mapping[str, Any], *, root: bool = False) -> Schema:
        """Compile OpenAPI v3 as a CRD writes it; `root` adds apiVersion, kind and metadata."""
        source = _with_metadata(source) if root or is_embedded(source) else source
        properties = {k: cls.compile(v) for k, v in (source.get("properties") or {}).items()}
        additional = source.get("additionalProperties")
        additional_schema = cls.compile(additional) if isinstance(additional, Mapping) else None
        items = source.get("items")
        items_schema = cls.compile(items) if isinstance(items, Mapping) else None
        children = [*properties.values(), *filter(None, (additional_schema, items_schema))]
        return cls(
            source=source,
            type=source.get("type", ""),
            nullable=bool(source.get("nullable")),
            int_or_string=bool(source.get("x-kubernetes-int-or-string")),
            preserve_unknown=bool(source.get("x-kubernetes-preserve-unknown-fields")),
            embedded=is_embedded(source),
            is_root=root,
            properties=properties,
            additional=additional_schema,
            any_additional=additional is True,
            items=items_schema,
            list_type=source.get("x-kubernetes-list-type", ""),
            list_keys=tuple(source.get("x-kubernetes-list-map-keys") or ()),
            atomic_map=source.get("x-kubernetes-map-type") == "atomic",
            has_defaults=any("default" in c.source or c.has_defaults for c in children),
            merge_key=source.get("x-kubernetes-patch-merge-key", ""),
            patch_strategies=frozenset(
                filter(None, source.get("x-kubernetes-patch-strategy", "").split(","))
            ),
        )

    @property
    def default(self) -> Any:
        """The default as written (None when there is none)."""
        return self.source.get("default")

    @property
    def names_objects(self) -> bool:
        """Whether values are whole Kubernetes objects, with metadata of their own."""
        return self.is_root or self.embedded

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The names of required properties."""
        return tuple(self.source.get("required") or ())

    def child(self, name: str) -> Schema | None:
        """The schema of a property or map value; None when the schema says nothing about it."""
        return self.properties.get(name) or self.additional

    def keeps(self, name: str) -> bool:
        """Whether a field of this name survives pruning."""
        return (
            self.preserve_unknown
            or self.any_additional
            or self.additional is not None
            or name in self.properties
        )


def is_embedded(source: Mapping[str, Any]) -> bool:
    """Whether the node is marked as an embedded resource."""
    return bool(source.get("x-kubernetes-embedded-resource"))


def prune(value: Any, schema: Schema | None) -> Any:
    """A copy of `value` without unknown fields and with integral floats as integers.

    Where the schema is None (below a preserved field) everything is kept.
    """
    return _prune(value, schema, kept=schema is None)


def _prune(value: Any, schema: Schema | None, *, kept: bool) -> Any:
    if isinstance(value, str):  # what most of an object is
        return value
    if isinstance(value, dict):
        return _pruned_fields(value, schema, kept=kept)
    if isinstance(value, list):
        items = schema.items if schema else None
        # What preserves unknown fields does so for the items of a list in its place, too.
        below = kept or (schema is not None and schema.preserve_unknown)
        return [_prune(item, items, kept=below) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        wrong = schema is not None and schema.type in _NO_NUMBERS  # is refused as it was sent
        return value if wrong else int(value)  # as the server's JSON encoder writes it
    return value


def _pruned_fields(
    fields: Mapping[str, Any], schema: Schema | None, *, kept: bool
) -> dict[str, Any]:
    if schema is None:
        return {k: _prune(child, None, kept=True) for k, child in fields.items()} if kept else {}
    kept = kept or schema.preserve_unknown
    pruned = {}
    for name, child in fields.items():
        below = schema.child(name)
        if below is not None:  # a declared field decides for itself
            pruned[name] = _prune(child, below, kept=False)
        elif kept or schema.any_additional:
            pruned[name] = _prune(child, None, kept=kept)
    return pruned


_NO_NUMBERS: Final = frozenset({"string", "boolean", "object", "array"})


def unknown_fields(value: Any, schema: Schema | None) -> list[str]:
    """The paths that `prune` drops, in document order."""
    return list(_unknown(value, schema, ""))


def _unknown(value: Any, schema: Schema | None, path: str) -> Iterator[str]:
    if schema is None:
        return
    if isinstance(value, dict):
        for name, child in value.items():
            where = f"{path}.{name}" if path else name
            if schema.keeps(name):
                of_nothing = schema.any_additional and not schema.preserve_unknown
                below = schema.child(name) or (_EMPTY if of_nothing else None)
                yield from _unknown(child, below, where)
            else:
                yield where
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            yield from _unknown(item, schema.items, f"{path}[{index}]")


_EMPTY: Final = Schema({})
"""Of values about which nothing is told, and of which nothing is kept."""


def drop_nulls(
    value: Any,
    schema: Schema | None,
    *,
    nullable_too: bool = False,
    only_defaulted: bool = False,
) -> None:
    """Remove, in place, null properties and map values whose schema is not nullable.

    A default fills such a place afterwards. Nulls in lists stay: they are validation errors. With
    `nullable_too` null means absent everywhere, as in built-in kinds. With `only_defaulted` nulls
    stay where there is no default: they are validation errors, too.
    """
    how = {"nullable_too": nullable_too, "only_defaulted": only_defaulted}
    if schema is None:
        return
    if isinstance(value, dict):
        for name in list(value):
            child = schema.child(name)
            if child is None:
                continue
            is_dropped = nullable_too or not child.nullable
            if only_defaulted and child.default is None:
                is_dropped = False
            if value[name] is None and nullable_too and child is schema.additional:
                value[name] = _ZERO_OF.get(child.type)  # a map keeps its keys
            elif value[name] is None and is_dropped:
                del value[name]
            else:
                drop_nulls(value[name], child, **how)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, schema.items, **how)


_ZERO_OF: Final[Mapping[str, Any]] = {"string": "", "integer": 0, "boolean": False}


def drop_empty(value: Any, schema: Schema | None) -> None:
    """Remove, in place, empty lists and maps, which built-in kinds do not keep; records stay."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name in list(value):
            child = schema.child(name)
            drop_empty(value[name], child)
            is_map = child is not None and child.additional is not None
            is_empty = value[name] == [] or (value[name] == {} and is_map)
            if is_empty and child is not None and name != "managedFields":
                del value[name]
    elif isinstance(value, list):
        for item in value:
            drop_empty(item, schema.items)


def apply_defaults(value: Any, schema: Schema | None) -> None:
    """Fill defaults in place, parents before children."""
    if schema is None or not schema.has_defaults:
        return
    if isinstance(value, dict):
        for name, child in schema.properties.items():
            if child.default is not None and name not in value:
                value[name] = copy.deepcopy(child.default)
        for name, item in value.items():
            apply_defaults(item, schema.child(name))
    elif isinstance(value, list):
        items = schema.items
        if items is not None and items.default is not None and not items.nullable:
            value[:] = [copy.deepcopy(items.default) if v is None else v for v in value]
        for item in value:
            apply_defaults(item, items)


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every node below and including `schema` with its path inside an object."""
    yield path, schema
    for name, child in schema.properties.items():
        yield from walk(child, f"{path}.{name}" if path else name)
    if schema.additional is not None:
        yield from walk(schema.additional, f"{path}[*]")
    if schema.items is not None:
        yield from walk(schema.items, f"{path}[*]")


def for_each_embedded(
    value: Any, schema: Schema | None, visit: Callable[[str, dict[str, Any]], None], path: str = ""
) -> None:
    """Call `visit(path, object)` for every embedded resource inside `value`."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.embedded:
            visit(path, value)
        for name, child in value.items():
            for_each_embedded(child, schema.child(name), visit, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for_each_embedded(item, schema.items, visit, f"{path}[{index}]")


def _with_metadata(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """The node with the three implicit fields; metadata's own restrictions are kept beside."""
    properties = dict(source.get("properties") or {})
    declared = properties.get("metadata") or {}
    for name in ("apiVersion", "kind"):
        properties[name] = {**(properties.get(name) or {}), "type": "string"}
    properties["metadata"] = {**declared, **OBJECT_META_SCHEMA, "properties": _meta_types(declared)}
    return {**source, "properties": properties}


def _meta_types(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    restricted = declared.get("properties") or {}
    return {
        name: {**restricted.get(name, {}), **schema} for name, schema in _OBJECT_META_TYPES.items()
    }
