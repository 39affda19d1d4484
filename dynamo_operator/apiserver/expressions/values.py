"""The values of expressions that Python does not have, their equality, order and text.

null, bool, int, double, string, bytes, list and map are Python's own; an object is a dict, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from dynamo_operator.apiserver.expressions.syntax import ExpressionError

NANOSECONDS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST: Final = -62135596800 * NANOSECONDS
_LATEST: Final = 253402300800 * NANOSECONDS


class Unsigned(int):
    """A uint."""


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, in nanoseconds since 1970; shown in the zone in which it was written."""

    nanoseconds: int
    zone_seconds: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if not _EARLIEST <= self.nanoseconds < _LATEST:
            raise ExpressionError("timestamp overflow")

    def to_datetime(self) -> datetime:
        """Return the moment to the microsecond below."""
        return _EPOCH + timedelta(microseconds=self.nanoseconds // 1000)

    def __str__(self) -> str:
        seconds, rest = divmod(self.nanoseconds, NANOSECONDS)
        shown = _EPOCH + timedelta(seconds=seconds + self.zone_seconds)
        text = shown.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        sign, minutes = "-" if self.zone_seconds < 0 else "+", abs(self.zone_seconds) // 60
        zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" if minutes else "Z"
        return f"{text}{fraction}{zone}"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time, in nanoseconds."""

    nanoseconds: int

    def __post_init__(self) -> None:
        if not -(2**63) <= self.nanoseconds < 2**63:
            raise ExpressionError("duration overflow")

    def __str__(self) -> str:
        whole, rest = divmod(abs(self.nanoseconds), NANOSECONDS)
        sign = "-" if self.nanoseconds < 0 else ""
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{sign}{whole}{fraction}s"


@dataclass(frozen=True, slots=True)
class Optional:
    """What may be absent."""

    is_present: bool
    held: Any = None


NONE: Final = Optional(False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Quantity:
    """A Kubernetes quantity; equal ones may be written differently."""

    number: Fraction


@dataclass(frozen=True, slots=True)
class Made:
    """A message that an expression made: its type's name and its fields."""

    name: str
    fields: dict[str, Any]

    def plain(self) -> Any:
        """Return it as JSON."""
        return plain(self.fields)


class Fields(dict[str, Any]):
    """The fields of an object whose schema is known: a null one is absent."""


class SetItems(list[Any]):
    """The items of a set: equal in any order."""


class Opaque:
    """A value of a library; equal to one of the same type and text."""

    kind = ""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and getattr(other, "text", None) == self.text

    def __hash__(self) -> int:
        return hash((type(self), self.text))


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Made):
        return value.plain()
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, (Timestamp, Duration)):
        return str(value)
    return value


_NAMES: Final[dict[type, str]] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Unsigned: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    SetItems: "list",
    dict: "map",
    Fields: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Optional: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
}


def name_of(value: Any) -> str:
    """Return the name of a value's type."""
    if isinstance(value, Opaque):
        return value.kind
    if isinstance(value, Made):
        return value.name
    return _NAMES.get(type(value), "dyn")


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal: numbers across their types, nothing else."""
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        if isinstance(one, bool) or isinstance(other, bool):
            return one is other
        return one == other
    if isinstance(one, SetItems) and isinstance(other, list):
        return len(one) == len(other) and all(any(equal(a, b) for b in other) for a in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        if len(one) != len(other):
            return False
        return all(key in other and equal(item, other[key]) for key, item in one.items())
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.is_present == other.is_present and equal(one.held, other.held)
    if isinstance(one, Opaque) and one.kind.startswith("net.") and type(one) is not type(other):
        raise ExpressionError("no such overload")
    return type(one) is type(other) and bool(one == other)


def size_of(value: Any) -> int:
    """Return how large a value is, in the unit of costs: characters, items, or 1."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if isinstance(value, Optional) and value.is_present:
        return size_of(value.held)
    return 1


def key_of(container: dict[Any, Any], key: Any) -> Any:
    """Return the key by which a map holds what an equal key asks for; ABSENT if it does not."""
    for each in [key] if isinstance(key, (str, bool)) or not container else candidates(key):
        if each in container and isinstance(each, bool) == isinstance(key, bool):
            return each
    return ABSENT


ABSENT: Final = object()


def candidates(key: Any) -> Iterable[Any]:
    """Yield the keys equal to a key."""
    yield key
    if isinstance(key, float) and key.is_integer():
        yield int(key)


def parse_timestamp(text: str) -> Timestamp:
    """Read an RFC 3339 moment.

    Raises:
        ValueError: it is none.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    whole = datetime.fromisoformat(match.group(1) + match.group(3).replace("Z", "+00:00"))
    seconds = int((whole - _EPOCH).total_seconds())
    fraction = int((match.group(2) or ".0")[1:10].ljust(9, "0"))
    offset = whole.utcoffset() or timedelta()
    return Timestamp(seconds * NANOSECONDS + fraction, int(offset.total_seconds()))


_MOMENT: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
}


def parse_duration(text: str) -> Duration:
    """Read a Go duration such as 1h30m.

    Raises:
        ValueError: it is none.
    """
    body = text[1:] if text[:1] in ("-", "+") else text
    total, at = Fraction(0), 0
    if body == "0":
        return Duration(0)
    while at < len(body):
        part = _PART.match(body, at)
        if part is None:
            raise ValueError(text)
        total += Fraction(part.group(1).rstrip(".")) * _UNITS[part.group(2)]
        at = part.end()
    if not body:
        raise ValueError(text)
    return Duration(-int(total) if text[:1] == "-" else int(total))


def double_text(value: float, threshold: int = 6) -> str:
    """Return a double as Go's %g with the fewest digits has it.

    Args:
        value: the number.
        threshold: exponents from here on are written.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    mantissa, _, exponent_text = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    exponent = len(whole) - 1 - leading + int(exponent_text or 0)
    digits = digits.rstrip("0") or "0"
    if exponent < -4 or exponent >= threshold:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    padded = digits.ljust(exponent + 1, "0")
    rest = padded[exponent + 1 :]
    return f"{sign}{padded[: exponent + 1]}{f'.{rest}' if rest else ''}"
