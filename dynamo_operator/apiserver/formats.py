"""This module checks the string and number formats that structural schemas may name."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import urlsplit

_DATE_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_DURATION: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_HOSTNAME: Final = re.compile(
    r"(?=.{1,255}$)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.?[^@\s]*")
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


def _uuid_version(version: int | None) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parsed = uuid.UUID(text)
        except ValueError:
            return False
        return version is None or parsed.version == version

    return check


_STRING_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": _accepts(parse_date_time),
    "datetime": _accepts(parse_date_time),
    "date": _accepts(date.fromisoformat),
    "duration": _accepts(parse_duration),
    "byte": _accepts(lambda text: base64.b64decode(text, validate=True)),
    "ipv4": _accepts(ipaddress.IPv4Address),
    "ipv6": _accepts(ipaddress.IPv6Address),
    "cidr": _accepts(lambda text: ipaddress.ip_interface(text) if "/" in text else int("")),
    "mac": lambda text: re.fullmatch(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", text) is not None,
    "uuid": _uuid_version(None),
    "uuid3": _uuid_version(3),
    "uuid4": _uuid_version(4),
    "uuid5": _uuid_version(5),
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
