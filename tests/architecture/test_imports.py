"""What importing a package loads, measured in a fresh interpreter."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("informers", "dynamo_operator", "reconcilers")


def loaded_by(statement):
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import sys\n{statement}\nprint(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ran.stdout.split())


def ours(loaded):
    return {name for name in loaded if name.partition(".")[0] in OURS}


def below(loaded, *packages):
    return {n for n in loaded if any(n == p or n.startswith(f"{p}.") for p in packages)}


def test_the_root_package_is_inert():
    root = ast.parse((ROOT / "dynamo_operator" / "__init__.py").read_text())

    assert len(root.body) == 1
    assert ast.get_docstring(root)
    assert ours(loaded_by("import dynamo_operator")) == {"dynamo_operator"}


def test_informers_load_only_the_standard_library():
    loaded = loaded_by(
        "import pkgutil, importlib, informers\n"
        "for m in pkgutil.iter_modules(informers.__path__):\n"
        "    importlib.import_module('informers.' + m.name)"
    )
    roots = {name.partition(".")[0] for name in loaded}

    assert {n for n in roots if n not in sys.stdlib_module_names} <= {
        "informers",
        "__main__",
        *(n for n in roots if n.startswith(("_", "sitecustomize", "distutils-precedence"))),
    }


def test_the_framework_loads_nothing_of_dynamo():
    loaded = loaded_by(
        "import informers, dynamo_operator.runtime as r\n"
        "for name in r.__all__:\n"
        "    getattr(r, name)"
    )

    assert below(loaded, "dynamo_operator.runtime.manager")
    assert ours(loaded) - below(loaded, "informers", "dynamo_operator.runtime") == {
        "dynamo_operator"
    }


def test_the_client_loads_neither_manager_nor_controllers_nor_cache():
    loaded = loaded_by("import dynamo_operator.runtime.client")

    assert below(loaded, "dynamo_operator.runtime.client")
    assert not below(
        loaded,
        *(f"dynamo_operator.runtime.{m}" for m in ("manager", "controller", "builder", "cache")),
        "kubernetes_asyncio",
        "prometheus_client",
        "informers.shared_informer",
    )


@pytest.mark.parametrize("package", ["informers", "dynamo_operator.runtime"])
def test_importing_the_framework_loads_no_heavy_optional_library(package):
    loaded = loaded_by(f"import {package}")

    assert not below(loaded, "kubernetes_asyncio", "prometheus_client", "cryptography", "ruamel")


def importers_of(library):
    for package in OURS:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                if library in {name.partition(".")[0] for name in names}:
                    yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize(
    ("library", "modules"),
    [
        # Beside their module, two name its types in annotations, which no run of them loads.
        (
            "kubernetes_asyncio",
            {"kubernetes_asyncio_bridge", "client", "config"},
        ),
        ("aiohttp", {"server", "kubelet_server"}),  # nothing that a controller needs
    ],
)
def test_a_heavy_library_is_known_to_few_modules(library, modules):
    assert {name.rpartition(".")[2] for name in importers_of(library)} == modules


def test_any_public_module_of_the_runtime_can_be_the_first_that_is_imported():
    """A child of one process each, which has loaded the libraries but nothing of ours."""
    failures = subprocess.run(
        [sys.executable, "-c", FIRST_IMPORTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert failures.stdout.split() == []


FIRST_IMPORTS = """
import importlib, os
import aiohttp, msgspec, pydantic, structlog, yaml
from dynamo_operator import runtime

for module in sorted(set(runtime._MODULE_OF.values())):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            importlib.import_module(f"dynamo_operator.runtime.{module}")
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        print(module)
"""
