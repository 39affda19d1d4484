"""Asks a gRPC server for its health: `grpc.health.v1.Health/Check`, as the kubelet does.

The two messages have one field each (github.com/grpc/grpc-proto, grpc/health/v1/health.proto), so
that no generated code is needed: the request's field 1 is the service, the answer's the status.
"""

from __future__ import annotations

import asyncio
from typing import Any

from grpclib import GRPCError
from grpclib.client import Channel
from grpclib.const import Cardinality, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import ProtocolError, StreamTerminatedError

CHECK = "/grpc.health.v1.Health/Check"

_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_STRING_1, _VARINT_1 = 0x0A, 0x08  # field 1 as a string and as a number


class Bytes(CodecBase):
    """Messages as they are on the wire."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        """Return the message itself."""
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        """Return the message itself."""
        return data


async def check_health(host: str, port: int, service: str, timeout: float) -> str:
    """Ask whether a service is healthy; returns "" when it is, else why not, in a kubelet's words.

    Args:
        host: an address of the server.
        port: where it listens, without TLS.
        service: what is asked for; "" for the server as a whole.
        timeout: seconds for connection and answer together.
    """
    channel = Channel(host, port, codec=Bytes())
    try:
        async with asyncio.timeout(timeout):
            status = health_status(await _ask(channel, service))
    except TimeoutError:
        return f"timeout: health rpc did not complete within {timeout:g}s"
    except GRPCError as error:
        if error.status is Status.UNIMPLEMENTED:
            return (
                "error: this server does not implement the grpc health protocol "
                f"(grpc.health.v1.Health): {error.message}"
            )
        detail = f": {error.message}" if error.message else ""
        return f"error: health rpc probe failed: {error.status.name}{detail}"
    except (ProtocolError, StreamTerminatedError) as error:
        return f"error: health rpc probe failed: {error or type(error).__name__}"
    except OSError as error:
        return f'error: failed to connect service at "{host}:{port}": {error}'
    finally:
        channel.close()
    return "" if status == "SERVING" else f'service unhealthy (responded with "{status}")'


async def _ask(channel: Channel, service: str) -> bytes:
    async with channel.request(CHECK, Cardinality.UNARY_UNARY, bytes, bytes) as stream:
        await stream.send_message(health_request(service), end=True)
        answer = await stream.recv_message()
    return bytes(answer or b"")


def health_request(service: str) -> bytes:
    """Return the wire form of a HealthCheckRequest."""
    name = service.encode()
    return bytes([_STRING_1]) + _varint(len(name)) + name if name else b""


def health_status(answer: bytes) -> str:
    """Read the status of a HealthCheckResponse: its name, or its number where it has none."""
    number = 0
    if answer[:1] == bytes([_VARINT_1]):
        for position, byte in enumerate(answer[1:6]):
            number |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                break
    return _STATUSES[number] if number < len(_STATUSES) else str(number)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
