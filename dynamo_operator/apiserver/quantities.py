"""This module reads Kubernetes resource quantities such as `500m` and `1Gi`."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+))(?P<suffix>[eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII
)
_POWERS: Final = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{s: Fraction(1000) ** n for n, s in enumerate("kMGTPE", start=1)},
    **{f"{s}i": Fraction(1024) ** n for n, s in enumerate("KMGTPE", start=1)},
}


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


def is_quantity(text: str) -> bool:
    """Whether the text is a quantity."""
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True
