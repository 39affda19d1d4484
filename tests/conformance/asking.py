"""Requests that programs write: like those of `requests`, with bodies as Python has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance.requests import APPLY, JSON, MERGE, Json, Request

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def get(path: str, **more: Any) -> Request:
    """Read."""
    return _asked("GET", path, None, "", more)


def post(path: str, body: Json, **more: Any) -> Request:
    """Create."""
    return _asked("POST", path, body, JSON, more)


def put(path: str, body: Json, **more: Any) -> Request:
    """Replace."""
    return _asked("PUT", path, body, JSON, more)


def patch(path: str, body: Json, content_type: str = MERGE, **more: Any) -> Request:
    """Merge patch, or another."""
    return _asked("PATCH", path, body, content_type, more)


def apply(path: str, body: Json, *, manager: str = "lab", **more: Any) -> Request:
    """Server-side apply."""
    return _asked("PATCH", path, body, APPLY, {"fieldManager": manager, **more})


def delete(path: str, body: Json = None, **more: Any) -> Request:
    """Delete."""
    return _asked("DELETE", path, body, JSON if body is not None else "", more)


def _asked(
    method: str, path: str, body: Json, content_type: str, more: Mapping[str, Any]
) -> Request:
    """A request; of `more` what is none of its fields is a parameter of the query."""
    fields = {name: more[name] for name in ("until", "keep") if name in more}
    headers = {"Content-Type": content_type} if content_type else {}
    if "accept" in more:
        headers["Accept"] = more["accept"]
    if "user" in more:
        headers["Impersonate-User"] = more["user"]
    headers |= more.get("headers", {})
    known = {"until", "keep", "accept", "user", "headers"}
    query = tuple((name, str(value)) for name, value in more.items() if name not in known)
    shown = "&".join(f"{name}={value}" for name, value in query)
    line = f"{method} {path}{'?' if shown else ''}{shown}"
    return Request(method, path, query, headers, body, line=line, **fields)
