"""Which list or watch to ask for next, and what an answer means: the reflector without its I/O.

The driver asks `next_request`, sends it, and reports what came: `listed`, `opened` and `received`,
and in the end `closed`, `failed` or `timed_out`. It gets back what to put into the store and how
long to wait before it asks again.

States: a snapshot is taken by STREAMING (WatchList: a watch that begins with the present objects
and marks their end with a bookmark) or by LISTING (pages); then the session is WATCHING. `_MOVES`
is the table of what follows when something ends. START in it is STREAMING, or LISTING for a server
that is known not to do the former. Four rules stand beside the table:

    - A stream that broke after it lived for a second ended as if it was closed.
    - Whoever asked for a certain version and hears that it is expired, asks at once for the latest.
      A page that expired is followed by one list without pages.
    - STREAMING that was opened and came to nothing three times is given up for LISTING.
    - WATCHING that came to nothing four times in a row starts over with a snapshot, so that a
      stream which something between cuts off cannot leave the store behind for ever.

Invariants:
    - `_version` is that of the last object or bookmark that was passed on, so a re-watch repeats
      or misses nothing. What STREAMING collected is dropped whole unless its end was marked.
    - No version is asked for again after the server called it expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from informers.backoff import Backoff
from informers.clock import Random
from informers.errors import (
    ConnectionLostError,
    ExpiredError,
    ListWatchError,
    UnwatchableError,
    status_error,
)
from informers.events import WatchEvent, WatchEventType
from informers.list_watch import ListPage
from informers.objects import CachedObject, ObjectKey, ResourceType
from informers.resource_versions import is_older

PAGE_SIZE = 500
WATCH_SECONDS = (300, 600)
IDLE_SECONDS = 75.0
STREAMING_QUIET_SECONDS = 30.0
STREAMING_SECONDS = 120.0
SHORT_SECONDS = 1.0
STREAMING_TRIES = 3
WATCHING_TRIES = 4


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Ask for one page, as `ListWatch.list` takes it."""

    resource_version: str
    limit: int
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """Open a watch, as `ListWatch.watch` takes it."""

    resource_version: str
    timeout_seconds: int
    send_initial_events: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects at one version: what the store is to be replaced by.

    `reason` is initial, expired, fall_back or error.
    """

    objects: Sequence[CachedObject]
    resource_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """What a batch means: first the snapshot, then the events; after an error the stream ends."""

    snapshot: Snapshot | None
    events: Sequence[WatchEvent]
    error: ListWatchError | None


class Outcome(Enum):
    """How a list or a watch ended; the value is what observers are told."""

    CLOSED = "closed"  # in good order
    SHORT = "short"  # within a second, without an event
    LOST = "lost"  # broke off, or an error inside the stream
    SILENT = "idle"  # nothing came for too long
    EXPIRED = "expired"  # that version is gone, or not reached yet
    UNAVAILABLE = "unavailable"  # 429, 5xx, or no connection
    REJECTED = "rejected"  # the server does not know this kind of request
    REFUSED = "refused"  # any other status


@dataclass(frozen=True, slots=True)
class Ended:
    """What follows: ask again after so many seconds. `error` is None where nothing went wrong."""

    outcome: Outcome
    retry_in_seconds: float
    error: Exception | None


class _Phase(Enum):
    START = "start"
    STREAMING = "streaming"
    LISTING = "listing"
    WATCHING = "watching"


# Looking a member up in its class costs ten times as much as a global name.
_START, _STREAMING, _LISTING, _WATCHING = _Phase
_DELETED, _ERROR = WatchEventType.DELETED, WatchEventType.ERROR


@dataclass(frozen=True, slots=True)
class _Move:
    to: _Phase
    wait: bool = True
    latest: bool = False  # forget the version: the next snapshot is the latest


_MOVES = {
    (_STREAMING, Outcome.CLOSED): _Move(_START),
    (_STREAMING, Outcome.SHORT): _Move(_START),
    (_STREAMING, Outcome.LOST): _Move(_START),
    (_STREAMING, Outcome.SILENT): _Move(_LISTING, wait=False),
    (_STREAMING, Outcome.EXPIRED): _Move(_START, latest=True),
    (_STREAMING, Outcome.UNAVAILABLE): _Move(_START),
    (_STREAMING, Outcome.REJECTED): _Move(_LISTING, wait=False),
    (_STREAMING, Outcome.REFUSED): _Move(_START),
    (_LISTING, Outcome.EXPIRED): _Move(_LISTING, latest=True),
    (_LISTING, Outcome.UNAVAILABLE): _Move(_START),
    (_LISTING, Outcome.REJECTED): _Move(_START, latest=True),
    (_LISTING, Outcome.REFUSED): _Move(_START),
    (_WATCHING, Outcome.CLOSED): _Move(_WATCHING, wait=False),
    (_WATCHING, Outcome.SHORT): _Move(_WATCHING),
    (_WATCHING, Outcome.LOST): _Move(_WATCHING),
    (_WATCHING, Outcome.SILENT): _Move(_WATCHING, wait=False),
    (_WATCHING, Outcome.EXPIRED): _Move(_START, latest=True),
    (_WATCHING, Outcome.UNAVAILABLE): _Move(_WATCHING),
    (_WATCHING, Outcome.REJECTED): _Move(_START, latest=True),
    (_WATCHING, Outcome.REFUSED): _Move(_START),
}
_REJECTED_CODES = frozenset({400, 405, 406, 415, 422, 501})


class WatchSession:
    """The state of listing and watching one type; times are the caller's monotonic ones.

    Args:
        resource_type: for error messages.
        random: draws watch timeouts.
        backoff: draws the waits after failures.
        use_watch_list: False for a server that is known not to do WatchList.
        idle_seconds: after so long without a byte a watch is given up for a new one.
    """

    def __init__(
        self,
        resource_type: ResourceType,
        *,
        random: Random,
        backoff: Backoff,
        use_watch_list: bool = True,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._resource_type = resource_type
        self._random = random
        self._backoff = backoff
        self.uses_watch_list: bool = use_watch_list
        self._idle_seconds = idle_seconds
        self._phase = _START
        self._version = ""
        self._latest = False
        self._reason = "initial"
        self._collected: dict[ObjectKey, CachedObject] = {}
        self._continue_token = ""
        self._paging = True
        self._pages_at_zero = False
        self._fruitless_streamings = 0
        self._fruitless_watches = 0
        self._refused_watch = ""  # for a message, should the list show that nothing can be watched
        self._asked_at = 0.0
        self._data_at = 0.0
        self._opened = False
        self._saw_events = False

    def next_request(self, now: float) -> ListRequest | WatchRequest:
        """Return what to ask for now."""
        self._asked_at = self._data_at = now
        self._opened = self._saw_events = False
        if self._phase is _START:
            self._phase = _STREAMING if self.uses_watch_list else _LISTING
            self._collected = {}
        if self._phase is _LISTING:
            return self._list_request()
        streaming = self._phase is _STREAMING
        return WatchRequest(
            "" if streaming and self._latest else self._version,
            self._random.randint(*WATCH_SECONDS),
            send_initial_events=streaming,
        )

    def listed(self, page: ListPage) -> Snapshot | None:
        """Take a page; return the snapshot when it was the last one.

        Raises:
            UnwatchableError: the list carries no resource version.
        """
        if not self._continue_token and page.continue_token and self._list_version() == "0":
            self._pages_at_zero = True
        self._collected.update((item.key, item) for item in page.items)
        self._continue_token = page.continue_token
        if page.continue_token:
            return None
        if not page.resource_version:
            raise UnwatchableError(
                f"{self._resource_type.title}: {self._refused_watch}its list carries no "
                "resourceVersion, so it cannot be watched; poll it instead (poll_every_seconds)"
            )
        return self._complete(page.resource_version)

    def opened(self) -> None:
        """Note that the server began to answer a watch."""
        self._opened = True

    def received(self, batch: Sequence[WatchEvent], now: float) -> Received:
        """Take what came through a watch."""
        self._data_at = now
        snapshot = None
        if self._phase is _STREAMING:
            snapshot, batch = self._collect(batch)
        version = ""
        for position, event in enumerate(batch):
            if event.type is _ERROR:
                self._advance(version)
                return Received(snapshot, batch[:position], _stream_error(event))
            if event.object is not None:
                self._saw_events = True
                version = event.object.resource_version or version
            else:
                version = event.resource_version or version
        self._advance(version)
        return Received(snapshot, batch, None)

    def read_deadline(self) -> float:
        """Return the time at which `timed_out` is due if nothing comes."""
        if self._phase is _STREAMING:
            return min(self._data_at + STREAMING_QUIET_SECONDS, self._asked_at + STREAMING_SECONDS)
        return self._data_at + self._idle_seconds

    def closed(self, now: float) -> Ended:
        """Note that the server ended the stream."""
        lived = now - self._asked_at
        if self._phase is _STREAMING:
            error = ConnectionLostError("the watch was closed before its initial events ended")
            return self._end(Outcome.CLOSED, error, now)
        if lived < SHORT_SECONDS and not self._saw_events:
            error = ConnectionLostError(f"the watch was closed after {lived:.3f} s, with no event")
            return self._end(Outcome.SHORT, error, now)
        return self._end(Outcome.CLOSED, None, now)

    def failed(self, error: Exception, now: float) -> Ended:
        """Note that a list or a watch was refused, could not be sent, or broke.

        Raises:
            UnwatchableError: the server says that the type cannot be watched.
        """
        outcome = self._classify(error)
        if isinstance(error, ListWatchError) and error.code == 405 and not self._opened:
            if self._phase is _WATCHING:
                raise UnwatchableError(
                    f"{self._resource_type.title} does not support watch ({error}); "
                    "poll it instead (poll_every_seconds)"
                ) from error
            if self._phase is _STREAMING:
                self._refused_watch = f"does not support watch ({error}), and "
        return self._end(outcome, error, now)

    def timed_out(self, now: float) -> Ended:
        """Note that `read_deadline` passed; the driver drops the stream."""
        quiet = now - self._data_at
        if not self._opened:
            error = ConnectionLostError(f"no answer to a watch in {quiet:.0f} s")
            return self._end(Outcome.UNAVAILABLE, error, now)
        if self._phase is _STREAMING:
            error = ConnectionLostError(
                f"no end of the initial events in {now - self._asked_at:.0f} s; listing instead"
            )
            return self._end(Outcome.SILENT, error, now)
        error = ConnectionLostError(f"nothing came through the watch for {quiet:.0f} s")
        return self._end(Outcome.SILENT, error, now)

    def _list_version(self) -> str:
        if self._latest:
            return ""
        if not self._version:
            return "0"
        # Without a watch cache, which alone knows older states, pages exist for the latest only.
        return "" if self._pages_at_zero else self._version

    def _list_request(self) -> ListRequest:
        if self._continue_token:
            return ListRequest("", PAGE_SIZE, self._continue_token)
        self._collected = {}
        version = self._list_version()
        return ListRequest(version, PAGE_SIZE if self._paging and version in ("", "0") else 0)

    def _collect(self, batch: Sequence[WatchEvent]) -> tuple[Snapshot | None, Sequence[WatchEvent]]:
        """Collect initial events; return the snapshot if they ended, and what is to be passed on.

        An error is passed on too.
        """
        for position, event in enumerate(batch):
            if event.type is _ERROR:
                return None, batch[position:]
            if event.object is not None:
                self._saw_events = True
                if event.type is _DELETED:
                    self._collected.pop(event.object.key, None)
                else:
                    self._collected[event.object.key] = event.object
            elif event.initial_events_end and event.resource_version:
                return self._complete(event.resource_version), batch[position + 1 :]
        return None, ()

    def _complete(self, version: str) -> Snapshot:
        snapshot = Snapshot(list(self._collected.values()), version, self._reason)
        self._collected = {}
        self._version = version
        self._latest = False
        self._paging = True
        self._fruitless_streamings = 0
        self._phase = _WATCHING
        return snapshot

    def _advance(self, version: str) -> None:
        if version and not is_older(version, self._version):
            self._version = version

    def _classify(self, error: Exception) -> Outcome:
        if not isinstance(error, ListWatchError):
            return Outcome.LOST if self._opened else Outcome.UNAVAILABLE
        if isinstance(error, ExpiredError) or error.code == 410:
            return Outcome.EXPIRED
        if self._opened and error.code != 429:
            return Outcome.LOST
        if error.code in _REJECTED_CODES:
            return Outcome.REJECTED
        if error.code == 429 or error.code >= 500:
            return Outcome.UNAVAILABLE
        return Outcome.REFUSED

    def _end(self, outcome: Outcome, error: Exception | None, now: float) -> Ended:
        before = self._phase
        move = _MOVES[before, outcome]
        to, wait, latest = move.to, move.wait, move.latest
        if before is _STREAMING:
            self._note_streaming(outcome)
        elif before is _LISTING:
            if outcome is Outcome.EXPIRED and self._continue_token:
                self._paging, wait, latest = False, False, self._latest
            self._continue_token = ""
        else:
            if outcome is Outcome.LOST and now - self._asked_at >= SHORT_SECONDS:
                wait = False
            if outcome is Outcome.EXPIRED and self._opened:
                error = None  # how history ends for whoever was away or slow: no fault
            to = self._note_watching(
                fruitless=wait and not self._saw_events, outcome=outcome, to=to
            )
        if outcome is Outcome.EXPIRED and before is not _WATCHING:
            wait = wait and self._asked_for_latest(before)
        self._latest = self._latest or latest
        if to is not before:
            self._reason = _reason(before, outcome, self._reason)
        self._phase = to
        if not wait:
            return Ended(outcome, 0.0, error)
        retry_after = error.retry_after_seconds if isinstance(error, ListWatchError) else None
        delay = self._backoff.next_delay(now, retry_after_seconds=retry_after)
        return Ended(outcome, delay, error)

    def _asked_for_latest(self, phase: _Phase) -> bool:
        if phase is _STREAMING:
            return self._latest or not self._version
        return not self._list_version()

    def _note_streaming(self, outcome: Outcome) -> None:
        """Give streaming up where it is rejected, never ends, or keeps breaking off."""
        if self._opened and outcome in (Outcome.CLOSED, Outcome.LOST):
            self._fruitless_streamings += 1
        if (
            outcome in (Outcome.REJECTED, Outcome.SILENT)
            or self._fruitless_streamings >= STREAMING_TRIES
        ):
            self.uses_watch_list = False

    def _note_watching(self, *, fruitless: bool, outcome: Outcome, to: _Phase) -> _Phase:
        """Start over where watching keeps coming to nothing."""
        if fruitless and outcome in (Outcome.SHORT, Outcome.LOST):
            self._fruitless_watches += 1
        elif outcome is not Outcome.UNAVAILABLE:
            self._fruitless_watches = 0
        if self._fruitless_watches < WATCHING_TRIES:
            return to
        self._fruitless_watches = 0
        return _START


def _stream_error(event: WatchEvent) -> ListWatchError:
    if event.status is None:
        return ListWatchError(500, "", "an ERROR event without a Status")
    return status_error(event.status)


def _reason(before: _Phase, outcome: Outcome, reason: str) -> str:
    """Why the next snapshot is taken, for observers."""
    if before is _WATCHING:
        return "expired" if outcome is Outcome.EXPIRED else "error"
    if before is _STREAMING and outcome in (Outcome.SILENT, Outcome.REJECTED):
        return reason if reason == "expired" else "fall_back"
    return reason
