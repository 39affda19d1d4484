"""This module reads Kubernetes resource quantities such as `500m` and `1Gi`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, Final

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+))(?P<suffix>[eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII
)
_POWERS: Final = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{s: Fraction(1000) ** n for n, s in enumerate("kMGTPE", start=1)},
    **{f"{s}i": Fraction(1024) ** n for n, s in enumerate("KMGTPE", start=1)},
}
_BINARY: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki", "", "m", "u", "n")
_DECIMAL: Final = ("E", "P", "T", "G", "M", "k", "", "m", "u", "n")


@lru_cache(maxsize=1024)
def parse_quantity(text: str) -> Fraction:
    """Return the exact number a quantity stands for.

    Raises:
        ValueError: it is not a quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix = Fraction(Decimal(match.group("number"))), match.group("suffix") or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return number * Fraction(10) ** int(suffix[1:])
    return number * _POWERS.get(suffix, Fraction(1))


def canonical_quantity(value: Any) -> Any:
    """Return the text the server keeps for a quantity; what is none comes back as it is."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return value
    try:
        return _canonical(str(value))
    except ValueError:
        return value


@lru_cache(maxsize=1024)
def _canonical(text: str) -> str:
    number = parse_quantity(text)
    if number == 0:
        return "0"
    if text.endswith("i") and abs(number) >= 1024:
        return _largest(number, _BINARY)
    if "e" in text.lower() and not text.endswith(("E", "Ei")):
        return text
    return _largest(number, _DECIMAL)


def _largest(number: Fraction, suffixes: Sequence[str]) -> str:
    """The text with the largest suffix that needs no fraction, rounded up at the smallest."""
    for suffix in suffixes:
        scaled = number / _POWERS.get(suffix, Fraction(1))
        if scaled.denominator == 1:
            return f"{scaled}{suffix}"
    return f"{ceil(number / _POWERS[suffixes[-1]])}{suffixes[-1]}"


def is_quantity(text: str) -> bool:
    """Whether the text is a quantity."""
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True
