"""What a client said to its API server, in the words of the Kubernetes API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse, HttpStream, Transport

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FIRST_ERROR: Final = 400
_NOT_FOUND: Final = 404
_APPLY: Final = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and the status of its answer.

    Args:
        verb: get, list, create, update, apply, patch or delete.
        resource: plural and subresource.
        name: namespace/name; of a list the namespace.
        status: of the answer.
        note: what an Event tells; else empty.
    """

    verb: str
    resource: str
    name: str
    status: int
    note: str = ""

    @property
    def is_write(self) -> bool:
        """Whether it was to change something."""
        return self.verb not in ("get", "list")

    @property
    def is_refused(self) -> bool:
        """Whether the API server refused it; that there is no object answers a read."""
        return self.status >= _FIRST_ERROR and (self.is_write or self.status != _NOT_FOUND)


class Exchanges:
    """Takes down the requests that go through its transport, but for watches, once it is told to.

    Args:
        transport: what carries them.
    """

    def __init__(self, transport: Transport) -> None:
        self.is_on = False
        self.all: list[Exchange] = []
        self._transport = transport

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Pass a request on, and note it with its answer."""
        answer = await self._transport.send(request, timeout_seconds=timeout_seconds)
        if self.is_on:
            self.all.append(exchange_of(request, answer.status))
        return answer

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        """Pass a watch on."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()


def exchange_of(request: HttpRequest, status: int) -> Exchange:
    """Say what a request asked of the API server."""
    root, *others = request.path.strip("/").split("/")
    parts = others[1:] if root == "api" else others[2:]  # after version, or group and version
    namespace = ""
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    if not parts:
        return Exchange("get", f"discovery of {'/'.join(others)}", "", status)
    plural, name, subresource = (*parts, "", "")[:3]
    body = _object(request.body)
    if not name and request.method == "POST":
        name = str((body.get("metadata") or {}).get("name", ""))
    return Exchange(
        _verb(request, named=bool(name)),
        f"{plural}/{subresource}" if subresource else plural,
        "/".join(filter(None, (namespace, name))),
        status,
        note=f"{body.get('reason')}: {body.get('note')}" if plural == "events" and body else "",
    )


def _verb(request: HttpRequest, *, named: bool) -> str:
    if request.method == "GET":
        return "get" if named else "list"
    headers = {name.lower(): value for name, value in request.headers.items()}
    if request.method == "PATCH" and headers.get("content-type") == _APPLY:
        return "apply"
    return _VERBS.get(request.method, request.method.lower())


def _object(body: bytes | None) -> Mapping[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
