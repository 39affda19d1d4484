"""Where planner environments are, what is in one, and what a process needs to run in it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dynamo_operator.planner.adapter_layer import adapter_digest
from dynamo_operator.planner.interpreter import Interpreter

DYNAMO_VERSION: Final = "1.6.0.dev20261023"
REQUIREMENTS: Final = (
    f"ai-dynamo=={DYNAMO_VERSION}",
    "scikit-learn",  # Dynamo's manifest finalization imports it without declaring it
    "ruamel.yaml>=0.18.10",  # the snapshot format's
)
SYSTEM_ROOT: Final = Path("/var/cache/dynamo-operator/planner")
RECORD_FILE: Final = "planner.json"
MODELS_DIRECTORY: Final = "huggingface"
_LAYOUT: Final = "1"


class PlannerError(Exception):
    """The planner environment cannot be made or used; one line says why and what helps."""


class PlannerMissingError(PlannerError):
    """There is no complete planner environment of these versions."""


@dataclass(frozen=True, slots=True)
class PlannerEnvironment:
    """A complete environment.

    `variables` is what every process in it needs, whatever else it is given.
    """

    path: Path
    python: Path
    versions: Mapping[str, str]
    hf_home: Path
    models: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def executables(self) -> Path:
        """The directory to put first on PATH; it holds `aisimulate` and `python`."""
        return self.path / "bin"

    def offline_variables(self) -> dict[str, str]:
        """Return what makes the seeded model configurations take the hub's place."""
        return {"HF_HUB_CACHE": str(self.hf_home / "hub"), "HF_HUB_OFFLINE": "1"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of the environment that belongs to an interpreter and to the code at hand."""

    root: Path
    interpreter: Interpreter

    @property
    def key(self) -> str:
        """Names the upstream layer: changes with the versions asked for."""
        asked = "\n".join((_LAYOUT, self.interpreter.version, *REQUIREMENTS))
        digest = hashlib.sha256(asked.encode()).hexdigest()[:8]
        return f"{DYNAMO_VERSION}-py{self.interpreter.minor_version}-{digest}"

    @property
    def upstream(self) -> Path:
        """The large layer."""
        return self.root / f"upstream-{self.key}"

    @property
    def environment(self) -> Path:
        """The small layer on top: the environment itself."""
        return self.root / f"env-{self.key}-{adapter_digest()}"

    @property
    def lock(self) -> Path:
        """Held while something under the root is being made."""
        return self.root / ".lock"

    def describe(self) -> PlannerEnvironment:
        """Return the environment.

        Raises:
            PlannerMissingError: it is not there, or not complete.
        """
        record = self._record(self.upstream)
        self._record(self.environment)
        hf_home = self.upstream / MODELS_DIRECTORY
        return PlannerEnvironment(
            path=self.environment,
            python=self.environment / "bin" / "python",
            versions=record["versions"],
            hf_home=hf_home,
            models=tuple(_models(hf_home / "hub")),
            variables=record["variables"],
        )

    def _record(self, path: Path) -> dict[str, Any]:
        try:
            record = json.loads((path / RECORD_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise PlannerMissingError(
                f"no planner environment for Python {self.interpreter.version} in {self.root}: "
                "run `dynamo-operator planner install`"
            ) from None
        return dict(record)


def cache_root(environ: Mapping[str, str]) -> Path:
    """Return the system's cache where it may be written, else the user's."""
    existing = next(path for path in (SYSTEM_ROOT, *SYSTEM_ROOT.parents) if path.exists())
    if os.access(existing, os.W_OK | os.X_OK):
        return SYSTEM_ROOT
    user_cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "/")) / ".cache")
    return Path(user_cache) / "dynamo-operator" / "planner"


def describe(environ: Mapping[str, str], *, python: str | None = None) -> PlannerEnvironment:
    """Return the installed environment that belongs to the code at hand.

    Raises:
        PlannerMissingError: there is none; says how to make it.
        PlannerError: the interpreter cannot be used.
    """
    return Layout(cache_root(environ), Interpreter.find(python)).describe()


def status(environ: Mapping[str, str], *, python: str | None = None) -> dict[str, str]:
    """Return, as labels and texts for people, what is installed and where."""
    layout = Layout(cache_root(environ), Interpreter.find(python))
    try:
        environment = layout.describe()
    except PlannerMissingError as error:
        return {"root": str(layout.root), "installed": "no", "problem": str(error)}
    return {
        "root": str(layout.root),
        "installed": "yes",
        "environment": str(environment.path),
        **environment.versions,
        "model configurations": str(len(environment.models)),
    }


def _models(hub: Path) -> Iterator[str]:
    for directory in sorted(hub.glob("models--*--*")):
        organization, _, name = directory.name.removeprefix("models--").partition("--")
        yield f"{organization}/{name}"
