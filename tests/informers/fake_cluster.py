"""An API server of one type, reduced to what an informer can notice of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from informers.errors import ConnectionLostError, ExpiredError, ListWatchError
from informers.events import WatchEvent, WatchEventType
from informers.list_watch import ListPage
from informers.objects import CachedObject, ObjectKey, OwnerReference, ResourceType
from informers.shared_informer import SharedInformer

WIDGETS = ResourceType("lab.test", "v1", "Widget", "widgets")


def widget(name, version=1, *, uid="", namespace="ns", labels=None, owner_uid="", data=b"{}"):
    owners = (
        (OwnerReference("lab.test/v1", "Owner", "o", owner_uid, controller=True),)
        if owner_uid
        else ()
    )
    return CachedObject(
        key=ObjectKey(namespace, name),
        uid=uid or f"uid-{name}",
        resource_version=str(version),
        labels=labels or {},
        owner_references=owners,
        data=data,
    )


def added(name, version, **fields):
    return WatchEvent(WatchEventType.ADDED, widget(name, version, **fields))


def modified(name, version, **fields):
    return WatchEvent(WatchEventType.MODIFIED, widget(name, version, **fields))


def deleted(name, version, **fields):
    return WatchEvent(WatchEventType.DELETED, widget(name, version, **fields))


def bookmark(version, *, end=False):
    return WatchEvent(
        WatchEventType.BOOKMARK, resource_version=str(version), initial_events_end=end
    )


class Stream:
    """The server's end of one open watch."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Sequence[WatchEvent] | Exception | None] = asyncio.Queue()

    def send(self, *events: WatchEvent) -> None:
        self._queue.put_nowait(events)

    def close(self) -> None:
        self._queue.put_nowait(None)

    def fail(self, error: Exception | None = None) -> None:
        self._queue.put_nowait(error or ConnectionLostError("reset by peer"))

    async def batches(self) -> AsyncIterator[Sequence[WatchEvent]]:
        while (item := await self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item


@dataclass
class FakeCluster:
    """A ListWatch over objects that the test changes; every request is recorded with its time.

    `answers` are used up first, one for each request: an exception is raised, a stream is what a
    watch then gets, a page what a list gets.
    """

    resource_type: ResourceType = WIDGETS
    watch_list: bool = False
    page_size: int = 0
    version: int = 10
    objects: dict[ObjectKey, CachedObject] = field(default_factory=dict)
    history: list[tuple[int, WatchEvent]] = field(default_factory=list)
    oldest: int = 0
    streams: list[Stream] = field(default_factory=list)
    requests: list[tuple[float, str]] = field(default_factory=list)
    answers: list[Exception | Stream | ListPage] = field(default_factory=list)

    def put(self, name, **fields):
        self.version += 1
        obj = widget(name, self.version, **fields)
        kind = WatchEventType.MODIFIED if obj.key in self.objects else WatchEventType.ADDED
        self.objects[obj.key] = obj
        self._emit(WatchEvent(kind, obj))
        return obj

    def remove(self, name, namespace="ns"):
        self.version += 1
        last = self.objects.pop(ObjectKey(namespace, name))
        self._emit(
            WatchEvent(
                WatchEventType.DELETED,
                widget(name, self.version, uid=last.uid, namespace=namespace),
            )
        )

    def compact(self):
        """Forget all history: a watch from an older version is answered with 410."""
        self.history.clear()
        self.oldest = self.version

    def break_streams(self, error: Exception | None = None):
        for stream in self.streams:
            stream.fail(error)
        self.streams.clear()

    def close_streams(self):
        for stream in self.streams:
            stream.close()
        self.streams.clear()

    @property
    def asked(self) -> list[str]:
        return [request for _, request in self.requests]

    async def list(self, *, resource_version="", limit=0, continue_token="") -> ListPage:
        shown = f"list rv={resource_version!r} limit={limit}"
        self._record(f"list continue={continue_token}" if continue_token else shown)
        await asyncio.sleep(0)
        answer = self._answer()
        if isinstance(answer, ListPage):
            return answer
        items = [self.objects[key] for key in sorted(self.objects)]
        if not self.page_size or not limit:
            return ListPage(items, str(self.version))
        start = int(continue_token.partition("@")[0] or 0)
        version = continue_token.partition("@")[2] or str(self.version)
        end = start + self.page_size
        return ListPage(items[start:end], version, f"{end}@{version}" if end < len(items) else "")

    @asynccontextmanager
    async def watch(self, *, resource_version, timeout_seconds, send_initial_events=False):
        assert 300 <= timeout_seconds <= 600
        initial = " initial" if send_initial_events else ""
        self._record(f"watch rv={resource_version!r}{initial}")
        await asyncio.sleep(0)
        answer = self._answer()
        if isinstance(answer, Stream):
            stream = answer
        else:
            stream = self._open(resource_version, send_initial_events)
        try:
            yield stream.batches()
        finally:
            if stream in self.streams:
                self.streams.remove(stream)

    def _open(self, resource_version, send_initial_events) -> Stream:
        stream = Stream()
        if send_initial_events:
            if not self.watch_list:
                raise ListWatchError(422, "Invalid", "sendInitialEvents is forbidden")
            initial = [WatchEvent(WatchEventType.ADDED, o) for o in self.objects.values()]
            stream.send(*initial)
            stream.send(bookmark(self.version, end=True))
        else:
            start = int(resource_version)
            if start < self.oldest:
                raise ExpiredError(410, "Expired", f"too old resource version: {start}")
            for version, event in self.history:
                if version > start:
                    stream.send(event)
        self.streams.append(stream)
        return stream

    def _emit(self, event: WatchEvent) -> None:
        self.history.append((self.version, event))
        for stream in self.streams:
            stream.send(event)

    def _record(self, request: str) -> None:
        self.requests.append((asyncio.get_running_loop().time(), request))

    def _answer(self) -> Stream | ListPage | None:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def running(cluster, **options):
    informer = SharedInformer(cluster, random=Random(7), **options)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        try:
            yield informer
        finally:
            task.cancel()
