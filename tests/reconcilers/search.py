"""Steps of a search that tests take in place of the cluster: Pods that run and end, deletions."""

from __future__ import annotations

from typing import Any

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.api.conditions import Condition, find_condition
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import Event, Job, Pod
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from reconcilers.request.plan import render_run
from tests.builders import MODEL, exited

NAMESPACE = "default"
REQUEST_KEY = ObjectKey(NAMESPACE, "llama")
SPEC: dict[str, Any] = {
    "model": {"name": MODEL},
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
}
_START = "2026-11-30T12:00:00Z"


async def submit(client: Client, **spec: Any) -> DynamoGraphDeploymentRequest:
    """Create the Request `llama`, model-only but for `spec`."""
    return await client.create(
        DynamoGraphDeploymentRequest.new(
            REQUEST_KEY.name, namespace=NAMESPACE, spec={**SPEC, **spec}
        )
    )


async def change(client: Client, **spec: Any) -> DynamoGraphDeploymentRequest:
    """Change the Request's spec."""
    return await client.patch(DynamoGraphDeploymentRequest, REQUEST_KEY, {"spec": spec})


async def runs(client: Client) -> list[DynamoGraphDeploymentRun]:
    """The Runs there are."""
    return await client.list(DynamoGraphDeploymentRun, namespace=NAMESPACE)


async def the_run(client: Client) -> DynamoGraphDeploymentRun:
    """The only Run."""
    (run,) = await runs(client)
    return run


async def the_job(cluster: Cluster, *, timeout: float = 10.0) -> Job:
    """Wait for the only Job."""
    jobs = await cluster.eventually(
        lambda: cluster.client.list(Job, namespace=NAMESPACE), timeout=timeout
    )
    (job,) = jobs
    return job


async def the_request(client: Client) -> DynamoGraphDeploymentRequest:
    """The Request."""
    return await client.get(DynamoGraphDeploymentRequest, REQUEST_KEY)


async def request_that(
    cluster: Cluster, predicate: Any, *, timeout: float = 10.0
) -> DynamoGraphDeploymentRequest:
    """Wait for the Request to be as the predicate says."""
    return await cluster.eventually(lambda: the_request(cluster.client), predicate, timeout=timeout)


async def run_that(
    cluster: Cluster, predicate: Any, *, timeout: float = 10.0
) -> DynamoGraphDeploymentRun:
    """Wait for the only Run to be as the predicate says."""

    def holds(found: list[DynamoGraphDeploymentRun]) -> bool:
        return len(found) == 1 and predicate(found[0])

    return (await cluster.eventually(lambda: runs(cluster.client), holds, timeout=timeout))[0]


async def plant_run(client: Client, **spec: Any) -> DynamoGraphDeploymentRun:
    """Make a Request and its Run as a Request controller leaves them that died right after."""
    request = await submit(client, **spec)
    return await client.create(render_run(request, complete(request.spec)), owner=request)


async def start_search(cluster: Cluster) -> tuple[Job, Pod]:
    """Submit the Request and bring its execution to run."""
    await submit(cluster.client)
    job = await the_job(cluster)
    pod = await start_pod(cluster.client, job)
    await run_that(cluster, completed_with("Running", status="False"))
    return job, pod


async def finish_search(cluster: Cluster, job: Job, pod: Pod) -> None:
    """Let the execution end well."""
    await set_containers(cluster.client, pod, planner=exited(0), publisher=exited(0))
    await end_job(cluster.client, job, "Complete")


async def collect(client: Client, job: Job, *pods: Pod) -> None:
    """End the foreground deletion of a Job: its Pods go, then the Job itself."""
    for pod in pods:
        await client.delete(Pod, pod.key, grace_period_seconds=0)
    found = await client.find(Job, job.key)
    if found is not None and found.uid == job.uid:
        await client.patch(Job, job.key, {"metadata": {"finalizers": None}})


async def is_gone(client: Client, job: Job) -> bool:
    """Whether a Job is gone."""
    return await client.find(Job, job.key) is None


async def is_going(client: Client, job: Job) -> bool:
    """Whether a Job is gone or being deleted."""
    found = await client.find(Job, job.key)
    return found is None or found.is_deleting


async def events_about(client: Client, obj: KubeModel) -> list[Event]:
    """The events recorded about an object."""
    events = await client.list(Event, namespace=NAMESPACE)
    return [event for event in events if event.regarding.get("uid") == obj.uid]


async def event_about(cluster: Cluster, obj: KubeModel, reason: str) -> Event:
    """Wait for an event about an object."""
    found = await cluster.eventually(
        lambda: events_about(cluster.client, obj),
        lambda events: any(event.reason == reason for event in events),
    )
    return next(event for event in found if event.reason == reason)


def completed(obj: DynamoGraphDeploymentRun | DynamoGraphDeploymentRequest) -> Condition | None:
    """The Completed condition."""
    return find_condition(obj.status.conditions, "Completed")


def accepted(request: DynamoGraphDeploymentRequest) -> Condition | None:
    """The Accepted condition."""
    return find_condition(request.status.conditions, "Accepted")


def completed_with(reason: str, status: str = "True") -> Any:
    """A predicate on objects with a Completed condition."""

    def holds(obj: Any) -> bool:
        condition = completed(obj)
        return condition is not None and (condition.status, condition.reason) == (status, reason)

    return holds


def accepted_with(reason: str) -> Any:
    """A predicate on Requests with an Accepted condition of their current generation."""

    def holds(request: DynamoGraphDeploymentRequest) -> bool:
        condition = accepted(request)
        return (
            condition is not None
            and condition.reason == reason
            and condition.observed_generation == request.generation
        )

    return holds


async def start_pod(client: Client, job: Job) -> Pod:
    """Make the Job's Pod and let both containers run."""
    pod = await client.create(
        Pod.new(
            f"{job.key.name}-x",
            namespace=job.key.namespace,
            labels=job.spec["template"]["metadata"]["labels"],
            spec={
                name: value
                for name, value in job.spec["template"]["spec"].items()
                if name in ("containers", "volumes", "restartPolicy")
            },
        ),
        owner=job,
    )
    await set_containers(client, pod, planner={"running": {}}, publisher={"running": {}})
    await patch_status(client, Job, job.key, {"active": 1, "startTime": _START})
    return pod


async def set_containers(client: Client, pod: Pod, **states: dict[str, Any]) -> None:
    """Set the state of each container; the phase follows."""
    ended = [state["terminated"]["exitCode"] for state in states.values() if "terminated" in state]
    phase = "Running"
    if len(ended) == len(states):
        phase = "Failed" if any(ended) else "Succeeded"
    statuses = [
        {"name": n, "state": s, "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        for n, s in states.items()
    ]
    await patch_status(client, Pod, pod.key, {"phase": phase, "containerStatuses": statuses})


async def end_job(client: Client, job: Job, kind: str, reason: str = "") -> None:
    """Give the Job its terminal condition."""
    interim = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    conditions = [
        {
            "type": each,
            "status": "True",
            "reason": reason or "CompletionsReached",
            "message": f"the Job ended: {reason}",
            "lastProbeTime": "2026-11-30T12:00:30Z",
            "lastTransitionTime": "2026-11-30T12:00:30Z",
        }
        for each in (interim, kind)
    ]
    begun = (await client.get(Job, job.key)).status.get("startTime") or _START
    status: dict[str, Any] = {"conditions": conditions, "active": 0, "startTime": begun}
    if kind == "Complete":
        status |= {"completionTime": "2026-11-30T12:00:30Z", "succeeded": 1}
    await patch_status(client, Job, job.key, status)


def creations(cluster: Cluster, resource: str) -> int:
    """How many objects of a resource were ever created."""
    return sum(
        entry.verb == "create" and entry.resource == resource and entry.code == 201
        for entry in cluster.audit.entries
    )


def writes(cluster: Cluster) -> list[str]:
    """Everything that was written so far, as `verb resource name`."""
    return [
        f"{entry.verb} {entry.resource} {entry.name}"
        for entry in cluster.server.audit.entries
        if entry.verb not in ("get", "list", "watch")
    ]


async def patch_status(client: Client, kind: Any, key: ObjectKey, status: dict[str, Any]) -> None:
    """Merge into a status, as a controller of the cluster would."""
    await client.patch(kind, key, {"status": status}, subresource="status")
