"""This module reads Kubernetes resource quantities such as `500m` and `1Gi`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Any, Final

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+))(?P<suffix>[eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII
)
_POWERS: Final = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{s: Fraction(1000) ** n for n, s in enumerate("kMGTPE", start=1)},
    **{f"{s}i": Fraction(1024) ** n for n, s in enumerate("KMGTPE", start=1)},
}
# Longer texts and larger exponents only cost time: nothing is counted in such numbers.
_MOST_CHARACTERS: Final = 1000
_MOST_EXPONENT: Final = 1000
_MOST_PARSED: Final = 2**63 - 1
_MOST_BINARY: Final = Fraction(2**63 - 1)
_MOST_KEPT_DIGITS: Final = 18
_BINARY: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki", "", "m", "u", "n")
_DECIMAL: Final = ("E", "P", "T", "G", "M", "k", "", "m", "u", "n")


class NoQuantityError(ValueError):
    """A value that is no quantity."""


@lru_cache(maxsize=1024)
def parse_quantity(text: str) -> Fraction:
    """Return the number a quantity stands for: exact, unless its exponent is beyond any use.

    Raises:
        NoQuantityError: it is not a quantity.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None:
        raise NoQuantityError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix = Fraction(Decimal(match.group("number"))), match.group("suffix") or ""
    if _is_exponent(suffix):
        exponent = int(suffix[1:])
        if exponent != max(-_MOST_PARSED, min(exponent, _MOST_PARSED)):
            raise NoQuantityError("unable to parse quantity's suffix")
        return number * Fraction(10) ** max(-_MOST_EXPONENT, min(exponent, _MOST_EXPONENT))
    if suffix.endswith("i"):
        return max(-_MOST_BINARY, min(number * _POWERS[suffix], _MOST_BINARY))
    return number * _POWERS.get(suffix, Fraction(1))


def canonical_quantity(value: Any) -> str:
    """Return the text the server keeps for a quantity.

    Raises:
        NoQuantityError: it is not a quantity.
    """
    return _canonical(json.dumps(value) if isinstance(value, bool) else str(value))


@lru_cache(maxsize=1024)
def _canonical(text: str) -> str:
    number = parse_quantity(text)
    if number == 0:
        return "0"
    if text.endswith("i") and abs(number) >= 1024:
        return _largest(number, _BINARY)
    match = _QUANTITY.fullmatch(text)
    suffix = match["suffix"] if match is not None else None
    if match is not None and suffix is not None and _is_exponent(suffix):
        if _is_kept(match["number"], int(suffix[1:])):
            return text
        return _with_exponent(number)
    return _largest(number, _DECIMAL)


def _is_exponent(suffix: str) -> bool:
    return suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei"


def _is_kept(number: str, exponent: int) -> bool:
    """Whether the server keeps a number with an exponent as it was written."""
    whole, _, fraction = number.lstrip("+-").partition(".")
    digits = (whole.lstrip("0") or "0") + fraction
    exponent -= len(fraction)
    return (
        -9 <= exponent <= _MOST_EXPONENT
        and exponent % 3 == 0
        and len(digits) <= _MOST_KEPT_DIGITS
        and not digits.startswith("0")
        and not digits.endswith("000")
    )


def _with_exponent(number: Fraction) -> str:
    """The text with the largest exponent that needs no fraction."""
    exponent = -9
    mantissa = _away_from_zero(number * 10**9)
    while mantissa % 1000 == 0:
        mantissa //= 1000
        exponent += 3
    return f"{mantissa}e{exponent}" if exponent else f"{mantissa}"


def _largest(number: Fraction, suffixes: Sequence[str]) -> str:
    """The text with the largest suffix that needs no fraction; the smallest is rounded up to."""
    for suffix in suffixes:
        scaled = number / _POWERS.get(suffix, Fraction(1))
        if scaled.denominator == 1:
            return f"{scaled}{suffix}"
    return f"{_away_from_zero(number / _POWERS[suffixes[-1]])}{suffixes[-1]}"


def _away_from_zero(number: Fraction) -> int:
    return ceil(number) if number > 0 else floor(number)


def is_quantity(text: str) -> bool:
    """Whether the text is a quantity."""
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True
