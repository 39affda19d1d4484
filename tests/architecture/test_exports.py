"""Each public name of the framework is exported from exactly one place, and is documented there."""

import importlib
import inspect

import pytest

PACKAGES = (
    "dynamo_operator.runtime",
    "dynamo_operator.runtime.client",
    "dynamo_operator.runtime.webhooks",
    "dynamo_operator.testing",
)


def exports(package):
    module = importlib.import_module(package)
    return {name: getattr(module, name) for name in module.__all__}


def test_no_name_is_exported_twice():
    homes: dict[str, list[str]] = {}
    for package in PACKAGES:
        for name in exports(package):
            homes.setdefault(name, []).append(package)

    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_informers_export_names_from_the_modules_that_define_them_only():
    informers = importlib.import_module("informers")

    assert not hasattr(informers, "__all__")


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_exported_is_documented(package):
    things = {
        name: thing
        for name, thing in exports(package).items()
        if inspect.isclass(thing) or inspect.isfunction(thing)
    }

    assert things
    assert [name for name, thing in things.items() if not inspect.getdoc(thing)] == []
