"""This module checks that the schemas of a CustomResourceDefinition are structural."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from dynamo_operator.apiserver.cel import RuleSet
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.schema import Schema, drop_nulls, is_embedded, unknown_fields
from dynamo_operator.apiserver.schema_validation import Validator
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.value_checks import compile_pattern, type_error

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = (
    "$ref",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
)
_STRUCTURE_ONLY: Final = (
    "type",
    "description",
    "default",
    "additionalProperties",
    "nullable",
    "title",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)
"""What a schema below allOf, anyOf, oneOf or not must leave to the structure around it."""

_SCALARS: Final = frozenset({"string", "integer", "number", "boolean"})


_KEYWORDS: Final = (
    "$ref $schema additionalItems additionalProperties allOf anyOf default definitions "
    "dependencies description enum example exclusiveMaximum exclusiveMinimum externalDocs "
    "format id items maxItems maxLength maxProperties maximum minItems minLength "
    "minProperties minimum multipleOf not nullable oneOf pattern patternProperties properties "
    "required title type uniqueItems x-kubernetes-embedded-resource x-kubernetes-int-or-"
    "string x-kubernetes-list-map-keys x-kubernetes-list-type x-kubernetes-map-type "
    "x-kubernetes-preserve-unknown-fields x-kubernetes-validations"
)
_KNOWN: Final = frozenset(_KEYWORDS.split())


def unknown_keywords(source: Any, path: str) -> Iterator[str]:
    """Yield the paths of keywords that no schema has."""
    if not isinstance(source, Mapping):
        return
    for word, value in source.items():
        below = f"{path}.{word}"
        if word not in _KNOWN:
            yield below
        elif word == "properties" and isinstance(value, Mapping):
            for name, child in value.items():
                yield from unknown_keywords(child, f"{below}.{name}")
        elif word in ("items", "additionalProperties", "not"):
            yield from unknown_keywords(value, below)
        elif word in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            for position, child in enumerate(value):
                yield from unknown_keywords(child, f"{below}[{position}]")


_WORD_TYPES: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "enum", "required"), list),
    **dict.fromkeys(("x-kubernetes-list-map-keys", "x-kubernetes-validations"), list),
    **dict.fromkeys(("properties", "items", "not"), dict),
    **dict.fromkeys(("type", "pattern", "format", "description"), str),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), str),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), int),
    **dict.fromkeys(("minProperties", "maxProperties"), int),
    "additionalProperties": (dict, bool),
}


def _malformed(source: Any, path: str) -> Iterator[FieldError]:
    """Keywords whose values have the wrong JSON type; nothing else can be said about those."""
    if not isinstance(source, dict):
        yield type_error(path, "object", source)
        return
    for word, value in source.items():
        expected = _WORD_TYPES.get(word)
        if expected is not None and value is not None and not isinstance(value, expected):
            yield _invalid(f"{path}.{word}", value, "has the wrong JSON type for this keyword")
    for below, child in _subschemas(source, path):
        yield from _malformed(child, below)
    for position, rule in enumerate(_as(list, source.get("x-kubernetes-validations"))):
        if not isinstance(rule, dict) or not all(isinstance(v, (str, bool)) for v in rule.values()):
            where = f"{path}.x-kubernetes-validations[{position}]"
            yield _invalid(where, rule, "must be an object of texts")


def _subschemas(source: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, child in _as(dict, source.get("properties")).items():
        yield f"{path}.properties[{name}]", child
    for word in ("items", "not", "additionalProperties"):
        if isinstance(source.get(word), dict):
            yield f"{path}.{word}", source[word]
    for word in ("allOf", "anyOf", "oneOf"):
        for position, child in enumerate(_as(list, source.get(word))):
            yield f"{path}.{word}[{position}]", child


def _as(kind: type, value: Any) -> Any:
    return value if isinstance(value, kind) else kind()


def schema_errors(source: Any, path: str) -> list[FieldError]:
    """Return what keeps an `openAPIV3Schema` from being used, its rules included."""
    if not isinstance(source, Mapping) or not source:
        return [_required(path, "schemas are required")]
    try:
        data = to_json(source)
    except (TypeError, ValueError):
        return list(_schema_errors(source, path))
    return list(_known_errors(data, path))


@lru_cache(maxsize=64)
def _known_errors(data: bytes, path: str) -> Sequence[FieldError]:
    """The errors of a schema that servers of this process may have seen before."""
    return _schema_errors(json.loads(data), path)


def _schema_errors(source: Mapping[str, Any], path: str) -> Sequence[FieldError]:
    malformed = list(_malformed(source, path))
    if malformed:
        return malformed
    errors = list(_node_errors(source, path, "at the root"))
    if source.get("type") not in (None, "object"):
        errors.append(_invalid(f"{path}.type", source["type"], "must be object at the root"))
    errors += _root_metadata_errors(source, path)
    if errors:
        return errors
    schema = Schema.compile(source, root=True)
    errors = list(_default_errors(Schema.compile(source), path))
    return errors + [
        _invalid(f"{path}.{where}", rule, f"compilation failed: {text}")
        for where, rule, text in RuleSet(schema).errors
    ]


def _node_errors(source: Mapping[str, Any], path: str, where: str) -> Iterator[FieldError]:
    yield from _type_errors(source, path, where)
    yield from _keyword_errors(source, path)
    yield from _extension_errors(source, path)
    yield from _junctor_errors(source, path)
    properties = source.get("properties") or {}
    additional = source.get("additionalProperties")
    for name, child in properties.items():
        yield from _node_errors(child, f"{path}.properties[{name}]", "for specified object fields")
    if isinstance(additional, Mapping):
        below = f"{path}.additionalProperties"
        yield from _node_errors(additional, below, "for specified object fields")
    items = source.get("items")
    if isinstance(items, Mapping):
        yield from _node_errors(items, f"{path}.items", "for specified array items")


def _type_errors(source: Mapping[str, Any], path: str, where: str) -> Iterator[FieldError]:
    kind = source.get("type", "")
    int_or_string = source.get("x-kubernetes-int-or-string")
    if kind and int_or_string:
        detail = "must be empty if x-kubernetes-int-or-string is true"
        yield _forbidden(f"{path}.type", detail)
    elif kind and kind not in _TYPES:
        names = ", ".join(json.dumps(name) for name in _TYPES)
        yield FieldError(
            f"{path}.type", FieldErrorKind.NOT_SUPPORTED, f"supported values: {names}", kind
        )
    elif not kind and not int_or_string and not _preserves(source):
        yield _required(f"{path}.type", f"must not be empty {where}")
    elif kind == "array" and not source.get("items"):
        yield _required(f"{path}.items", "must be specified")


def _keyword_errors(source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name in _UNSUPPORTED:
        if source.get(name):
            yield _forbidden(f"{path}.{name}", f"{name} is not supported")
    if source.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield _forbidden(f"{path}.uniqueItems", detail)
    additional = source.get("additionalProperties")
    if additional is False:
        detail = "additionalProperties cannot be set to false"
        yield _forbidden(f"{path}.additionalProperties", detail)
    if additional and source.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield _forbidden(f"{path}.additionalProperties", detail)
    yield from _pattern_errors(source, path)


def _pattern_errors(source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    pattern = source.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except ValueError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield _invalid(f"{path}.pattern", pattern, detail)


def _extension_errors(source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    preserve = source.get("x-kubernetes-preserve-unknown-fields")
    if preserve is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield _invalid(where, False, "must be true or undefined")
    if is_embedded(source):
        if source.get("type") != "object":
            detail = "must be object if x-kubernetes-embedded-resource is true"
            yield _invalid(f"{path}.type", source.get("type", ""), detail)
        elif not source.get("properties") and not preserve:
            yield _required(
                f"{path}.properties",
                "must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
            )
    map_type = source.get("x-kubernetes-map-type")
    if map_type is not None:
        where = f"{path}.x-kubernetes-map-type"
        if source.get("type") != "object":
            yield _invalid(
                f"{path}.type",
                source.get("type", ""),
                "must be object if x-kubernetes-map-type is specified",
            )
        if map_type not in ("atomic", "granular"):
            yield FieldError(
                where,
                FieldErrorKind.NOT_SUPPORTED,
                'supported values: "atomic", "granular"',
                map_type,
            )
    yield from _list_type_errors(source, path)


def _list_type_errors(source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    list_type, keys = source.get("x-kubernetes-list-type"), source.get("x-kubernetes-list-map-keys")
    where, keys_path = f"{path}.x-kubernetes-list-type", f"{path}.x-kubernetes-list-map-keys"
    if list_type is None:
        if keys:
            yield _invalid(where, None, "must be map if x-kubernetes-list-map-keys is non-empty")
        return
    if list_type not in ("atomic", "set", "map"):
        detail = 'supported values: "atomic", "set", "map"'
        yield FieldError(where, FieldErrorKind.NOT_SUPPORTED, detail, list_type)
        return
    if source.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        yield _invalid(f"{path}.type", source.get("type", ""), detail)
    if list_type != "map" and keys:
        yield _invalid(where, list_type, "must be map if x-kubernetes-list-map-keys is non-empty")
    items = source.get("items") or {}
    if list_type == "set" and not _is_atomic(items):
        detail = "forbid items of granular type for a set: they must be scalar or atomic"
        yield _invalid(f"{path}.items", items.get("type", ""), detail)
    if list_type == "map":
        if not keys:
            yield _required(keys_path, "must not be empty if x-kubernetes-list-type is map")
        yield from _map_key_errors(items, keys or (), path)


def _map_key_errors(items: Mapping[str, Any], keys: Any, path: str) -> Iterator[FieldError]:
    where = f"{path}.x-kubernetes-list-map-keys"
    if items.get("type") != "object":
        yield _invalid(
            f"{path}.items.type",
            items.get("type", ""),
            "must be object if parent array's x-kubernetes-list-type is map",
        )
        return
    if len(set(keys)) != len(keys):
        yield _invalid(where, list(keys), "must not contain duplicate entries")
    for position, key in enumerate(keys):
        child = (items.get("properties") or {}).get(key)
        if child is None:
            yield _invalid(
                f"{where}[{position}]", key, "entries must all be names of item properties"
            )
        elif child.get("type") not in _SCALARS:
            yield _invalid(
                f"{path}.items.properties[{key}].type",
                child.get("type", ""),
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            )
        elif "default" not in child and key not in (items.get("required") or ()):
            yield _required(
                f"{path}.items.properties[{key}].default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
                "required property",
            )


def _is_atomic(items: Mapping[str, Any]) -> bool:
    if items.get("type") == "object":
        return bool(items.get("x-kubernetes-map-type") == "atomic")
    if items.get("type") == "array":
        return bool(items.get("x-kubernetes-list-type", "atomic") == "atomic")
    return True


def _junctor_errors(source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for word in ("allOf", "anyOf", "oneOf"):
        for position, branch in enumerate(source.get(word) or ()):
            yield from _branch_errors(branch, source, f"{path}.{word}[{position}]", path)
    if source.get("not"):
        yield from _branch_errors(source["not"], source, f"{path}.not", path)


def _branch_errors(
    branch: Mapping[str, Any], around: Mapping[str, Any], path: str, outside: str
) -> Iterator[FieldError]:
    for name in _STRUCTURE_ONLY:
        typed_branch = name == "type" and around.get("x-kubernetes-int-or-string")
        if branch.get(name) and not typed_branch:
            yield _forbidden(f"{path}.{name}", "must be empty to be structural")
    yield from _pattern_errors(branch, path)
    properties = around.get("properties") or {}
    for name, child in (branch.get("properties") or {}).items():
        below, beside = f"{path}.properties[{name}]", f"{outside}.properties[{name}]"
        if name in properties:
            yield from _branch_errors(child, properties[name], below, beside)
        elif not (
            outside.endswith("openAPIV3Schema") and name in ("apiVersion", "kind", "metadata")
        ):
            yield _required(beside, f"because it is defined in {below}")
    if isinstance(branch.get("items"), Mapping):
        items = around.get("items")
        if isinstance(items, Mapping):
            yield from _branch_errors(branch["items"], items, f"{path}.items", f"{outside}.items")
        else:
            yield _required(f"{outside}.items", f"because it is defined in {path}.items")
    yield from _junctor_errors(
        {
            **branch,
            "x-kubernetes-int-or-string": around.get("x-kubernetes-int-or-string"),
            "properties": properties,
            "items": around.get("items"),
        },
        path,
    )


def _root_metadata_errors(source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    metadata = (source.get("properties") or {}).get("metadata") or {}
    extra = set(metadata) - {"type", "description", "properties"}
    if extra or set(metadata.get("properties") or {}) - {"name", "generateName"}:
        detail = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield _forbidden(f"{path}.properties[metadata]", detail)


def _default_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    if "default" in schema.source:
        yield from _one_default_errors(schema, f"{path}.default")
    for name, child in schema.properties.items():
        yield from _default_errors(child, f"{path}.properties[{name}]")
    if schema.additional is not None:
        yield from _default_errors(schema.additional, f"{path}.additionalProperties")
    if schema.items is not None:
        yield from _default_errors(schema.items, f"{path}.items")


def _one_default_errors(schema: Schema, path: str) -> Iterator[FieldError]:
    value = json.loads(json.dumps(schema.default))
    drop_nulls(value, schema)
    unknown = unknown_fields(value, schema)
    if unknown:
        detail = f"must not have unknown fields: {', '.join(unknown)}"
        yield _invalid(path, schema.default, detail)
    yield from Validator(schema).validate(value, path)


def _preserves(source: Mapping[str, Any]) -> bool:
    return bool(source.get("x-kubernetes-preserve-unknown-fields"))


def _invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.INVALID, detail, value)


def _required(path: str, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.REQUIRED, detail)


def _forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.FORBIDDEN, detail)
