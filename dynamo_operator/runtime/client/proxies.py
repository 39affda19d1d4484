"""Which HTTP proxy leads to the server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from dynamo_operator.runtime.client.errors import ConfigError


def proxy_for(server: str, *, configured: str, where: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy to reach `server` through, or "" for none.

    Args:
        server: the API server's URL.
        configured: the kubeconfig's proxy-url; goes before the environment and NO_PROXY.
        where: what `configured` stands in, for errors.
        environ: read for HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in either case.

    Raises:
        ConfigError: the proxy is of a kind that we do not speak.
    """
    if configured:
        return _checked(configured, f"{where}: proxy-url")
    url = urlsplit(server)
    name = "HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY"
    found = environ.get(name) or environ.get(name.lower()) or ""
    if not found or _is_exempt(url.hostname or "", url.port, environ):
        return ""
    return _checked(found if "://" in found else f"http://{found}", f"${name}")


def _checked(proxy: str, where: str) -> str:
    scheme, separator, _ = proxy.partition("://")
    if not separator or scheme not in ("http", "https"):
        # Only the scheme is shown: the rest may hold a password.
        raise ConfigError(f"{where}: scheme {scheme!r} is not supported: use http:// or https://")
    return proxy


def _is_exempt(host: str, port: int | None, environ: Mapping[str, str]) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(",")
    return any(_matches(entry.strip().lower(), host, address, port) for entry in entries)


def _matches(
    entry: str,
    host: str,
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None,
    port: int | None,
) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry.strip("[]")) is None and ":" in entry:
        entry, _, wanted_port = entry.rpartition(":")
        if wanted_port != str(port):
            return False
    entry = entry.strip("[]").removeprefix("*")
    if not entry:
        return False
    if address is not None:
        return _address(entry) == address
    domain = entry if entry.startswith(".") else f".{entry}"
    return host.endswith(domain) or host == entry


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
