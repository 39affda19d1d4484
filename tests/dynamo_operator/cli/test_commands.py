"""The commands as a user starts them: processes against an embedded cluster over HTTPS."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.cli.__main__ import main
from dynamo_operator.generate.crds import custom_resource_definition, custom_resource_definitions
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.runtime import LeaderElection
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition, Lease, Namespace
from dynamo_operator.settings import LEASE_NAME
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey, ResourceType
from tests.reconcilers.search import SPEC

SAMPLES = Path(__file__).parents[3] / "manifests" / "samples"


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


def requests_crd(*versions: str) -> dict[str, Any]:
    """Somebody else's definition of Requests, the last version stored."""
    crd = custom_resource_definition(DynamoGraphDeploymentRequest)
    (ours,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [
        {**ours, "name": name, "storage": name == versions[-1]} for name in versions
    ]
    return crd


async def apply_to(cluster: Cluster, *flags: str) -> tuple[int, str, str]:
    return await command("crds", "apply", "--kubeconfig", str(cluster.kubeconfig()), *flags)


async def test_a_crd_that_does_not_serve_our_version_is_left_as_it_is():
    foreign = requests_crd("v1alpha1", "v1beta1")
    async with Cluster.start(mode="http", crds=[foreign]) as cluster:
        before = await cluster.client.list(CustomResourceDefinition)
        code, _, errors = await apply_to(cluster)
        after = await cluster.client.list(CustomResourceDefinition)

    assert code == 1
    assert "serves v1alpha1, v1beta1, not v1beta2; it is left as it is" in errors
    assert "--take-over" in errors
    assert [crd.resource_version for crd in after] == [crd.resource_version for crd in before]


async def test_a_crd_that_serves_our_version_beside_others_is_used_as_it_is():
    foreign = requests_crd("v1beta1", "v1beta2")
    name = foreign["metadata"]["name"]
    async with Cluster.start(mode="http", crds=[foreign]) as cluster:
        (before,) = await cluster.client.list(CustomResourceDefinition)
        code, output, _ = await apply_to(cluster)
        after = await cluster.client.get(CustomResourceDefinition, before.key)

    assert code == 0
    assert f"{name} left as it is: it serves our version beside others" in output
    assert after.resource_version == before.resource_version


async def test_a_foreign_crd_is_taken_over_only_without_objects():
    async with Cluster.start(mode="http", crds=[requests_crd("v1beta1")]) as cluster:
        key = ObjectKey(
            "", custom_resource_definition(DynamoGraphDeploymentRequest)["metadata"]["name"]
        )
        old = ResourceType(
            "nvidia.com", "v1beta1", "DynamoGraphDeploymentRequest", key.name.split(".")[0]
        )
        made = await cluster.client.create({"metadata": {"name": "a"}, "spec": SPEC}, kind=old)
        refused = await apply_to(cluster, "--take-over")
        kept = await cluster.client.get(old, ObjectKey("default", "a"))
        await cluster.client.delete(old, ObjectKey("default", "a"))
        code, output, _ = await apply_to(cluster, "--take-over")
        crd = await cluster.client.get(CustomResourceDefinition, key)

    assert refused[0] == 1
    assert "has objects, e.g. default/a, which would be lost" in refused[2]
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    assert (code, f"{key.name} applied" in output) == (0, True)
    assert [version["name"] for version in crd.spec["versions"]] == ["v1beta2"]


async def test_the_operator_works_against_a_kubeconfig_and_ends_on_sigterm():
    port = free_port()
    async with (
        Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster,
        started(
            "--kubeconfig",
            str(cluster.kubeconfig()),
            "--operator-image=registry.lab/dynamo-operator:1",
            "--fallback-gpus-per-node=8",
            "--server.health-probe.bind-address=127.0.0.1",
            f"--server.health-probe.port={port}",
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
        lease = await cluster.client.get(Lease, ObjectKey("default", LEASE_NAME))
        assert lease.spec["holderIdentity"].startswith(socket.gethostname())
        operator.terminate()
        assert await operator.wait() == 0
        lease = await cluster.client.get(Lease, lease.key)
        assert lease.spec["holderIdentity"] == ""


async def test_the_operator_does_not_start_without_a_namespace_for_its_lease():
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        code, _, errors = await start(cluster, "--leader-election.namespace=nowhere")

    assert code == 1
    assert errors.splitlines()[-1] == (
        "dynamo-operator: lease nowhere/dynamo-operator.nvidia.com: namespace nowhere "
        "does not exist: create it, or name another one with --leader-election.namespace"
    )


async def test_a_locally_started_operator_takes_the_lease_of_the_deployed_one():
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        await cluster.client.create(Namespace.new(NAMESPACE))
        async with started(
            "--kubeconfig", str(cluster.kubeconfig()), "--operator-image=registry.lab/operator:1"
        ):
            lease = await cluster.eventually(
                lambda: cluster.client.get(Lease, ObjectKey(NAMESPACE, LEASE_NAME)), timeout=30
            )

    assert lease.spec["holderIdentity"].startswith(socket.gethostname())


async def test_the_operator_does_not_work_without_election_while_another_holds_the_lease():
    election = LeaderElection(LEASE_NAME, "default", identity="deployed")
    async with (
        Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster,
        cluster.manager(leader_election=election) as other,
    ):
        await other.wait_elected()
        code, _, errors = await start(
            cluster, "--leader-election.enabled=false", "--leader-election.namespace=default"
        )

    assert code == 1
    assert "lease default/dynamo-operator.nvidia.com: held by deployed_" in errors.splitlines()[-1]


async def test_an_operator_that_loses_its_lease_ends_with_one_line():
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        async with asyncio.TaskGroup() as group:
            ended = group.create_task(start(cluster, "--leader-election.namespace=default"))
            lease = await cluster.eventually(
                lambda: cluster.client.get(Lease, ObjectKey("default", LEASE_NAME)), timeout=30
            )
            await cluster.client.patch(Lease, lease.key, {"spec": {"holderIdentity": "thief"}})
        code, _, errors = ended.result()

    assert code == 1
    assert errors.splitlines()[-1] == (
        "dynamo-operator: the lease default/dynamo-operator.nvidia.com was lost: "
        "thief holds the lease"
    )


async def start(cluster: Cluster, *words: str) -> tuple[int, str, str]:
    return await command(
        "start", "--kubeconfig", str(cluster.kubeconfig()), "--operator-image=o:1", *words
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(
            ["start", "--kubeconfig", "/nowhere", "--operator-image=o:1"], 1, "/nowhere", id="file"
        ),
        pytest.param(
            ["start", "--operator-image=o:1", "--run-history-limit=0"],
            2,
            "--run-history-limit: must be at least 1, not '0'",
            id="setting",
        ),
        pytest.param(["start"], 2, "missing: give --operator-image, DYNAMO_", id="missing setting"),
        pytest.param(
            ["start", "--operator-image=o:1", "--leader-election.lease-seconds=5"],
            2,
            "leader election: lease_seconds=5, renew_deadline_seconds=10, retry_seconds=2: must be",
            id="lease",
        ),
        pytest.param(["cluster", "--port=99999"], 2, "'99999' is no port", id="port"),
        pytest.param(["crds", "apply", "--context", "x"], 1, "x", id="context"),
        pytest.param(
            ["crds", "apply", "-n", "x"], 2, "unrecognized arguments: -n", id="no namespace"
        ),
        pytest.param(["demo", "--budget=0"], 2, "--budget: '0' is no number of GPUs", id="budget"),
        pytest.param(["demo", "--budget=8x"], 2, "--budget: '8x' is no number", id="no number"),
        pytest.param(["demo", "--sku=h300"], 2, "--sku: invalid choice: 'h300'", id="sku"),
        pytest.param(["demo", "--model="], 2, "--model: is empty", id="model"),
        pytest.param(["frobnicate"], 2, "invalid choice", id="command"),
    ],
)
async def test_a_wrong_call_is_one_line_and_no_traceback(words, code, message):
    found, _, errors = await command(*words)

    assert found == code
    assert message in errors
    assert "Traceback" not in errors


async def test_a_cluster_without_our_kinds_is_told_apart_from_a_namespace_that_is_missing():
    sample = str(SAMPLES / "model_only.yaml")
    async with Cluster.start(mode="http", controllers=("namespaces",)) as cluster:
        words = ("request", "submit", "-f", sample, "--kubeconfig", str(cluster.kubeconfig()))
        no_kinds = await command(*words)
        await command("crds", "apply", *words[-2:])
        no_namespace = await command(*words, "-n", "lab")

    assert no_kinds[2] == (
        "dynamo-operator: llama: the cluster does not serve nvidia.com/v1beta2"
        " DynamoGraphDeploymentRequest; `dynamo-operator crds apply` installs the kinds\n"
    )
    assert no_namespace[2] == 'dynamo-operator: llama: namespaces "lab" not found\n'


async def test_a_refused_request_is_named_with_the_words_of_the_server(tmp_path: Path):
    file = tmp_path / "request.yaml"
    file.write_text(
        "{apiVersion: nvidia.com/v1beta2, kind: DynamoGraphDeploymentRequest,"
        " metadata: {name: llama},"
        " spec: {model: {name: Org/M-8B}, hardware: {gpu: {budget: 0}}}}"
    )
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        code, _, errors = await command(
            *("request", "submit", "-f", str(file), "--kubeconfig", str(cluster.kubeconfig()))
        )

    assert code == 1
    assert errors.startswith("dynamo-operator: llama: DynamoGraphDeploymentRequest")
    assert "spec.hardware.gpu.budget" in errors
    assert "/apis/" not in errors
    assert len(errors.splitlines()) == 1


def test_an_interrupt_while_a_command_is_imported_ends_it_without_a_traceback(monkeypatch):
    class Interrupt(MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == "dynamo_operator.cli.commands":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "dynamo_operator.cli.commands", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupt(), *sys.meta_path])

    assert main(["demo"]) == 130


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["SIGHUP", "SIGINT", "SIGTERM"],
)
def test_a_command_ends_in_order_however_often_a_signal_comes(monkeypatch, number, exit_code):
    ended = []

    async def run(_arguments):
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), number)
            await some_turns()
            ended.append("in order")

    monkeypatch.setattr("dynamo_operator.cli.demo.configure", runs(run))

    assert main(["demo"]) == exit_code
    assert ended == ["in order"]


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(monkeypatch):
    async def run(_arguments):
        os.kill(os.getpid(), signal.SIGHUP)
        await some_turns()
        return 0

    monkeypatch.setattr("dynamo_operator.cli.demo.configure", runs(run))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert main(["demo"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def runs(run):
    """A configuration of a command that does that."""

    def configure(parser):
        parser.set_defaults(run=run)

    return configure


async def some_turns():
    """Let the loop see what has happened."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_next_to_nothing_is_imported_before_interrupts_are_caught():
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys, dynamo_operator.cli.__main__;"
        " sys.exit(bool({'asyncio', 'argparse', 'pydantic', 'aiohttp'} & set(sys.modules)))",
    )

    assert await process.wait() == 0


async def test_the_status_of_a_planner_names_an_interpreter_that_is_not_there(tmp_path: Path):
    python = str(tmp_path / "python")
    code, _, errors = await command("planner", "status", "--python", python)

    assert code == 1
    assert errors == f"dynamo-operator: --python {python}: no such interpreter\n"


def test_a_file_that_cannot_be_written_is_named_before_the_reason(monkeypatch, capsys):
    def configure(parser):
        raise PermissionError(errno.EACCES, "Permission denied", "/lab/audit.jsonl")

    monkeypatch.setattr("dynamo_operator.cli.cluster.configure", configure)

    assert main(["cluster"]) == 1
    assert capsys.readouterr().err == "dynamo-operator: /lab/audit.jsonl: Permission denied\n"


async def test_help_keeps_the_names_of_kinds_and_programs_as_they_are_written():
    _, request_help, _ = await command("request", "--help")
    _, planner_help, _ = await command("planner", "--help")

    assert "Work with DynamoGraphDeploymentRequests." in request_help
    assert "The real AISimulate, installed for local runs." in planner_help


@pytest.mark.parametrize("module", ["cryptography", "grpclib"])
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


async def test_kubectl_runs_every_command_as_its_plugin():
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        *(programs / "kubectl", "dgdr", "run", "cancel", "--help"),
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    output, _ = await process.communicate()

    assert process.returncode == 0
    assert output.decode().startswith("usage: kubectl dgdr run cancel ")


@pytest.mark.parametrize("command", ["request init a/b", "request explain -f SAMPLE"])
def test_output_that_nobody_reads_ends_a_command_without_a_word(command: str):
    words = command.replace("SAMPLE", str(SAMPLES / "goodput.yaml")).split()
    process = subprocess.Popen(
        [sys.executable, "-m", "dynamo_operator.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate()

    assert process.returncode == 141
    assert errors == b""


def test_what_a_terminal_cannot_show_is_told_by_its_number():
    found = subprocess.run(
        [sys.executable, "-m", "dynamo_operator.cli", "request", "init", "a/\u00e9"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )

    assert b'"a/\\xe9"' in found.stdout
