"""Objects for tests: each builder takes what a test is about and fills in the rest."""

from __future__ import annotations

from typing import Any

from dynamo_operator.api.labels import REQUEST_GENERATION_LABEL, REQUEST_UID_LABEL, RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import Job, Pod

MODEL = "meta-llama/Meta-Llama-3.1-8B"
COMPLETED_SPEC: dict[str, Any] = {
    "model": {"name": MODEL},
    "backends": ["vllm"],
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
    "workload": {"static": {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}},
    "objective": {"mode": "optimize", "metric": "throughput"},
    "recommendation": {"maxCandidates": 5},
}


def request(
    name: str = "llama",
    *,
    generation: int = 1,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> DynamoGraphDeploymentRequest:
    """A Request as read from the API server."""
    return DynamoGraphDeploymentRequest.model_validate(
        {
            "apiVersion": "nvidia.com/v1beta2",
            "kind": "DynamoGraphDeploymentRequest",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": "4f1c2a00-0000-4000-8000-000000000001",
                "resourceVersion": "7",
                "generation": generation,
            },
            "spec": spec or {"model": {"name": MODEL}},
            "status": status,
        }
    )


def run(
    name: str = "llama-g1-4f1c2a",
    *,
    uid: str = "5ad3b100-0000-4000-8000-000000000002",
    generation: int = 1,
    phase: str | None = None,
    owner: DynamoGraphDeploymentRequest | None = None,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> DynamoGraphDeploymentRun:
    """A Run of a Request as read from the API server."""
    owner = owner or request()
    if phase is not None:
        status["phase"] = phase
    return DynamoGraphDeploymentRun.model_validate(
        {
            "apiVersion": "nvidia.com/v1beta2",
            "kind": "DynamoGraphDeploymentRun",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "resourceVersion": "9",
                "generation": 1,
                "labels": {
                    REQUEST_UID_LABEL: owner.uid,
                    REQUEST_GENERATION_LABEL: str(generation),
                },
                "ownerReferences": [
                    {
                        "apiVersion": "nvidia.com/v1beta2",
                        "kind": "DynamoGraphDeploymentRequest",
                        "name": owner.key.name,
                        "uid": owner.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": spec or COMPLETED_SPEC,
            "status": status,
        }
    )


def job(
    *conditions: tuple[str, str], suspend: bool = False, parallelism: int = 1, **status: Any
) -> Job:
    """The Job of a Run; `conditions` are (type, reason), each True."""
    status["conditions"] = [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": f"because of {reason}",
            "lastTransitionTime": "2026-11-30T12:00:30Z",
        }
        for kind, reason in conditions
    ]
    return Job.new(
        "llama-search",
        namespace="default",
        labels={RUN_UID_LABEL: run().uid},
        spec={"suspend": suspend, "parallelism": parallelism},
        status=status,
    )


def pod(
    *, planner: dict[str, Any] | None = None, publisher: dict[str, Any] | None = None, **status: Any
) -> Pod:
    """The Pod of an execution; a container given as None runs, else its `state` is as given."""
    states = {"planner": planner, "publisher": publisher}
    status["containerStatuses"] = [
        {"name": name, "state": state or {"running": {}}} for name, state in states.items()
    ]
    status.setdefault("phase", "Running")
    return Pod.new("llama-search-x", namespace="default", status=status)


def exited(code: int, message: str = "", reason: str = "") -> dict[str, Any]:
    """A container's state after its end."""
    reason = reason or ("Completed" if code == 0 else "Error")
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}
