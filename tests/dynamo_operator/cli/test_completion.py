"""Completion: what is answered, and that bash, zsh, fish and kubectl make words of it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dynamo_operator.cli.__main__ import main
from dynamo_operator.cli.completion import FILES, SCRIPTS, answers
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing.cluster import Cluster
from tests.dynamo_operator.cli.calls import call
from tests.dynamo_operator.cli.planted import plant_candidates, plant_search

PROGRAMS = Path(sys.executable).parent


def words(*typed: str) -> list[str]:
    return [word for word, _ in answers(typed)]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["doc"], ["doctor"]),
        (["run", ""], ["list", "watch", "logs", "cancel"]),
        (["run", "l"], ["list", "logs"]),
        (["run", "logs", "x", "--container", ""], ["planner", "publisher"]),
        (["run", "logs", "x", "--container=pl"], ["--container=planner"]),
        (["run", "logs", "x", "--container", "=", "pub"], ["publisher"]),
        (["run", "logs", "x", "--fo"], ["--follow"]),
        (["run", "logs", "x", "--follow", "--fo"], []),
        (["request", "init", "--sku", "h1"], ["h100_pcie", "h100_sxm"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["candidate", "diff", "-o", "ya"], ["yaml"]),
        (["request", "submit", "-f", ""], [FILES]),
        (["doctor", "--kubeconfig", "./con"], [FILES]),
        (["nonsense", ""], []),
        (["run", "nonsense", ""], []),
        (["run", "watch", "a", "b", ""], []),
    ],
    ids=lambda value: " ".join(value) or "nothing",
)
def test_the_word_that_is_being_written_is_completed(typed: list[str], offered: list[str]):
    assert words(*typed) == offered


def test_a_file_is_left_to_the_shell(capsys: pytest.CaptureFixture[str]):
    assert main(["__complete", "--", "request", "submit", "-f", ""]) == 0
    assert capsys.readouterr().out == f"{FILES}\n"


def test_commands_are_told_with_what_they_mean():
    assert ("doctor", "find what is wrong with an installation, and how to mend it") in answers(
        ["do"]
    )


@pytest.mark.parametrize("asked", [[], ["--"], ["--", ""]], ids=["none", "dashes", "empty"])
def test_nothing_written_yet_offers_every_command(
    asked: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main(["__complete", *asked]) == 0
    assert "doctor\t" in capsys.readouterr().out


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        run = await plant_search(cluster.client)
        await plant_candidates(cluster.client, run, (5.0, 2, 10.0))
        yield cluster.kubeconfig()


async def test_objects_of_the_cluster_are_completed_by_name(kubeconfig: Path):
    flag = ["--kubeconfig", str(kubeconfig)]

    searches = await asyncio.to_thread(words, "run", "watch", *flag, "")
    requests = await asyncio.to_thread(words, "run", "list", *flag, "l")
    candidates = await asyncio.to_thread(words, "candidate", "show", *flag, "")
    namespaces = await asyncio.to_thread(words, "run", "list", *flag, "--namespace", "def")
    elsewhere = await asyncio.to_thread(words, "run", "watch", *flag, "-n", "kube-system", "")

    assert searches[0] == "llama"
    assert searches[1].startswith("llama-g1-")
    assert requests == ["llama"]
    assert len(candidates) == 1
    assert namespaces == ["default"]
    assert elsewhere == []


def test_a_cluster_that_cannot_be_reached_offers_nothing(tmp_path: Path):
    assert words("run", "watch", "--kubeconfig", str(tmp_path / "none"), "") == []


def test_a_name_that_a_shell_would_run_is_not_offered(tmp_path: Path):
    kubeconfig = tmp_path / "config"
    names = ["lab", "$(touch owned)", "a b", "`id`", "x;y"]
    listed = ", ".join(f"{{name: '{name}', context: {{}}}}" for name in names)
    kubeconfig.write_text(f"{{contexts: [{listed}]}}")

    assert words("doctor", "--kubeconfig", str(kubeconfig), "--context", "") == ["lab"]


async def test_the_script_of_each_shell_is_printed():
    for shell, script in SCRIPTS.items():
        assert await call("completion", shell) == (0, script, "")


class Shell:
    """An interactive shell on a terminal of its own, to type into."""

    def __init__(self, command: list[str], home: Path) -> None:
        self._terminal, tty = pty.openpty()
        termios.tcsetwinsize(tty, (40, 120))
        environment = {
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "HOME": str(home),
            "TERM": "xterm",
            "PS1": "> ",
            "LANG": "C.UTF-8",
            "XDG_CONFIG_HOME": str(home),
        }
        self._process = subprocess.Popen(
            command,
            stdin=tty,
            stdout=tty,
            stderr=tty,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # whose jobs it controls
        )
        os.close(tty)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def expect(self, pattern: str, seconds: float = 60.0) -> None:
        """Read until the screen has shown the pattern since the last call."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self._seen):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._terminal], [], [], left)[0]:
                raise AssertionError(f"{pattern!r} is not in {self._seen!r}")
            self._seen += re.sub(
                r"\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78])",
                "",
                os.read(self._terminal, 4096).decode(errors="replace"),
            )
        self._seen = ""

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


SETUP = {
    "bash": (["bash", "--norc", "-i"], "source <(dynamo-operator completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -Uz compinit; compinit -u -D; source <(dynamo-operator completion zsh)",
    ),
    "fish": (["fish", "--no-config", "-i"], "dynamo-operator completion fish | source"),
}


@pytest.mark.parametrize("shell", SETUP)
def test_a_real_shell_completes_commands_and_flags(shell: str, tmp_path: Path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command, setup = SETUP[shell]
    terminal = Shell(command, tmp_path)
    try:
        terminal.type(f"{setup}; echo rea''dy\r")
        terminal.expect("ready")
        terminal.type("dynamo-operator run wat\t")
        terminal.expect("watch ")
        terminal.type("x --inter\t")
        terminal.expect("--interval ")
    finally:
        terminal.close()


def test_kubectl_completes_its_plugin():
    kubectl, plugin = PROGRAMS / "kubectl", PROGRAMS / "kubectl_complete-dgdr"
    assert plugin.exists()
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}

    found = subprocess.run(
        [kubectl, "__complete", "dgdr", "run", "wat"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.splitlines()[0].partition("\t")[0] == "watch"
    assert found.stdout.splitlines()[-1] == ":4"
