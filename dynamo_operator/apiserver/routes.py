"""What a method and a path ask for."""

from __future__ import annotations

from dataclasses import dataclass

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request taken apart, as authorization and the audit log see it.

    `verb` of a request that is not for a resource is the lower-case method.
    """

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_route(method: str, path: str, *, watch: bool) -> RequestInfo:
    """Take a request apart. `watch` is whether the query asks for one."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower(), path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 2:
        namespace = rest[1]
        if len(rest) >= 3 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    if len(rest) > 3 and rest[2] != "proxy":
        return RequestInfo(method.lower(), path)
    name = rest[1] if len(rest) > 1 else ""
    return RequestInfo(
        verb=_verb(method, has_name=bool(name), watch=watch),
        path=path,
        is_resource=True,
        group=group,
        version=version,
        plural=rest[0],
        namespace=namespace,
        name=name,
        subresource=rest[2] if len(rest) > 2 else "",
    )


def _verb(method: str, *, has_name: bool, watch: bool) -> str:
    match method:
        case "GET" | "HEAD":
            if has_name:
                return "get"
            return "watch" if watch else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if has_name else "deletecollection"
    return method.lower()
