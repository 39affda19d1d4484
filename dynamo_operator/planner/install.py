"""Makes planner environments: whole or not at all, one maker at a time."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from dynamo_operator.planner.adapter_layer import install_adapter
from dynamo_operator.planner.environment import (
    MODELS_DIRECTORY,
    RECORD_FILE,
    REQUIREMENTS,
    Layout,
    PlannerEnvironment,
    PlannerError,
    PlannerMissingError,
    cache_root,
)
from dynamo_operator.planner.interpreter import Interpreter, must_be_shared
from dynamo_operator.planner.model_cache import seed_model_cache
from dynamo_operator.planner.programs import Programs

Report = Callable[[str], None]

NEEDED_BYTES: Final = 3 * 1024**3
REGISTRY_TRIES: Final = 4
_LOCK_SECONDS: Final = 0.5
_PERMANENT: Final = ("No matching distribution", "ResolutionImpossible", "No space left")

# Importing what a search imports proves that it can run, and leaves the byte code of just that:
# compiling all 1.7 GB would take longer than the search.
_WARM_UP: Final = """
import importlib, importlib.metadata, json, pathlib
for name in (
    "aisimulate.supervision", "aisimulate.resource_worker", "aisimulate.main",
    "aisimulate.sweeper.search", "dynamo.replay.simulation", "dynamo.router.simulation",
    "dynamo.planner.simulation", "dynamo.aisimulate.output.dgd.renderers.aic.renderer",
    "dynamo.aisimulate.output.dgd.renderers.direct.renderer", "aisimulate.generator.api",
    "aisimulate.generator.request", "dynamo.profiler.utils.dgd_materialization", "ruamel.yaml",
):
    importlib.import_module(name)
core = importlib.import_module("aisimulate_core")
names = ("ai-dynamo", "aisimulate")
(command,) = importlib.metadata.entry_points(group="console_scripts", name="aisimulate")
print(json.dumps({
    "versions": {name: importlib.metadata.version(name) for name in names},
    "command": command.value,
    "models": str(pathlib.Path(core.__path__[0]) / "model_configs"),
}))
"""


class _RegistryError(Exception):
    """The package registry failed in a way that may pass."""


def install(
    environ: Mapping[str, str],
    *,
    python: str | None = None,
    root: Path | None = None,
    report: Report = lambda _: None,
    programs: Programs | None = None,
    sleep: Callable[[float], None] | None = None,
) -> PlannerEnvironment:
    """Make the planner environment, or what is missing of it, and return it.

    Args:
        environ: the environment of pip: proxies, indexes, certificates.
        python: interpreter to use instead of the running one.
        root: cache directory to use instead of the default one.
        report: is told, in lines for people, what takes time.
        programs: runs what it needs; another thread may stop it.
        sleep: waits between tries of the registry.

    Raises:
        PlannerError: it could not be made; one line.
        StoppedError: `programs` was stopped; nothing half made is left.
    """
    programs = programs or Programs()
    layout = Layout(root or cache_root(environ), Interpreter.find(python))
    try:
        return layout.describe()
    except PlannerMissingError:
        pass
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        with _locked(layout.lock, report, programs.sleep):
            maker = _Maker(layout, environ, report, programs, sleep or programs.sleep)
            maker.make()
    except OSError as error:
        raise PlannerError(f"planner environment in {layout.root}: {error}") from None
    return layout.describe()


class _Maker:
    """Makes the layers that are missing; the caller holds the lock."""

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        report: Report,
        programs: Programs,
        sleep: Callable[[float], None],
    ) -> None:
        self._layout = layout
        # The environment's own Python settings (paths, no byte code) are not the new one's.
        self._environ = {k: v for k, v in environ.items() if not k.startswith("PYTHON")}
        self._report = report
        self._programs = programs
        self._sleep = sleep

    def make(self) -> None:
        _remove_leftovers(self._layout.root)
        if not _is_complete(self._layout.upstream):
            with _replacing(self._layout.upstream) as path:
                self._make_upstream(path)
        if not _is_complete(self._layout.environment):
            with _replacing(self._layout.environment) as path:
                self._make_environment(path)

    def _make_upstream(self, path: Path) -> None:
        free = shutil.disk_usage(self._layout.root).free
        if free < NEEDED_BYTES:
            raise PlannerError(
                f"planner environment in {self._layout.root}: {free >> 20} MiB free; "
                f"needs {NEEDED_BYTES >> 20}"
            )
        interpreter = self._shared_interpreter()
        is_copy = interpreter != self._layout.interpreter
        variables = interpreter.library_variables() if is_copy else {}
        self._environ |= variables
        self._report("installing AISimulate and Dynamo (once; 1.7 GB, about two minutes)")
        self._run([str(interpreter.executable), "-m", "venv", str(path)], "venv")
        environment_python = str(path / "bin" / "python")
        self._install_packages(environment_python)
        self._report("preparing AISimulate's modules")
        answer = self._run([environment_python, "-c", _WARM_UP], "import")
        record = json.loads(answer.splitlines()[-1])  # modules may print, too
        seed_model_cache(Path(record.pop("models")), path / MODELS_DIRECTORY)
        record["versions"]["python"] = interpreter.version
        record |= {"interpreter": str(interpreter.executable), "variables": variables}
        _drop_scripts(path / "bin")
        _write_record(path, record)

    def _shared_interpreter(self) -> Interpreter:
        """Return the interpreter, or a copy of it where its own place is closed to other users."""
        interpreter = self._layout.interpreter
        if interpreter.is_shared or not must_be_shared():
            return interpreter
        copy = interpreter.copy_in(self._layout.root)
        if not copy.prefix.exists():
            self._report(f"copying Python {interpreter.version}: {interpreter.prefix} is private")
            with _replacing(copy.prefix) as path:
                interpreter.copy_to(path)
        return copy

    def _install_packages(self, python: str) -> None:
        command = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--no-input"]
        command += ["--disable-pip-version-check", *REQUIREMENTS]
        tries = Retrying(
            retry=retry_if_exception_type(_RegistryError),
            stop=stop_after_attempt(REGISTRY_TRIES),
            wait=wait_exponential(multiplier=2, max=30),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            tries(self._run_pip, command)
        except _RegistryError as error:
            raise PlannerError(f"package registry: {error}") from None

    def _run_pip(self, command: Sequence[str]) -> None:
        try:
            self._run(command, "pip")
        except PlannerError as error:
            if any(text in str(error) for text in _PERMANENT):
                raise
            self._report(f"trying again: {error}")
            raise _RegistryError(str(error)) from None

    def _make_environment(self, path: Path) -> None:
        layout = self._layout
        record = json.loads((layout.upstream / RECORD_FILE).read_text(encoding="utf-8"))
        self._environ |= record["variables"]
        command = [record["interpreter"], "-m", "venv", "--without-pip", str(path)]
        self._run(command, "venv")
        _drop_scripts(path / "bin")
        library = Path("lib") / f"python{layout.interpreter.minor_version}" / "site-packages"
        site_packages = path / library
        install_adapter(site_packages)
        upstream = str(layout.upstream / library)
        (site_packages / "upstream.pth").write_text(
            f"import site; site.addsitedir({upstream!r})\n", encoding="utf-8"
        )
        module, _, function = record["command"].partition(":")
        script = path / "bin" / "aisimulate"
        script.write_text(
            f"#!{layout.environment}/bin/python\n"
            f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)
        _write_record(path, {})

    def _run(self, command: Sequence[str], what: str) -> str:
        done = self._programs.run(command, self._environ)
        if done.returncode:
            raise PlannerError(f"{what}: {_last_error(done.stderr) or f'exit {done.returncode}'}")
        return done.stdout


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1].removeprefix("ERROR: ")


def _write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Mark a layer as complete."""
    (path / RECORD_FILE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _is_complete(path: Path) -> bool:
    return (path / RECORD_FILE).is_file()


def _drop_scripts(directory: Path) -> None:
    """Remove all but the interpreter: scripts name the directory in which they were made."""
    for file in directory.iterdir():
        if not file.name.startswith("python"):
            file.unlink()


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Offer a directory beside the target, then put it in the target's place."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    temporary.chmod(0o755)
    old_umask = os.umask(0o022)
    try:
        yield temporary
        if target.exists():  # incomplete, or this would not be running
            shutil.rmtree(target)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        os.umask(old_umask)


def _remove_leftovers(root: Path) -> None:
    """Remove what an installation left that was killed; the lock says that none is running."""
    for path in root.glob(".*.*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _locked(path: Path, report: Report, sleep: Callable[[float], None]) -> Iterator[None]:
    with path.open("w", encoding="ascii") as file:
        if not _lock(file):
            report("waiting for another installation of the planner environment")
            while not _lock(file):
                sleep(_LOCK_SECONDS)
        yield


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
