"""This module checks single values: bounds, patterns, formats, uniqueness, and their junctors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from dynamo_operator.apiserver import paths
from dynamo_operator.apiserver.formats import check_string, number_bounds
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

_canonical: Final = json.JSONEncoder(sort_keys=True).encode

Check = Callable[[Any, str], Iterable[FieldError]]
"""Given a value and its path, what is wrong with the value alone."""

TYPE_TESTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: (
        (isinstance(v, int) and not isinstance(v, bool))
        or (isinstance(v, float) and v.is_integer() and abs(v) < 2**63)
    ),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}
"""Whether a value has the JSON type of that name."""


def value_checks(source: Mapping[str, Any], schema: Schema | None) -> Iterable[Check]:
    """Yield the checks of one node's value validations; `schema` is None inside a junctor."""
    if "enum" in source:
        yield enum_check(source["enum"])
    yield from _number_checks(source)
    yield from _string_checks(source)
    yield from _array_checks(source)
    yield from _object_checks(source)
    if schema is not None and schema.list_type in ("set", "map"):
        yield _unique(schema)
    yield from _junctors(source)


def type_error(path: str, expected: str, value: Any) -> FieldError:
    """Return the error for a value of the wrong JSON type."""
    actual = json_type(value)
    where = f"{path} in body" if path else "in body"
    detail = f"{where} must be of type {expected}: {json.dumps(actual)}"
    return FieldError(paths.shown(path), FieldErrorKind.TYPE_INVALID, detail, actual)


def out_of_width(path: str, form: str) -> FieldError:
    """Return the error for an integer that is none, or none of that format."""
    root = "status" if path.startswith("status.") else ""  # what was validated as a whole
    width = f"with format {form}" if form else "(default format)"
    words = f"Checked value must be of type integer {width} in {path}"
    return FieldError(paths.shown(root), FieldErrorKind.INVALID, words, "")


def json_type(value: Any) -> str:
    """Return the JSON type's name as error messages give it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "integer" if isinstance(value, int) else "number"


def map_key(item: Any, keys: Sequence[str], schema: Schema | None) -> tuple[Any, ...] | None:
    """Return what identifies an item of a map list: its key fields, with their defaults."""
    if not isinstance(item, dict):
        return None
    return tuple(_hashable(item.get(k, _key_default(schema, k))) for k in keys)


def _key_default(schema: Schema | None, name: str) -> Any:
    child = schema.properties.get(name) if schema else None
    return child.default if child else None


def _hashable(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True)
    return (type(value) is bool, value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON, which tells true from 1."""
    return one is other or bool(one == other and _canonical(one) == _canonical(other))


def _invalid(path: str, value: Any, words: str) -> FieldError:
    where = f"{path} in body" if path else "in body"
    return FieldError(paths.shown(path), FieldErrorKind.INVALID, f"{where} {words}", value)


def enum_check(allowed: Sequence[Any]) -> Check:
    """Return the check for one of the allowed values."""
    names = ", ".join(map(_listed, allowed))

    def check(value: Any, path: str) -> Iterable[FieldError]:
        if not any(same(value, one) for one in allowed):
            yield FieldError(
                path, FieldErrorKind.NOT_SUPPORTED, f"supported values: {names}", value
            )

    return check


def _listed(value: Any) -> str:
    """A value of an enum as messages list it: in quotes, whatever its type."""
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=False)


def _number_checks(source: Mapping[str, Any]) -> Iterable[Check]:
    low, high = source.get("minimum"), source.get("maximum")
    multiple = source.get("multipleOf")
    bounds = number_bounds(source.get("format", ""))
    if low is None and high is None and multiple is None and bounds is None:
        return
    open_low, open_high = source.get("exclusiveMinimum"), source.get("exclusiveMaximum")

    def check(value: Any, path: str) -> Iterable[FieldError]:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        if bounds is not None and not bounds[0] <= value <= bounds[1]:
            yield out_of_width(path, source["format"])
        if low is not None and (value <= low if open_low else value < low):
            words = "greater than" if open_low else "greater than or equal to"
            yield _invalid(path, value, f"should be {words} {_text(low)}")
        if high is not None and (value >= high if open_high else value > high):
            words = "less than" if open_high else "less than or equal to"
            yield _invalid(path, value, f"should be {words} {_text(high)}")
        if multiple is not None and abs(value / multiple - round(value / multiple)) > 1e-9:
            yield _invalid(path, value, f"should be a multiple of {_text(multiple)}")

    yield check


def _text(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(number)


def _string_checks(source: Mapping[str, Any]) -> Iterable[Check]:
    shortest, longest = source.get("minLength"), source.get("maxLength")
    pattern = compile_pattern(source["pattern"]) if source.get("pattern") else None
    name = source.get("format", "")
    formatted = check_string(name)
    if shortest is None and longest is None and pattern is None and formatted is None:
        return

    def check(value: Any, path: str) -> Iterable[FieldError]:
        if not isinstance(value, str):
            return
        if longest is not None and len(value) > longest:
            detail = f"may not be more than {longest} bytes"
            yield FieldError(path, FieldErrorKind.TOO_LONG, detail, value)
        if shortest is not None and len(value) < shortest:
            yield _invalid(path, value, f"should be at least {shortest} chars long")
        if pattern is not None and pattern.search(value) is None:
            yield _invalid(path, value, f"should match '{source['pattern']}'")
        if formatted is not None and not formatted(value):
            where = f"{path} in body" if path else "in body"
            detail = f"{where} must be of type {name}: {json.dumps(value)}"
            yield FieldError(paths.shown(path), FieldErrorKind.TYPE_INVALID, detail, value)

    yield check


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile an RE2-like pattern.

    Raises:
        ValueError: it is no pattern, or uses what RE2 lacks (look-around, back-references).
    """
    if re.search(r"\(\?(=|!|<=|<!|>)|\\[1-9]|\(\?P=", re.sub(r"\\\\", "", pattern)):
        raise ValueError(f"{pattern!r} uses look-around or back-references, which RE2 lacks")
    text = re.sub(r"\[\[:(\w+):\]\]", lambda m: _POSIX.get(m.group(1), m.group()), pattern)
    text = text.replace(r"\z", r"\Z").replace(r"\pL", r"[^\W\d_]").replace(r"\p{L}", r"[^\W\d_]")
    text = _END_ANCHOR.sub(lambda m: r"\Z" if m.group() == "$" else m.group(), text)
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


def pattern_fault(pattern: str) -> str:
    """Return what is wrong with a pattern, in Go's words; nothing if it can be used."""
    try:
        compile_pattern(pattern)
    except ValueError as error:
        return _go_words(pattern, str(error))
    return ""


def _go_words(pattern: str, words: str) -> str:
    bare = re.sub(r"\\\\", "", pattern)
    if found := re.search(r"\(\?(?:<[=!]|=|!|P=|<)", bare):
        return f"error parsing regexp: invalid or unsupported Perl syntax: `{found.group()}`"
    if found := re.search(r"\\[1-9]", bare):
        return f"error parsing regexp: invalid escape sequence: `{found.group()}`"
    if "unterminated character set" in words:
        return f"error parsing regexp: missing closing ]: `{pattern[pattern.rindex('[') :]}`"
    if "unterminated subpattern" in words or "missing )" in words:
        return f"error parsing regexp: missing closing ): `{pattern}`"
    if "unbalanced parenthesis" in words:
        return f"error parsing regexp: unexpected ): `{pattern}`"
    if "nothing to repeat" in words:
        return f"error parsing regexp: missing argument to repetition operator: `{pattern[:1]}`"
    return f"error parsing regexp: {words}"


_END_ANCHOR: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", re.DOTALL)
_POSIX: Final[Mapping[str, str]] = {
    "alnum": "[0-9A-Za-z]",
    "alpha": "[A-Za-z]",
    "digit": "[0-9]",
    "lower": "[a-z]",
    "upper": "[A-Z]",
    "space": r"\s",
    "xdigit": "[0-9A-Fa-f]",
    "word": r"\w",
}


def _array_checks(source: Mapping[str, Any]) -> Iterable[Check]:
    fewest, most = source.get("minItems"), source.get("maxItems")
    if fewest is None and most is None:
        return

    def check(value: Any, path: str) -> Iterable[FieldError]:
        if not isinstance(value, list):
            return
        if most is not None and len(value) > most:
            detail = f"must have at most {most} items"
            yield FieldError(path, FieldErrorKind.TOO_MANY, detail, len(value))
        if fewest is not None and len(value) < fewest:
            yield _invalid(path, len(value), f"should have at least {fewest} items")

    yield check


def _object_checks(source: Mapping[str, Any]) -> Iterable[Check]:
    required = tuple(source.get("required") or ())
    fewest, most = source.get("minProperties"), source.get("maxProperties")
    if not required and fewest is None and most is None:
        return

    def check(value: Any, path: str) -> Iterable[FieldError]:
        if not isinstance(value, dict):
            return
        for name in required:
            if name not in value:
                yield FieldError(paths.join(path, name), FieldErrorKind.REQUIRED)
        if most is not None and len(value) > most:
            detail = f"must have at most {most} items"
            yield FieldError(paths.shown(path), FieldErrorKind.TOO_MANY, detail, len(value))
        if fewest is not None and len(value) < fewest:
            yield _invalid(path, len(value), f"should have at least {fewest} properties")

    yield check


def _unique(schema: Schema) -> Check:
    def check(value: Any, path: str) -> Iterable[FieldError]:
        if not isinstance(value, list):
            return
        seen: set[Any] = set()
        told: set[Any] = set()
        for position, item in enumerate(value):
            identity: Any
            if schema.list_type == "map":
                identity = map_key(item, schema.list_keys, schema.items)
                shown: Any = (
                    {k: item[k] for k in schema.list_keys if k in item}
                    if isinstance(item, dict)
                    else item
                )
            else:
                identity, shown = _hashable(item), item
            if identity in seen and identity not in told:
                yield FieldError(paths.index(path, position), FieldErrorKind.DUPLICATE, "", shown)
                if schema.list_type == "map":  # whose duplicates are told once each
                    told.add(identity)
            seen.add(identity)

    return check


def _junctors(source: Mapping[str, Any]) -> Iterable[Check]:
    for word in ("allOf", "anyOf", "oneOf"):
        if source.get(word):
            yield _JUNCTORS[word]([_branch(one) for one in source[word]])
    if source.get("not") is not None:
        refused = _branch(source["not"])

        def check(value: Any, path: str) -> Iterable[FieldError]:
            if not refused(value, path):
                yield _junction(path, "must not validate the schema (not)")

        yield check


Branch = Callable[[Any, str], list[FieldError]]


def _branch(source: Mapping[str, Any]) -> Branch:
    """Value validations below a junctor, with those of its properties, items and map values."""
    checks = list(value_checks(source, None))
    properties = {k: _branch(v) for k, v in (source.get("properties") or {}).items()}
    additional = source.get("additionalProperties")
    others = _branch(additional) if isinstance(additional, Mapping) else None
    items = _branch(source["items"]) if isinstance(source.get("items"), Mapping) else None
    type_test = TYPE_TESTS.get(source.get("type", ""))

    def validate(value: Any, path: str) -> list[FieldError]:
        if value is None and source.get("nullable"):
            return []
        if type_test is not None and not type_test(value):
            return [type_error(path, source["type"], value)]
        errors = [error for check in checks for error in check(value, path)]
        if isinstance(value, dict):
            for name, child in value.items():
                below = properties.get(name, others)
                if below is not None:
                    errors += below(child, paths.join(path, name))
        elif isinstance(value, list) and items is not None:
            for position, item in enumerate(value):
                errors += items(item, paths.index(path, position))
        return errors

    return validate


def _junction(path: str, words: str) -> FieldError:
    """An error about branches, which the server tells of the whole object."""
    return FieldError("<nil>", FieldErrorKind.INVALID, f'"{path}" {words}', "")


def _all_of(branches: Sequence[Branch]) -> Check:
    def check(value: Any, path: str) -> Iterable[FieldError]:
        errors = [error for branch in branches for error in branch(value, path)]
        if errors:
            yield from errors
            yield _junction(path, "must validate all the schemas (allOf)")

    return check


def _any_of(branches: Sequence[Branch]) -> Check:
    def check(value: Any, path: str) -> Iterable[FieldError]:
        results = [branch(value, path) for branch in branches]
        if all(results):
            yield _junction(path, "must validate at least one schema (anyOf)")
            yield from min(results, key=len)

    return check


def _one_of(branches: Sequence[Branch]) -> Check:
    def check(value: Any, path: str) -> Iterable[FieldError]:
        results = [branch(value, path) for branch in branches]
        valid = sum(not errors for errors in results)
        if valid != 1:
            found = f"Found {valid} valid alternatives" if valid else "Found none valid"
            words = f"must validate one and only one schema (oneOf). {found}"
            yield _junction(path, words)
            if not valid:
                yield from min(results, key=len)

    return check


_JUNCTORS: Final[Mapping[str, Callable[[Sequence[Branch]], Check]]] = {
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
}
