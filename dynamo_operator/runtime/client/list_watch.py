"""The informers' port to the cluster: lists and watches of one type and scope."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
)

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import ApiError, ClientError, TransportError
from dynamo_operator.runtime.client.http import HttpRequest, HttpStream
from dynamo_operator.runtime.client.lazy_log import log_warning
from dynamo_operator.runtime.client.rest import RestClient
from dynamo_operator.runtime.client.statuses import is_expired
from informers.errors import ConnectionLostError, ExpiredError, ListWatchError
from informers.events import WatchEvent
from informers.list_watch import ListPage
from informers.objects import ResourceType

LIST_TIMEOUT_SECONDS = 60.0
LONGEST_WATCH_LINE = 64 * 1024 * 1024

_JSON = "application/json"
_METADATA_LIST = f"{_JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,{_JSON}"
_METADATA = f"{_JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,{_JSON}"


class ClientListWatch:
    """`informers.list_watch.ListWatch` over a RestClient; made by `Client.list_watch`."""

    def __init__(
        self,
        rest: RestClient,
        resource_type: ResourceType,
        path: str,
        selectors: Sequence[tuple[str, str]],
        *,
        metadata_only: bool = False,
    ) -> None:
        self._rest = rest
        self._resource_type = resource_type
        self._path = path
        self._selectors = tuple(selectors)
        self._metadata_only = metadata_only
        metadata_kind = ("PartialObjectMetadata",) if metadata_only else ()
        self._kinds = frozenset((resource_type.kind, *metadata_kind))

    @property
    def resource_type(self) -> ResourceType:
        """The type that is listed."""
        return self._resource_type

    async def list(
        self, *, resource_version: str = "", limit: int = 0, continue_token: str = ""
    ) -> ListPage:
        """Fetch one page; see `ListWatch.list`."""
        query = list(self._selectors)
        if limit:
            query.append(("limit", str(limit)))
        if continue_token:
            query.append(("continue", continue_token))
        elif resource_version:
            query.append(("resourceVersion", resource_version))
        accept = _METADATA_LIST if self._metadata_only else _JSON
        request = HttpRequest("GET", self._path, query, {"Accept": accept})
        try:
            response = await self._rest.request(
                request, timeout_seconds=LIST_TIMEOUT_SECONDS, retry=False
            )
            return codec.decode_list(
                response.body, keep_data=not self._metadata_only, for_cache=True
            )
        except ApiError as error:
            raise _refusal(error) from error
        except ClientError as error:
            raise ConnectionLostError(str(error)) from error
        except codec.MalformedJsonError as error:
            raise ConnectionLostError(f"{request}: {error}") from error

    def watch(
        self, *, resource_version: str, timeout_seconds: int, send_initial_events: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[WatchEvent]]]:
        """Open a watch; see `ListWatch.watch`."""
        query = [*self._selectors, ("watch", "true"), ("allowWatchBookmarks", "true")]
        query.append(("timeoutSeconds", str(timeout_seconds)))
        if resource_version:
            query.append(("resourceVersion", resource_version))
        if send_initial_events:
            query.append(("sendInitialEvents", "true"))
            query.append(("resourceVersionMatch", "NotOlderThan"))
        accept = _METADATA if self._metadata_only else _JSON
        return self._watch(HttpRequest("GET", self._path, query, {"Accept": accept}))

    @asynccontextmanager
    async def _watch(
        self, request: HttpRequest
    ) -> AsyncGenerator[AsyncIterator[Sequence[WatchEvent]]]:
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(self._rest.stream(request))
            except ApiError as error:
                raise _refusal(error) from error
            except ClientError as error:
                raise ConnectionLostError(str(error)) from error
            yield await stack.enter_async_context(aclosing(self._batches(request, stream)))

    async def _batches(
        self, request: HttpRequest, stream: HttpStream
    ) -> AsyncGenerator[Sequence[WatchEvent]]:
        lines = codec.LineSplitter(LONGEST_WATCH_LINE)
        try:
            async for chunk in stream.chunks():
                batch = self._decode(lines.feed(chunk))
                if batch:
                    yield batch
        except TransportError as error:
            raise ConnectionLostError(str(error)) from error
        except codec.MalformedJsonError as error:
            raise ConnectionLostError(f"{request}: {error}") from error
        if lines.has_rest:
            raise ConnectionLostError(f"{request}: the stream ended in the middle of a line")

    def _decode(self, lines: Sequence[bytes]) -> Sequence[WatchEvent]:
        decode, keep_data, kinds = codec.decode_watch_line, not self._metadata_only, self._kinds
        try:
            return [decode(line, keep_data=keep_data, kinds=kinds) for line in lines]
        except codec.UnexpectedKindError as error:
            if len(lines) > 1:
                return [event for line in lines for event in self._decode((line,))]
            log_warning(
                "object of another kind skipped", resource=str(self._resource_type), kind=str(error)
            )
            return ()


def _refusal(error: ApiError) -> ListWatchError:
    kind = ExpiredError if is_expired(error) else ListWatchError
    return kind(
        error.code, error.reason, error.message, retry_after_seconds=error.retry_after_seconds
    )
