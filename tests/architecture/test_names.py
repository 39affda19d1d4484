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
PUBLIC = ("dynamo_operator.runtime", "dynamo_operator.runtime.client", "dynamo_operator.testing")


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


def test_a_public_name_means_one_thing():
    meanings: dict[str, set[int]] = {}
    for package in PUBLIC:
        module = importlib.import_module(package)
        for name in module.__all__:
            meanings.setdefault(name, set()).add(id(getattr(module, name)))

    assert {name: len(ids) for name, ids in meanings.items() if len(ids) > 1} == {}


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
