"""Reads that always ask the API server."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast, overload

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import (
    BadRequestError,
    GoneError,
    NotFoundError,
    TransportError,
)
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.client.paths import (
    Fields,
    Labels,
    object_path,
    resource_path,
    selector_query,
)
from dynamo_operator.runtime.client.reader import M
from dynamo_operator.runtime.client.rest import DEFAULT_TIMEOUT_SECONDS, RestClient
from dynamo_operator.runtime.selectors import KEY_FIELDS, FieldRequirement, meets, parse_fields
from informers.objects import CachedObject, ObjectKey, ResourceType

Kind = type[M] | ResourceType
Query = Sequence[tuple[str, str]]

_PAGE_SIZE = 500


class LiveReader:
    """A `Reader` over a RestClient; the reading half of `Client`."""

    def __init__(self, rest: RestClient, default_namespace: str) -> None:
        self._rest = rest
        self._default_namespace = default_namespace

    @property
    def default_namespace(self) -> str:
        """Where objects without a namespace belong."""
        return self._default_namespace

    @overload
    async def get(self, kind: type[M], key: ObjectKey) -> M: ...
    @overload
    async def get(self, kind: ResourceType, key: ObjectKey) -> dict[str, Any]: ...
    async def get(self, kind: Kind[M], key: ObjectKey) -> M | dict[str, Any]:
        """Return the object.

        Raises:
            NotFoundError: there is none.
        """
        path = object_path(codec.resource_type_of(kind), self._placed(kind, key))
        response = await self.request("GET", path)
        return _decoded(kind, "GET", path, response)

    @overload
    async def find(self, kind: type[M], key: ObjectKey) -> M | None: ...
    @overload
    async def find(self, kind: ResourceType, key: ObjectKey) -> dict[str, Any] | None: ...
    async def find(self, kind: Kind[M], key: ObjectKey) -> M | dict[str, Any] | None:
        """Return the object, or None when there is none."""
        try:
            return await self.get(kind, key)
        except NotFoundError:
            return None

    @overload
    async def list(
        self,
        kind: type[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
    ) -> list[M]: ...
    @overload
    async def list(
        self,
        kind: ResourceType,
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
    ) -> list[dict[str, Any]]: ...
    async def list(
        self,
        kind: Kind[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
    ) -> list[M] | list[dict[str, Any]]:
        """Return the objects that match, sorted by key; no namespace means all of them.

        Fields are dotted paths and the text that they must have, or selector text: `=`, `!=`,
        `in (a, b)` and `notin (a, b)`. What the API server does not select by is selected here, at
        the price of fetching more.
        """
        path = resource_path(codec.resource_type_of(kind), namespace)
        requirements = parse_fields(fields)
        served = [r for r in requirements if r.is_servable]
        try:
            found = await self._list_all(path, selector_query(labels, _text(served)))
        except BadRequestError:
            by_name = [r for r in served if r.path in KEY_FIELDS]
            if by_name == served:
                raise
            served = by_name
            found = await self._list_all(path, selector_query(labels, _text(served)))
        if own := [r for r in requirements if r not in served]:
            found = [obj for obj in found if meets(obj, own)]
        found.sort(key=lambda cached: cached.key)
        return cast("builtins.list[M]", [codec.decode(kind, cached.data) for cached in found])

    async def _list_all(self, path: str, selectors: Query) -> builtins.list[CachedObject]:
        try:
            return await self._list_pages(path, selectors, limit=_PAGE_SIZE)
        except GoneError:
            # The snapshot behind the continue token is gone: only an undivided list is consistent.
            return await self._list_pages(path, selectors, limit=0)

    async def _list_pages(
        self, path: str, selectors: Query, *, limit: int
    ) -> builtins.list[CachedObject]:
        found: builtins.list[CachedObject] = []
        token = ""
        while True:
            query = [*selectors]
            if limit:
                query.append(("limit", str(limit)))
            if token:
                query.append(("continue", token))
            response = await self.request("GET", path, query=query)
            try:
                page = codec.decode_list(response.body)
            except codec.MalformedJsonError as error:
                raise TransportError(f"GET {path}: {error}") from None
            found += page.items
            token = page.continue_token
            if not token:
                return found

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        """Send a raw request; everything but a 2xx raises the error it means.

        Args:
            method: HTTP method.
            path: percent-encoded.
            query: not encoded.
            body: sent as it is.
            content_type: of the body.
            accept: Accept header.
            timeout_seconds: deadline of the call, repetitions included; 30 by default.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        return await self._rest.request(
            HttpRequest(method, path, tuple(query or ()), headers, body),
            timeout_seconds=DEFAULT_TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds,
        )

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, query: Query | None = None
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open an answer of any length, e.g. a Pod's log, and yield its chunks as they arrive."""
        request = HttpRequest(method, path, tuple(query or ()), {"Accept": "*/*"})
        async with self._rest.stream(request) as stream:
            yield stream.chunks()

    def _placed(self, kind: Kind[M], key: ObjectKey) -> ObjectKey:
        if codec.resource_type_of(kind).namespaced and not key.namespace:
            return ObjectKey(self._default_namespace, key.name)
        return key


class UncachedReader(LiveReader):
    """The live reads of a client, without its writes."""

    def __init__(self, client: LiveReader) -> None:
        super().__init__(client._rest, client._default_namespace)  # noqa: SLF001 - its own base


def _text(requirements: Sequence[FieldRequirement]) -> str:
    return ",".join(str(requirement) for requirement in requirements)


def _decoded(kind: Kind[M], method: str, path: str, response: HttpResponse) -> M | dict[str, Any]:
    try:
        return codec.decode(kind, response.body)
    except codec.MalformedJsonError as error:
        raise TransportError(f"{method} {path}: answered with {error}") from None
