from __future__ import annotations

import argparse

import pytest

from dynamo_operator.app import OperatorSettings, run_settings
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.settings import (
    add_settings_flags,
    read_settings,
    setting_meaning,
    setting_paths,
)


def settings(*flags: str, **environ: str) -> OperatorSettings:
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    found = read_settings(parser.parse_args(flags), environ)
    return OperatorSettings.model_validate({"operator_image": "o:1", **found})


def test_a_flag_wins_over_environment_and_that_over_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("runHistoryLimit: 3\nplanner: {cachePvc: from-file}\nfallbackGpusPerNode: 4\n")

    found = settings(
        f"--config={file}",
        "--run-history-limit=5",
        DYNAMO_OPERATOR_RUN_HISTORY_LIMIT="4",
        DYNAMO_OPERATOR_PLANNER__CACHE_PVC="from-environment",
    )

    assert found.run_history_limit == 5
    assert found.planner.cache_pvc == "from-environment"
    assert found.fallback_gpus_per_node == 4


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        pytest.param("--image-pull-secrets=a, b", ("a", "b"), id="commas"),
        pytest.param('--image-pull-secrets=["a"]', ("a",), id="json"),
    ],
)
def test_lists_are_written_with_commas_or_as_json(flag, expected):
    assert settings(flag).image_pull_secrets == expected


def test_null_takes_a_default_away():
    assert settings("--pod-security.run-as-user=null").pod_security.run_as_user is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("runHistorylimit: 3", "no setting is called run_historylimit", id="key"),
        pytest.param("a: [", "line 1, column 5", id="syntax"),
        pytest.param("a: 1\n---\nb: 2", "more than one document", id="documents"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path, content, message):
    file = tmp_path / "config.yaml"
    file.write_text(content)

    with pytest.raises(CliError, match=message):
        settings(f"--config={file}")


def test_a_tag_of_digits_stays_text(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text('dgdrDefaultImage: "r.lab/dynamo-planner:5060547"\ndynamoVersion: "1.6.0"\n')

    assert run_settings(settings(f"--config={file}")).planner.image.endswith(":5060547")


@pytest.mark.parametrize("path", list(setting_paths()), ids=".".join)
def test_help_tells_what_each_setting_means(path):
    assert setting_meaning(path)
