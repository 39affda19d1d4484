"""What it costs to import the runtime, and to start the publisher and an API server."""

from __future__ import annotations

from hack.benchmarks.measurement import Bar, Measurement
from hack.benchmarks.processes import cheapest

MIB = 1024 * 1024

# Structlog loads rich where it is installed, which the linters here do and no user needs.
_AS_INSTALLED = """
sys.modules['rich'] = None
"""
# The package loads its modules when they are asked for: ask for all.
_RUNTIME = f"""
{_AS_INSTALLED}
import informers, dynamo_operator.runtime as runtime
for name in runtime.__all__:
    getattr(runtime, name)
"""
_CONNECTED = f"""
{_RUNTIME}
import dynamo_operator.runtime.client.transport
"""
_PUBLISHER = f"""
{_AS_INSTALLED}
import contextlib, dynamo_operator.publisher.__main__ as publisher
from dynamo_operator.runtime.client.transport import HttpTransport
sys.argv[1:] = ['--help']
with contextlib.suppress(SystemExit):
    publisher.main()
"""
_API_SERVER = """
import asyncio, tempfile
from pathlib import Path
from dynamo_operator.apiserver import ApiServer, HttpsServer
from dynamo_operator.runtime.client import Client, ClientConfig
async def main():
    global started, cpu
    started, cpu = time.perf_counter(), time.process_time()  # importing is not starting
    async with HttpsServer(ApiServer()) as https:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, 'kubeconfig')
            https.write_kubeconfig(path)
            client = Client.connect(ClientConfig.load(path, environ={}))
            await client.request('GET', '/readyz')
            await client.close()
asyncio.run(main())
"""


def imports(scale: float) -> list[Measurement]:
    """All that `dynamo_operator.runtime` exports, beside the generated client."""
    tries = _tries(scale)
    ours = cheapest(_RUNTIME, tries=tries)
    connected = cheapest(_CONNECTED, tries=tries)
    theirs = cheapest("import kubernetes_asyncio", tries=tries)
    return [
        Measurement("import time", ours.seconds, "s", Bar(0.25)),
        Measurement("import time, the HTTP library too", connected.seconds, "s"),
        Measurement("import memory", ours.resident_bytes / MIB, "MiB", Bar(45)),
        Measurement(
            "import time to kubernetes_asyncio's",
            connected.cpu_seconds / theirs.cpu_seconds,
            "ratio",
            Bar(1.2, side_by_side=True),
        ),
        Measurement(
            "import memory to kubernetes_asyncio's",
            connected.resident_bytes / theirs.resident_bytes,
            "ratio",
            Bar(0.8, side_by_side=True),
        ),
    ]


def publisher(scale: float) -> list[Measurement]:
    """The publisher's process, with the transport loaded, until it exits."""
    cost = cheapest(_PUBLISHER, tries=_tries(scale))
    return [
        Measurement("publisher start", cost.process_seconds, "s", Bar(0.5)),
        Measurement("publisher start, CPU", cost.cpu_seconds, "s"),
        Measurement("publisher memory", cost.peak_bytes / 1e6, "MB", Bar(60)),
    ]


def api_server(scale: float) -> list[Measurement]:
    """An API server over HTTPS, until a client with a fresh certificate has its first answer."""
    cost = cheapest(_API_SERVER, tries=_tries(scale))
    return [
        Measurement("API server start", cost.seconds, "s", Bar(1.0)),
        Measurement("API server start, CPU", cost.cpu_seconds, "s"),
        Measurement("API server memory", cost.peak_bytes / MIB, "MiB"),
    ]


def _tries(scale: float) -> int:
    return 5 if scale >= 1 else 2
