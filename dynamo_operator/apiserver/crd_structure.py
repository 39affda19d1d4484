"""Whether a schema is structural: everything that it keeps is told outside of its junctors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.apiserver.schema import is_embedded
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.value_checks import pattern_fault

Source = Mapping[str, Any]
Errors = Iterator[FieldError]
JUNCTORS: Final = ("anyOf", "allOf", "oneOf")
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
"""With which int-or-string may spell out what it is."""
_MISSING_TYPES: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_FORBIDDEN: Final = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def structural_errors(source: Source, path: str) -> list[FieldError]:
    """Return what keeps a schema from being structural, in the order of their texts."""
    errors = [*_invariants(source, path, "root"), *_completeness(source, source, path, path)]
    return sorted(errors, key=str)


def _invariants(source: Source, path: str, level: str) -> Errors:
    kind, items = source.get("type", ""), source.get("items")
    if kind == "array" and items is None:
        yield _required(f"{path}.items", "must be specified")
    if items is not None:
        yield from _invariants(items, f"{path}.items", "item")
    properties = source.get("properties") or {}
    for name, child in properties.items():
        yield from _invariants(child, f"{path}.properties[{name}]", "field")
    additional = source.get("additionalProperties")
    if additional is not None:
        where = f"{path}.additionalProperties"
        if level == "root":
            yield _forbidden(where, "must not be used at the root")
        if isinstance(additional, Mapping):
            yield from _invariants(additional, where, "field")
    yield from _exclusions(source, path)
    yield from _validations(source, path, either=source)
    yield from _types(source, path, level)
    yield from _object_fields(properties, path, level, embedded=is_embedded(source))


def _exclusions(source: Source, path: str) -> Errors:
    if not source.get("x-kubernetes-int-or-string"):
        return
    for word in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if source.get(word):
            detail = "must be false if x-kubernetes-int-or-string is true"
            yield _invalid(f"{path}.{word}", True, detail)


def _types(source: Source, path: str, level: str) -> Errors:
    kind, preserves = source.get("type", ""), source.get("x-kubernetes-preserve-unknown-fields")
    if is_embedded(source):
        detail = "must be object if x-kubernetes-embedded-resource is true"
        if not kind:
            yield _required(f"{path}.type", detail)
        elif kind != "object":
            yield _invalid(f"{path}.type", kind, detail)
        if source.get("additionalProperties") is not None:
            detail = "must not be used if x-kubernetes-embedded-resource is set"
            yield _forbidden(f"{path}.additionalProperties", detail)
        if not preserves and not source.get("properties"):
            detail = "must not be empty if x-kubernetes-embedded-resource is true without "
            detail += "x-kubernetes-preserve-unknown-fields"
            yield _required(f"{path}.properties", detail)
    elif not kind and not source.get("x-kubernetes-int-or-string") and not preserves:
        yield _required(f"{path}.type", _MISSING_TYPES[level])
    if level == "root" and kind and kind != "object":
        yield _invalid(f"{path}.type", kind, "must be object at the root")


def _object_fields(properties: Source, path: str, level: str, *, embedded: bool) -> Errors:
    """What is wrong with kind, apiVersion and metadata, where they are those of an object."""
    is_object = level == "root" or embedded
    for name in ("kind", "apiVersion"):
        if is_object and name in properties and properties[name].get("type", "") != "string":
            where = f"{path}.properties[{name}].type"
            yield _invalid(where, properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if is_object and metadata.get("type", "") != "object":
        yield _invalid(f"{where}.type", metadata.get("type", ""), "must be object")
    if level == "root":
        others = set(metadata) - {"type", "default", "properties"}
        if others or set(metadata.get("properties") or {}) - {"name", "generateName"}:
            detail = "must not specify anything other than name and generateName, but metadata is "
            yield _forbidden(where, f"{detail}implicitly specified")


def _validations(source: Source, path: str, *, either: Source | None) -> Errors:
    """What is wrong with the junctors of a node, or of a branch of one.

    `either` is the node that may spell out int-or-string in its own anyOf, or in the one of the
    first allOf.
    """
    spelled = either is not None and source.get("anyOf") == _EITHER
    first = (source.get("allOf") or [{}])[0]
    spelled_below = either is not None and first.get("anyOf") == _EITHER
    for word in JUNCTORS:
        for position, branch in enumerate(source.get(word) or ()):
            if word == "anyOf" and spelled:
                continue
            below = branch
            if word == "allOf" and position == 0 and spelled_below:
                below = {name: value for name, value in branch.items() if name != "anyOf"}
            yield from _branch(below, f"{path}.{word}[{position}]")
    if source.get("not") is not None:
        yield from _branch(source["not"], f"{path}.not")
    if source.get("pattern") and (fault := pattern_fault(source["pattern"])):
        detail = f"must be a valid regular expression, but isn't: {fault}"
        yield _invalid(f"{path}.pattern", source["pattern"], detail)


def _branch(branch: Source, path: str) -> Errors:
    yield from _validations(branch, path, either=None)
    if isinstance(branch.get("items"), Mapping):
        yield from _branch(branch["items"], f"{path}.items")
    properties = branch.get("properties") or {}
    for name, child in properties.items():
        yield from _branch(child, f"{path}.properties[{name}]")
    if branch.get("type"):
        yield _forbidden(f"{path}.type", "must be empty to be structural")
    if branch.get("additionalProperties") is not None:
        yield _forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for word, detail in _FORBIDDEN:
        if branch.get(word):
            yield _forbidden(f"{path}.{word}", detail)
    if "metadata" in properties:
        yield _forbidden(
            f"{path}.properties[metadata]", "must not be specified in a nested context"
        )


def _completeness(branch: Source, around: Source | None, path: str, told: str) -> Errors:
    """What a branch tells of fields that the structure does not; at the root, the schema itself."""
    if around is None:
        yield _required(path, f"because it is defined in {told}")
        return
    for word in JUNCTORS:
        for position, deeper in enumerate(branch.get(word) or ()):
            yield from _complete(deeper, around, path, f"{told}.{word}[{position}]")
    if branch.get("not") is not None:
        yield from _complete(branch["not"], around, path, f"{told}.not")


def _complete(branch: Source, around: Source, path: str, told: str) -> Errors:
    yield from _completeness(branch, around, path, told)
    if isinstance(branch.get("items"), Mapping):
        items = around.get("items")
        where, below = f"{path}.items", f"{told}.items"
        if items is None:
            yield _required(where, f"because it is defined in {below}")
        else:
            yield from _complete(branch["items"], items, where, below)
    properties = around.get("properties") or {}
    for name, child in (branch.get("properties") or {}).items():
        where, below = f"{path}.properties[{name}]", f"{told}.properties[{name}]"
        if name in properties:
            yield from _complete(child, properties[name], where, below)
        else:
            yield _required(where, f"because it is defined in {below}")


def _invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.INVALID, detail, value)


def _required(path: str, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.REQUIRED, detail)


def _forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.FORBIDDEN, detail)
