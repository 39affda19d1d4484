"""A candidate for a Lease: it watches, claims, renews and releases it.

It watches the Lease, or polls it where it may not watch, and claims it when it is released or runs
out. Every write of the Lease carries the version that it is based on, so of several claims one
succeeds. Then it serves a term: a timer ends it at the renew deadline, and whoever writes behind
the fence is refused from then on, the renewal included. Whatever goes wrong with a call is logged
and tried again; what ends a term is time alone, or the name of another in the Lease.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any, Final
from uuid import UUID

import structlog

from dynamo_operator.runtime.builtin_kinds import Lease
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.leader_election import (
    RETRY_JITTER,
    LeaderElection,
    LeaderElectionError,
    Leadership,
    LeadershipLostError,
)
from dynamo_operator.runtime.lease import LeaseView
from informers.clock import Clock, Random
from informers.errors import UnwatchableError
from informers.events import Deleted, ObjectEvent
from informers.shared_informer import SharedInformer

RELEASE_SECONDS: Final = 4.0
"""How long a stop tries to release the Lease, at most."""

_FIRST_RETRY_SECONDS: Final = 0.1
_HEALTH_TOLERANCE_SECONDS: Final = 20.0
_OUTDATED: Final = (ConflictError, AlreadyExistsError, NotFoundError, UnknownOutcomeError)

_log = structlog.get_logger(__name__)


class Term:
    """One stretch of leading: its deadline, and what happens when it is lost."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._reason = ""
        self._lost = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the Lease is lost."""
        return self._lost.is_set()

    async def wait_lost(self) -> str:
        """Wait until the Lease is lost; return why it was."""
        await self._lost.wait()
        return self._reason

    def set_deadline(self, seconds: float, expired: Callable[[], None]) -> None:
        """Have `expired` called then, unless there is another deadline before."""
        self.close()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), expired)

    def lose(self, reason: str) -> None:
        """End it."""
        self.close()
        self._reason = reason
        self._lost.set()
        self._on_lost()

    def close(self) -> None:
        """Forget the deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LeaderElector:
    """One candidate: `watching` the Lease it can `acquire` it, and then serve a `term`.

    Args:
        election: what it competes for.
        client: reads and writes the Lease; not fenced.
        clock: measures.
        random: makes the identity unique, and spreads tries.
        leads: told when it begins and ceases to lead.
    """

    def __init__(
        self,
        election: LeaderElection,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        leads: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.election = election
        unique = UUID(int=random.getrandbits(128), version=4)
        self.identity: str = f"{election.identity or socket.gethostname()}_{unique}"
        self.leadership: Leadership = Leadership(clock)
        self._client = client.with_own_connections("leader-election")
        self._fenced = self._client.with_fence(self.leadership)
        self._clock = clock
        self._random = random
        self._leads = leads
        self._view = LeaseView(
            election.key,
            identity=self.identity,
            lease_seconds=election.lease_seconds,
            labels=election.labels,
        )
        self._informer: SharedInformer | None = None
        self._changed = asyncio.Event()
        self._must_look = True
        self._term: Term | None = None
        self._renewed_at = -inf
        self._log = _log.bind(lease=str(election.key), identity=self.identity)
        leads(False)

    @property
    def lease_reference(self) -> Mapping[str, Any]:
        """The Lease, for Events about it."""
        return self._view.reference

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """See every change of the Lease at once for the length of the block."""
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch(), name="lease watch")
            try:
                yield
            finally:
                watch.cancel()

    async def acquire(self) -> None:
        """Wait until this candidate holds the Lease; a `term` must follow at once.

        Raises:
            LeaderElectionError: the Lease's namespace does not exist.
        """
        failures = 0
        while True:
            await self._wait_claimable()
            if await self._claim():
                self._log.info("lease acquired", transitions=self._view.record.transitions)
                return
            pause = min(self.election.retry_seconds, _FIRST_RETRY_SECONDS * 2**failures)
            failures = min(failures + 1, 16)
            await asyncio.sleep(self._jittered(pause))

    @asynccontextmanager
    async def term(self, on_lost: Callable[[], None]) -> AsyncGenerator[Term]:
        """Lead for the length of the block, or until the Lease is lost; release it at the end.

        Args:
            on_lost: called at the loss, when the fence is closed already; stops the work.
        """
        term = self._term = Term(on_lost)
        self._leads(True)
        try:
            async with asyncio.TaskGroup() as group:
                self._set_deadline(term)
                renewal = group.create_task(self._renew(term), name="lease renewal")
                try:
                    yield term
                finally:
                    renewal.cancel()
        finally:
            try:
                if self.election.release_on_exit:
                    await self._release()
            finally:
                term.close()
                self._term = None
                self.leadership.end()
                self._leads(False)

    async def check(self) -> None:
        """Raise if a term goes on although it should have ended long ago; a health check."""
        age = self._clock.monotonic() - self._renewed_at
        if self._term is not None and age > self.election.lease_seconds + _HEALTH_TOLERANCE_SECONDS:
            raise LeadershipLostError(
                f"lease {self.election.key}: not renewed for {age:.0f} s, and the work of the "
                "leader has not ended"
            )

    # Seeing the Lease

    async def _watch(self) -> None:
        election = self.election
        self._informer = SharedInformer(
            self._client.list_watch(
                Lease, namespace=election.namespace, fields={"metadata.name": election.name}
            ),
            clock=self._clock,
            random=self._random,
        )
        self._informer.add_handler(self._see_event)
        with suppress(UnwatchableError):
            await self._informer.run()

    def _see_event(self, event: ObjectEvent) -> None:
        now = self._clock.monotonic()
        if isinstance(event, Deleted):
            news = self._view.see_none(now, last_version=event.object.resource_version)
        else:
            news = self._view.see(codec.decode(Lease.resource_type, event.object.data), now)
        if news:
            self._noticed()

    def _noticed(self) -> None:
        self._changed.set()
        if self._view.is_others:
            self._lose(f"{self._view.record.holder} holds the lease")

    def _watch_works(self) -> bool:
        informer = self._informer
        return informer is not None and informer.is_synced and informer.last_error is None

    async def _look(self, timeout_seconds: float) -> None:
        """Read the Lease; errors are logged, and it stays to be looked at."""
        known = self._view.version
        try:
            async with asyncio.timeout(timeout_seconds):
                lease = await self._client.get(Lease.resource_type, self.election.key)
            news = self._view.see(lease, self._clock.monotonic(), asked_at=known)
        except NotFoundError:
            news = self._view.see_none(self._clock.monotonic())
        except Exception as error:  # noqa: BLE001 - whatever it is, time decides who leads
            self._log.warning("lease not read", error=_described(error))
            return
        self._must_look = False
        if news:
            self._noticed()

    # Becoming the holder

    async def _wait_claimable(self) -> None:
        while True:
            if self._must_look:
                await self._look(self._call_seconds)
            self._changed.clear()
            wait = self._view.claimable_at - self._clock.monotonic()
            if self._view.is_known and not self._must_look and wait <= 0:
                return
            if self._must_look or not self._watch_works():
                poll = self._jittered(self.election.retry_seconds)
                self._must_look = self._must_look or poll < wait
                wait = min(wait, poll) if self._view.is_known and wait > 0 else poll
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _claim(self) -> bool:
        """Try once to become the holder; return whether this candidate leads now."""
        started = self.leadership.moment()
        if not await self._write(self._client, self._view.claim, self._call_seconds):
            return False
        self.leadership.begin(started, self.election.renew_deadline_seconds)
        self._renewed_at = started.monotonic
        # A claim that took so long, because this process was paused, is worth nothing any more.
        return self._view.is_ours and self.leadership.seconds_left() > 0

    async def _write(
        self, client: Client, make: Callable[..., dict[str, Any]], timeout_seconds: float
    ) -> bool:
        """Write the Lease that `make` gives; errors are logged, the view is brought up to date.

        Raises:
            LeaderElectionError: the namespace does not exist.
        """
        exists, known = self._view.exists, self._view.version
        write = client.replace if exists else client.create
        try:
            async with asyncio.timeout(timeout_seconds):
                stored = await write(make(self._clock.now()), kind=Lease.resource_type)
        except NotFoundError as error:
            if not exists:
                raise LeaderElectionError(
                    f"lease {self.election.key}: namespace {self.election.namespace} does not "
                    "exist: create it, or name another one"
                ) from error
            self._must_look = True
        except Exception as error:  # noqa: BLE001 - whatever it is, time decides who leads
            self._must_look = self._must_look or isinstance(error, (*_OUTDATED, TimeoutError))
            self._log.warning("lease not written", error=_described(error))
        else:
            self._view.see(stored, self._clock.monotonic(), asked_at=known)
            return True
        return False

    # Staying the holder

    async def _renew(self, term: Term) -> None:
        while not term.is_lost:
            due = self._renewed_at + self.election.retry_seconds
            await self._sleep_until_due(due)
            tried = self._clock.monotonic()
            if not await self._renew_once(term):
                await asyncio.sleep(tried + self.election.retry_seconds - self._clock.monotonic())

    async def _sleep_until_due(self, due: float) -> None:
        """Sleep, or wake at once when somebody else touched the Lease."""
        while (wait := due - self._clock.monotonic()) > 0 and self._view.is_ours:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _renew_once(self, term: Term) -> bool:
        if self._must_look:
            await self._look(min(self._call_seconds, self.leadership.seconds_left()))
            if self._must_look:
                return False
        started = self.leadership.moment()
        left = self.leadership.seconds_left()
        if left <= 0 or self._view.is_others:
            return False
        timeout = min(left, self._call_seconds)
        if not await self._write(self._fenced, self._view.claim, timeout):
            return False
        deadline = self.election.renew_deadline_seconds
        if not self._view.is_ours or not self.leadership.extend(started, deadline):
            return False
        self._renewed_at = started.monotonic
        self._set_deadline(term)
        return True

    def _set_deadline(self, term: Term) -> None:
        left = self.leadership.seconds_left()
        term.set_deadline(left, lambda: self._lose("not renewed in time"))

    def _lose(self, reason: str) -> None:
        term = self._term
        if term is None or term.is_lost:
            return
        self.leadership.end()
        self._leads(False)
        self._log.error("leadership lost", reason=reason)
        term.lose(reason)

    # Giving it up

    async def _release(self) -> None:
        """Make the Lease nobody's, as long as this candidate surely holds it; never for long."""
        if self.leadership.seconds_left() <= 0:
            return
        failures = 0
        until = self._clock.monotonic() + RELEASE_SECONDS
        while self._view.is_ours:
            left = min(self.leadership.seconds_left(), until - self._clock.monotonic())
            if left <= 0:
                self._log.warning("lease not released")
                return
            if await self._write(self._fenced, self._view.release, min(left, RELEASE_SECONDS / 2)):
                self._log.info("lease released")
                return
            await asyncio.sleep(min(left, _FIRST_RETRY_SECONDS * 2**failures))
            failures += 1
            if self._must_look:
                await self._look(min(RELEASE_SECONDS / 2, until - self._clock.monotonic()))

    @property
    def _call_seconds(self) -> float:
        """How long one call may take, so that one that hangs does not lose the Lease."""
        return self.election.renew_deadline_seconds / 2

    def _jittered(self, seconds: float) -> float:
        return seconds * (1 + RETRY_JITTER * self._random.random())


def _described(error: Exception) -> str:
    return str(error) or type(error).__name__


async def living_holder(client: Client, election: LeaderElection, *, clock: Clock) -> str:
    """Return who holds a Lease and still renews it, "" when nobody does.

    The record alone cannot tell, for its times are another clock's: a holder is observed until it
    renews, or until the Lease has run out. Needs the permission to get it.
    """
    view = LeaseView(
        election.key, identity="", lease_seconds=election.lease_seconds, labels=election.labels
    )
    while True:
        lease = await client.find(Lease.resource_type, election.key)
        if lease is None:
            return ""
        known, now = view.is_known, clock.monotonic()
        renewed = view.see(lease, now) and known
        if not view.is_others or now >= view.claimable_at:
            return ""
        if renewed:
            return view.record.holder
        await asyncio.sleep(min(election.retry_seconds / 2, view.claimable_at - now))
