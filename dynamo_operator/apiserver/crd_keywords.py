"""The keywords of the schemas in a CustomResourceDefinition: which there are, and their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.apiserver.crd_structure import JUNCTORS, Source
from dynamo_operator.apiserver.status import bad_request

_RULE: Final = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), "string"),
    "optionalOldSelf": "bool",
}
_SCHEMAS_OF: Final = "map[string]v1.JSONSchemaProps"
_KEYWORDS: Final[Mapping[str, str]] = {
    # what Go calls each keyword's type
    **dict.fromkeys(("id", "$schema", "$ref", "description", "type", "format"), "string"),
    **dict.fromkeys(("title", "pattern"), "string"),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), "string"),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), "float64"),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable"), "bool"),
    **dict.fromkeys(("x-kubernetes-preserve-unknown-fields",), "bool"),
    **dict.fromkeys(("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"), "bool"),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), "int64"),
    **dict.fromkeys(("maxProperties", "minProperties"), "int64"),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), "[]string"),
    "enum": "[]v1.JSON",
    **dict.fromkeys(("allOf", "oneOf", "anyOf"), "[]v1.JSONSchemaProps"),
    **dict.fromkeys(("properties", "patternProperties"), _SCHEMAS_OF),
    "definitions": "v1.JSONSchemaDefinitions",
    "dependencies": "v1.JSONSchemaDependencies",
    "not": "v1.JSONSchemaProps",
    **dict.fromkeys(("items", "additionalProperties", "additionalItems"), "any"),
    **dict.fromkeys(("default", "example"), "any"),
    "externalDocs": "v1.ExternalDocumentation",
    "x-kubernetes-validations": "v1.ValidationRules",
}
_JSON_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "float64": (int, float),
    "bool": bool,
    "int64": int,
}


def unknown_keywords(source: Any, path: str) -> Iterator[str]:
    """Yield the paths of keywords that no schema has."""
    if not isinstance(source, Mapping):
        return
    for word, value in source.items():
        if word not in _KEYWORDS:
            yield f"{path}.{word}"
        elif word == "x-kubernetes-validations" and isinstance(value, list):
            for position, rule in enumerate(value):
                for name in rule if isinstance(rule, Mapping) else ():
                    if name not in _RULE:
                        yield f"{path}.{word}[{position}].{name}"
        else:
            for where, child in _below(source, word):
                if word in ("properties", "definitions"):  # whose names stand after a dot
                    where = where.replace("[", ".", 1)[:-1]
                yield from unknown_keywords(child, f"{path}.{where}")


def _below(source: Source, word: str) -> Iterator[tuple[str, Any]]:
    """The schemas that a keyword holds, by their places below the schema."""
    value = source.get(word)
    if word in ("properties", "patternProperties", "definitions") and isinstance(value, Mapping):
        for name, child in value.items():
            yield f"{word}[{name}]", child
    elif word in ("items", "not", "additionalProperties") and isinstance(value, Mapping):
        yield word, value
    elif word in JUNCTORS and isinstance(value, list):
        for position, child in enumerate(value):
            yield f"{word}[{position}]", child


def children(source: Source) -> Iterator[tuple[str, Any]]:
    """Yield the schemas directly below, by their places."""
    for word in ("additionalProperties", "properties", "not", "allOf", "oneOf", "anyOf"):
        yield from _below(source, word)
    yield from _below(source, "definitions")
    yield from _below(source, "items")


def normalized(source: Any, path: str) -> Any:
    """Return a schema as the server keeps it: without what is empty, null or unknown.

    Raises:
        StatusError: a keyword has the wrong JSON type.
    """
    if not isinstance(source, dict):
        raise _mistyped(source, path, "v1.JSONSchemaProps")
    kept: dict[str, Any] = {}
    for word, value in source.items():
        expected = _KEYWORDS.get(word)
        if expected is None or value is None or (value in ("", False) and word not in _KEEP_EMPTY):
            continue
        where = f"{path}.{word}"
        _require_type(value, expected, where)
        if isinstance(value, (list, dict)) and not value and word not in _KEEP_EMPTY:
            continue
        kept[word] = _normalized_value(word, value, where)
    return kept


_KEEP_EMPTY: Final = frozenset(
    {
        *("default", "example", "not", "items", "additionalProperties"),
        *("minimum", "maximum", "multipleOf", "$ref"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "dependencies"),
        *(
            "x-kubernetes-map-type",
            *(f"m{b}{w}" for b in ("in", "ax") for w in ("Length", "Items")),
        ),
    }
)


def _normalized_value(word: str, value: Any, path: str) -> Any:
    if word in ("items", "additionalProperties", "not") and isinstance(value, dict):
        return normalized(value, path)
    if word in ("properties", "patternProperties", "definitions"):
        return {name: normalized(child, path) for name, child in value.items()}
    if word in JUNCTORS:
        return [normalized(child, path) for child in value]
    if word == "x-kubernetes-validations":
        return [_normalized_rule(rule, path) for rule in value]
    return value


def _normalized_rule(rule: Any, path: str) -> Any:
    if not isinstance(rule, dict):
        raise _mistyped(rule, path, "v1.ValidationRule")
    for name, value in rule.items():
        if name in _RULE and value is not None:
            _require_type(value, _RULE[name], f"{path}.{name}", struct="ValidationRule")
    kept = {n: v for n, v in rule.items() if n in _RULE and v is not None}
    return {n: v for n, v in kept.items() if v != "" or n in ("rule", "reason")}


def _require_type(value: Any, expected: str, path: str, struct: str = "JSONSchemaProps") -> None:
    kind = _JSON_TYPES.get(expected)
    if kind is None:
        kind = list if expected.startswith("[]") or expected == "v1.ValidationRules" else dict
        kind = object if expected == "any" else kind
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object))
    if expected == "[]string" and not wrong:
        for item in value:
            if not isinstance(item, str):
                raise _mistyped(item, path, "string", struct)
    if wrong:
        raise _mistyped(value, path, expected, struct)


def _mistyped(value: Any, path: str, expected: str, struct: str = "JSONSchemaProps") -> Exception:
    names = {bool: "bool", str: "string", list: "array", dict: "object"}
    given = names.get(type(value), "number")
    if given == "number" and expected == "int64":
        given = f"number {value}"
    return bad_request(
        'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: '
        f"json: cannot unmarshal {given} into Go struct field {struct}.{path} of type {expected}"
    )
