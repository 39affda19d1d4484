"""A search in a cluster as the operator and a publisher leave it, to look at with the commands."""

from __future__ import annotations

from typing import Any

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.aisimulate.lowering import ExecutionValues, lower
from dynamo_operator.api.labels import CANDIDATE_ID_LABEL, RUN_UID_LABEL
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    SearchSpec,
)
from dynamo_operator.runtime.builtin_kinds import Pod
from dynamo_operator.runtime.client import Client
from informers.objects import ObjectKey
from reconcilers.request.plan import render_run
from tests.reconcilers.search import SPEC

NAMESPACE = "default"
COMPONENTS: list[dict[str, Any]] = [
    {"name": "Frontend", "type": "frontend"},
    {"name": "Worker", "type": "worker", "replicas": 2},
]


async def plant_search(
    client: Client, name: str = "llama", **spec: Any
) -> DynamoGraphDeploymentRun:
    """Create a Request and its Run, which is running."""
    request = await client.create(
        DynamoGraphDeploymentRequest.new(name, namespace=NAMESPACE, spec={**SPEC, **spec})
    )
    run = await client.create(render_run(request, complete(request.spec)), owner=request)
    values = ExecutionValues("r123456", NAMESPACE, "registry.lab/vllm-runtime:1.2.0", 8)
    document = lower(complete(SearchSpec.model_validate({**SPEC, **spec})), values).document
    await set_run(
        client,
        run,
        phase="Running",
        aisimulate={"input": document},
        startTime="2026-11-30T12:00:00Z",
        progress={"round": 2, "evaluated": 6, "published": 0},
    )
    await client.patch(
        DynamoGraphDeploymentRequest,
        request.key,
        {"status": {"activeRunRef": {"name": run.key.name}, "phase": "Running"}},
        subresource="status",
    )
    return await client.get(DynamoGraphDeploymentRun, run.key)


async def set_run(client: Client, run: DynamoGraphDeploymentRun, **status: Any) -> None:
    """Change a Run's status."""
    await client.patch(DynamoGraphDeploymentRun, run.key, {"status": status}, subresource="status")


async def end_run(client: Client, run: DynamoGraphDeploymentRun, reason: str = "Succeeded") -> None:
    """Bring a Run to its end."""
    condition = {
        "type": "Completed",
        "status": "True",
        "reason": reason,
        "message": f"because of {reason}",
        "lastTransitionTime": "2026-11-30T12:05:00Z",
    }
    await set_run(
        client,
        run,
        phase="Succeeded" if reason == "Succeeded" else "Failed",
        completionTime="2026-11-30T12:05:00Z",
        conditions=[condition],
    )


async def plant_candidates(
    client: Client, run: DynamoGraphDeploymentRun, *metrics: tuple[float, int, float]
) -> list[DynamoGraphDeploymentCandidate]:
    """Publish Candidates, best first, of these scores, GPUs and milliseconds to the first token."""
    made = [
        await plant_candidate(client, run, rank, *each)
        for rank, each in enumerate(metrics, start=1)
    ]
    await set_run(
        client,
        run,
        candidateRefs=[{"name": each.key.name} for each in made],
        progress={"round": 3, "evaluated": 12, "published": len(made)},
    )
    return made


async def plant_candidate(
    client: Client,
    run: DynamoGraphDeploymentRun,
    rank: int,
    score: float,
    gpus: int,
    ttft: float,
    **parameters: Any,
) -> DynamoGraphDeploymentCandidate:
    """Create one Candidate."""
    identifier = f"evaluated-point-{rank:012x}"
    shape = {"deployment_mode": "agg", "backend": "vllm", "replicas": gpus // 2 or 1, "tp": 2}
    performance = {
        "output_throughput_tok_s": score,
        "mean_ttft_ms": ttft,
        "mean_itl_ms": 2.5 * rank,
    }
    candidate = await client.create(
        DynamoGraphDeploymentCandidate.new(
            f"{run.key.name}-{identifier}",
            namespace=NAMESPACE,
            labels={RUN_UID_LABEL: run.uid, CANDIDATE_ID_LABEL: identifier},
            spec={
                "backendFramework": "vllm",
                "components": COMPONENTS,
                "parameters": {**shape, **parameters},
            },
        ),
        owner=run,
    )
    metrics = {"score": score, "usedGpus": gpus, "performance": performance}
    await client.patch(
        DynamoGraphDeploymentCandidate,
        candidate.key,
        {"status": {"metrics": metrics}},
        subresource="status",
    )
    return await client.get(DynamoGraphDeploymentCandidate, candidate.key)


async def plant_pod(client: Client, run: DynamoGraphDeploymentRun, **status: Any) -> Pod:
    """Create the Pod of a Run's Job."""
    pod = await client.create(
        Pod.new(
            f"{run.key.name}-search",
            namespace=NAMESPACE,
            labels={RUN_UID_LABEL: run.uid},
            spec={
                "containers": [{"name": name, "image": "i:1"} for name in ("planner", "publisher")]
            },
        )
    )
    await client.patch(Pod, pod.key, {"status": status}, subresource="status")
    return await client.get(Pod, pod.key)


async def read_run(client: Client, run: DynamoGraphDeploymentRun) -> DynamoGraphDeploymentRun:
    """The Run as it is now."""
    return await client.get(DynamoGraphDeploymentRun, ObjectKey(NAMESPACE, run.key.name))
