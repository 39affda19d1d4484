from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dynamo_operator.planner.environment import Layout, PlannerError
from dynamo_operator.planner.install import install
from dynamo_operator.planner.interpreter import Interpreter
from dynamo_operator.planner.programs import Programs, StoppedError

# Plays an interpreter: makes environments that hold itself, and answers pip as a file says.
PYTHON = """\
#!{python}
import json, os, pathlib, shutil, signal, sys
home = pathlib.Path({home!r})
arguments = sys.argv[1:]
with (home / "calls").open("a") as calls:
    calls.write(" ".join(arguments[:3]) + chr(10))
if arguments[:2] == ["-I", "-c"]:
    print(json.dumps([{executable!r}, {executable!r}, {executable!r}, [3, 11, 7]]))
elif arguments[:2] == ["-m", "venv"]:
    root = pathlib.Path(arguments[-1])
    (root / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (root / "bin").mkdir()
    shutil.copy2(sys.argv[0], root / "bin" / "python")
    (root / "bin" / "activate").write_text("")
elif arguments[:2] == ["-m", "pip"]:
    answers = home / "pip-answers"
    first, *rest = answers.read_text().splitlines() or [""]
    answers.write_text(chr(10).join(rest))
    if first == "no answer":
        (home / "pip.pid").write_text(str(os.getpid()))
        signal.pause()
    if first:
        sys.exit("ERROR: " + first)
else:
    print("a line that a module printed")
    print(json.dumps({{"versions": {{"aisimulate": "0.13.0"}}, "command": "sim.cli:main",
                      "models": str(home / "models")}}))
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    home = tmp_path / "home"
    (home / "models").mkdir(parents=True)
    (home / "models" / "org--m_config.json").write_text("{}")
    (home / "pip-answers").write_text("")
    path = home / "python"
    path.write_text(PYTHON.format(python=sys.executable, home=str(home), executable=str(path)))
    path.chmod(0o755)
    return str(path)


Answers = Callable[..., None]


@pytest.fixture
def pip_answers(tmp_path: Path) -> Answers:
    def answer(*lines: str) -> None:
        (tmp_path / "home" / "pip-answers").write_text("\n".join(lines))

    return answer


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "home" / "calls").read_text().splitlines()


@pytest.fixture(autouse=True)
def _open_to_all(tmp_path: Path) -> None:
    """Temporary directories are private, but this interpreter is not one to be copied."""
    for part in (tmp_path, *tmp_path.parents[:3]):
        if part != Path("/tmp"):
            part.chmod(0o755)


def test_an_environment_is_made_in_two_layers(tmp_path: Path, python: str) -> None:
    root = tmp_path / "cache"
    reports: list[str] = []

    environment = install(dict(os.environ), python=python, root=root, report=reports.append)

    assert environment.versions == {"aisimulate": "0.13.0", "python": "3.11.7"}
    assert environment.models == ("org/m",)
    script = environment.executables / "aisimulate"
    assert script.read_text().startswith(f"#!{environment.path}/bin/python\n")
    assert "from sim.cli import main" in script.read_text()
    assert sorted(path.name for path in environment.executables.iterdir()) == [
        "aisimulate",
        "python",
    ]
    site_packages = environment.path / "lib" / "python3.11" / "site-packages"
    upstream = Layout(root, Interpreter.find(python)).upstream
    assert str(upstream) in (site_packages / "upstream.pth").read_text()
    assert (site_packages / "dynamo_operator" / "aisimulate" / "output_adapter.py").is_file()
    assert len(reports) == 2


def test_only_the_small_layer_is_made_anew(tmp_path: Path, python: str) -> None:
    root = tmp_path / "cache"
    first = install({}, python=python, root=root)
    (first.path / "planner.json").unlink()
    made = len(calls(tmp_path))

    again = install({}, python=python, root=root)

    assert again == first
    assert [call for call in calls(tmp_path)[made:] if call.startswith("-m")] == [
        "-m venv --without-pip"
    ]


def test_a_registry_that_fails_is_tried_again(
    tmp_path: Path, python: str, pip_answers: Answers
) -> None:
    pip_answers("502 Bad Gateway", "Connection reset by peer")
    waits: list[float] = []

    install({}, python=python, root=tmp_path / "cache", sleep=waits.append)

    assert calls(tmp_path).count("-m pip install") == 3
    assert waits == [2.0, 4.0]


def test_a_registry_that_keeps_failing_is_named_with_its_words(
    tmp_path: Path, python: str, pip_answers: Answers
) -> None:
    pip_answers(*["502 Bad Gateway"] * 9)
    root = tmp_path / "cache"

    with pytest.raises(PlannerError, match=r"^package registry: pip: 502 Bad Gateway$"):
        install({}, python=python, root=root, sleep=lambda _: None)

    assert calls(tmp_path).count("-m pip install") == 4
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_a_stop_ends_an_installation_whose_registry_does_not_answer(
    tmp_path: Path, python: str, pip_answers: Answers
) -> None:
    pip_answers("no answer")
    root, programs = tmp_path / "cache", Programs()
    with ThreadPoolExecutor() as threads:
        made = threads.submit(install, {}, python=python, root=root, programs=programs)
        pip = the_pip(tmp_path)

        programs.stop()

        with pytest.raises(StoppedError):
            made.result()
    assert not is_alive(pip)
    assert calls(tmp_path).count("-m pip install") == 1
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_a_stop_ends_the_wait_for_another_installation(
    tmp_path: Path, python: str, pip_answers: Answers
) -> None:
    pip_answers("no answer")
    root, others, programs = tmp_path / "cache", Programs(), Programs()
    waits = threading.Event()
    with ThreadPoolExecutor() as threads:
        other = threads.submit(install, {}, python=python, root=root, programs=others)
        the_pip(tmp_path)
        waiting = threads.submit(
            install,
            {},
            python=python,
            root=root,
            programs=programs,
            report=lambda _: waits.set(),
        )
        waits.wait()

        programs.stop()

        with pytest.raises(StoppedError):
            waiting.result()
        assert not other.done()
        others.stop()


def test_a_killed_command_takes_its_pip_with_it(
    tmp_path: Path, python: str, pip_answers: Answers
) -> None:
    pip_answers("no answer")
    program = (
        "import sys; from pathlib import Path; from dynamo_operator.planner.install import *; "
    )
    program += f"install({{}}, python={python!r}, root=Path({str(tmp_path / 'cache')!r}))"
    with subprocess.Popen([sys.executable, "-c", program]) as command:
        pip = the_pip(tmp_path)
        command.kill()

    deadline = time.monotonic() + 10
    while is_alive(pip) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pip)


def the_pip(tmp_path: Path) -> int:
    """Wait for the pip that does not answer; returns its process id."""
    file = tmp_path / "home" / "pip.pid"
    while not (file.exists() and file.read_text()):
        time.sleep(0.01)
    return int(file.read_text())


def is_alive(pid: int) -> bool:
    """Whether a process runs, a dead one that nobody has buried aside."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_a_version_that_does_not_exist_is_not_tried_again(
    tmp_path: Path, python: str, pip_answers: Answers
) -> None:
    pip_answers("No matching distribution found for ai-dynamo")

    with pytest.raises(PlannerError, match="No matching distribution found for ai-dynamo"):
        install({}, python=python, root=tmp_path / "cache")

    assert calls(tmp_path).count("-m pip install") == 1


def test_what_a_killed_installation_left_is_removed(tmp_path: Path, python: str) -> None:
    root = tmp_path / "cache"
    leftover = root / ".upstream-x.abc"
    leftover.mkdir(parents=True)
    layout = Layout(root, Interpreter.find(python))
    layout.upstream.mkdir()
    (layout.upstream / "half-made").write_text("")

    install({}, python=python, root=root)

    assert not leftover.exists()
    assert not (layout.upstream / "half-made").exists()


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, python: str) -> None:
    file = tmp_path / "cache"
    file.write_text("")

    with pytest.raises(PlannerError, match=f"planner environment in {file}: .*File exists"):
        install({}, python=python, root=file)


def test_the_callers_python_settings_are_not_the_environments(tmp_path: Path, python: str) -> None:
    environ = {**os.environ, "PYTHONHOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}

    environment = install(environ, python=python, root=tmp_path / "cache")

    assert environment.versions["aisimulate"] == "0.13.0"
