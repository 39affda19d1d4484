"""The functions that Kubernetes adds: quantities, addresses, versions, formats, authorization."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from dynamo_operator.apiserver.expressions.standard import Table
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.expressions.values import (
    NONE,
    Opaque,
    Optional,
    Quantity,
)
from dynamo_operator.apiserver.formats import check_string
from dynamo_operator.apiserver.object_metadata import (
    dns1035_label,
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
)
from dynamo_operator.apiserver.quantities import is_quantity, parse_quantity


def _quantity(text: str) -> Quantity:
    if not is_quantity(text):
        raise ExpressionError(_QUANTITY_FAULT)
    return Quantity(parse_quantity(text))


_QUANTITY_FAULT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def _number(value: Any) -> Fraction:
    return value.number if isinstance(value, Quantity) else Fraction(value)


def _compared(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _as_integer(value: Quantity) -> int:
    if value.number.denominator != 1:
        raise ExpressionError("cannot convert value to integer")
    return int(value.number)


class Url(Opaque):
    """A parsed URL."""

    kind = "kubernetes.URL"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.parts = urlsplit(text)


def _url(text: str) -> Url:
    try:
        if re.search(r"[\x00-\x1f\x7f]", text):
            raise ValueError(f'parse "{text}": net/url: invalid control character in URL')
        url = Url(text)
        absolute = url.parts.scheme != "" or text.startswith("/")
        if not absolute or (url.parts.scheme and ":" not in text):
            raise ValueError(f'parse "{text}": invalid URI for request')
        if " " in url.parts.netloc:
            raise ValueError(f'parse "{text}": invalid character " " in host name')
        _ = url.parts.port
    except ValueError as error:
        words = f"URL parse error during conversion from string: {error}"
        raise ExpressionError(words) from None
    return url


def _host(url: Url) -> str:
    return url.parts.netloc.rpartition("@")[2]


def _hostname(url: Url) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: Url) -> str:
    return _host(url).rpartition("]")[2].partition(":")[2]


def _path(url: Url) -> str:
    return quote(url.parts.path, safe="/%:@!$&'()*+,;=~-._")


def _query(url: Url) -> dict[str, list[str]]:
    return parse_qs(url.parts.query, keep_blank_values=True)


class Ip(Opaque):
    """An address."""

    kind = "net.IP"

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        super().__init__(str(address))
        self.address = address


def _ip(text: str) -> Ip:
    fault = f"IP Address {_quoted(text)} parse error during conversion from string: ParseAddr("
    if "%" in text:
        raise ExpressionError(f"IP address {_quoted(text)} with zone value is not allowed")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ExpressionError(f"{fault}{_quoted(text)}): {_address_fault(text)}") from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise ExpressionError(f"IPv4-mapped IPv6 address {_quoted(text)} is not allowed")
    return Ip(address)


def _address_fault(text: str) -> str:
    if ":" not in text and "." not in text:
        return "unable to parse IP"
    if ":" not in text:
        if text.count(".") < 3:
            return "IPv4 address too short"
        return "IPv4 field has value >255"
    return "unexpected character"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _link_local_multicast(ip: Ip) -> bool:
    return ip.text.startswith("224.0.0.") or ip.text.startswith("ff02:")


def _global_unicast(ip: Ip) -> bool:
    address = ip.address
    broadcast = ip.text == "255.255.255.255"
    others = address.is_unspecified or address.is_loopback or address.is_multicast
    return not (broadcast or others or address.is_link_local)


class Cidr(Opaque):
    """A prefix with an address in it."""

    kind = "net.CIDR"

    def __init__(self, interface: Any) -> None:
        super().__init__(str(interface))
        self.interface = interface


def _cidr(text: str) -> Cidr:
    fault = "network address parse error during conversion from string: "
    fault = f"{fault}{fault}netip.ParsePrefix("
    if "/" not in text:
        raise ExpressionError(f"{fault}{_quoted(text)}): no '/'")
    try:
        return Cidr(ipaddress.ip_interface(text))
    except ValueError:
        where = f"{fault}{_quoted(text)}): prefix length out of range"
        raise ExpressionError(where) from None


def _contains_ip(prefix: Cidr, address: Any) -> bool:
    ip = _ip(address) if isinstance(address, str) else address
    return bool(ip.address in prefix.interface.network)


def _contains_cidr(prefix: Cidr, inner: Any) -> bool:
    other = _cidr(inner) if isinstance(inner, str) else inner
    one, two = prefix.interface.network, other.interface.network
    return bool(one.version == two.version and two.subnet_of(one))


_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)


class Semver(Opaque):
    """A semantic version; what is built of it counts neither for order nor for equality."""

    kind = "kubernetes.Semver"

    def __init__(self, match: re.Match[str]) -> None:
        super().__init__(match.group().partition("+")[0])
        self.numbers = tuple(int(match.group(at)) for at in (1, 2, 3))
        release = match.group(4)
        parts = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in (release or "").split(".")]
        self.order = (*self.numbers, release is None, tuple(parts) if release else ())


def _semver(text: str, normalize: bool = False) -> Semver:
    if normalize:
        text = _normalized(text)
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ExpressionError(_semver_fault(text))
    return Semver(match)


def _semver_fault(text: str) -> str:
    if not text:
        return "Version string empty"
    if text.count(".") < 2:
        return "No Major.Minor.Patch elements found"
    return f"Invalid character(s) found in major number {_quoted(text.partition('.')[0])}"


def _normalized(text: str) -> str:
    text = text.strip().removeprefix("v")
    core, mark, rest = re.fullmatch(r"([^-+]*)([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    parts = [part.lstrip("0") or "0" if part else part for part in core.split(".")]
    if 0 < len(parts) < 3 and not mark:
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts) + mark + rest


class Format(Opaque):
    """A named format."""

    kind = "kubernetes.NamedFormat"


def _checked(name: str, words: str) -> Callable[[str], list[str]]:
    test = check_string(name)
    assert test is not None
    return lambda text: [] if test(text) else [words]


def _uri_faults(text: str) -> list[str]:
    try:
        _url(text)
    except ExpressionError as error:
        return [str(error).removeprefix("URL parse error during conversion from string: ")]
    return []


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Of a name that more follows: it may end in a dash."""
    return lambda text: list(check(re.sub(r"-$", "a", text)))


FORMATS: Final[dict[str, tuple[Callable[[str], list[str]], int]]] = {
    "dns1123Label": (dns_label, 30),
    "dns1123Subdomain": (dns_subdomain, 60),
    "dns1035Label": (dns1035_label, 30),
    "qualifiedName": (qualified_name, 60),
    "dns1123LabelPrefix": (_prefix(dns_label), 30),
    "dns1123SubdomainPrefix": (_prefix(dns_subdomain), 60),
    "dns1035LabelPrefix": (_prefix(dns1035_label), 30),
    "labelValue": (label_value, 40),
    "uri": (_uri_faults, 2083),
    "uuid": (_checked("uuid", "does not match the UUID format"), 93),
    "byte": (_checked("byte", "invalid base64"), 91),
    "date": (_checked("date", "invalid date"), 127),
    "datetime": (_checked("date-time", "invalid datetime"), 127),
}
"""What each named format checks, and how long a pattern for it would be."""


def _validate(named: Format, text: str) -> Optional:
    faults = list(FORMATS[named.text][0](text))
    return Optional(True, faults) if faults else NONE


def _named(name: str) -> Optional:
    return Optional(True, Format(name)) if name in FORMATS else NONE


def _accepts(parse: Callable[..., Any]) -> Callable[..., bool]:
    def check(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except ExpressionError:
            return False
        return True

    return check


def _is_canonical(text: str) -> bool:
    return _ip(text).text == text


def _escaped_key(text: str) -> str:
    return text.replace("~", "~0").replace("/", "~1")


def _family(ip: Ip) -> int:
    return ip.address.version


KUBERNETES: Final[Table] = [
    ("quantity(string) -> Quantity", _quantity),
    ("isQuantity(string) -> bool", is_quantity),
    ("sign(Quantity) -> int", lambda q: _compared(q.number, 0)),
    ("Quantity::isGreaterThan(Quantity) -> bool", lambda a, b: a.number > b.number),
    ("Quantity::isLessThan(Quantity) -> bool", lambda a, b: a.number < b.number),
    ("Quantity::compareTo(Quantity) -> int", lambda a, b: _compared(a.number, b.number)),
    ("Quantity::asApproximateFloat() -> double", lambda q: float(q.number)),
    ("Quantity::asInteger() -> int", _as_integer),
    ("Quantity::isInteger() -> bool", lambda q: q.number.denominator == 1),
    *(
        (f"Quantity::{name}({each}) -> Quantity", do)
        for each in ("Quantity", "int")
        for name, do in (
            ("add", lambda a, b: Quantity(a.number + _number(b))),
            ("sub", lambda a, b: Quantity(a.number - _number(b))),
        )
    ),
    ("url(string) -> URL", _url),
    ("isURL(string) -> bool", _accepts(_url)),
    ("URL::getScheme() -> string", lambda url: url.parts.scheme),
    ("URL::getHost() -> string", _host),
    ("URL::getHostname() -> string", _hostname),
    ("URL::getPort() -> string", _port),
    ("URL::getEscapedPath() -> string", _path),
    ("URL::getQuery() -> map(string, list(string))", _query),
    ("ip(string) -> IP", _ip),
    ("isIP(string) -> bool", _accepts(_ip)),
    ("ip.isCanonical(string) -> bool", _is_canonical),
    ("string(IP) -> string", lambda ip: ip.text),
    ("IP::family() -> int", _family),
    ("IP::isUnspecified() -> bool", lambda ip: ip.address.is_unspecified),
    ("IP::isLoopback() -> bool", lambda ip: ip.address.is_loopback),
    ("IP::isLinkLocalMulticast() -> bool", _link_local_multicast),
    ("IP::isLinkLocalUnicast() -> bool", lambda ip: ip.address.is_link_local),
    ("IP::isGlobalUnicast() -> bool", _global_unicast),
    ("cidr(string) -> CIDR", _cidr),
    ("isCIDR(string) -> bool", _accepts(_cidr)),
    ("string(CIDR) -> string", lambda cidr: cidr.text),
    ("CIDR::containsIP(string) -> bool", _contains_ip),
    ("CIDR::containsIP(IP) -> bool", _contains_ip),
    ("CIDR::containsCIDR(string) -> bool", _contains_cidr),
    ("CIDR::containsCIDR(CIDR) -> bool", _contains_cidr),
    ("CIDR::ip() -> IP", lambda cidr: Ip(cidr.interface.ip)),
    ("CIDR::prefixLength() -> int", lambda cidr: cidr.interface.network.prefixlen),
    (
        "CIDR::masked() -> CIDR",
        lambda cidr: Cidr(ipaddress.ip_interface(str(cidr.interface.network))),
    ),
    *((f"semver({each}) -> Semver", _semver) for each in ("string", "string, bool")),
    *((f"isSemver({each}) -> bool", _accepts(_semver)) for each in ("string", "string, bool")),
    ("Semver::isGreaterThan(Semver) -> bool", lambda a, b: a.order > b.order),
    ("Semver::isLessThan(Semver) -> bool", lambda a, b: a.order < b.order),
    ("Semver::compareTo(Semver) -> int", lambda a, b: _compared(a.order, b.order)),
    ("Semver::major() -> int", lambda version: version.numbers[0]),
    ("Semver::minor() -> int", lambda version: version.numbers[1]),
    ("Semver::patch() -> int", lambda version: version.numbers[2]),
    ("Format::validate(string) -> optional(list(string))", _validate),
    ("format.named(string) -> optional(Format)", _named),
    *((f"format.{name}() -> Format", lambda name=name: Format(name)) for name in FORMATS),
]
PATCHING: Final[Table] = [("jsonpatch.escapeKey(string) -> string", _escaped_key)]
"""What only policies that change objects may call."""
