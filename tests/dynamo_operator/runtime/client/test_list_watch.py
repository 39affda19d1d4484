import pytest
from structlog.testing import capture_logs

from dynamo_operator.runtime.builtin_kinds import Pod
from dynamo_operator.runtime.client import Client, ConfigError, TransportError
from dynamo_operator.testing.virtual_time import VirtualClock
from informers.errors import ConnectionLostError, ExpiredError, ListWatchError
from informers.events import WatchEventType
from tests.dynamo_operator.runtime.client.scripted_transport import (
    ScriptedTransport,
    answer,
    refusal,
)

pytestmark = pytest.mark.virtual_time

LINES = (
    b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}\n'
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}\n'
)


def list_watch_on(*steps, **scope):
    transport = ScriptedTransport(*steps)
    client = Client.over(transport, clock=VirtualClock())
    return transport, client.list_watch(Pod, **scope)


async def watch(list_watch, **options):
    options = {"resource_version": "3", "timeout_seconds": 300, **options}
    async with list_watch.watch(**options) as batches:
        return [event async for batch in batches for event in batch]


async def test_a_list_asks_for_its_page_version_and_selectors():
    transport, list_watch = list_watch_on(
        answer(200, {"metadata": {"resourceVersion": "12"}, "items": None}),
        namespace="lab",
        labels={"a": "b"},
    )

    page = await list_watch.list(resource_version="0", limit=500)
    await list_watch.list(resource_version="0", limit=500, continue_token="next")

    assert page.resource_version == "12"
    assert transport.requests[0].path == "/api/v1/namespaces/lab/pods"
    assert [dict(request.query) for request in transport.requests] == [
        {"labelSelector": "a=b", "limit": "500", "resourceVersion": "0"},
        {"labelSelector": "a=b", "limit": "500", "continue": "next"},
    ]


async def test_a_watch_asks_for_bookmarks_and_decodes_its_lines():
    transport, list_watch = list_watch_on(answer(200, LINES))

    events = await watch(list_watch)

    assert [event.type for event in events] == [WatchEventType.ADDED, WatchEventType.BOOKMARK]
    assert dict(transport.requests[0].query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "resourceVersion": "3",
    }


async def test_a_watch_list_begins_with_the_present_state():
    transport, list_watch = list_watch_on(answer(200, LINES))

    await watch(list_watch, resource_version="", send_initial_events=True)

    query = dict(transport.requests[0].query)
    assert (query["sendInitialEvents"], query["resourceVersionMatch"]) == ("true", "NotOlderThan")
    assert "resourceVersion" not in query


async def test_metadata_only_asks_for_and_keeps_metadata_alone():
    transport, list_watch = list_watch_on(answer(200, LINES), metadata_only=True)

    events = await watch(list_watch)

    assert "as=PartialObjectMetadata;v=v1;g=meta.k8s.io" in transport.requests[0].headers["Accept"]
    assert events[0].object.data == b""


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (refusal(410, "Expired"), ExpiredError),
        (
            refusal(504, "Timeout", {"causes": [{"reason": "ResourceVersionTooLarge"}]}),
            ExpiredError,
        ),
        (refusal(429, retry_after="2"), ListWatchError),
        (refusal(403, "Forbidden"), ListWatchError),
        (refusal(500), ListWatchError),
    ],
)
async def test_a_refusal_reaches_the_reflector_at_once(response, error):
    transport, list_watch = list_watch_on(response)

    with pytest.raises(error) as listing:
        await list_watch.list()
    with pytest.raises(error) as watching:
        await watch(list_watch)

    assert len(transport.requests) == 2
    assert type(listing.value) is type(watching.value) is error
    assert listing.value.code == response.status


async def test_a_refusal_tells_when_to_come_back():
    _, list_watch = list_watch_on(refusal(429, retry_after="2"))

    with pytest.raises(ListWatchError) as caught:
        await watch(list_watch)

    assert caught.value.retry_after_seconds == 2


@pytest.mark.parametrize("failure", [TransportError("reset"), ConfigError("plugin failed")])
async def test_a_failure_below_is_a_lost_connection(failure):
    _, list_watch = list_watch_on(failure)

    with pytest.raises(ConnectionLostError, match=str(failure)):
        await list_watch.list()
    with pytest.raises(ConnectionLostError, match=str(failure)):
        await watch(list_watch)


@pytest.mark.parametrize(
    "body", [b"Too many requests, please try again later.\n", LINES + b'{"type":"MODIF', b"{}\n"]
)
async def test_a_stream_that_is_no_watch_is_a_lost_connection(body):
    _, list_watch = list_watch_on(answer(200, body))

    with pytest.raises(ConnectionLostError):
        await watch(list_watch)


async def test_objects_of_another_kind_are_logged_and_skipped():
    lines = (
        b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"}}}\n'
        b'{"type":"ADDED","object":{"kind":"Service","metadata":{"name":"b"}}}\n'
        b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"c"}}}\n'
        b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"6"}}}\n'
    )
    _, list_watch = list_watch_on(answer(200, lines))

    with capture_logs() as entries:
        events = await watch(list_watch)

    assert [event.object and event.object.key.name for event in events] == ["a", "c", None]
    assert [(entry["event"], entry["kind"]) for entry in entries] == [
        ("object of another kind skipped", "Service")
    ]


async def test_metadata_alone_is_of_a_kind_of_its_own():
    line = b'{"type":"ADDED","object":{"kind":"PartialObjectMetadata","metadata":{"name":"a"}}}\n'
    _, list_watch = list_watch_on(answer(200, line), metadata_only=True)

    (event,) = await watch(list_watch)

    assert event.object.key.name == "a"


async def test_a_list_that_is_html_is_a_lost_connection():
    _, list_watch = list_watch_on(answer(200, b"<html>"))

    with pytest.raises(ConnectionLostError):
        await list_watch.list()


async def test_an_error_of_the_watcher_stays_its_own():
    _, list_watch = list_watch_on(answer(200, LINES))

    with pytest.raises(TransportError, match="mine"):
        async with list_watch.watch(resource_version="", timeout_seconds=1):
            raise TransportError("mine")
