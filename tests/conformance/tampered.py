"""A ListWatch between an informer and a server that notes requests and disturbs the answers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from informers.errors import ConnectionLostError
from informers.events import WatchEvent
from informers.list_watch import ListPage, ListWatch


@dataclass(frozen=True)
class Asked:
    """One request."""

    verb: str
    resource_version: str
    limit: int = 0
    is_continued: bool = False
    initial: bool = False


@dataclass
class TamperedListWatch:
    """What `list_watch` answers, but for the disturbances.

    Args:
        list_watch: a real one.
        answers: raised instead of answering the next requests; None lets one through.
        page_size: how many objects a page has, whatever is asked for.
        watch_seconds: how long a watch lasts, whatever is asked for.
        lose_end_of_initial_events: whether the next stream of initial events breaks before its end.
    """

    list_watch: ListWatch
    answers: list[Exception | None] = field(default_factory=list)
    page_size: int = 0
    watch_seconds: int = 0
    lose_end_of_initial_events: bool = False
    asked: list[Asked] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    _is_held: bool = False
    _was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    _streams: list["asyncio.Queue[Sequence[WatchEvent] | Exception | None]"] = field(
        default_factory=list
    )

    @property
    def resource_type(self):
        return self.list_watch.resource_type

    async def wait_asked(self, count):
        """Wait until so many requests were made."""
        while len(self.asked) < count:
            self._was_asked.clear()
            await self._was_asked.wait()

    def hold(self):
        """Keep from now on what the streams that are open bring."""
        self._is_held = True

    def end_streams(self, error: Exception | None = None):
        """End every stream, in good order or with an error; new ones are not held."""
        self._is_held = False
        for stream in self._streams:
            stream.put_nowait(error)

    async def list(self, *, resource_version="", limit=0, continue_token="") -> ListPage:
        limit = self.page_size or limit
        self._ask(Asked("list", resource_version, limit, is_continued=bool(continue_token)))
        return await self.list_watch.list(
            resource_version=resource_version, limit=limit, continue_token=continue_token
        )

    @asynccontextmanager
    async def watch(self, *, resource_version, timeout_seconds, send_initial_events=False):
        self._ask(Asked("watch", resource_version, initial=send_initial_events))
        stream: asyncio.Queue[Sequence[WatchEvent] | Exception | None] = asyncio.Queue()
        raised: Exception | None = None
        self._streams.append(stream)
        async with (
            self.list_watch.watch(
                resource_version=resource_version,
                timeout_seconds=self.watch_seconds or timeout_seconds,
                send_initial_events=send_initial_events,
            ) as batches,
            asyncio.TaskGroup() as group,
        ):
            pump = group.create_task(self._pump(batches, stream))
            try:
                yield self._disturbed(stream)
            except Exception as error:  # noqa: BLE001 - raised below, where no group wraps it
                raised = error
            finally:
                pump.cancel()
                self._streams.remove(stream)
        if raised is not None:
            raise raised

    async def _pump(self, batches, stream):
        try:
            async for batch in batches:
                if not self._is_held:
                    stream.put_nowait(batch)
        except ConnectionLostError as error:
            stream.put_nowait(error)
        else:
            stream.put_nowait(None)

    async def _disturbed(self, stream) -> AsyncIterator[Sequence[WatchEvent]]:
        while (item := await stream.get()) is not None:
            if isinstance(item, Exception):
                raise item
            if self.lose_end_of_initial_events and any(e.initial_events_end for e in item):
                self.lose_end_of_initial_events = False
                yield [event for event in item if not event.initial_events_end]
                raise ConnectionLostError("reset by peer")
            yield item

    def _ask(self, asked: Asked):
        self.asked.append(asked)
        self._was_asked.set()
        self.times.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
