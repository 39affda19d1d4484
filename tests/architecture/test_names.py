"""Generic packages do not know Dynamo, and public names have one place."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERIC = (
    "informers",
    "dynamo_operator/runtime",
    "dynamo_operator/apiserver",
    "dynamo_operator/local_cluster",
)
IMPORT = re.compile(r"^\s*(from|import) dynamo_operator\b")
PUBLIC = (
    "dynamo_operator.runtime",
    "dynamo_operator.runtime.client",
    "dynamo_operator.runtime.webhooks",
    "dynamo_operator.testing",
)


@pytest.mark.parametrize("folder", GENERIC)
def test_a_generic_package_says_our_name_only_to_import(folder):
    offending = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "dynamo" in line.lower() and "dynamo" in IMPORT.sub("", line).lower()
    ]

    assert offending == []


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_can_be_imported(package):
    module = importlib.import_module(package)

    assert sorted(module.__all__) == sorted(set(module.__all__))
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))


def test_a_public_name_is_in_one_package():
    packages: dict[str, list[str]] = {}
    for package in PUBLIC:
        for name in importlib.import_module(package).__all__:
            packages.setdefault(name, []).append(package)

    assert {name: places for name, places in packages.items() if len(places) > 1} == {}


@pytest.mark.parametrize(
    "package",
    ["dynamo_operator.runtime", "dynamo_operator.runtime.webhooks", "dynamo_operator.testing"],
)
def test_lazy_names_are_the_public_ones(package):
    module = importlib.import_module(package)

    assert set(module._MODULE_OF) == set(module.__all__)


def test_a_name_that_a_package_does_not_have_is_an_attribute_error():
    runtime = importlib.import_module("dynamo_operator.runtime")

    with pytest.raises(AttributeError, match="has no attribute 'Operator'"):
        _ = runtime.Operator


def test_no_module_is_called_by_a_word_that_says_nothing():
    banned = {"utils", "util", "common", "helpers", "base", "misc"}
    found = [
        info.name
        for package in ("informers", "dynamo_operator", "reconcilers")
        for info in pkgutil.walk_packages([str(ROOT / package)], f"{package}.")
        if info.name.rpartition(".")[2] in banned
    ]

    assert found == []
