import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
from pathlib import Path
import dynamo_operator.runtime.client
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
print(json.dumps([sorted(sys.modules), peak]))
"""
HEAVY = {
    "aiohttp",
    "kubernetes_asyncio",
    "prometheus_client",
    "ruamel.yaml",
    "structlog",
    "dynamo_operator.runtime.cache",
    "dynamo_operator.runtime.controller",
    "dynamo_operator.runtime.manager",
}


@pytest.fixture(scope="module")
def loaded():
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    ).stdout
    return json.loads(output)


def test_the_client_alone_loads_neither_the_runtime_nor_heavy_libraries(loaded):
    assert not HEAVY & set(loaded[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_the_client_alone_is_light_in_memory(loaded):
    (kibibytes,) = loaded[1]

    assert kibibytes < 60 * 1024


EXCHANGE = """
import asyncio, sys
from dynamo_operator.runtime.client.http import HttpResponse
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.runtime.http_server import HttpServer

async def page(request):
    return HttpResponse(200, {}, b"whole")

async def main():
    server = HttpServer("127.0.0.1:0")
    server.route("GET", "/page", page)
    async with server:
        print(await fetch_text(f"http://127.0.0.1:{server.port}/page"), "aiohttp" in sys.modules)

asyncio.run(main())
"""


def test_neither_a_client_nor_a_server_at_work_loads_aiohttp():
    output = subprocess.run(
        [sys.executable, "-c", EXCHANGE], check=True, capture_output=True, text=True
    ).stdout

    assert output == "whole False\n"
