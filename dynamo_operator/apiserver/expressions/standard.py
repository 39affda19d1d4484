"""The functions of the language itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.expressions.values import (
    ABSENT,
    NANOSECONDS,
    NONE,
    Duration,
    Fields,
    Optional,
    SetItems,
    Timestamp,
    TypeValue,
    Unsigned,
    double_text,
    equal,
    key_of,
    name_of,
    parse_duration,
    parse_timestamp,
)
from dynamo_operator.apiserver.value_checks import compile_pattern, pattern_fault

Table = list[tuple[str, Callable[..., Any]]]
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)")


def as_int(value: int) -> int:
    """Return an int that is in range."""
    if not -(2**63) <= value < 2**63:
        raise ExpressionError("integer overflow")
    return int(value)


def as_uint(value: int) -> Unsigned:
    """Return a uint that is in range."""
    if not 0 <= value < 2**64:
        raise ExpressionError("unsigned integer overflow")
    return Unsigned(value)


def _quotient(one: int, other: int) -> int:
    if other == 0:
        raise ExpressionError("division by zero")
    result = abs(one) // abs(other)
    return result if (one < 0) == (other < 0) else -result


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise ExpressionError("modulus by zero")
    return one - other * _quotient(one, other)


def _divided(one: float, other: float) -> float:
    if other == 0:
        if one == 0 or one != one:
            return float("nan")
        positive = (one > 0) == (str(other)[0] != "-")
        return float("inf") if positive else float("-inf")
    return one / other


def _times(one: float, other: float) -> float:
    return one * other


def indexed_list(items: list[Any], index: Any) -> Any:
    """Return an item of a list."""
    if isinstance(index, float) and index.is_integer():
        index = int(index)
    if isinstance(index, bool) or not isinstance(index, int):
        raise ExpressionError(f"unsupported index type '{name_of(index)}' in list")
    if not 0 <= index < len(items):
        raise ExpressionError(f"index out of bounds: {index}")
    return items[index]


def indexed_map(container: dict[Any, Any], key: Any) -> Any:
    """Return a value of a map."""
    found = key_of(container, key)
    if found is ABSENT:
        raise ExpressionError(f"no such key: {to_text(key)}")
    return container[found]


def optional_field(target: Any, key: Any) -> Optional:
    """Return what is selected, if it is there."""
    if isinstance(target, Optional):
        return optional_field(target.held, key) if target.is_present else NONE
    if isinstance(target, list):
        inside = isinstance(key, int) and 0 <= key < len(target)
        return Optional(True, target[key]) if inside else NONE
    if isinstance(target, dict):
        found = key_of(target, key)
        absent = found is ABSENT or (isinstance(target, Fields) and target[found] is None)
        return NONE if absent else Optional(True, target[found])
    raise ExpressionError("no such overload: _?._")


def is_present(held: Any, name: str) -> bool:
    """Whether an object or map has a field or key; an object's null field is absent."""
    if not isinstance(held, dict) or name not in held:
        return False
    return not isinstance(held, Fields) or held[name] is not None


def _joined_lists(one: list[Any], other: list[Any]) -> list[Any]:
    if isinstance(one, SetItems) or isinstance(other, SetItems):
        raise ExpressionError("no such overload")
    return one + other


def indexed_optional(target: Optional, key: Any) -> Optional:
    """Return an item of what may be absent."""
    return optional_field(target, key)


def contained(item: Any, items: Any) -> bool:
    """Whether a list or map has an item or key."""
    if isinstance(items, dict):
        return key_of(items, item) is not ABSENT
    return any(equal(item, each) for each in items)


def matches(text: str, pattern: str) -> bool:
    """Whether a text has a match."""
    return pattern_of(pattern).search(text) is not None


@lru_cache(maxsize=500)
def pattern_of(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern."""
    try:
        return compile_pattern(pattern)
    except ValueError:
        raise ExpressionError(pattern_fault(pattern)) from None


def to_text(value: Any) -> str:
    """Return a value as `string()` does."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return double_text(value)
    return str(value)


def conversion_fault(value: Any, target: str) -> ExpressionError:
    """Return the error for a value that cannot become one of another type."""
    return ExpressionError(f"type conversion error from '{name_of(value)}' to '{target}'")


def _int_of_text(text: str) -> int:
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII) is None or not -(2**63) <= int(text) < 2**63:
        raise conversion_fault(text, "int")
    return int(text)


def _uint_of_text(text: str) -> Unsigned:
    if re.fullmatch(r"\d+", text, re.ASCII) is None or int(text) >= 2**64:
        raise conversion_fault(text, "uint")
    return Unsigned(text)


def _int_of_double(value: float) -> int:
    if value != value or not -(2.0**63) < value < 2.0**63:
        raise ExpressionError("integer overflow")
    return int(value)


def _uint_of_double(value: float) -> Unsigned:
    if value != value or not -1 < value < 2.0**64:
        raise ExpressionError("unsigned integer overflow")
    return Unsigned(int(value))


def _double_of_text(text: str) -> float:
    try:
        if "_" in text or text != text.strip():
            raise ValueError(text)
        return float(text)
    except ValueError:
        raise conversion_fault(text, "double") from None


def _bool_of_text(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise conversion_fault(text, "bool")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ExpressionError("invalid UTF-8 in bytes, cannot convert to string") from None


def timestamp_of(text: str) -> Timestamp:
    """Return the moment that a text names."""
    try:
        return parse_timestamp(text)
    except ValueError:
        raise conversion_fault(text, "google.protobuf.Timestamp") from None


def duration_of(text: str) -> Duration:
    """Return the duration that a text names."""
    try:
        return parse_duration(text)
    except ValueError:
        raise conversion_fault(text, "google.protobuf.Duration") from None


def _zone(name: str) -> tzinfo:
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign = -1 if offset.group(1) == "-" else 1
        shift = timedelta(hours=int(offset.group(2)), minutes=int(offset.group(3)))
        return timezone(sign * shift)
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
        raise ExpressionError(f"unknown time zone {name}") from None


def _part(read: Callable[[datetime, int], int]) -> Callable[..., int]:
    def part(moment: Timestamp, zone: str = "UTC") -> int:
        local = moment.to_datetime().astimezone(_zone(zone))
        return read(local, moment.nanoseconds % NANOSECONDS // 10**6)

    return part


_PARTS: Final = {
    "getFullYear": _part(lambda at, _: at.year),
    "getMonth": _part(lambda at, _: at.month - 1),
    "getDayOfYear": _part(lambda at, _: at.timetuple().tm_yday - 1),
    "getDayOfMonth": _part(lambda at, _: at.day - 1),
    "getDate": _part(lambda at, _: at.day),
    "getDayOfWeek": _part(lambda at, _: at.isoweekday() % 7),
    "getHours": _part(lambda at, _: at.hour),
    "getMinutes": _part(lambda at, _: at.minute),
    "getSeconds": _part(lambda at, _: at.second),
    "getMilliseconds": _part(lambda _, milliseconds: milliseconds),
}


def _whole(unit: int) -> Callable[[Duration], int]:
    return lambda length: _quotient(length.nanoseconds, unit)


def _unsure(value: Any) -> bool:
    return value is not False


def _value(optional: Optional) -> Any:
    if not optional.is_present:
        raise ExpressionError("optional.none() dereference")
    return optional.held


def _of_nonzero(value: Any) -> Optional:
    zero = value is None or (
        isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value
    )
    return NONE if zero else Optional(True, value)


def _inserted(container: dict[Any, Any], key: Any, value: Any = ABSENT) -> dict[Any, Any]:
    entries = key if value is ABSENT else {key: value}
    for each in entries:
        if key_of(container, each) is not ABSENT:
            raise ExpressionError(f"insert failed: key {each} already exists")
    return {**container, **entries}


def _comparisons() -> Table:
    ordered = ["bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"]
    pairs = [(each, each) for each in ordered]
    numbers = ("int", "uint", "double")
    pairs += [(a, b) for a in numbers for b in numbers if a != b]
    tests: dict[str, Callable[[Any, Any], bool]] = {
        "_<_": lambda a, b: a < b,
        "_<=_": lambda a, b: a <= b,
        "_>_": lambda a, b: a > b,
        "_>=_": lambda a, b: a >= b,
    }
    return [(f"{name}({a}, {b}) -> bool", do) for name, do in tests.items() for a, b in pairs]


OPERATORS: Final[Table] = [
    ("_?_:_(bool, A, A) -> A", lambda *_: None),
    ("_&&_(bool, bool) -> bool", lambda *_: None),
    ("_||_(bool, bool) -> bool", lambda *_: None),
    ("!_(bool) -> bool", lambda a: not a),
    ("@not_strictly_false(bool) -> bool", _unsure),
    ("_==_(A, A) -> bool", equal),
    ("_!=_(A, A) -> bool", lambda a, b: not equal(a, b)),
    *_comparisons(),
    ("_+_(bytes, bytes) -> bytes", lambda a, b: a + b),
    ("_+_(double, double) -> double", lambda a, b: a + b),
    ("_+_(duration, duration) -> duration", lambda a, b: Duration(a.nanoseconds + b.nanoseconds)),
    (
        "_+_(duration, timestamp) -> timestamp",
        lambda a, b: Timestamp(a.nanoseconds + b.nanoseconds),
    ),
    (
        "_+_(timestamp, duration) -> timestamp",
        lambda a, b: Timestamp(a.nanoseconds + b.nanoseconds),
    ),
    ("_+_(int, int) -> int", lambda a, b: as_int(a + b)),
    ("_+_(list(A), list(A)) -> list(A)", _joined_lists),
    ("_+_(string, string) -> string", lambda a, b: a + b),
    ("_+_(uint, uint) -> uint", lambda a, b: as_uint(a + b)),
    ("_-_(double, double) -> double", lambda a, b: a - b),
    ("_-_(duration, duration) -> duration", lambda a, b: Duration(a.nanoseconds - b.nanoseconds)),
    ("_-_(int, int) -> int", lambda a, b: as_int(a - b)),
    (
        "_-_(timestamp, duration) -> timestamp",
        lambda a, b: Timestamp(a.nanoseconds - b.nanoseconds),
    ),
    ("_-_(timestamp, timestamp) -> duration", lambda a, b: Duration(a.nanoseconds - b.nanoseconds)),
    ("_-_(uint, uint) -> uint", lambda a, b: as_uint(a - b)),
    ("_*_(double, double) -> double", _times),
    ("_*_(int, int) -> int", lambda a, b: as_int(a * b)),
    ("_*_(uint, uint) -> uint", lambda a, b: as_uint(a * b)),
    ("_/_(double, double) -> double", _divided),
    ("_/_(int, int) -> int", lambda a, b: as_int(_quotient(a, b))),
    ("_/_(uint, uint) -> uint", lambda a, b: as_uint(_quotient(a, b))),
    ("_%_(int, int) -> int", _remainder),
    ("_%_(uint, uint) -> uint", lambda a, b: as_uint(_remainder(a, b))),
    ("-_(double) -> double", lambda a: -a),
    ("-_(int) -> int", lambda a: as_int(-a)),
    ("_[_](list(A), int) -> A", indexed_list),
    ("_[_](map(A, B), A) -> B", indexed_map),
    ("_[_](optional(list(A)), int) -> optional(A)", indexed_optional),
    ("_[_](optional(map(A, B)), A) -> optional(B)", indexed_optional),
    ("_[?_](list(A), int) -> optional(A)", optional_field),
    ("_[?_](map(A, B), A) -> optional(B)", optional_field),
    ("_[?_](optional(list(A)), int) -> optional(A)", optional_field),
    ("_[?_](optional(map(A, B)), A) -> optional(B)", optional_field),
    ("@in(A, list(A)) -> bool", contained),
    ("@in(A, map(A, B)) -> bool", contained),
    ("cel.@mapInsert(map(A, B), map(A, B)) -> map(A, B)", _inserted),
    ("cel.@mapInsert(map(A, B), A, B) -> map(A, B)", _inserted),
]
_SIZED: Final = ("bytes", "list(A)", "map(A, B)", "string")
FUNCTIONS: Final[Table] = [
    *((f"size({each}) -> int", len) for each in _SIZED),
    *((f"{each}::size() -> int", len) for each in _SIZED),
    ("type(A) -> type(A)", lambda a: TypeValue(name_of(a))),
    ("bool(bool) -> bool", bool),
    ("bool(string) -> bool", _bool_of_text),
    ("bytes(bytes) -> bytes", bytes),
    ("bytes(string) -> bytes", lambda text: text.encode()),
    ("double(double) -> double", float),
    ("double(int) -> double", float),
    ("double(string) -> double", _double_of_text),
    ("double(uint) -> double", float),
    ("duration(duration) -> duration", lambda a: a),
    ("duration(int) -> duration", lambda a: Duration(int(a))),
    ("duration(string) -> duration", duration_of),
    ("dyn(A) -> dyn", lambda a: a),
    ("int(int) -> int", int),
    ("int(double) -> int", _int_of_double),
    ("int(duration) -> int", lambda a: a.nanoseconds),
    ("int(string) -> int", _int_of_text),
    ("int(timestamp) -> int", lambda a: a.nanoseconds // NANOSECONDS),
    ("int(uint) -> int", as_int),
    *(
        (f"string({each}) -> string", to_text)
        for each in ["string", "bool", "double", "duration", "int", "timestamp", "uint"]
    ),
    ("string(bytes) -> string", _text_of_bytes),
    ("timestamp(timestamp) -> timestamp", lambda a: a),
    ("timestamp(int) -> timestamp", lambda a: Timestamp(a * NANOSECONDS)),
    ("timestamp(string) -> timestamp", timestamp_of),
    ("uint(uint) -> uint", as_uint),
    ("uint(double) -> uint", _uint_of_double),
    ("uint(int) -> uint", as_uint),
    ("uint(string) -> uint", _uint_of_text),
    ("string::contains(string) -> bool", lambda text, part: part in text),
    ("string::endsWith(string) -> bool", str.endswith),
    ("string::startsWith(string) -> bool", str.startswith),
    ("string::matches(string) -> bool", matches),
    ("matches(string, string) -> bool", matches),
    *((f"timestamp::{name}() -> int", do) for name, do in _PARTS.items()),
    *((f"timestamp::{name}(string) -> int", do) for name, do in _PARTS.items()),
    ("duration::getHours() -> int", _whole(3600 * NANOSECONDS)),
    ("duration::getMinutes() -> int", _whole(60 * NANOSECONDS)),
    ("duration::getSeconds() -> int", _whole(NANOSECONDS)),
    (
        "duration::getMilliseconds() -> int",
        lambda length: _quotient(length.nanoseconds, 10**6),
    ),
    ("optional.of(A) -> optional(A)", lambda a: Optional(True, a)),
    ("optional.ofNonZeroValue(A) -> optional(A)", _of_nonzero),
    ("optional.none() -> optional(A)", lambda: NONE),
    (
        "optional.unwrap(list(optional(A))) -> list(A)",
        lambda a: [o.held for o in a if o.is_present],
    ),
    ("list(optional(A))::unwrapOpt() -> list(A)", lambda a: [o.held for o in a if o.is_present]),
    ("optional(A)::value() -> A", _value),
    ("optional(A)::hasValue() -> bool", lambda a: a.is_present),
    ("optional(A)::or(optional(A)) -> optional(A)", lambda a, b: a if a.is_present else b),
    ("optional(A)::orValue(A) -> A", lambda a, b: a.held if a.is_present else b),
]
