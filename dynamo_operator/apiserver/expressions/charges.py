"""What calls cost as they are evaluated, by the sizes of what they take and give."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Final

from dynamo_operator.apiserver.expressions.kubernetes import FORMATS
from dynamo_operator.apiserver.expressions.values import Opaque, Quantity, size_of

Charge = Callable[[list[Any], Any], int]
TRAVERSAL: Final = 0.1
"""For each character that is looked at."""
REGEX: Final = 0.25
"""For each character of a regular expression and each that it is tried at."""
CHECK: Final = 350_000
"""Of asking what a user may do."""


def charge_of(function: str) -> Charge:
    """Return the cost of calls of a function."""
    return _CHARGES.get(function, _one)


def _one(_values: list[Any], _result: Any) -> int:
    return 1


def _traversed(at: int, times: int = 1) -> Charge:
    return lambda values, _: ceil(size_of(values[at]) * times * TRAVERSAL)


def _smaller(values: list[Any], _result: Any) -> int:
    if isinstance(values[0], (Opaque, Quantity)):
        return 1
    if any(isinstance(value, (int, float)) for value in values):
        return 1
    return ceil(min(map(size_of, values)) * TRAVERSAL)


def _sum(values: list[Any], _result: Any) -> int:
    if isinstance(values[0], (str, bytes)):
        return ceil(sum(map(size_of, values)) * TRAVERSAL)
    return 1


def _pattern(values: list[Any], _result: Any) -> int:
    return ceil((1 + size_of(values[0])) * TRAVERSAL) * ceil(size_of(values[1]) * REGEX)


def _part(values: list[Any], _result: Any) -> int:
    return ceil(size_of(values[0]) * TRAVERSAL) * ceil(size_of(values[1]) * TRAVERSAL)


def _items(values: list[Any], _result: Any) -> int:
    return size_of(values[1]) if isinstance(values[1], list) else 1


def _all(values: list[Any], _result: Any) -> int:
    return _whole(values[0])


def _whole(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(map(_whole, value))
    if isinstance(value, dict):
        return sum(_whole(key) + _whole(item) for key, item in value.items())
    return 1


def _joined(_values: list[Any], result: Any) -> int:
    return ceil(size_of(result) * 2 * TRAVERSAL)


def _selector(values: list[Any], _result: Any) -> int:
    length = size_of(values[1])
    return 10 + ceil(length * TRAVERSAL) + ceil(ceil(length * 0.5) * 50)


def _sets(factor: int) -> Charge:
    return lambda values, _: 1 + size_of(values[0]) * size_of(values[1]) * factor


def _listed(_values: list[Any], result: Any) -> int:
    return size_of(result) + 11


def _compared_with_itself(values: list[Any], _result: Any) -> int:
    keys = values[-1]
    factor = 2 + TRAVERSAL if keys and isinstance(keys[0], (str, bytes)) else 2
    return int(len(keys) ** 2 * factor) + 11


def _format(values: list[Any], _result: Any) -> int:
    longest = FORMATS[values[0].text][1]
    return ceil((1 + size_of(values[1])) * TRAVERSAL) * ceil(longest * REGEX)


_CHARGES: Final[dict[str, Charge]] = {
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _smaller),
    **dict.fromkeys(("startsWith", "endsWith"), _traversed(1)),
    **dict.fromkeys(("bytes", "strings.quote", "format"), _traversed(0)),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _traversed(0)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip", "jsonpatch.escapeKey"), _traversed(0)),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _traversed(0)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _traversed(0, 2)),
    **dict.fromkeys(("matches", "find", "findAll"), _pattern),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _all),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _sets(1)),
    "sets.equivalent": _sets(2),
    **dict.fromkeys(("slice", "lists.range", "flatten"), _listed),
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _compared_with_itself),
    "@in": _items,
    "_+_": _sum,
    "check": lambda _values, _result: CHECK,
    "contains": _part,
    "join": _joined,
    "validate": _format,
}
