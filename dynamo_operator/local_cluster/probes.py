"""Startup, readiness and liveness probes of a container."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST_HEAD = 64 * 1024

# Runs a command inside the container: its exit status, None when the time ran out.
RunInside = Callable[[list[str], float], Awaitable[int | None]]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One try of a probe."""

    ok: bool
    message: str = ""


class UnsupportedProbeError(Exception):
    """This node cannot run such a probe."""


async def try_probe(
    probe: Mapping[str, Any],
    container: Mapping[str, Any],
    run_inside: RunInside,
    *,
    host: str = "127.0.0.1",
) -> ProbeResult:
    """Try a probe once.

    Args:
        probe: one of the container's probes.
        container: whose ports it may name.
        run_inside: runs commands in the container.
        host: the Pod's address, for probes that name no other.

    Raises:
        UnsupportedProbeError: it is of a kind that this node does not know.
    """
    timeout = float(probe.get("timeoutSeconds") or 1)
    if action := probe.get("exec"):
        return await _try_exec(list(action["command"]), timeout, run_inside)
    if action := probe.get("httpGet"):
        return await _bounded(_try_http(action, container, host), timeout)
    if action := probe.get("tcpSocket"):
        return await _bounded(_try_tcp(action, container, host), timeout)
    if action := probe.get("grpc"):
        return await _try_grpc(action, host, timeout)
    kinds = ", ".join(sorted(k for k in probe if isinstance(probe[k], Mapping))) or "none"
    raise UnsupportedProbeError(
        f"probe kind {kinds}: this node runs exec, grpc, httpGet and tcpSocket"
    )


async def watch_probe(
    probe: Mapping[str, Any],
    attempt: Callable[[], Awaitable[ProbeResult]],
    report: Callable[[bool, str], bool],
) -> None:
    """Try a probe over and over, and report when its thresholds are reached.

    Args:
        probe: its periods and thresholds.
        attempt: one try.
        report: told the verdict and the last message; returns whether to go on.
    """
    period = float(probe.get("periodSeconds") or 10)
    needed = {
        True: int(probe.get("successThreshold") or 1),
        False: int(probe.get("failureThreshold") or 3),
    }
    await asyncio.sleep(float(probe.get("initialDelaySeconds") or 0))
    last, streak = False, 0
    while True:
        result = await attempt()
        streak = streak + 1 if result.ok is last else 1
        last = result.ok
        if streak >= needed[last] and not report(last, result.message):
            return
        await asyncio.sleep(period)


async def _try_exec(command: list[str], timeout: float, run_inside: RunInside) -> ProbeResult:
    status = await run_inside(command, timeout)
    if status is None:
        return ProbeResult(False, f"command timed out after {timeout:g}s: {' '.join(command)}")
    return ProbeResult(status == 0, "" if status == 0 else f"command exited with {status}")


async def _bounded(attempt: Awaitable[ProbeResult], timeout: float) -> ProbeResult:
    try:
        return await asyncio.wait_for(attempt, timeout)
    except TimeoutError:
        return ProbeResult(False, f"no answer within {timeout:g}s")
    except (OSError, ssl.SSLError, ValueError, asyncio.IncompleteReadError) as error:
        return ProbeResult(False, str(error) or type(error).__name__)


async def _try_grpc(action: Mapping[str, Any], host: str, timeout: float) -> ProbeResult:
    try:
        from dynamo_operator.local_cluster.grpc_probe import check_health
    except ImportError as error:
        message = f"probe kind grpc: {error}; it comes with the extra local"
        raise UnsupportedProbeError(message) from None
    problem = await check_health(host, int(action["port"]), action.get("service") or "", timeout)
    return ProbeResult(not problem, problem)


async def _try_tcp(
    action: Mapping[str, Any], container: Mapping[str, Any], host: str
) -> ProbeResult:
    port = probe_port(action["port"], container)
    _, writer = await asyncio.open_connection(action.get("host") or host, port)
    writer.close()
    await writer.wait_closed()
    return ProbeResult(True)


async def _try_http(
    action: Mapping[str, Any], container: Mapping[str, Any], host: str
) -> ProbeResult:
    port, host = probe_port(action["port"], container), action.get("host") or host
    context: ssl.SSLContext | None = None
    if action.get("scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe", "Accept": "*/*"}
    headers |= {h["name"]: h["value"] for h in action.get("httpHeaders") or ()}
    lines = [f"GET {action.get('path') or '/'} HTTP/1.1", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_LONGEST_HEAD)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()
        words = (await reader.readline()).decode("latin-1").split(" ", 2)
    finally:
        writer.close()
    if len(words) < 2 or not words[1].isdigit():
        return ProbeResult(False, "the answer is not HTTP")
    status = int(words[1])
    return ProbeResult(200 <= status < 400, f"HTTP probe failed with statuscode: {status}")


def probe_port(port: Any, container: Mapping[str, Any]) -> int:
    """Return a probe's port, looked up by name among the container's.

    Raises:
        ValueError: the container has no port of that name.
    """
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for entry in container.get("ports") or ():
        if entry.get("name") == port:
            return int(entry["containerPort"])
    raise ValueError(f"port {port!r} is not among the container's ports")
