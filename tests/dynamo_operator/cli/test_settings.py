from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from dynamo_operator.app import run_settings
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.settings import add_settings_flags, load_settings
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.settings.schema import all_settings


def settings(*flags: str, **environ: str) -> OperatorSettings:
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)
    return load_settings(parser.parse_args(["--operator-image=o:1", *flags]), environ)


def refusal(*flags: str, **environ: str) -> str:
    with pytest.raises(CliError) as refused:
        settings(*flags, **environ)
    assert refused.value.exit_code == 2
    return str(refused.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_a_flag_wins_over_environment_and_that_over_the_file(file):
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


def test_sections_of_sections_have_one_name_in_three_spellings(file):
    file.write_text("server: {healthProbe: {port: 1}}\nleaderElection: {enabled: false}\n")

    assert settings(f"--config={file}").server.health_probe.address == ":1"
    assert settings("--server.health-probe.port=1").server.health_probe.address == ":1"
    found = settings(DYNAMO_OPERATOR_SERVER__HEALTH_PROBE__PORT="1")
    assert found.server.health_probe.address == ":1"
    assert not settings(f"--config={file}").leader_election.enabled
    assert not settings(DYNAMO_OPERATOR_LEADER_ELECTION__ENABLED="false").leader_election.enabled


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(["--image-pull-secrets=a, b"], ("a", "b"), id="commas"),
        pytest.param(['--image-pull-secrets=["a"]'], ("a",), id="json"),
        pytest.param(["--image-pull-secrets=a", "--image-pull-secrets=b,c"], ("a", "b", "c")),
    ],
)
def test_lists_are_written_with_commas_or_as_json_or_one_by_one(flags, expected):
    assert settings(*flags).image_pull_secrets == expected


def test_a_watched_namespace_may_be_named_by_itself():
    assert settings("--watch-namespace=a", "--watch-namespace=b").watch_namespaces == ("a", "b")


def test_gpus_are_looked_for_in_the_whole_cluster_unless_some_namespaces_are_watched():
    assert settings().discovers_gpus
    assert not settings("--watch-namespace=a").discovers_gpus
    assert settings("--watch-namespace=a", "--gpu.discovery-enabled=true").discovers_gpus
    assert not settings("--gpu.discovery-enabled=false").discovers_gpus


def test_null_takes_a_default_away():
    assert settings("--pod-security.run-as-user=null").pod_security.run_as_user is None


def test_setting_a_part_of_a_section_leaves_the_defaults_of_its_other_parts():
    default = OperatorSettings(operator_image="o:1").planner.resources

    found = settings('--planner.resources.requests={"cpu": "2"}').planner.resources

    assert found.requests == {"cpu": "2"}
    assert found.limits == default.limits != {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(
            "runHistorylimit: 3",
            "runHistorylimit: is no setting; nearest is runHistoryLimit",
            id="key",
        ),
        pytest.param(
            "server: {metric: {port: 1}}",
            "server.metric: is no setting; nearest is server.metrics",
            id="section",
        ),
        pytest.param("run_history_limit: 3", "run_history_limit: is no setting", id="spelling"),
        pytest.param("planner: 5", "planner: must be a map of settings, not 5", id="no section"),
        pytest.param("runHistoryLimit: few", "runHistoryLimit: must be a whole number, not 'few'"),
        pytest.param("watchNamespaces: a", "watchNamespaces: must be a list, not 'a'", id="list"),
        pytest.param("dynamoVersion: 1.6", "dynamoVersion: must be text, not 1.6", id="text"),
        pytest.param(
            "planner: {tolerations: [{}, 5]}",
            "planner.tolerations[1]: must be a map, not 5",
            id="in a list",
        ),
        pytest.param(
            "planner: {nodeSelector: {gpu: true}}",
            "planner.nodeSelector[gpu]: must be text, not True",
            id="in a map",
        ),
        pytest.param(
            "server: {metrics: {port: 70000}}",
            "server.metrics.port: must be at most 65535, not 70000",
            id="port",
        ),
        pytest.param(
            "logging: {level: loud}",
            "logging.level: must be 'debug', 'info', 'warning' or 'error', not 'loud'",
            id="choice",
        ),
        pytest.param("a: [", "line 1, column 5: ", id="syntax"),
        pytest.param("a: 1\na: 2\n", "line 2, column 1: ", id="twice"),
        pytest.param("- a", "document 1 is not an object, but ['a']", id="no map"),
        pytest.param("a: 1\n---\nb: 2", "holds more than one document", id="documents"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(file, content, problem):
    file.write_text(content)

    message = refusal(f"--config={file}")

    assert message.startswith((f"{file}: {problem}", f"{file}{problem}"))
    assert "\n" not in message


def test_a_file_may_set_nothing(file):
    file.write_text("# all by default\nplanner:\n")

    assert settings(f"--config={file}") == settings()


def test_a_file_that_is_not_there_is_named():
    assert refusal("--config=/nowhere.yaml") == (
        "/nowhere.yaml: cannot be read: No such file or directory"
    )


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        (
            "DYNAMO_OPERATOR_RUN_HISTORY_LIMITS",
            "3",
            "DYNAMO_OPERATOR_RUN_HISTORY_LIMITS: is no setting; nearest is "
            "DYNAMO_OPERATOR_RUN_HISTORY_LIMIT; unset it",
        ),
        (
            "DYNAMO_OPERATOR_LEADER_ELECTION_ENABLED",
            "false",
            "DYNAMO_OPERATOR_LEADER_ELECTION_ENABLED: is no setting; nearest is "
            "DYNAMO_OPERATOR_LEADER_ELECTION__ENABLED; unset it",
        ),
        (
            "DYNAMO_OPERATOR_LEADER_ELECTION__ENABLED",
            "maybe",
            "DYNAMO_OPERATOR_LEADER_ELECTION__ENABLED: must be true or false, not 'maybe'",
        ),
        (
            "DYNAMO_OPERATOR_PLANNER__NODE_SELECTOR",
            "{a",
            "DYNAMO_OPERATOR_PLANNER__NODE_SELECTOR: '{a' is no JSON",
        ),
    ],
    ids=["name", "underscores", "type", "json"],
)
def test_a_wrong_variable_is_named(variable, text, message):
    assert refusal(**{variable: text}).startswith(message)


def test_variables_by_which_a_kubelet_tells_of_services_are_nobodys_settings():
    of_a_service = {
        "DYNAMO_OPERATOR_WEBHOOK_SERVICE_HOST": "10.0.0.1",
        "DYNAMO_OPERATOR_WEBHOOK_SERVICE_PORT": "443",
        "DYNAMO_OPERATOR_WEBHOOK_SERVICE_PORT_HTTPS": "443",
        "DYNAMO_OPERATOR_WEBHOOK_PORT": "tcp://10.0.0.1:443",
        "DYNAMO_OPERATOR_WEBHOOK_PORT_443_TCP_ADDR": "10.0.0.1",
    }

    assert settings(**of_a_service) == settings()
    assert "WEBHOOK_PORT: is no setting" in refusal(DYNAMO_OPERATOR_WEBHOOK_PORT="443")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--run-history-limit=0", "--run-history-limit: must be at least 1, not '0'"),
        ("--server.webhook.port=http", "--server.webhook.port: must be a whole number, not 'http'"),
        ("--pool-relay.module=a b", "--pool-relay.module: must match ^[A-Za-z_]"),
        ("--planner.node-selector=[1]", "--planner.node-selector: must be a map, not [1]"),
        ("--operator-image=", "--operator-image: must not be empty, not ''"),
    ],
)
def test_a_wrong_flag_is_named(flag, message):
    assert refusal(flag).startswith(message)


def test_settings_of_a_section_that_do_not_go_together_are_named():
    assert refusal("--leader-election.lease-seconds=5").startswith(
        "--leader-election.lease-seconds: leader election: lease_seconds=5"
    )


@pytest.mark.parametrize("address", ["", "0.0.0.0", "10.1.2.3"])
def test_metrics_that_anybody_can_read_stay_on_this_machine(address):
    plain = ["--server.metrics.port=8080", "--server.metrics.secure=false"]

    refused = refusal(*plain, f"--server.metrics.bind-address={address}")
    assert f"bind address {address!r} must be a loopback address" in refused
    for own in ("127.0.0.1", "::1", "localhost"):
        found = settings(*plain, f"--server.metrics.bind-address={own}").server.metrics
        assert found.address in ("127.0.0.1:8080", "[::1]:8080", "localhost:8080")


def test_a_tag_of_digits_stays_text(file):
    file.write_text('dgdrDefaultImage: "r.lab/dynamo-planner:5060547"\ndynamoVersion: "1.6.0"\n')

    assert run_settings(settings(f"--config={file}")).planner.image.endswith(":5060547")


@pytest.mark.parametrize("setting", list(all_settings()), ids=lambda setting: setting.key)
def test_help_tells_what_each_setting_means(setting):
    assert setting.meaning


def test_defaults_are_what_an_operator_without_settings_has():
    found = OperatorSettings(operator_image="o:1")

    assert settings() == found
