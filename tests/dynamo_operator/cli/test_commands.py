"""The commands as a user starts them: processes against an embedded cluster over HTTPS."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.cli.__main__ import main
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.testing.cluster import Cluster
from tests.reconcilers.search import SPEC


async def command(*words: str) -> tuple[int, str, str]:
    """Run `dynamo-operator WORDS` to its end; return exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dynamo_operator.cli",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode or 0, output.decode(), errors.decode()


@asynccontextmanager
async def started(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `dynamo-operator start WORDS` for the length of the block, then end it by SIGTERM."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dynamo_operator.cli", "start", *words
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def status_of(url: str) -> int:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(url) as answer:
                return answer.status
        except aiohttp.ClientConnectionError:
            return 0


async def test_crds_are_applied_to_the_cluster_of_a_kubeconfig():
    async with Cluster.start(mode="http") as cluster:
        kubeconfig = str(cluster.kubeconfig())
        first = await command("crds", "apply", "--kubeconfig", kubeconfig)
        again = await command("crds", "apply", "--kubeconfig", kubeconfig)
        names = [crd.key.name for crd in await cluster.client.list(CustomResourceDefinition)]

    assert first == again
    assert first[0] == 0
    assert names == sorted(crd["metadata"]["name"] for crd in custom_resource_definitions())


async def test_a_crd_with_other_stored_versions_is_left_as_it_is():
    foreign = custom_resource_definitions()[0]
    foreign["spec"]["versions"][0]["name"] = "v1beta1"
    async with Cluster.start(mode="http", crds=[foreign]) as cluster:
        before = await cluster.client.list(CustomResourceDefinition)
        code, _, errors = await command("crds", "apply", "--kubeconfig", str(cluster.kubeconfig()))
        after = await cluster.client.list(CustomResourceDefinition)

    assert code == 1
    assert "stored versions v1beta1" in errors
    assert [crd.resource_version for crd in after] == [crd.resource_version for crd in before]


async def test_the_operator_works_against_a_kubeconfig_and_ends_on_sigterm():
    port = free_port()
    async with (
        Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster,
        started(
            "--kubeconfig",
            str(cluster.kubeconfig()),
            "--operator-image=registry.lab/dynamo-operator:1",
            "--fallback-gpus-per-node=8",
            f"--health-address=127.0.0.1:{port}",
        ) as operator,
    ):
        await cluster.eventually(
            lambda: status_of(f"http://127.0.0.1:{port}/readyz"),
            lambda status: status == 200,
            timeout=30,
        )
        await cluster.client.create(DynamoGraphDeploymentRequest.new("llama", spec=SPEC))
        await cluster.eventually(
            lambda: cluster.client.list(DynamoGraphDeploymentRun),
            lambda runs: bool(runs) and runs[0].status.job_ref is not None,
        )
        operator.terminate()
        assert await operator.wait() == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(
            ["start", "--kubeconfig", "/nowhere", "--operator-image=o:1"], 1, "/nowhere", id="file"
        ),
        pytest.param(
            ["start", "--operator-image=o:1", "--run-history-limit=0"],
            2,
            "setting run_history_limit (--run-history-limit, DYNAMO_OPERATOR_RUN_HISTORY_LIMIT)",
            id="setting",
        ),
        pytest.param(["start"], 2, "(--operator-image, ", id="missing setting"),
        pytest.param(["cluster", "--port=99999"], 2, "'99999' is no port", id="port"),
        pytest.param(["crds", "apply", "--context", "x"], 1, "x", id="context"),
        pytest.param(["frobnicate"], 2, "invalid choice", id="command"),
    ],
)
async def test_a_wrong_call_is_one_line_and_no_traceback(words, code, message):
    found, _, errors = await command(*words)

    assert found == code
    assert message in errors
    assert "Traceback" not in errors


async def test_help_keeps_the_names_of_kinds_and_programs_as_they_are_written():
    _, request_help, _ = await command("request", "--help")
    _, planner_help, _ = await command("planner", "--help")

    assert "Work with DynamoGraphDeploymentRequests." in request_help
    assert "The real AISimulate, installed for local runs." in planner_help


@pytest.mark.parametrize("module", ["cel", "cryptography", "jsonschema_rs"])
def test_a_command_that_lacks_the_extra_local_names_it(monkeypatch, capsys, module):
    def configure(parser):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("dynamo_operator.cli.cluster.configure", configure)

    assert main(["cluster"]) == 1
    assert capsys.readouterr().err == (
        f"dynamo-operator: {module} is not installed: pip install 'dynamo-operator[local]'\n"
    )


async def test_an_unreachable_server_is_named(tmp_path: Path):
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: c,"
        f" clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{free_port()}'}}}}],"
        " users: [{name: c, user: {token: t}}],"
        " contexts: [{name: c, context: {cluster: c, user: c}}]}"
    )

    code, _, errors = await command("crds", "apply", "--kubeconfig", str(kubeconfig))

    assert code == 1
    assert "127.0.0.1" in errors
    assert len(errors.splitlines()) == 1
