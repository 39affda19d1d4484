"""Requests as people write them, right and wrong; JSON is YAML."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from informers.objects import ObjectKey

KIND = DynamoGraphDeploymentRequest.resource_type
KEY = ObjectKey("default", "llama")
SPEC: dict[str, Any] = {
    "model": {"name": "meta-llama/Meta-Llama-3.1-8B"},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
}


def manifest(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A Request with that spec."""
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": KEY.name, **metadata},
        "spec": spec,
    }


def overrides(document: Any) -> dict[str, Any]:
    """Fields of a spec that override the effective input."""
    return {"aisimulate": {"inputOverrides": document}}


# Found in the wild.
OLD = manifest(
    {"model": "Org/M-8B", "backend": "vllm", "autoApply": True, "sla": {"ttft": 200, "itl": 20}}
)
UNITS = manifest({**SPEC, "objective": {"sla": {"ttftMs": "800ms", "itlMs": "40"}}})
SETTINGS = manifest(
    {**SPEC, "profilingConfig": {"config": {"deployment": {"envs": {"LAB_FLAG": "1"}}}}}
)
CASE = manifest({**SPEC, "backends": ["vllm", "VLLM", "tensorrt-llm"]})
OTHER_GROUP = {**manifest({"graph": "g"}), "apiVersion": "dynamo.nvidia.com/v1alpha1"}

_CREATE = ("kubectl", "create", "-f")
WAYS_THAT_KEEP_NULLS = [
    pytest.param([_CREATE], id="create"),
    pytest.param([_CREATE, ("kubectl", "replace", "-f")], id="replace"),
    pytest.param([("kubectl", "apply", "--server-side", "-f")], id="apply --server-side"),
    pytest.param([("dynamo-operator", "request", "submit", "-f")], id="request submit"),
]
"""The commands of each way to write a manifest by which a null arrives."""
