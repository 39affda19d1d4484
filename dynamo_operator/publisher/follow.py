"""The loop: look, publish what is new, until the last look is published."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from dynamo_operator.aisimulate.snapshot import SnapshotError, read_snapshot
from dynamo_operator.api.publisher_contract import TerminationMessage
from dynamo_operator.publisher import outcome
from dynamo_operator.publisher.apply import RunGoneError
from dynamo_operator.publisher.observe import (
    Follower,
    Look,
    ProtocolViolationError,
    Report,
    planner_exit,
)
from dynamo_operator.publisher.plan import ForeignObjectError
from dynamo_operator.runtime.client import (
    BadRequestError,
    Client,
    ClientError,
    InvalidError,
    RequestTooLargeError,
    TransportError,
    UnknownOutcomeError,
)
from informers.objects import ObjectKey, ResourceType

FINAL_RETRY_DELAYS = (1.0, 2.0, 4.0)
LAST_PASS_SECONDS = 10.0
OUTAGE_SECONDS = 300.0
"""How long an API server that cannot be reached is waited for at the end of a search."""
MOST_LOOKS_BETWEEN_TRIES = 16

Log = Callable[[str], None]

_POD = ResourceType("", "v1", "Pod", "pods")

# Trying these again cannot help. A refused right or a quota is not among them: the right may be so
# new that not every API server knows it, and the operator mends what was taken away.
_PERMANENT = (
    ForeignObjectError,
    RunGoneError,
    InvalidError,
    BadRequestError,
    RequestTooLargeError,
)
# The server did not answer: no try has failed yet, and hours of searching are at stake.
_OUTAGE = (TransportError, UnknownOutcomeError)


class Stop:
    """A request to stop, which a pass under way survives for a bounded time."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._pass: asyncio.Timeout | None = None

    @property
    def is_set(self) -> bool:
        """Whether stopping was asked for."""
        return self._requested.is_set()

    def set(self) -> None:
        """Ask for it; called in the loop's thread."""
        self._requested.set()
        if self._pass is not None:
            self._pass.reschedule(asyncio.get_running_loop().time() + LAST_PASS_SECONDS)

    async def bounded(self, work: Awaitable[None]) -> None:
        """Await the work; TimeoutError when it outlives the request by too much."""
        try:
            async with asyncio.timeout(LAST_PASS_SECONDS if self.is_set else None) as self._pass:
                await work
        finally:
            self._pass = None

    async def sleep(self, seconds: float) -> None:
        """Wait that long, or until stopping is asked for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._requested.wait()


class Search(Protocol):
    """What is followed."""

    async def planner_exit(self) -> int | None:
        """Return the planner's exit code, or None while it is not known to have exited."""

    def snapshot(self) -> bytes | None:
        """Return the snapshot file's bytes, or None while there is none.

        Raises:
            SnapshotError: it is not a file that a planner writes.
        """


class Publisher(Protocol):
    """Where reports go."""

    async def publish(self, report: Report, *, live: bool = False) -> None:
        """Make the API show the report."""


class PodSearch:
    """The search in the other container of a Pod."""

    def __init__(self, client: Client, pod: ObjectKey, container: str, directory: Path) -> None:
        self._client = client
        self._pod = pod
        self._container = container
        self._directory = directory

    async def planner_exit(self) -> int | None:
        """Read the container's state from the Pod."""
        pod = await self._client.get(_POD, self._pod)
        return planner_exit(pod.get("status") or {}, self._container)

    def snapshot(self) -> bytes | None:
        """Read the file."""
        return read_snapshot(self._directory)


async def follow(
    search: Search,
    publisher: Publisher,
    *,
    poll_seconds: float,
    stop: Stop,
    log: Log,
) -> TerminationMessage:
    """Publish a search until its end, or until told to stop; return how it ended."""
    follower = Follower()
    pending = False
    failures = looks_to_skip = 0
    try:
        while not stop.is_set:
            look = await _look(follower, search, log)
            if look.is_last:
                return await _publish_last(publisher, look, stop, log)
            pending = (pending or look.is_new) and look.report is not None
            if pending and looks_to_skip:
                looks_to_skip -= 1
            elif pending and look.report is not None:
                pending = not await _try_publish(publisher, look.report, stop, log)
                failures = failures + 1 if pending else 0
                looks_to_skip = min(2**failures // 4, MOST_LOOKS_BETWEEN_TRIES - 1)
            await stop.sleep(poll_seconds)
    except (ProtocolViolationError, SnapshotError) as error:
        return outcome.violated(error)
    except _PERMANENT as error:
        return outcome.failed(error)
    return outcome.failed("told to stop before the search ended")


async def _look(follower: Follower, search: Search, log: Log) -> Look:
    exit_code = None
    if follower.wants_planner:
        try:
            exit_code = await search.planner_exit()
        except ClientError as error:
            log(f"planner state not read: {error}")
    return follower.look(exit_code, search.snapshot())


async def _try_publish(publisher: Publisher, report: Report, stop: Stop, log: Log) -> bool:
    try:
        await stop.bounded(publisher.publish(report))
    except _PERMANENT:
        raise
    except (ClientError, TimeoutError) as error:
        log(f"snapshot not published, tried again: {error}")
        return False
    log(f"published {len(report.results)} candidates, {report.progress.evaluated} evaluated")
    return True


async def _publish_last(
    publisher: Publisher, look: Look, stop: Stop, log: Log
) -> TerminationMessage:
    if look.report is None:
        return outcome.ended(look)
    delays = iter(FINAL_RETRY_DELAYS)
    outage_ends = asyncio.get_running_loop().time() + OUTAGE_SECONDS
    while True:
        try:
            await stop.bounded(publisher.publish(look.report, live=True))
        except _PERMANENT:
            raise
        except (ClientError, TimeoutError) as error:
            is_outage = isinstance(error, _OUTAGE)
            if is_outage and asyncio.get_running_loop().time() < outage_ends:
                delay: float | None = FINAL_RETRY_DELAYS[-1]
            else:
                delay = next(delays, None)
            if delay is None or stop.is_set:
                return outcome.failed(error)
            log(f"last snapshot not published, tried again in {delay:g}s: {error}")
            await stop.sleep(delay)
        else:
            log(f"published the last snapshot: {len(look.report.results)} candidates")
            return outcome.ended(look)
