"""Kubernetes quantities: `100m`, `1Gi`, `1e3`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

_PATTERN = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]|)"
)
_SUFFIXES = {
    "": Decimal(1),
    **{
        s: Decimal(10) ** e
        for s, e in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{s}i": Decimal(1024) ** (i + 1) for i, s in enumerate("KMGTPE")},
}


# A larger exponent only costs time and memory: nothing is counted in such numbers.
_MOST_EXPONENT = 1000


def parse_quantity(value: Any) -> Decimal:
    """Return a quantity's value; 0 for None. Exponents beyond any use count as the largest.

    Raises:
        ValueError: it is no quantity.
    """
    if value is None:
        return Decimal(0)
    match = _PATTERN.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"quantity {value!r}: expected a number with an optional suffix, as 100m")
    number, suffix = Decimal(match["number"]), match["suffix"]
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return number.scaleb(max(-_MOST_EXPONENT, min(int(suffix[1:]), _MOST_EXPONENT)))
    return number * _SUFFIXES[suffix]
