import asyncio
from contextlib import asynccontextmanager

import pytest

from dynamo_operator.local_cluster.probes import (
    ProbeResult,
    UnsupportedProbeError,
    probe_port,
    try_probe,
    watch_probe,
)


async def nowhere(command, timeout):
    raise AssertionError("no command was to be run")


@asynccontextmanager
async def answering(text):
    """A server that says one thing; yields its port and what it was asked."""
    asked = []

    async def serve(reader, writer):
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(text.encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


@pytest.mark.parametrize(
    ("status", "ok"), [("200 OK", True), ("302 Found", True), ("404 Not Found", False)]
)
async def test_an_http_probe_wants_a_status_below_400(status, ok):
    async with answering(f"HTTP/1.1 {status}\r\n\r\n") as (port, asked):
        action = {"port": port, "path": "/up", "httpHeaders": [{"name": "X-A", "value": "1"}]}
        result = await try_probe({"httpGet": action}, {}, nowhere)

    assert result.ok is ok
    assert asked[0].startswith("GET /up HTTP/1.1\r\n")
    assert "X-A: 1\r\n" in asked[0]


async def test_an_answer_that_is_not_http_fails():
    async with answering("hello\r\n") as (port, _):
        result = await try_probe({"httpGet": {"port": port}}, {}, nowhere)

    assert result == ProbeResult(False, "the answer is not HTTP")


async def test_a_tcp_probe_wants_a_listener():
    async with answering("") as (port, _):
        assert (await try_probe({"tcpSocket": {"port": port}}, {}, nowhere)).ok
    closed = await try_probe({"tcpSocket": {"port": port}}, {}, nowhere)

    assert not closed.ok
    assert "Connect call failed" in closed.message


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (0, ProbeResult(True)),
        (3, ProbeResult(False, "command exited with 3")),
        (None, ProbeResult(False, "command timed out after 2s: check it")),
    ],
)
async def test_an_exec_probe_wants_status_zero(status, result):
    async def run(command, timeout):
        assert (command, timeout) == (["check", "it"], 2.0)
        return status

    probe = {"exec": {"command": ["check", "it"]}, "timeoutSeconds": 2}
    assert await try_probe(probe, {}, run) == result


async def test_a_kind_that_is_not_known_is_named():
    with pytest.raises(UnsupportedProbeError, match="probe kind udp: this node runs exec"):
        await try_probe({"udp": {"port": 1}}, {}, nowhere)


def test_a_port_may_be_named():
    container = {"ports": [{"name": "web", "containerPort": 8080}]}

    assert [probe_port(p, container) for p in ("web", 1, "2")] == [8080, 1, 2]
    with pytest.raises(ValueError, match="port 'db' is not among"):
        probe_port("db", container)


@pytest.mark.virtual_time
async def test_verdicts_come_at_their_thresholds():
    tries = iter([True, False, False, True, False, False, False, True, True])
    verdicts = []

    async def attempt():
        ok = next(tries, None)
        return ProbeResult(bool(ok), str(asyncio.get_running_loop().time()))

    def report(ok, message):
        verdicts.append((ok, float(message)))
        return len(verdicts) < 3

    probe = {
        "initialDelaySeconds": 5,
        "periodSeconds": 10,
        "successThreshold": 2,
        "failureThreshold": 3,
    }
    await watch_probe(probe, attempt, report)

    assert verdicts == [(False, 65.0), (True, 85.0), (False, 115.0)]
