"""The session without a driver: random servers must never confuse it."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers.backoff import Backoff
from informers.errors import ConnectionLostError, ExpiredError, ListWatchError, UnwatchableError
from informers.events import WatchEvent, WatchEventType, WatchStatus
from informers.list_watch import ListPage
from informers.watch_session import (
    IDLE_SECONDS,
    ListRequest,
    Outcome,
    WatchRequest,
    WatchSession,
)
from tests.informers.fake_cluster import WIDGETS, added, bookmark, deleted, widget


def new_session(**options):
    random = Random(5)
    return WatchSession(WIDGETS, random=random, backoff=Backoff(random), **options)


def watching_session(version="10"):
    session = new_session(use_watch_list=False)
    session.next_request(0)
    session.listed(ListPage([], version))
    return session


CODES = [400, 401, 403, 404, 406, 410, 415, 422, 429, 500, 501, 503, 504]
STEPS = st.sampled_from(
    [
        *[ExpiredError(410, "Expired") if code == 410 else ListWatchError(code) for code in CODES],
        ConnectionLostError("reset"),
        ValueError("a bug of the port"),
        "page",
        "last page",
        "event",
        "bookmark",
        "initial end",
        "in-stream 410",
        "in-stream 500",
        "in-stream 429",
        "closed",
        "timed out",
    ]
)
FRUITLESS_STEPS = STEPS.filter(lambda step: step not in ("event", "bookmark"))


class RandomServer:
    """Answers a session step by step and remembers which versions it called expired."""

    def __init__(self, session: WatchSession) -> None:
        self.session = session
        self.version = 100
        self.now = 0.0
        self.expired: set[str] = set()
        self.waits: list[float] = []
        self.ask()

    def ask(self) -> None:
        self.request = self.session.next_request(self.now)
        self.asked_version = self.request.resource_version
        self.is_opened = False
        assert self.asked_version not in self.expired

    def end(self, ended) -> None:
        assert ended.retry_in_seconds >= 0
        if ended.outcome is Outcome.EXPIRED:
            self.expired.add(self.asked_version)
            self.expired.discard("")
        self.waits.append(ended.retry_in_seconds)
        self.now += ended.retry_in_seconds
        self.ask()

    def answer(self, step, seconds) -> None:
        self.now += seconds
        self.version += 1
        if isinstance(step, Exception):
            self.end(self.session.failed(step, self.now))
        elif isinstance(self.request, ListRequest):
            token = "token" if step == "page" and self.request.limit else ""
            self.session.listed(ListPage([widget("a")], str(self.version), token))
            self.ask()
        else:
            self.answer_watch(step)

    def answer_watch(self, step) -> None:
        if not self.is_opened:
            self.session.opened()
            self.is_opened = True
        match step:
            case "closed":
                self.end(self.session.closed(self.now))
            case "timed out":
                self.end(self.session.timed_out(self.now))
            case _:
                received = self.session.received([self.event(step)], self.now)
                if received.error is not None:
                    if received.events or received.snapshot:
                        self.asked_version = ""
                    self.end(self.session.failed(received.error, self.now))

    def event(self, step):
        if step.startswith("in-stream"):
            code = int(step.split()[1])
            return WatchEvent(WatchEventType.ERROR, status=WatchStatus(code, "Whatever"))
        if step in ("bookmark", "initial end"):
            return bookmark(self.version, end=step == "initial end")
        return added("a", self.version)


@settings(max_examples=400, deadline=None)
@given(
    steps=st.lists(st.tuples(STEPS, st.sampled_from([0, 0.5, 2, 200])), max_size=40),
    use_watch_list=st.booleans(),
)
def test_no_server_makes_it_fail_or_ask_again_for_an_expired_version(steps, use_watch_list):
    server = RandomServer(new_session(use_watch_list=use_watch_list))

    for step, seconds in steps:
        server.answer(step, seconds)

    # A server that answers in good order again is followed again, whatever it did before.
    for _ in range(3):
        server.answer("initial end", 0)
    server.answer("event", 0)
    last_event = str(server.version)
    server.answer("closed", 5)
    assert isinstance(server.request, WatchRequest)
    assert server.request.resource_version == last_event
    assert not server.request.send_initial_events


@settings(max_examples=200, deadline=None)
@given(st.lists(FRUITLESS_STEPS, min_size=30, max_size=60))
def test_failures_without_progress_are_spaced(steps):
    server = RandomServer(new_session())

    for step in steps:
        server.answer(step, 0)

    # At most every other answer leads to the next request at once: a list after a rejected
    # WatchList, the latest version after an expired one, and the watch after a list.
    immediate = sum(1 for wait in server.waits if wait == 0)
    assert immediate <= 2 + len(server.waits) / 2


def test_watch_timeouts_lie_between_five_and_ten_minutes():
    session = watching_session()

    requests = [session.next_request(0) for _ in range(300)]
    seconds = {request.timeout_seconds for request in requests if isinstance(request, WatchRequest)}

    assert min(seconds) < 320
    assert max(seconds) > 580
    assert all(300 <= each <= 600 for each in seconds)


def test_a_batch_is_split_at_an_error():
    session = watching_session()
    session.next_request(0)
    session.opened()
    late = added("late", 13)

    received = session.received(
        [
            added("a", 11),
            deleted("a", 12),
            WatchEvent(WatchEventType.ERROR, status=WatchStatus(500, "InternalError", "oops")),
            late,
        ],
        1,
    )

    assert list(received.events) == [added("a", 11), deleted("a", 12)]
    assert str(received.error) == "500 InternalError: oops"
    session.failed(ListWatchError(500), 1)
    assert session.next_request(2).resource_version == "12"


def test_changes_among_the_initial_events_are_part_of_the_snapshot():
    session = new_session()
    session.next_request(0)
    session.opened()

    first = session.received([added("a", 1), added("b", 2)], 0)
    last = session.received(
        [deleted("a", 3), added("b", 4), bookmark(5, end=True), added("c", 6)], 0
    )

    assert (first.snapshot, list(first.events)) == (None, [])
    assert last.snapshot is not None
    assert list(last.snapshot.objects) == [widget("b", 4)]
    assert (last.snapshot.resource_version, last.snapshot.reason) == ("5", "initial")
    assert list(last.events) == [added("c", 6)]


def test_the_deadline_of_a_watch_moves_with_what_it_brings():
    session = watching_session()
    session.next_request(100)
    session.opened()
    assert session.read_deadline() == 100 + IDLE_SECONDS

    session.received([bookmark(20)], 160)

    assert session.read_deadline() == 160 + IDLE_SECONDS


def test_a_watch_that_is_not_answered_at_all_waits_before_the_next():
    session = watching_session()
    session.next_request(0)

    ended = session.timed_out(75)

    assert ended.outcome is Outcome.UNAVAILABLE
    assert ended.retry_in_seconds >= 0.8
    assert str(ended.error) == "no answer to a watch in 75 s"


def test_an_error_event_without_a_status_is_an_error_all_the_same():
    session = watching_session()
    session.next_request(0)
    session.opened()

    received = session.received([WatchEvent(WatchEventType.ERROR)], 1)

    assert str(received.error) == "500: an ERROR event without a Status"


def test_a_type_that_cannot_be_watched_is_named_with_the_missing_verb():
    session = watching_session()
    session.next_request(0)

    with pytest.raises(UnwatchableError, match=r"^lab\.test/v1 Widget does not support watch"):
        session.failed(ListWatchError(405, "MethodNotAllowed"), 0)
