from pathlib import Path

import pytest

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.admission.validation import validate
from dynamo_operator.aisimulate.document import load_document
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.generate.crds import custom_resource_definition
from dynamo_operator.hardware.inventory import GpuInventory
from dynamo_operator.testing import Cluster

RELAY = Path(__file__).parents[3] / "manifests/samples/pool_relay.yaml"
SAMPLES = sorted(set(RELAY.parent.glob("*.yaml")) - {RELAY})
DISCOVERED = GpuInventory("h200_sxm", "NVIDIA-H200", total=8, gpus_per_node=8)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.virtual_time
async def test_a_sample_is_taken_as_it_is_and_can_be_searched(path):
    request = DynamoGraphDeploymentRequest.model_validate(load_document(path.read_text("utf-8")))
    request.metadata.namespace = "default"
    async with Cluster.start(crds=[custom_resource_definition(type(request))]) as cluster:
        made = await cluster.client.create(request)

    assert made.spec.to_dict() == request.spec.to_dict()
    findings = validate(complete(made.spec, inventory=DISCOVERED))
    assert (findings.denials, findings.warnings) == ([], [])


@pytest.mark.virtual_time
async def test_the_relay_is_taken_as_it_is():
    relay = DynamoPoolRelay.model_validate(load_document(RELAY.read_text("utf-8")))
    relay.metadata.namespace = "default"
    async with Cluster.start(crds=[custom_resource_definition(type(relay))]) as cluster:
        made = await cluster.client.create(relay)

    assert made.spec.to_dict() == relay.spec.to_dict()
