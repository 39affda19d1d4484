"""Manifests that `request submit` refuses by themselves: no server is asked."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dynamo_operator.cli.__main__ import main
from tests.main_job.manifests import KIND, OLD, OTHER_GROUP, SETTINGS, SPEC, manifest


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (
            OLD,
            [
                "spec.model: is an object now; write spec.model.name",
                "spec.backend: is not a field of v1beta2; use spec.backends",
                "spec.autoApply: is not a field of v1beta2; remove it: deploy the Candidate",
                "spec.sla: is not a field of v1beta2; use spec.objective.sla with ttftMs, itlMs",
            ],
        ),
        (
            SETTINGS,
            ["spec.profilingConfig: is not a field of v1beta2; use spec.aisimulate.inputOverrides"],
        ),
        (
            OTHER_GROUP,
            ["apiVersion 'dynamo.nvidia.com/v1alpha1'", "only nvidia.com/v1beta2"],
        ),
        ({**manifest(SPEC), "kind": "Secret"}, ["kind 'Secret'", KIND.kind]),
        (manifest(SPEC, name=""), ["metadata.name: is missing"]),
        ({k: v for k, v in manifest(SPEC).items() if k != "spec"}, ["spec: is missing"]),
    ],
    ids=["older version", "invented settings", "other group", "other kind", "no name", "no spec"],
)
def test_submit_says_what_to_write_instead(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    written: dict[str, Any],
    lines: list[str],
):
    told = submit_fails(tmp_path, capsys, json.dumps(written))

    assert all(line in told for line in lines), told
    assert all("document 1: " in line for line in told.splitlines())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("spec:\n  model: [a\n  budget: 8\n", "line 3, column 9: "),
        ("a: 1\n\tb: 2\n", "line 2, column 1: found character '\\t'"),
        ("kind: A\nkind: B\n", 'line 2, column 1: found duplicate key "kind"'),
        ("- a\n- b\n", "document 1 is not an object"),
        ("# nothing\n", "holds no document"),
        ("a: !!python/name:os.system\n", "line 1, column 4: "),
    ],
    ids=["open bracket", "tab", "key twice", "a list", "empty", "a tag"],
)
def test_submit_says_where_a_file_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: str
):
    told = submit_fails(tmp_path, capsys, text)

    assert told.startswith("dynamo-operator: ")
    assert f"{tmp_path / 'request.yaml'}: {line}" in told
    assert len(told.splitlines()) == 1


OVERRIDES = """\
apiVersion: nvidia.com/v1beta2
kind: DynamoGraphDeploymentRequest
metadata: {name: a}
spec: &spec
  model: {name: m}
  aisimulate:
    inputOverrides: """
LAUGHS = "".join(
    f"\n      {b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise("abcdefgh")
)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ("\n      a: &a [1, 1]" + LAUGHS, "its aliases expand to more than 200000 values"),
        ("{a: *spec}", "is nested too deeply at spec.aisimulate.inputOverrides; at most 500"),
        ("{a: [1, .nan]}", "spec.aisimulate.inputOverrides.a.1: is nan; must be a finite number"),
        ("{a: -.inf}", "spec.aisimulate.inputOverrides.a: is -inf; must be a finite number"),
        ("{? [a, b] : 1}", "inputOverrides.('a', 'b'): is no key; must be text"),
        ("{a: " * 600 + "1" + "}" * 600, "is nested too deeply"),
        ("{a: " * 20_000 + "1" + "}" * 20_000, "is nested too deeply"),
    ],
    ids=["laughs", "cycle", "nan", "infinity", "a list as key", "deep", "deeper than Python"],
)
def test_submit_sends_nothing_that_json_cannot_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], overrides: str, line: str
):
    """A null would delete what an override names, so a NaN must not become one on its way."""
    told = submit_fails(tmp_path, capsys, OVERRIDES + overrides + "\n")

    assert line in told
    assert len(told.splitlines()) == 1


GOOD = """\
apiVersion: nvidia.com/v1beta2
kind: DynamoGraphDeploymentRequest
metadata: {name: a}
spec:
  model: {name: m}
  hardware: {gpu: {sku: h200_sxm, budget: 8}}
  objective: {sla: {ttftMs: 100}}
  aisimulate: {inputOverrides: {engine: {mode: aggregated}}}
"""
PLACES = ("name: m", "budget: 8", "ttftMs: 100", "mode: aggregated")
FRAGMENTS = (
    *(".nan", "-.inf", "1e400", "&a [*a]", "{a: &b {c: *b}}", "*nobody", "!!python/tuple [1]"),
    *("{a: 1, a: 2}", "{a: 1, ? [b]: 2}", "? x", "[1, 2", "'open", "'\x00'", "\x07", "\ud800"),
    *("[" * 600 + "]" * 600, "{a: " * 600 + "}" * 600),
)


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda text: ascii(text[:20]))
@pytest.mark.parametrize("place", PLACES)
def test_what_no_value_can_be_is_refused_wherever_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, fragment: str
):
    text = GOOD.replace(place, f"{place.partition(':')[0]}: {fragment}")

    told = submit_fails(tmp_path, capsys, text)

    assert str(tmp_path / "request.yaml") in told
    assert len(told.splitlines()) == 1
    assert "Traceback" not in told


def test_of_a_good_file_only_the_missing_kubeconfig_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """So each refusal above is of its fragment."""
    file = tmp_path / "request.yaml"
    file.write_text(GOOD)
    kubeconfig = tmp_path / "none"

    assert main(["request", "submit", "-f", str(file), "--kubeconfig", str(kubeconfig)]) == 1
    assert capsys.readouterr().err == f"dynamo-operator: kubeconfig {kubeconfig}: no such file\n"


def submit_fails(directory: Path, capsys: pytest.CaptureFixture[str], text: str) -> str:
    """Submit a file that is wrong in itself; no server is asked."""
    file = directory / "request.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    code = main(["request", "submit", "-f", str(file), "--kubeconfig", str(directory / "none")])
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    return told.err
