"""Every module of ours is in a layer, and none imports upward."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("informers", "dynamo_operator", "reconcilers")
INERT = {"dynamo_operator"}  # a docstring; whatever imports below it loads it


def modules():
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def contracts():
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["importlinter"]["contracts"]


def test_every_module_is_in_exactly_one_layer():
    (layers,) = (c["layers"] for c in contracts() if c["type"] == "layers")
    names = [name.strip(" ()") for layer in layers for name in layer.split("|")]

    def layers_of(module):
        return [name for name in names if module == name or module.startswith(f"{name}.")]

    assert len(names) == len(set(names))
    misplaced = {m: layers_of(m) for m in modules() if m not in INERT and len(layers_of(m)) != 1}
    assert misplaced == {}


def test_the_import_contracts_are_kept():
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    ran = subprocess.run(
        [sys.executable, "-c", command, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
