"""This module checks the string and number formats that structural schemas may name."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import urlsplit

_DATE_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_DURATION: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_HOSTNAME: Final = re.compile(
    r"(?=.{1,255}$)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_EMAIL: Final = re.compile(r"(?:[^<>@]*<[^@\s<>]+@[^@\s<>]+>|[^@\s]+@[^@\s]+)")
_SECONDS: Final[Mapping[str, float]] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as `1h30m`.

    Raises:
        ValueError: it is not one.
    """
    body = text.lstrip("+-")
    if body == "0" and len(text) - len(body) <= 1:
        return 0.0
    total, position = 0.0, len(text) - len(body)
    if position > 1 or not body:
        raise ValueError(f"{text!r} is not a duration such as 1h30m")
    while position < len(text):
        part = _DURATION.match(text, position)
        if part is None or part.group().startswith(("+", "-")):
            raise ValueError(f"{text!r} is not a duration such as 1h30m")
        total += float(part.group(1)) * _SECONDS[part.group(3)]
        position = part.end()
    return -total if text.startswith("-") else total


def parse_date_time(text: str) -> datetime:
    """Return the moment an RFC 3339 text names, at most to the microsecond.

    Raises:
        ValueError: it is not one.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 date-time")
    text = text.upper()
    fraction = match.group(1) or ""
    return datetime.fromisoformat(
        text.replace(fraction, fraction[:7].ljust(7, "0"), 1) if fraction else text
    )


def check_string(name: str) -> Callable[[str], bool] | None:
    """Return the test for a string format; None for a format that the server ignores."""
    return _STRING_FORMATS.get(name)


def is_known_format(source: Mapping[str, Any]) -> bool:
    """Whether the server checks the format of a schema's node."""
    form, kind = source["format"], source.get("type", "")
    if kind in ("", "string"):
        return form in _STRING_FORMATS or form == "password"
    return form in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())


def number_bounds(name: str) -> tuple[int, int] | None:
    """Return the inclusive range of an integer format."""
    return _NUMBER_FORMATS.get(name)


def _accepts(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _uri(text: str) -> None:
    parts = urlsplit(text)
    if not parts.scheme and not text.startswith("/"):
        raise ValueError(text)
    if " " in parts.netloc:
        raise ValueError(text)


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str) -> Callable[[str], bool]:
    third = f"{version}[0-9a-f]{{3}}" if version else "[0-9a-f]{4}"
    fourth = "[89ab][0-9a-f]{3}" if version in ("4", "5") else "[0-9a-f]{4}"
    return _matches(f"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}")


def _ipv4(text: str) -> None:
    ipaddress.IPv4Address(".".join(part.lstrip("0") or "0" for part in text.split(".")))


def _ipv6(text: str) -> None:
    if "%" in text:
        raise ValueError(text)
    ipaddress.IPv6Address(text)


def _duration(text: str) -> None:
    """Go's durations, and those with words such as `1 day`."""
    if re.fullmatch(_ISO_DURATION, text) and text[-1] not in "PT":
        return
    parts = re.findall(r"\s*(\d+)\s*([A-Za-zµ]+)", text)
    in_words = parts and re.fullmatch(r"(\s*\d+\s*[A-Za-zµ]+)+", text)
    if not in_words or not all(_is_unit(unit) for _, unit in parts):
        parse_duration(text)


def _is_unit(text: str) -> bool:
    return text.lower().rstrip("s") in _LONG_UNITS or text in _SECONDS


_ISO_DURATION: Final = r"P(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
_LONG_UNITS: Final = (
    *("nano", "nanosecond", "micro", "microsecond", "milli", "millisecond", "second", "sec"),
    *("minute", "min", "hour", "hr", "h", "day", "d", "week", "wk", "w", "m"),
)


def _is_isbn(text: str, lengths: tuple[int, ...]) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if len(digits) not in lengths or re.fullmatch(r"\d+X?", digits, re.ASCII) is None:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    if len(digits) == 10:
        return sum((at + 1) * value for at, value in enumerate(values)) % 11 == 0
    return sum(value * (3 if at % 2 else 1) for at, value in enumerate(values)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    if re.fullmatch(_CREDIT_CARD, digits, re.ASCII) is None:
        return False
    doubled = [int(d) * (2 if at % 2 else 1) for at, d in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_CREDIT_CARD: Final = (
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_SHADE: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_MAC: Final = (
    r"([0-9A-Fa-f]{2}:){5,19}[0-9A-Fa-f]{2}|([0-9A-Fa-f]{2}-){5,19}[0-9A-Fa-f]{2}"
    r"|([0-9A-Fa-f]{4}\.){2,9}[0-9A-Fa-f]{4}"
)


_is_date = _accepts(date.fromisoformat)
_is_base64 = _accepts(lambda text: base64.b64decode(text, validate=True))
_STRING_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": _accepts(parse_date_time),
    "datetime": _accepts(parse_date_time),
    "date": lambda text: len(text) == 10 and _is_date(text),
    "duration": _accepts(_duration),
    "byte": lambda text: bool(text) and _is_base64(text),
    "ipv4": _accepts(_ipv4),
    "ipv6": _accepts(_ipv6),
    "cidr": _accepts(lambda text: ipaddress.ip_interface(text) if "/" in text else int("")),
    "mac": _matches(_MAC),
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "isbn": lambda text: _is_isbn(text, (10, 13)),
    "isbn10": lambda text: _is_isbn(text, (10,)),
    "isbn13": lambda text: _is_isbn(text, (13,)),
    "creditcard": _is_credit_card,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(rf"rgb\({_SHADE},{_SHADE},{_SHADE}\)"),
    "hostname": lambda text: _HOSTNAME.fullmatch(text) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "uri": _accepts(_uri),
    "k8s-short-name": lambda text: (
        re.fullmatch(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?", text) is not None
    ),
    "k8s-long-name": lambda text: (
        re.fullmatch(
            r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", text
        )
        is not None
    ),
}
_NUMBER_FORMATS: Final[Mapping[str, tuple[int, int]]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
