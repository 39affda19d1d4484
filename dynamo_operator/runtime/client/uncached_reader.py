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
from dynamo_operator.runtime.client.options import ClientOptions
from dynamo_operator.runtime.client.paths import (
    Fields,
    Labels,
    object_path,
    resource_path,
    selector_query,
)
from dynamo_operator.runtime.client.reader import Kind, M
from dynamo_operator.runtime.client.rest import DEFAULT_TIMEOUT_SECONDS, RestClient
from dynamo_operator.runtime.selectors import KEY_FIELDS, FieldRequirement, meets, parse_fields
from informers.list_watch import ListPage
from informers.objects import CachedObject, ObjectKey, ResourceType

Query = Sequence[tuple[str, str]]

_PAGE_SIZE = 500


class LiveReader:
    """A `Reader` over a RestClient; the reading half of `Client`."""

    def __init__(self, rest: RestClient, options: ClientOptions) -> None:
        self._rest = rest
        self._options = options

    @property
    def default_namespace(self) -> str:
        """Where objects without a namespace belong."""
        return self._options.namespace

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
        path = resource_path(codec.resource_type_of(kind), self._scope(kind, namespace))
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

    @overload
    def pages(
        self,
        kind: type[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        limit: int = 500,
    ) -> AsyncIterator[builtins.list[M]]: ...
    @overload
    def pages(
        self,
        kind: ResourceType,
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        limit: int = 500,
    ) -> AsyncIterator[builtins.list[dict[str, Any]]]: ...
    async def pages(
        self,
        kind: Kind[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        limit: int = 500,
    ) -> AsyncIterator[builtins.list[M]] | AsyncIterator[builtins.list[dict[str, Any]]]:
        """Yield the objects that match page by page, each fetched when it is asked for.

        Args:
            kind: their type.
            namespace: only there; empty for all.
            labels: a label selector.
            fields: a field selector; `=` and `!=` only, on fields that the server selects by.
            limit: the most objects of a page.

        Raises:
            GoneError: the next page was asked for so late that the list is no longer known.
        """
        path = resource_path(codec.resource_type_of(kind), self._scope(kind, namespace))
        selectors, token = selector_query(labels, fields), ""
        while True:
            page = await self._page(path, selectors, limit=limit, token=token)
            yield cast("Any", [codec.decode(kind, cached.data) for cached in page.items])
            token = page.continue_token
            if not token:
                return

    async def get_subresource(
        self, kind: Kind[M], key: ObjectKey, subresource: str
    ) -> dict[str, Any]:
        """Return a subresource that is an object of its own, e.g. `scale`, as plain JSON.

        Raises:
            NotFoundError: there is no such object, or it has no such subresource.
        """
        path = object_path(codec.resource_type_of(kind), self._placed(kind, key), subresource)
        return plain_of("GET", path, await self.request("GET", path))

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
            page = await self._page(path, selectors, limit=limit, token=token)
            found += page.items
            token = page.continue_token
            if not token:
                return found

    async def _page(self, path: str, selectors: Query, *, limit: int, token: str) -> ListPage:
        query = [*selectors]
        if limit:
            query.append(("limit", str(limit)))
        if token:
            query.append(("continue", token))
        response = await self.request("GET", path, query=query)
        try:
            return codec.decode_list(response.body)
        except codec.MalformedJsonError as error:
            raise TransportError(f"GET {path}: {error}") from None

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
        """Return the key with the namespace that the object belongs in."""
        if not codec.resource_type_of(kind).namespaced:
            return key
        self._check_namespace(kind, key.namespace)
        return key if key.namespace else ObjectKey(self._options.namespace, key.name)

    def _scope(self, kind: Kind[M], namespace: str) -> str:
        """Return the namespace to look for objects in, "" for all."""
        if not self._options.confined or not codec.resource_type_of(kind).namespaced:
            return namespace
        self._check_namespace(kind, namespace)
        return self._options.namespace

    def _check_namespace(self, kind: Kind[M], namespace: str) -> None:
        if self._options.confined and namespace not in ("", self._options.namespace):
            raise ValueError(
                f"{codec.resource_type_of(kind)}: namespace {namespace!r} is not that of this "
                f"client, {self._options.namespace!r}"
            )


class UncachedReader(LiveReader):
    """The live reads of a client, without its writes."""

    def __init__(self, client: LiveReader) -> None:
        super().__init__(client._rest, client._options)  # noqa: SLF001 - its own base


def _text(requirements: Sequence[FieldRequirement]) -> str:
    return ",".join(str(requirement) for requirement in requirements)


def plain_of(method: str, path: str, response: HttpResponse) -> dict[str, Any]:
    """Return the JSON object that an answer holds."""
    try:
        document = codec.decode_json(response.body)
    except codec.MalformedJsonError as error:
        raise TransportError(f"{method} {path}: answered with {error}") from None
    if not isinstance(document, dict):
        raise TransportError(f"{method} {path}: answered with no JSON object")
    return document


def _decoded(kind: Kind[M], method: str, path: str, response: HttpResponse) -> M | dict[str, Any]:
    try:
        return codec.decode(kind, response.body)
    except codec.MalformedJsonError as error:
        raise TransportError(f"{method} {path}: answered with {error}") from None
