"""Kubernetes Events (events.k8s.io/v1), recorded without waiting and sent in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol

import structlog

from dynamo_operator.runtime.builtin_kinds import Event
from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ApiError,
    ClientError,
    NotFoundError,
    NotLeadingError,
    ServerError,
    TooManyRequestsError,
)
from dynamo_operator.runtime.client.generated_models import GeneratedModel
from dynamo_operator.runtime.error_policy import asked_pause
from dynamo_operator.runtime.models import KubeModel
from informers.clock import Clock
from informers.objects import ObjectKey

EventType = Literal["Normal", "Warning"]

NOTE_BYTES: Final = 1024
_NAME_LENGTH: Final = 128  # of reason, action and reporting instance
_QUEUE_LENGTH: Final = 1000
_TRIES: Final = 12
_RETRY_SECONDS: Final = 10.0
_LAST_SECONDS: Final = 5.0  # for what is queued at the stop
_SERIES_END_SECONDS: Final = 360.0
_SERIES_HEARTBEAT_SECONDS: Final = 1800.0
_MOST_SERIES: Final = 4096

_log = structlog.get_logger(__name__)


class EventWriter(Protocol):
    """What the recorder needs of a client."""

    async def create(self, obj: Event) -> Event:
        """Create the event."""

    async def patch(self, kind: type[Event], key: ObjectKey, patch: Mapping[str, Any]) -> Event:
        """Merge the patch into the event."""


DropCounter = Callable[[str], None]
"""Told of every event that will not be sent: queue_full, refused, not_leading or unreachable."""


@dataclass(frozen=True, slots=True)
class _Occurrence:
    regarding: tuple[tuple[str, str], ...]
    related: tuple[tuple[str, str], ...]
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class _Series:
    key: ObjectKey  # of the Event that stands for it
    count: int
    last_seen: datetime
    last_seen_at: float
    written_count: int
    written_at: float


class EventRecorder:
    """Records events about objects.

    `record` puts an event into a bounded queue and returns; `run` sends what is queued. Repeats of
    the same event within six minutes become a series on the first one instead of new Events. An
    event that the server refuses is logged once per cause and forgotten.

    Args:
        client: writes the events.
        clock: the time of events.
        reporting_controller: who reports, a qualified name such as `lab.test/widget-operator`.
        reporting_instance: which instance of it; cut to 128 characters.
        dropped: told of events that will not be sent.
    """

    needs_leadership = False

    def __init__(
        self,
        client: EventWriter,
        *,
        clock: Clock,
        reporting_controller: str,
        reporting_instance: str,
        dropped: DropCounter = lambda _: None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._reporting_controller = reporting_controller
        self._reporting_instance = (reporting_instance or reporting_controller)[:_NAME_LENGTH]
        self._dropped = dropped
        self._queue: asyncio.Queue[tuple[_Occurrence, datetime]] = asyncio.Queue(_QUEUE_LENGTH)
        self._series: OrderedDict[_Occurrence, _Series] = OrderedDict()
        self._interrupted: Event | None = None
        self._logged: set[tuple[str, str]] = set()
        self._made = 0

    def record(
        self,
        obj: KubeModel | GeneratedModel | Mapping[str, Any],
        *,
        type: EventType = "Normal",
        reason: str,
        action: str,
        note: str = "",
        related: KubeModel | GeneratedModel | Mapping[str, Any] | None = None,
    ) -> None:
        """Report that something happened to an object; never raises and never waits.

        Args:
            obj: what the event is about, as read from the API server.
            type: Normal, or Warning for what a person should look at.
            reason: why, a word in CamelCase.
            action: what was done or tried, a word in CamelCase.
            note: a sentence for people; cut to 1024 bytes.
            related: another object that takes part.
        """
        try:
            occurrence = _Occurrence(
                regarding=_reference(obj),
                related=_reference(related) if related is not None else (),
                type=type,
                reason=(reason or "Unspecified")[:_NAME_LENGTH],
                action=(action or reason or "Unspecified")[:_NAME_LENGTH],
                note=cut_note(note),
            )
            self._queue.put_nowait((occurrence, self._clock.now()))
            regarding = dict(occurrence.regarding)
            _log.info(
                "event recorded",
                kind=regarding.get("kind", ""),
                namespace=regarding.get("namespace", ""),
                name=regarding.get("name", ""),
                type=type,
                reason=occurrence.reason,
                note=occurrence.note,
            )
        except asyncio.QueueFull:
            self._dropped("queue_full")
        except Exception as error:  # noqa: BLE001 - an event never fails whoever reports it
            self._dropped("refused")
            _log.error("event not recorded", reason=reason, exc_info=error)

    async def run(self) -> None:
        """Send events until cancelled; what is still queued then is tried once more.

        It may run again after that.
        """
        try:
            while True:
                try:
                    async with asyncio.timeout(self._seconds_to_next_flush()):
                        occurrence, when = await self._queue.get()
                except TimeoutError:
                    await self._flush_ended_series()
                    continue
                try:
                    await self._send(occurrence, when, tries=_TRIES)
                finally:
                    self._queue.task_done()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self._send_interrupted()
                    while not self._queue.empty():
                        occurrence, when = self._queue.get_nowait()
                        self._queue.task_done()
                        await self._send(occurrence, when, tries=1)

    async def wait_sent(self) -> None:
        """Wait, while it runs, until what was recorded is sent or given up."""
        await self._queue.join()

    async def _send(self, occurrence: _Occurrence, when: datetime, *, tries: int) -> None:
        try:
            await self._send_or_count(occurrence, when, tries=tries)
        except Exception as error:  # noqa: BLE001 - nor does it fail whoever sends the others
            self._interrupted = None
            self._dropped("refused")
            _log.error("event not recorded", reason=occurrence.reason, exc_info=error)

    async def _send_interrupted(self) -> None:
        """Send once more, under its name, what was on its way when the stop came."""
        event, self._interrupted = self._interrupted, None
        if event is not None:
            await self._try(lambda: self._client.create(event), tries=1)

    async def _send_or_count(self, occurrence: _Occurrence, when: datetime, *, tries: int) -> None:
        now = self._clock.monotonic()
        series = self._series.get(occurrence)
        if series is not None and now - series.last_seen_at <= _SERIES_END_SECONDS:
            series.count += 1
            series.last_seen, series.last_seen_at = when, now
            self._series.move_to_end(occurrence)
            due = now - series.written_at >= _SERIES_HEARTBEAT_SECONDS
            if series.written_count == 1 or due:
                await self._write_series(occurrence, series, tries=tries)
            return
        event = self._interrupted = self._event(occurrence, when)
        error = await self._try(lambda: self._client.create(event), tries=tries)
        self._interrupted = None
        # Names are used once: one that exists is an earlier try whose answer was lost.
        if error is not None and not isinstance(error, AlreadyExistsError):
            self._give_up(occurrence, error)
            return
        self._series[occurrence] = _Series(
            event.key, count=1, last_seen=when, last_seen_at=now, written_count=1, written_at=now
        )
        self._series.move_to_end(occurrence)
        if len(self._series) > _MOST_SERIES:
            self._series.popitem(last=False)

    async def _write_series(self, occurrence: _Occurrence, series: _Series, *, tries: int) -> None:
        count, now = series.count, self._clock.monotonic()
        body = {"series": {"count": count, "lastObservedTime": _micro_time(series.last_seen)}}
        error = await self._try(lambda: self._client.patch(Event, series.key, body), tries=tries)
        if error is None:
            series.written_count, series.written_at = count, now
            return
        # Events expire on the server: the next occurrence then starts a new one.
        self._series.pop(occurrence, None)
        if not isinstance(error, NotFoundError):
            self._give_up(occurrence, error)

    async def _flush_ended_series(self) -> None:
        now = self._clock.monotonic()
        # The same sum as of the timer: a difference may round to less, and the wait be no wait.
        ended = [o for o, s in self._series.items() if s.last_seen_at + _SERIES_END_SECONDS <= now]
        for occurrence in ended:
            series = self._series.pop(occurrence)
            if series.count != series.written_count:
                await self._write_series(occurrence, series, tries=1)

    def _seconds_to_next_flush(self) -> float | None:
        oldest = next(iter(self._series.values()), None)
        if oldest is None:
            return None
        return max(0.0, oldest.last_seen_at + _SERIES_END_SECONDS - self._clock.monotonic())

    async def _try(
        self, write: Callable[[], Awaitable[object]], *, tries: int
    ) -> ClientError | None:
        """Return None once written, else the error that ended the tries."""
        for remaining in range(tries - 1, -1, -1):
            try:
                await write()
            except ClientError as error:
                if remaining == 0 or _why_dropped(error) != "unreachable":
                    return error
                pause = max(_RETRY_SECONDS, asked_pause(error))
            else:
                return None
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: at least one try")

    def _give_up(self, occurrence: _Occurrence, error: ClientError) -> None:
        self._dropped(_why_dropped(error))
        cause = (type(error).__name__, occurrence.reason)
        if cause not in self._logged:
            self._logged.add(cause)
            _log.warning("event not recorded", reason=occurrence.reason, error=str(error))

    def _event(self, occurrence: _Occurrence, when: datetime) -> Event:
        regarding = dict(occurrence.regarding)
        self._made += 1
        suffix = f".{int(when.timestamp() * 1_000_000):x}{self._made & 0xFFFF:04x}"
        fields: dict[str, Any] = {
            "eventTime": _micro_time(when),
            "type": occurrence.type,
            "reason": occurrence.reason,
            "action": occurrence.action,
            "note": occurrence.note,
            "regarding": regarding,
            "reportingController": self._reporting_controller,
            "reportingInstance": self._reporting_instance,
        }
        if occurrence.related:
            fields["related"] = dict(occurrence.related)
        return Event.new(
            regarding.get("name", "unnamed")[: 253 - len(suffix)].rstrip(".-") + suffix,
            namespace=regarding.get("namespace", "default"),
            **fields,
        )


def cut_note(note: str) -> str:
    """Cut a note to 1024 bytes of UTF-8, on a character boundary and ended by an ellipsis."""
    encoded = note.encode("utf-8", errors="replace")
    if len(encoded) <= NOTE_BYTES:
        return encoded.decode()
    ellipsis = "…"
    kept = encoded[: NOTE_BYTES - len(ellipsis.encode())]
    return kept.decode("utf-8", errors="ignore") + ellipsis


def _why_dropped(error: ClientError) -> str:
    if isinstance(error, NotLeadingError):
        return "not_leading"
    transient = isinstance(error, ServerError | TooManyRequestsError)
    return "refused" if isinstance(error, ApiError) and not transient else "unreachable"


def _micro_time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _reference(
    obj: KubeModel | GeneratedModel | Mapping[str, Any],
) -> tuple[tuple[str, str], ...]:
    """Build the ObjectReference of an object, hashable."""
    if not isinstance(obj, Mapping):
        of_type, metadata = resource_type_of(type(obj)), obj.metadata
        values = (
            *(of_type.api_version, of_type.kind, metadata.namespace, metadata.name),
            metadata.uid,
        )
    else:
        meta = obj.get("metadata") or {}
        values = (
            *(obj.get("apiVersion", ""), obj.get("kind", "")),
            *(meta.get(name, "") for name in ("namespace", "name", "uid")),
        )
    names = ("apiVersion", "kind", "namespace", "name", "uid")
    return tuple((name, value) for name, value in zip(names, values, strict=True) if value)
