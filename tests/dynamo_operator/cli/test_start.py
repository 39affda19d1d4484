"""What keeps `dynamo-operator start` from starting is told in one line that names it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from dynamo_operator.certificates import CertificateAuthority
from dynamo_operator.cli.__main__ import main
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.local import grant_operator
from dynamo_operator.cli.operator_errors import operator_errors
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import LeadershipLostError, ShutdownTimeoutError
from dynamo_operator.runtime.builtin_kinds import ClusterRole, CustomResourceDefinition
from dynamo_operator.runtime.cache import CacheSyncError
from dynamo_operator.settings import LEASE_NAME
from dynamo_operator.testing.cluster import Cluster
from informers.clock import SystemClock
from informers.objects import ObjectKey
from tests.dynamo_operator.cli.test_commands import command, free_port

IMAGE = "--operator-image=lab/op:1"
HOST = "127.0.0.1"
OWN_LEASE = "--leader-election.namespace=dynamo-operator-system"


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """The logs of this process, as they were configured before a command ran in it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def kubeconfig_of(server: str) -> str:
    return json.dumps(
        {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        }
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["--run-histories=3"],
            2,
            "dynamo-operator: unrecognized arguments: --run-histories=3; see "
            "`dynamo-operator start --help`",
        ),
        (
            ["--run-history=3"],
            2,
            "dynamo-operator: unrecognized arguments: --run-history=3; see "
            "`dynamo-operator start --help`",
        ),
        (["--kubeconfig=/nowhere"], 1, "dynamo-operator: kubeconfig /nowhere: no such file"),
        (["--kubeconfig={file}", "--context=x"], 1, "dynamo-operator: {file}: no context 'x'"),
        (
            ["--config=/nowhere.yaml"],
            2,
            "dynamo-operator: /nowhere.yaml: cannot be read: No such file or directory",
        ),
        (
            ["--once=dgdr/default"],
            2,
            "dynamo-operator: --once: 'dgdr/default': must be KIND/NAMESPACE/NAME",
        ),
        (["--dry-run"], 2, "dynamo-operator: --dry-run: goes with --once only"),
        (["--kubeconfig={directory}"], 1, "dynamo-operator: {directory}: Is a directory"),
    ],
    ids=[
        *("flag", "part of a flag", "kubeconfig", "context", "config", "form of an object"),
        *("dry run of everything", "unreadable kubeconfig"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, capsys, words, code, message):
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig_of("https://lab.test"))

    places = {"file": file, "directory": tmp_path}

    found = ended(IMAGE, *(word.format(**places) for word in words))

    assert found == code
    assert one_line(capsys).startswith(message.format(**places))


def test_a_kubeconfig_that_is_no_yaml_is_named_with_line_and_column(tmp_path: Path, capsys):
    file = tmp_path / "kubeconfig"
    file.write_text("clusters:\n- name: [\n")

    assert ended(IMAGE, f"--kubeconfig={file}") == 1
    assert one_line(capsys).startswith(f"dynamo-operator: {file}: line 3, column 1: ")


def test_an_api_server_that_does_not_answer_is_named(tmp_path: Path, capsys):
    file = tmp_path / "kubeconfig"
    server = f"http://{HOST}:{free_port()}"
    file.write_text(kubeconfig_of(server))

    assert ended(IMAGE, f"--kubeconfig={file}", "--logging.level=error") == 1
    assert one_line(capsys).startswith(
        f"dynamo-operator: the API server {server.removeprefix('http://')} cannot be reached: "
    )


@pytest.mark.parametrize(
    ("words", "code"), [([], 0), (["--once=dgdr/default/a"], 143)], ids=["operator", "one object"]
)
def test_what_a_signal_ends_is_done_only_if_it_had_no_end_of_its_own(
    tmp_path: Path, monkeypatch, words, code
):
    async def check(*_args, **_options):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    monkeypatch.setattr("dynamo_operator.cli.start.check_kinds", check)
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig_of("https://lab.test"))

    assert ended(IMAGE, f"--kubeconfig={file}", *words) == code


@pytest.mark.parametrize(
    "error",
    [
        CacheSyncError("caches not synced after 120 s: pods.v1"),
        ShutdownTimeoutError("manager 'a': still running after the grace period of 25 s: run"),
        LeadershipLostError("the lease a/b was lost"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_ends_an_operator_is_told_in_its_own_words(error):
    with pytest.raises(CliError) as told, operator_errors():
        raise error

    assert str(told.value) == str(error)


def ended(*words: str) -> int:
    """Its exit code, with which argparse ends the process itself."""
    try:
        code: Any = main(["start", *words])
    except SystemExit as end:
        code = end.code
    assert isinstance(code, int)
    return code


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    (line,) = (each for each in captured.err.splitlines() if not each.startswith("{"))
    assert captured.out == ""
    return line


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as cluster:
        yield cluster


async def refusal(cluster: Cluster, *words: str, user: str = "") -> str:
    kubeconfig = cluster.kubeconfig(user, groups=()) if user else cluster.kubeconfig()
    code, _, errors = await command("start", f"--kubeconfig={kubeconfig}", IMAGE, *words)
    told = [line for line in errors.splitlines() if not line.startswith("{")]
    assert (code, len(told)) == (1, 1), errors
    return told[0].removeprefix("dynamo-operator: ")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_port_that_is_taken_is_named_with_its_flag(cluster: Cluster):
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = await refusal(
            cluster,
            f"--server.health-probe.bind-address={HOST}",
            f"--server.health-probe.port={port}",
        )

    assert told == (
        f"{HOST}:{port}: Address already in use; choose another with --server.health-probe.port"
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_certificate_of_another_key_is_named(cluster: Cluster, tmp_path: Path):
    authority = CertificateAuthority.create(SystemClock().now())
    one, other = (authority.issue("a", SystemClock().now(), hosts=[HOST]) for _ in range(2))
    (tmp_path / "tls.crt").write_bytes(one.certificate)
    (tmp_path / "tls.key").write_bytes(other.key)

    told = await refusal(
        cluster,
        "--webhooks=manual",
        f"--server.webhook.cert-dir={tmp_path}",
        f"--server.webhook.host={HOST}",
        "--server.webhook.port=0",
    )

    assert told == (
        f"{tmp_path}/tls.crt, {tmp_path}/tls.key: must be a certificate and its unencrypted key, "
        "in PEM; key values mismatch"
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_permission_that_is_missing_is_named_with_the_role_that_grants_it(
    cluster: Cluster,
):
    user = await grant_operator(cluster.client)
    role = await cluster.client.get(ClusterRole, ObjectKey("", "dynamo-operator-manager"))
    rules = [rule for rule in role.rules if "jobs" not in rule["resources"]]
    await cluster.client.replace(role.model_copy(update={"rules": rules}))

    told = await refusal(cluster, OWN_LEASE, user=user)
    stranger = await refusal(cluster, "--watch-namespace=lab", user="stranger")

    assert told == (
        f"{user} may not get, list, watch, create, patch, delete jobs.batch: the role "
        "dynamo-operator-manager is to grant it; kubectl apply --server-side -k manifests/rbac, "
        "or helm upgrade, restores the role"
    )
    assert stranger.startswith(
        "stranger may not create, patch events.events.k8s.io in namespace lab; get, list, watch "
        "dynamographdeploymentrequests.nvidia.com in namespace lab; "
    )
    assert " more: the role dynamo-operator-manager is to grant it; " in stranger


@pytest.mark.asyncio(loop_scope="module")
async def test_a_lease_that_may_not_be_written_is_named(cluster: Cluster):
    await grant_operator(cluster.client)

    told = await refusal(
        cluster,
        "--leader-election.namespace=elsewhere",
        user="system:serviceaccount:dynamo-operator-system:dynamo-operator",
    )

    assert (
        "may not create leases.coordination.k8s.io in namespace elsewhere; get, update "
        f"leases.coordination.k8s.io {LEASE_NAME} in namespace elsewhere: the role "
        "dynamo-operator-leader-election is to grant it" in told
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_kinds_that_are_not_installed_are_named_with_the_way_to_install_them(
    cluster: Cluster,
):
    name = "dynamographdeploymentruns.nvidia.com"
    await cluster.client.delete(CustomResourceDefinition, ObjectKey("", name))

    told = await refusal(cluster)

    assert told == (
        "the cluster does not serve nvidia.com/v1beta2 DynamoGraphDeploymentRun: "
        "`dynamo-operator crds apply` installs the kinds; "
        "--feature-gates.dgdr-v1-beta2=false does without"
    )
