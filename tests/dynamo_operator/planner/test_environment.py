from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from subprocess import run

import pytest

from dynamo_operator.planner import adapter_layer
from dynamo_operator.planner.adapter_layer import adapter_digest, install_adapter
from dynamo_operator.planner.environment import (
    RECORD_FILE,
    Layout,
    PlannerMissingError,
    cache_root,
    describe,
    status,
)
from dynamo_operator.planner.install import _replacing, install
from dynamo_operator.planner.interpreter import Interpreter, InterpreterError
from dynamo_operator.planner.model_cache import is_hub_reachable, seed_model_cache


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    return Interpreter.find()


def fake_python(path: Path, answer: str) -> str:
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(path)


def mark_complete(layout: Layout) -> None:
    """Leave what an installation leaves, as far as `describe` reads it."""
    for path, record in (
        (layout.upstream, '{"versions": {"aisimulate": "0.13.0"}, "variables": {"A": "b"}}'),
        (layout.environment, "{}"),
    ):
        path.mkdir(parents=True)
        (path / RECORD_FILE).write_text(record)


def test_the_running_interpreter_is_supported(interpreter: Interpreter) -> None:
    assert interpreter.version == ".".join(map(str, sys.version_info[:3]))
    assert interpreter.executable.is_file()
    assert (interpreter.stdlib / "os.py").is_file()


def test_another_version_of_python_is_refused_in_one_line(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "python3.14", '["/p", "/", "/lib", [3, 14, 0]]')

    with pytest.raises(
        InterpreterError,
        match=rf"^--python {python}: Python 3\.14\.0; AISimulate needs one of 3\.11, 3\.12, 3\.13$",
    ):
        Interpreter.find(python)


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="/nonexistent: no such interpreter"):
        Interpreter.find("/nonexistent")
    with pytest.raises(InterpreterError, match="not a Python interpreter"):
        Interpreter.find(fake_python(tmp_path / "python", "hello"))


def test_a_private_interpreter_is_not_shared(tmp_path: Path, interpreter: Interpreter) -> None:
    tmp_path.chmod(0o700)
    private = Interpreter(tmp_path / "python", tmp_path, tmp_path, interpreter.version)
    private.executable.write_text("")

    assert not private.is_shared


def test_a_copied_interpreter_runs_on_its_own_library(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    copy = interpreter.copy_in(tmp_path)
    copy.prefix.mkdir()
    interpreter.copy_to(copy.prefix)

    code = "import sys, json, sqlite3, venv; print(sys.base_prefix)"
    answer = run(
        [copy.executable, "-I", "-c", code],
        env=copy.library_variables(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.strip() == str(copy.prefix)
    assert not (copy.stdlib / "site-packages").exists()


def test_the_adapter_is_found_and_loaded_with_nothing_else_of_ours(tmp_path: Path) -> None:
    install_adapter(tmp_path)

    (distribution,) = distributions(path=[str(tmp_path)])
    (entry_point,) = distribution.entry_points
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}]\n"
        "from dynamo_operator.aisimulate import output_adapter as adapter\n"
        "print(adapter.ADAPTER.name, adapter.__file__)"
    )
    loaded = run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)

    assert (entry_point.group, entry_point.name, entry_point.value) == (
        "aisimulate.output_adapters",
        "dgdr_run",
        "dynamo_operator.aisimulate.output_adapter:ADAPTER",
    )
    assert loaded.stdout.startswith(f"dgdr_run {tmp_path}")


def test_the_entry_point_is_the_projects_own() -> None:
    pyproject = (Path(__file__).parents[3] / "pyproject.toml").read_text()

    section, entry = adapter_layer._ENTRY_POINTS.strip().splitlines()
    name, _, value = entry.partition(" = ")
    assert section == "[aisimulate.output_adapters]"
    assert f'{name} = "{value}"' in pyproject


def test_environments_differ_by_interpreter_and_code(
    tmp_path: Path, interpreter: Interpreter
) -> None:
    other = Interpreter(Path("/p"), Path("/"), Path("/lib"), "3.12.1")

    ours, theirs = Layout(tmp_path, interpreter), Layout(tmp_path, other)

    assert ours.key != theirs.key
    assert ours.environment.name.endswith(adapter_digest())
    assert ours.upstream.parent == tmp_path


def test_what_is_not_complete_is_missing(tmp_path: Path, interpreter: Interpreter) -> None:
    layout = Layout(tmp_path, interpreter)
    layout.upstream.mkdir(parents=True)

    with pytest.raises(PlannerMissingError, match="run `dynamo-operator planner install`"):
        layout.describe()


def test_a_complete_environment_is_described(tmp_path: Path, interpreter: Interpreter) -> None:
    layout = Layout(tmp_path, interpreter)
    mark_complete(layout)
    hub = layout.upstream / "huggingface" / "hub"
    (hub / "models--meta-llama--Meta-Llama-3.1-8B").mkdir(parents=True)

    environment = layout.describe()

    assert environment.python == layout.environment / "bin" / "python"
    assert environment.models == ("meta-llama/Meta-Llama-3.1-8B",)
    assert (environment.versions, environment.variables) == ({"aisimulate": "0.13.0"}, {"A": "b"})
    assert environment.offline_variables() == {"HF_HUB_CACHE": str(hub), "HF_HUB_OFFLINE": "1"}


def test_a_complete_environment_is_not_made_again(tmp_path: Path, interpreter: Interpreter) -> None:
    layout = Layout(tmp_path, interpreter)
    mark_complete(layout)
    reports: list[str] = []

    environment = install({}, root=tmp_path, report=reports.append)

    assert environment == layout.describe()
    assert reports == []
    assert not layout.lock.exists()


def test_the_users_cache_is_used_where_the_systems_is_closed(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        assert cache_root({}) == Path("/var/cache/dynamo-operator/planner")
    else:
        root = cache_root({"XDG_CACHE_HOME": str(tmp_path)})
        assert root == tmp_path / "dynamo-operator" / "planner"


def test_the_status_says_what_is_installed_and_what_helps(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "python3.13", '["/p", "/", "/lib", [3, 13, 99]]')

    answer = status({"HOME": str(tmp_path)}, python=python)

    assert answer["installed"] == "no"
    assert "Python 3.13.99" in answer["problem"]
    assert "dynamo-operator planner install" in answer["problem"]


def test_an_unsupported_interpreter_has_no_environment(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "python3.10", '["/p", "/", "/lib", [3, 10, 4]]')

    with pytest.raises(InterpreterError, match=r"3\.10\.4"):
        describe({}, python=python)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    target = tmp_path / "layer"
    target.mkdir()
    (target / "half-made").write_text("")
    yield target
    assert [path.name for path in tmp_path.iterdir()] == ["layer"]


def test_a_layer_appears_whole_and_replaces_a_half_made_one(target: Path) -> None:
    with _replacing(target) as path:
        (path / "file").write_text("whole")
        assert not (target / "file").exists()

    assert [file.name for file in target.iterdir()] == ["file"]
    assert target.stat().st_mode & 0o777 == 0o755


def test_a_layer_that_could_not_be_made_leaves_nothing(target: Path) -> None:
    def make() -> None:
        with _replacing(target) as path:
            (path / "file").write_text("half")
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        make()

    assert [file.name for file in target.iterdir()] == ["half-made"]


def test_model_configurations_are_laid_out_as_a_hub_cache(tmp_path: Path) -> None:
    shipped = tmp_path / "model_configs"
    shipped.mkdir()
    (shipped / "org--a-b_config.json").write_text('{"auto_map": {}}')
    (shipped / "org--a-b_hf_quant_config.json").write_text("{}")
    (shipped / "org--c_config.json").write_text("{}")
    (shipped / "NOTES.md").write_text("")

    models = seed_model_cache(shipped, tmp_path / "hf")

    cached = tmp_path / "hf" / "hub" / "models--org--a-b"
    revision = (cached / "refs" / "main").read_text()
    assert models == ["org/a-b", "org/c"]
    assert len(revision) == 40
    assert (cached / "snapshots" / revision / "config.json").read_text() == '{"auto_map": {}}'
    assert (cached / "snapshots" / revision / "hf_quant_config.json").is_file()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "file:///etc/passwd", "nonsense"])
def test_a_hub_that_does_not_answer_is_not_reachable(endpoint: str) -> None:
    assert not is_hub_reachable({"HF_ENDPOINT": endpoint})
