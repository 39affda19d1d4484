"""This module holds Kubernetes' CEL functions that the CEL library does not bring.

Values of Kubernetes' own types travel as maps with one marked key, since the library has no
opaque values: `{"__quantity__": "3/2"}`. Equal values have equal maps.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from cel import OptionalValue
from cel.stdlib import EXTENSIONS

from dynamo_operator.apiserver.cel_source import OPTIONAL_FIELD, OPTIONAL_INDEX, SIZE
from dynamo_operator.apiserver.quantities import is_quantity, parse_quantity
from dynamo_operator.apiserver.value_checks import compile_pattern

Function = Callable[..., Any]

_QUANTITY: Final = "__quantity__"
_URL: Final = "__url__"
_IP: Final = "__ip__"
_CIDR: Final = "__cidr__"
_SEMVER: Final = "__semver__"


def _unwrapped(target: Any) -> Any:
    """The value in an optional; None stands for an absent one."""
    if isinstance(target, OptionalValue):
        return target.value() if target.has_value() else None
    return target


def _optional_field(target: Any, name: str) -> OptionalValue:
    value = _unwrapped(target)
    if isinstance(value, dict) and name in value:
        return OptionalValue.of(value[name])
    return OptionalValue.none()


def _optional_index(target: Any, key: Any) -> OptionalValue:
    value = _unwrapped(target)
    if isinstance(value, list):
        inside = isinstance(key, int) and 0 <= key < len(value)
        return OptionalValue.of(value[key]) if inside else OptionalValue.none()
    return _optional_field(value, key)


def _quantity(text: str) -> dict[str, str]:
    return {_QUANTITY: str(parse_quantity(text))}


def _number(value: Any) -> Fraction:
    return Fraction(value[_QUANTITY]) if isinstance(value, dict) else Fraction(value)


def _comparable(value: Any) -> Any:
    return _version(value) if isinstance(value, dict) and _SEMVER in value else _number(value)


def _compare(left: Any, right: Any) -> int:
    a, b = _comparable(left), _comparable(right)
    return int(a > b) - int(a < b)


def _plus(left: Any, right: Any) -> dict[str, str]:
    return {_QUANTITY: str(_number(left) + _number(right))}


def _minus(left: Any, right: Any) -> dict[str, str]:
    return {_QUANTITY: str(_number(left) - _number(right))}


def _as_integer(value: Any) -> int:
    number = _number(value)
    if number.denominator != 1:
        raise ValueError("the quantity is not an integer")
    return int(number)


_SEMVER_TEXT: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)


def _semver(text: str) -> dict[str, str]:
    if _SEMVER_TEXT.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a semantic version")
    return {_SEMVER: text}


def _version(value: Mapping[str, str]) -> tuple[Any, ...]:
    match = _SEMVER_TEXT.fullmatch(value[_SEMVER])
    assert match is not None
    numbers = tuple(int(match.group(i)) for i in (1, 2, 3))
    release = match.group(4)
    if release is None:
        return (*numbers, 1, ())
    parts = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in release.split(".")]
    return (*numbers, 0, tuple(parts))


def _version_part(position: int) -> Function:
    return lambda value: _version(value)[position]


def _url(text: str) -> dict[str, str]:
    parts = urlsplit(text)
    if not (parts.scheme and parts.netloc) and not text.startswith("/"):
        raise ValueError(f"{text!r} is not an absolute URL")
    return {_URL: text}


def _url_part(read: Callable[[Any], Any]) -> Function:
    return lambda value: read(urlsplit(value[_URL]))


def _hostname(parts: Any) -> str:
    return parts.hostname or ""


def _ip(text: Any) -> dict[str, str]:
    if isinstance(text, dict):  # the address of a prefix
        return {_IP: text[_CIDR].partition("/")[0]}
    return {_IP: str(ipaddress.ip_address(text))}


def _cidr(text: str) -> dict[str, str]:
    if "/" not in text:
        raise ValueError(f"{text!r} is not a CIDR")
    return {_CIDR: str(ipaddress.ip_interface(text))}


def _address(value: Any) -> Any:
    return ipaddress.ip_address(value[_IP])


def _network(value: Any) -> Any:
    text = value[_CIDR] if isinstance(value, dict) else value
    return ipaddress.ip_network(text, strict=False)


def _contains_cidr(outer: Any, inner: Any) -> bool:
    return bool(_network(inner).subnet_of(_network(outer)))


def _contains_ip(prefix: Any, address: Any) -> bool:
    text = address[_IP] if isinstance(address, dict) else address
    return ipaddress.ip_address(text) in _network(prefix)


def _family(value: Any) -> int:
    return int(_address(value).version)


def _index_of(target: Any, *arguments: Any) -> int:
    if isinstance(target, list):
        return target.index(arguments[0]) if arguments[0] in target else -1
    return int(EXTENSIONS["strings"]["indexOf"](target, *arguments))


def _last_index_of(target: Any, *arguments: Any) -> int:
    if isinstance(target, list):
        reverse = target[::-1]
        found = arguments[0] in reverse
        return len(target) - 1 - reverse.index(arguments[0]) if found else -1
    return int(EXTENSIONS["strings"]["lastIndexOf"](target, *arguments))


def _is_sorted(values: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(values))


def _find(text: str, pattern: str) -> str:
    match = compile_pattern(pattern).search(text)
    return match.group() if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in compile_pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


_VERB: Final = re.compile(r"%(?:%|(?:\.(\d+))?([sdfexXob]))")


def _format(text: str, arguments: list[Any]) -> str:
    queue = iter(arguments)

    def render(match: re.Match[str]) -> str:
        if match.group() == "%%":
            return "%"
        value, verb = next(queue), match.group(2)
        if verb == "s":
            return _text(value)
        if verb in "fe":
            return f"{float(value):.{match.group(1) or 6}{verb}}"
        return format(int(value), verb)

    try:
        return _VERB.sub(render, text)
    except StopIteration:
        raise ValueError("format: more verbs than arguments") from None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return f"[{', '.join(_text(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {_text(v)}' for k, v in sorted(value.items()))}}}"
    return str(value)


def _accepts(parse: Function) -> Function:
    def check(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except ValueError:
            return False
        return True

    return check


_KUBERNETES: Final[Mapping[str, Function]] = {
    OPTIONAL_FIELD: _optional_field,
    OPTIONAL_INDEX: _optional_index,
    SIZE: len,
    "quantity": _quantity,
    "isQuantity": is_quantity,
    "compareTo": _compare,
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "add": _plus,
    "sub": _minus,
    "sign": lambda value: (_number(value) > 0) - (_number(value) < 0),
    "isInteger": lambda value: _number(value).denominator == 1,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_number(value)),
    "semver": _semver,
    "isSemver": _accepts(_semver),
    "major": _version_part(0),
    "minor": _version_part(1),
    "patch": _version_part(2),
    "url": _url,
    "isURL": _accepts(_url),
    "getScheme": _url_part(lambda parts: parts.scheme),
    "getHost": _url_part(lambda parts: parts.netloc.rpartition("@")[2]),
    "getHostname": _url_part(_hostname),
    "getPort": _url_part(lambda parts: str(parts.port) if parts.port is not None else ""),
    "getEscapedPath": _url_part(lambda parts: parts.path),
    "getQuery": _url_part(lambda parts: parse_qs(parts.query, keep_blank_values=True)),
    "ip": _ip,
    "isIP": _accepts(_ip),
    "ip.isCanonical": lambda text: str(ipaddress.ip_address(text)) == text,
    "family": _family,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isLinkLocalMulticast": lambda value: (
        _address(value).is_multicast and str(value[_IP]).startswith(("224.0.0.", "ff02:"))
    ),
    "isGlobalUnicast": lambda value: (
        not (
            _address(value).is_multicast
            or _address(value).is_loopback
            or _address(value).is_unspecified
            or _address(value).is_link_local
        )
    ),
    "cidr": _cidr,
    "isCIDR": _accepts(_cidr),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda value: _network(value).prefixlen,
    "masked": lambda value: {_CIDR: str(_network(value))},
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "isSorted": _is_sorted,
    "find": _find,
    "findAll": _find_all,
    "format": _format,
}

_SHADOWED: Final = frozenset({"contains"})
"""The library's own `contains` works on strings; its list namesake would replace it."""

FUNCTIONS: Final[Mapping[str, Function]] = {
    **{
        name: function
        for functions in EXTENSIONS.values()
        for name, function in functions.items()
        if name not in _SHADOWED
    },
    **_KUBERNETES,
}
"""Everything to register, by the name an expression calls; dotted names are namespaced."""

_NATIVE_NAMES: Final = (
    "contains startsWith endsWith matches string int uint double bytes duration timestamp dyn type "
    "getFullYear getMonth getDayOfYear getDayOfMonth getDate getDayOfWeek getHours getMinutes "
    "getSeconds getMilliseconds has all exists exists_one map filter "
    "of none ofNonZeroValue hasValue value orValue or"
)
NATIVE: Final = frozenset(_NATIVE_NAMES.split())
"""What the library evaluates itself."""
