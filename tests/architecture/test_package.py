"""What the package's metadata and its tests' configuration promise."""

import tomllib

from tests.architecture.named_tests import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_package_tells_its_licence():
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert [(ROOT / name).is_file() for name in PROJECT["project"]["license-files"]] == [True]


def test_every_test_has_a_time_limit():
    assert 0 < PROJECT["tool"]["pytest"]["ini_options"]["timeout"] <= 300
