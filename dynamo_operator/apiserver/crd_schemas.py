"""Checks the schemas of a CustomResourceDefinition."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from dynamo_operator.apiserver.crd_keywords import children
from dynamo_operator.apiserver.crd_structure import Source, structural_errors
from dynamo_operator.apiserver.custom_resources import embedded_errors
from dynamo_operator.apiserver.field_paths import read_field_path
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.schema import Schema, for_each_embedded, prune
from dynamo_operator.apiserver.schema_validation import Validator
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.validation_rules import RuleSet, cost_words

Errors = Iterator[FieldError]
TOTAL_LIMIT: Final = 100_000_000
"""What all rules of a schema may cost together, by their estimates."""
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_UNSUPPORTED: Final = (
    *("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"),
)


def validation_errors(
    source: Source | None, path: str, *, has_status: bool, old: Source | None = None
) -> list[FieldError]:
    """Return what keeps an `openAPIV3Schema` from being used, its rules included.

    Args:
        source: the schema; None where there is none.
        path: of it.
        has_status: the status has a subresource of its own.
        old: the schema before an update: if it is the same, the cost of its rules is accepted.
    """
    if source is None:
        return []
    return list(_known_errors(to_json(source), path, has_status, old == source))


@lru_cache(maxsize=64)
def _known_errors(
    data: bytes, path: str, has_status: bool, is_unchanged: bool
) -> Sequence[FieldError]:
    """The errors of a schema that servers of this process may have seen before."""
    source = json.loads(data)
    errors = list(_root_errors(source, path, has_status=has_status))
    readable = not _has_item_lists(source)
    structural = structural_errors(source, path) if readable else []
    if not structural and readable:
        structural = list(_default_errors(Schema.compile(source), path))
    errors += structural
    seen = list(_schema_errors(source, path, _Place()))
    if readable and not structural and not seen:
        rules = RuleSet(Schema.compile(source, root=True))
        seen += _rule_errors(rules, path, is_unchanged=is_unchanged)
    return errors + seen


def _has_item_lists(source: Source) -> bool:
    if isinstance(source.get("items"), list):
        return True
    return any(_has_item_lists(child) for _, child in children(source))


def _root_errors(source: Source, path: str, *, has_status: bool) -> Errors:
    if has_status and source.get("type") != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status '
        detail += "subresource is enabled"
        yield _invalid(f"{path}.type", source.get("type", ""), detail)
    if source.get("nullable"):
        yield _forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def _rule_errors(rules: RuleSet, path: str, *, is_unchanged: bool) -> Errors:
    for fault in rules.faults:
        if is_unchanged and fault.kind is FieldErrorKind.FORBIDDEN:
            continue
        detail = fault.detail.replace("{path}", f"{path}." if fault.detail[-1] != "}" else path)
        yield FieldError(f"{path}.{fault.path}", fault.kind, detail, fault.value)
    if rules.total <= TOTAL_LIMIT:
        return
    worst = sorted(rules.expensive, key=lambda each: -each[0])[:4]
    for cost, where in worst:
        if cost >= TOTAL_LIMIT // 100:
            detail = "contributed to estimated rule cost total exceeding cost limit for entire "
            yield _forbidden(f"{path}.{where}", f"{detail}OpenAPIv3 schema")
    what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    yield _forbidden(path, cost_words(what, rules.total, TOTAL_LIMIT))


# Each node


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node is: why it may have no default, and whether it is in an object's metadata."""

    no_default: str = ""
    in_metadata: bool = False
    is_root: bool = True


def _schema_errors(source: Source, path: str, place: _Place) -> Errors:
    yield from _keyword_errors(source, path, place)
    additional, properties = source.get("additionalProperties"), source.get("properties") or {}
    if additional is not None and properties and additional is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        yield _forbidden(f"{path}.additionalProperties", detail)
    below = replace(place, is_root=False)
    for where, child in children(source):
        inside = below
        if where == "additionalProperties" and place.in_metadata:
            reason = "inside additionalProperties applying to object metadata"
            inside = replace(below, no_default=reason)
        elif where.startswith("properties["):
            inside = _property_place(source, where[len("properties[") : -1], place, below)
        yield from _schema_errors(child, f"{path}.{where}", inside)
    yield from _extension_errors(source, path)
    for position, rule in enumerate(source.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{position}]"
        yield from _rule_shape_errors(rule, source, where)


def _property_place(source: Source, name: str, place: _Place, below: _Place) -> _Place:
    is_object = place.is_root or source.get("x-kubernetes-embedded-resource")
    if not is_object or name not in ("metadata", "kind", "apiVersion"):
        return below
    reason = f"in top-level {name}" if place.is_root else below.no_default
    return replace(below, in_metadata=True, no_default=reason)


def _keyword_errors(source: Source, path: str, place: _Place) -> Errors:
    kind = source.get("type")
    if kind and kind not in _TYPES:
        yield _unsupported(f"{path}.type", kind, _TYPES)
    if "default" in source and place.no_default:
        yield _forbidden(f"{path}.default", f"must not be set {place.no_default}")
    for word in _UNSUPPORTED:
        if source.get(word) is not None:
            yield _forbidden(f"{path}.{word}", f"{word} is not supported")
    if kind == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        yield _forbidden(f"{path}.type", detail)
    if isinstance(source.get("items"), list):
        yield _forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_metadata and source.get("x-kubernetes-embedded-resource"):
        where = f"{path}.x-kubernetes-embedded-resource"
        yield _forbidden(where, "must not be used inside of resource meta")
    if source.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield _forbidden(f"{path}.uniqueItems", detail)


def _extension_errors(source: Source, path: str) -> Errors:
    if source.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield _invalid(where, False, "must be true or undefined")
    map_type = source.get("x-kubernetes-map-type")
    if map_type is not None:
        yield from _type_needed(source, path, "object", "x-kubernetes-map-type")
        if map_type not in ("atomic", "granular"):
            yield _unsupported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    yield from _list_type_errors(source, path)


def _type_needed(source: Source, path: str, kind: str, word: str) -> Errors:
    given = source.get("type")
    if given == kind:
        return
    detail = f"must be {kind} if {word} is specified"
    yield _invalid(f"{path}.type", given, detail) if given else _required(f"{path}.type", detail)


def _list_type_errors(source: Source, path: str) -> Errors:
    list_type, keys = source.get("x-kubernetes-list-type"), source.get("x-kubernetes-list-map-keys")
    items = source.get("items")
    where = f"{path}.x-kubernetes-list-type"
    if list_type is not None and source.get("type") != "array":
        yield from _type_needed(source, path, "array", "x-kubernetes-list-type")
    elif list_type == "set" and isinstance(items, Mapping):
        yield from _set_errors(items, f"{path}.items")
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield _unsupported(where, list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield _required(where, detail) if list_type is None else _invalid(where, list_type, detail)
    if list_type == "map":
        yield from _map_list_errors(items, keys or (), path)
    if list_type in ("set", "map") and isinstance(items, Mapping):
        yield from _item_errors(items, list_type, keys or (), f"{path}.items")


def _set_errors(items: Source, path: str) -> Errors:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield _invalid(f"{path}.x-kubernetes-list-type", list_type, detail)
    elif items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield _invalid(f"{path}.x-kubernetes-map-type", list_type, detail)


def _map_list_errors(items: Any, keys: Any, path: str) -> Errors:
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield _required(where, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield _required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, Mapping):
        return
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield _invalid(f"{path}.items.type", items.get("type", ""), detail)
        return
    seen = set()
    for key in keys:
        child = (items.get("properties") or {}).get(key)
        if child is None:
            yield _invalid(where, list(keys), "entries must all be names of item properties")
        elif child.get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield _invalid(f"{path}.items.properties[{key}].type", items["type"], detail)
        if key in seen:
            yield _invalid(where, list(keys), "must not contain duplicate entries")
        seen.add(key)


def _item_errors(items: Source, list_type: str, keys: Any, path: str) -> Errors:
    if items.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield _forbidden(f"{path}.nullable", detail)
    for key in keys if list_type == "map" else ():
        child = (items.get("properties") or {}).get(key)
        if child is None:
            continue
        where = f"{path}.properties[{key}]"
        why = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and "default" not in child:
            detail = f"{why} must have a default or be a required property"
            yield _required(f"{where}.default", detail)
        if child.get("nullable"):
            yield _forbidden(f"{where}.nullable", f"{why} cannot be nullable")


def _rule_shape_errors(rule: Mapping[str, Any], source: Source, path: str) -> Errors:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        yield _required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield _invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _has_lines(message.strip()):
        yield _invalid(f"{path}.message", message, "must not contain line breaks")
    elif _has_lines(text.strip()) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        yield _required(f"{path}.message", detail)
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        yield _required(f"{path}.messageExpression", detail)
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield _unsupported(f"{path}.reason", rule["reason"], _REASONS)
    place = rule.get("fieldPath") or ""
    if place and not place.strip():
        yield _invalid(f"{path}.fieldPath", place, "must be non-empty if specified")
    if _has_lines(place):
        yield _invalid(f"{path}.fieldPath", place, "must not contain line breaks")
    if place and read_field_path(place, Schema.compile(source)) is None:
        yield _invalid(f"{path}.fieldPath", place, "must be a valid path")


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


# Defaults


def _default_errors(schema: Schema, path: str, *, is_whole: bool = True) -> Errors:
    """What is wrong with defaults; `is_whole` where one would be a whole object."""
    if schema.source.get("default") is not None:
        yield from _one_default_errors(schema, f"{path}.default", is_whole=is_whole)
    if schema.items is not None:
        yield from _default_errors(schema.items, f"{path}.items", is_whole=False)
    for name, child in schema.properties.items():
        if not (is_whole and name == "metadata"):
            yield from _default_errors(child, f"{path}.properties[{name}]", is_whole=False)


def _one_default_errors(schema: Schema, path: str, *, is_whole: bool) -> Errors:
    value = copy.deepcopy(schema.default)
    whole = Schema.compile(schema.source, root=True) if is_whole else schema
    pruned = prune(value, whole)
    if pruned != value:
        yield _invalid(path, dict(sorted(value.items())), "must not have unknown fields")
    wrong = list(_object_errors(value, whole, path))
    if not wrong:
        found = Validator(schema).validate(value)
        wrong = [_below_path(error, path) for error in found if not _is_left_out(error)]
    if not wrong:
        rules = RuleSet(whole)
        wrong = [_below_path(error, path) for error in rules.validate(value, value)]
        if not wrong:
            wrong = [_below_path(error, path) for error in rules.validate(value)]
    yield from wrong


def _is_left_out(error: FieldError) -> bool:
    """Whether the server does not look for that in defaults: duplicates, and int-or-string."""
    of_either = "must be of type integer,string" in error.detail
    return error.kind is FieldErrorKind.DUPLICATE or of_either


def _object_errors(value: Any, schema: Schema, path: str) -> Errors:
    """What an object lacks to be one, at the places of embedded resources and of whole objects."""
    missing: list[FieldError] = []

    def visit(where: str, found: dict[str, Any]) -> None:
        inner = f"{path}.{where}" if where else path
        lacking = [name for name in ("apiVersion", "kind") if not found.get(name)]
        missing.extend(FieldError(f"{inner}.{n}", FieldErrorKind.REQUIRED) for n in lacking)

    if schema.is_root and isinstance(value, dict):
        visit("", value)
    for_each_embedded(value, schema, visit)
    yield from missing
    for error in embedded_errors(value, schema) if not missing else ():
        yield replace(error, path=f"{path}.{error.path}")


def _below_path(error: FieldError, path: str) -> FieldError:
    """An error about a default, which words it as if the default stood alone."""
    inner = "" if error.path == "<nil>" else error.path
    detail = error.detail
    if not inner and detail.startswith("in body"):
        detail = f" {detail}"
    return replace(error, path=f"{path}.{inner}" if inner else path, detail=detail)


# Warnings


def warnings(source: Source, is_known: Callable[[Source], bool]) -> tuple[list[str], list[str]]:
    """Return the formats that nothing checks, and what is said of sets of lists and objects."""
    formats: list[str] = []
    sets: set[str] = set()
    _collect(source, is_known, formats, sets)
    words = "is not supported by server-side apply or CEL validation rules"
    told = [
        f'x-kubernetes-list-type: set for items of type "{kind}" {words}' for kind in sorted(sets)
    ]
    return formats, told


def _collect(
    source: Source, is_known: Callable[[Source], bool], formats: list[str], sets: set[str]
) -> None:
    if source.get("format") and not is_known(source):
        formats.append(source["format"])
    items = source.get("items")
    kind = items.get("type") if isinstance(items, Mapping) else None
    if source.get("x-kubernetes-list-type") == "set" and kind in ("object", "array"):
        sets.add(kind)
    for _, child in children(source):
        _collect(child, is_known, formats, sets)


def _invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.INVALID, detail, value)


def _required(path: str, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.REQUIRED, detail)


def _forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.FORBIDDEN, detail)


def _unsupported(path: str, value: Any, supported: tuple[str, ...]) -> FieldError:
    names = ", ".join(f'"{name}"' for name in supported)
    return FieldError(path, FieldErrorKind.NOT_SUPPORTED, f"supported values: {names}", value)
