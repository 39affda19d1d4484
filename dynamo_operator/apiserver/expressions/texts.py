"""The functions for texts and lists that extend the language."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

from dynamo_operator.apiserver.expressions.standard import Table, contained, pattern_of
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.expressions.values import (
    NONE,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    double_text,
    equal,
    name_of,
)

_LONGEST_RANGE: Final = 10_000_000


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise ExpressionError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise ExpressionError(f"index out of range: {start}")
    return min(start, len(text)) if part == "" else text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is not None and start < 0:
        raise ExpressionError(f"index out of range: {start}")
    if part == "":
        return len(text) if start is None else min(start, len(text))
    return text.rfind(part, 0, None if start is None else start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise ExpressionError(f"index out of range: {start}")
        return text[start:]
    if start > end:
        raise ExpressionError(f"invalid substring range. start: {start}, end: {end}")
    for each in (start, end):
        if not 0 <= each <= len(text):
            raise ExpressionError(f"index out of range: {each}")
    return text[start:end]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator == "":
        whole = list(text)
        if 0 < limit < len(whole):
            return [*whole[: limit - 1], "".join(whole[limit - 1 :])]
        return whole
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _upper(text: str) -> str:
    return "".join(c.upper() if c.isascii() else c for c in text)


def _lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


def _quote(text: str) -> str:
    escapes = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    quoted = json.dumps(text, ensure_ascii=False)
    for character, escape in escapes.items():
        quoted = quoted.replace(json.dumps(character)[1:-1], escape)
    return quoted


def _join(items: list[Any], separator: str = "") -> str:
    for each in items:
        if not isinstance(each, str):
            raise ExpressionError(f"join: invalid input: {each}")
    return separator.join(items)


def _find(text: str, pattern: str) -> str:
    match = pattern_of(pattern).search(text)
    return match.group() if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in pattern_of(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


# Formats

STRING_CLAUSE: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps, was given"
)
_VERB: Final = re.compile(r"%(?:%|(?:\.(\d+))?(.)|$)", re.DOTALL)
_POWERS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_KINDS: Final = {
    "d": ("decimal", "decimal clause can only be used on integers, was given"),
    "f": ("fixed", "fixed-point clause can only be used on doubles, was given"),
    "e": ("scientific", "scientific clause can only be used on doubles, was given"),
    "b": ("binary", "only integers and bools can be formatted as binary, was given"),
    "o": ("octal", "octal clause can only be used on integers, was given"),
    "x": ("hex", "only integers, byte buffers, and strings can be formatted as hex, was given"),
}
_KINDS_TAKEN: Final = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "o": ("int", "uint"),
    "x": ("int", "uint", "string", "bytes"),
}


def clauses(text: str) -> Iterator[tuple[str, int | None]]:
    """Yield verb and precision of each clause of a format.

    Raises:
        ExpressionError: a clause that there is not.
    """
    for match in _VERB.finditer(text):
        if match.group() == "%%":
            continue
        verb = match.group(2)
        if verb is None:
            raise ExpressionError("unexpected end of string")
        if verb.lower() not in _KINDS and verb != "s":
            raise ExpressionError(
                f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
            )
        yield verb, int(match.group(1)) if match.group(1) else None


def clause_fault(verb: str, kind: str) -> str:
    """Return what is wrong with a value of that type in a clause; nothing if it fits."""
    if verb == "s":
        return ""
    taken = _KINDS_TAKEN[verb.lower()]
    return "" if kind in taken else f"{_KINDS[verb.lower()][1]} {kind}"


def formatted(text: str, arguments: list[Any]) -> str:
    """Return a format with its values."""
    given = iter(enumerate(arguments))
    used = 0
    verbs = iter(clauses(text))

    def render(match: re.Match[str]) -> str:
        nonlocal used
        if match.group() == "%%":
            return "%"
        verb, precision = next(verbs)
        try:
            used, value = next(given)
        except StopIteration:
            words = f"index {len(arguments)} out of range"
            raise ExpressionError(words) from None
        used += 1
        return _rendered(value, verb, precision)

    result = _VERB.sub(render, text)
    if used < len(arguments):
        words = f"too many arguments supplied to string.format (expected {used}, got "
        raise ExpressionError(f"{words}{len(arguments)})")
    return result


def _rendered(value: Any, verb: str, precision: int | None) -> str:
    if verb == "s":
        return _shown(value)
    fault = clause_fault(verb, name_of(value))
    if fault:
        raise ExpressionError(f"error during formatting: {fault}")
    if verb in "fe":
        digits = 6 if precision is None else precision
        if verb == "f":
            return f"{float(value):,.{digits}f}"
        mantissa, _, power = f"{float(value):.{digits}e}".partition("e")
        sign = "⁻" if power.startswith("-") else ""
        return f"{mantissa}\u00d710{sign}{power[1:].translate(_POWERS)}"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (str, bytes)):
        data = value.encode() if isinstance(value, str) else value
        return data.hex().upper() if verb == "X" else data.hex()
    return format(value, verb)


def _shown(value: Any) -> str:
    """A value as %s has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return double_text(value, 10**6)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, list):
        return f"[{', '.join(map(_inside, value))}]"
    if isinstance(value, dict):
        entries = sorted((_inside(key), _inside(item)) for key, item in value.items())
        return f"{{{', '.join(f'{key}:{item}' for key, item in entries)}}}"
    if isinstance(value, (str, int, Duration, Timestamp)):
        return str(value)
    raise ExpressionError(f"error during formatting: {STRING_CLAUSE} {name_of(value)}")


def _inside(value: Any) -> str:
    """A value as %s has it within a list or map."""
    if isinstance(value, str):
        return _quote(value)
    return f"{value:.6f}" if isinstance(value, float) else _shown(value)


# Lists


def _sum(zero: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    def add(items: list[Any]) -> Any:
        total = zero(None)
        for each in items:
            total = _plus(total, each)
        return total

    return add


def _plus(one: Any, other: Any) -> Any:
    if isinstance(one, Duration):
        return Duration(one.nanoseconds + other.nanoseconds)
    total = one + other
    if isinstance(total, int) and not -(2**63) <= total < 2**63 and type(one) is int:
        raise ExpressionError("integer overflow")
    return type(one)(total)


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def extreme(items: list[Any]) -> Any:
        if not items:
            raise ExpressionError(f"{name} called on empty list")
        return choose(items)

    return extreme


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(items))


def _first_index(items: list[Any], wanted: Any) -> int:
    return next((at for at, each in enumerate(items) if equal(each, wanted)), -1)


def _final_index(items: list[Any], wanted: Any) -> int:
    found = [at for at, each in enumerate(items) if equal(each, wanted)]
    return found[-1] if found else -1


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    where = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise ExpressionError(f"{where}, negative indexes not supported")
    if start > end:
        raise ExpressionError(f"{where}, start index must be less than or equal to end index")
    if end > len(items):
        raise ExpressionError(f"{where}, list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise ExpressionError("level must be non-negative")
    flat: list[Any] = []
    for each in items:
        flat += _flatten(each, depth - 1) if isinstance(each, list) and depth else [each]
    return flat


def _range(count: int) -> list[int]:
    if count < 0:
        raise ExpressionError(f"lists.range: size must be non-negative, got {count}")
    if count > _LONGEST_RANGE:
        words = f"lists.range: size {count} exceeds maximum allowed ({_LONGEST_RANGE})"
        raise ExpressionError(words)
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for each in items:
        if not contained(each, kept):
            kept.append(each)
    return kept


def _sorted_by(items: list[Any], keys: list[Any]) -> list[Any]:
    if len({type(key) for key in keys}) > 1:
        raise ExpressionError("list elements must have the same type")
    order = sorted(range(len(items)), key=keys.__getitem__)
    return [items[at] for at in order]


def _sort(items: list[Any]) -> list[Any]:
    return _sorted_by(items, items)


def _end(at: int) -> Callable[[list[Any]], Optional]:
    return lambda items: Optional(True, items[at]) if items else NONE


def _has_all(items: list[Any], wanted: list[Any]) -> bool:
    return all(contained(each, items) for each in wanted)


def _includes(items: Any, wanted: Any) -> bool:
    if not isinstance(items, list):
        return bool(equal(items, wanted))
    return contained(wanted, items)


_ZEROS: Final = {
    "int": lambda _: 0,
    "uint": lambda _: 0,
    "double": lambda _: 0.0,
    "duration": lambda _: Duration(0),
}
_ORDERED: Final = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]

TEXTS: Final[Table] = [
    ("string::charAt(int) -> string", _char_at),
    ("string::indexOf(string) -> int", _index_of),
    ("string::indexOf(string, int) -> int", _index_of),
    ("string::lastIndexOf(string) -> int", _last_index_of),
    ("string::lastIndexOf(string, int) -> int", _last_index_of),
    ("string::lowerAscii() -> string", _lower),
    ("string::upperAscii() -> string", _upper),
    ("string::replace(string, string) -> string", _replace),
    ("string::replace(string, string, int) -> string", _replace),
    ("string::split(string) -> list(string)", _split),
    ("string::split(string, int) -> list(string)", _split),
    ("string::substring(int) -> string", _substring),
    ("string::substring(int, int) -> string", _substring),
    ("string::trim() -> string", lambda text: text.strip()),
    ("string::format(list(dyn)) -> string", formatted),
    ("strings.quote(string) -> string", _quote),
    ("list(string)::join() -> string", _join),
    ("list(string)::join(string) -> string", _join),
    ("string::find(string) -> string", _find),
    ("string::findAll(string) -> list(string)", _find_all),
    ("string::findAll(string, int) -> list(string)", _find_all),
]
LISTS: Final[Table] = [
    *((f"list({each})::isSorted() -> bool", _is_sorted) for each in _ORDERED),
    *((f"list({each})::sum() -> {each}", _sum(zero)) for each, zero in _ZEROS.items()),
    *((f"list({each})::max() -> {each}", _extreme("max", max)) for each in _ORDERED),
    *((f"list({each})::min() -> {each}", _extreme("min", min)) for each in _ORDERED),
    ("list(A)::indexOf(A) -> int", _first_index),
    ("list(A)::lastIndexOf(A) -> int", _final_index),
    ("dyn::includes(dyn) -> bool", _includes),
    ("list(A)::slice(int, int) -> list(A)", _slice),
    ("list(list(A))::flatten() -> list(A)", _flatten),
    ("list(dyn)::flatten(int) -> list(dyn)", _flatten),
    *((f"list({each})::sort() -> list({each})", _sort) for each in _ORDERED),
    *(
        (f"list(A)::@sortByAssociatedKeys(list({each})) -> list(A)", _sorted_by)
        for each in _ORDERED
    ),
    ("lists.range(int) -> list(int)", _range),
    ("list(A)::reverse() -> list(A)", lambda items: items[::-1]),
    ("list(A)::distinct() -> list(A)", _distinct),
    ("list(A)::first() -> optional(A)", _end(0)),
    ("list(A)::last() -> optional(A)", _end(-1)),
    ("sets.contains(list(A), list(A)) -> bool", _has_all),
    ("sets.equivalent(list(A), list(A)) -> bool", lambda a, b: _has_all(a, b) and _has_all(b, a)),
    ("sets.intersects(list(A), list(A)) -> bool", lambda a, b: any(contained(x, b) for x in a)),
]
