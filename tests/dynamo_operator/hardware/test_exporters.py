"""Discovery over HTTP: exporters on addresses of their own that answer as DCGM's do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.runtime.builtin_kinds import Namespace, Pod
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.runtime.client.uncached_reader import UncachedReader
from dynamo_operator.testing import Cluster
from informers.clock import SystemClock

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]

FIELDS = {
    "DCGM_FI_DEV_SM_CLOCK": ("SM clock frequency (in MHz).", 1980),
    "DCGM_FI_DEV_GPU_TEMP": ("GPU temperature (in C).", 33),
    "DCGM_FI_DEV_FB_FREE": ("Framebuffer memory free (in MiB).", 80000),
    "DCGM_FI_DEV_FB_USED": ("Framebuffer memory used (in MiB).", 1000),
    "DCGM_FI_DEV_FB_RESERVED": ("Framebuffer memory reserved (in MiB).", 559),
}
H100 = "NVIDIA H100 80GB HBM3"
L4 = "NVIDIA L4"


def exposition(host: str, *gpus: tuple[str, str]) -> str:
    """What an exporter of a host says of its GPUs: model, and profile of a slice or ""."""
    lines = []
    for field, (meaning, value) in FIELDS.items():
        lines += [f"# HELP {field} {meaning}", f"# TYPE {field} gauge"]
        for index, (model, profile) in enumerate(gpus):
            slice_ = f',GPU_I_PROFILE="{profile}",GPU_I_ID="{index}"' if profile else ""
            lines.append(
                f'{field}{{gpu="{index}",UUID="GPU-{host}-{index}",pci_bus_id="00000000:1{index}",'
                f'device="nvidia{index}",modelName="{model}"{slice_},Hostname="{host}",'
                f'container="",namespace="",pod=""}} {value}'
            )
    return "\n".join(lines) + "\n"


def page(text: str, *, status: str = "200 OK", kind: str = "text/plain; version=0.0.4") -> Serve:
    async def serve(writer: asyncio.StreamWriter) -> None:
        body = text.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return serve


async def endless(writer: asyncio.StreamWriter) -> None:
    """Go on until the reader has had enough."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
    writer.write(exposition("endless", (H100, "")).encode())
    while True:
        writer.write(b"# HELP nothing\n" * 65_536)
        await writer.drain()


@asynccontextmanager
async def exporters(cluster: Cluster, *serves: Serve) -> AsyncIterator[int]:
    """Serve each on 127.0.0.2 and on, as a running Pod of the cluster; yield their port."""
    await cluster.client.create(Namespace.new("gpu-operator"))
    port = 0
    async with AsyncExitStack() as stack:
        for number, serve in enumerate(serves, start=2):
            address = f"127.0.0.{number}"
            server = await asyncio.start_server(_answering(serve), address, port)
            port = server.sockets[0].getsockname()[1]
            stack.callback(server.close)
            await _run_exporter(cluster, f"exporter-{number}", address)
        yield port


def _answering(
    serve: Serve,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await serve(writer)
        except ConnectionError:
            pass  # the reader had enough
        finally:
            writer.close()

    return answer


async def _run_exporter(cluster: Cluster, name: str, address: str) -> None:
    pod = Pod.new(
        name,
        namespace="gpu-operator",
        labels={"app": "nvidia-dcgm-exporter"},
        spec={"nodeName": name, "containers": [{"name": "exporter", "image": "dcgm-exporter"}]},
    )
    made = await cluster.client.create(pod)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    await cluster.client.patch(Pod, made.key, {"status": status}, subresource="status")


async def test_whole_gpus_of_every_good_exporter_are_counted_and_the_bad_ones_are_named() -> None:
    sliced = exposition("cut", *[(H100, "1g.10gb")] * 7, (H100, ""))
    mixed = exposition("mixed", (H100, ""), (H100, ""), (L4, ""), (L4, ""), (L4, ""))
    async with Cluster.start(crds=custom_resource_definitions()) as cluster:
        pages = [
            page(exposition("whole", *[(H100, "")] * 4).replace("\n", "\r\n")),
            page(sliced),
            page(mixed),
            page("internal server error", status="500 Internal Server Error"),
            page("<html>login</html>", kind="text/html"),
            endless,
        ]
        async with exporters(cluster, *pages) as port:
            found = await GpuDiscovery(
                UncachedReader(cluster.client),
                fetch=fetch_text,
                clock=SystemClock(),
                endpoint=f"http://{{POD_IP}}:{port}/metrics",
            ).discover()

    # 4 whole ones, 1 beside slices, 2 of a node with two products, and that of the endless answer.
    assert (found.sku, found.total, found.gpus_per_node) == ("h100_sxm", 8, 4)
    assert "NVIDIA L4 is not counted" in found.notes
    bad = [note for note in found.notes if note.startswith("exporter gpu-operator/")]
    assert [note.partition(" at ")[0] for note in bad] == [
        "exporter gpu-operator/exporter-5",
        "exporter gpu-operator/exporter-6",
    ]
    assert "HTTP status 500" in bad[0]
    assert "reports no whole GPU" in bad[1]
