"""The programs by which the manifests are tested."""

from __future__ import annotations

import subprocess

import pytest

from hack.go_programs import ProgramMissingError
from hack.manifest_tools import helm, kubeconform

TOOLS = {
    "helm": (helm, ["version", "--template", "{{.Version}}"], "v3.22.0"),
    "kubeconform": (kubeconform, ["-h"], "Usage:"),
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_that_was_built_is_of_the_version_that_is_pinned(name: str):
    tool, arguments, told = TOOLS[name]
    try:
        executable = tool(build=False)
    except ProgramMissingError as missing:
        pytest.skip(f"{missing}: run hack/install_manifest_tools")

    answer = subprocess.run([executable, *arguments], capture_output=True, text=True, check=False)

    assert told in answer.stdout + answer.stderr


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_that_was_not_built_is_said_to_be_missing(
    name: str, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(ProgramMissingError, match=f"{name} is not built"):
        TOOLS[name][0](build=False)
