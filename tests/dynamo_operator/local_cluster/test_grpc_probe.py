import asyncio
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2

from dynamo_operator.local_cluster.grpc_probe import health_request, health_status
from dynamo_operator.local_cluster.probes import ProbeResult, try_probe
from dynamo_operator.testing.polling import eventually

SERVER = Path(__file__).with_name("health_server.py")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@asynccontextmanager
async def serving(ready_file):
    """Serve health with another library; yields the port."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), f"127.0.0.1:{port}", str(ready_file), stdout=-1
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"listening\n"
        yield port
    finally:
        process.kill()
        await process.communicate()


async def probe(port, service="", timeout=5):
    async def nothing(command, seconds):
        raise AssertionError("no command was to be run")

    action = {"port": port, "service": service}
    return await try_probe({"grpc": action, "timeoutSeconds": timeout}, {}, nothing)


async def test_a_service_is_healthy_when_it_says_so(tmp_path):
    async with serving(tmp_path / "ready") as port:
        assert await probe(port) == ProbeResult(True)
        early = await probe(port, "slow")
        (tmp_path / "ready").touch()
        await eventually(lambda: probe(port, "slow"), lambda result: result.ok)
        ill = await probe(port, "ill")
        unknown = await probe(port, "s" * 300)

    assert early == ProbeResult(False, 'service unhealthy (responded with "NOT_SERVING")')
    assert ill == early
    assert unknown.message == "error: health rpc probe failed: NOT_FOUND"


async def test_a_server_without_health_is_told_from_an_ill_one():
    async with serving("-") as port:
        result = await probe(port)

    assert result.message.startswith(
        "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
    )


async def test_nobody_listening_fails():
    port = free_port()

    result = await probe(port)

    assert result.message.startswith(f'error: failed to connect service at "127.0.0.1:{port}"')


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64])
async def test_whoever_speaks_something_else_fails_in_time(says):
    left = asyncio.Event()

    async def serve(reader, writer):
        writer.write(says)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await probe(port, timeout=0.5)
        await left.wait()  # the probe hangs up

    assert not result.ok
    assert result.message.startswith(("timeout: health rpc", "error: health rpc"))


def test_messages_are_those_of_the_health_protocol():
    for service in ("", "a", "dynamo.kvrelay.v1.KvEventRelay", "ü" * 200):
        wire = health_pb2.HealthCheckRequest(service=service).SerializeToString()
        assert health_request(service) == wire
    for number, name in health_pb2.HealthCheckResponse.ServingStatus.items():
        wire = health_pb2.HealthCheckResponse(status=name).SerializeToString()
        assert health_status(wire) == number
    assert health_status(b"\x08\x07") == "7"
