"""A Job for each object of a kind, and its outcome in the object's status: a controller in a page.

It needs the CustomResourceDefinition of Renders with the status subresource, and may list and watch
Renders and Jobs, create Jobs and patch the status of Renders.
"""

from __future__ import annotations

import asyncio
import os

from dynamo_operator.runtime import (
    Controller,
    KubeModel,
    KubeStruct,
    Manager,
    Result,
    TerminalError,
    generation_changed,
    is_controlled_by,
    object_reconciler,
)
from dynamo_operator.runtime.builtin_kinds import Job
from dynamo_operator.runtime.client import Client, ClientConfig, Reader
from informers.objects import ResourceType


class RenderSpec(KubeStruct):
    """What is wanted."""

    image: str
    arguments: list[str] = []


class RenderStatus(KubeStruct):
    """What became of it."""

    phase: str = ""


class Render(KubeModel):
    """Something to be rendered once."""

    resource_type = ResourceType("media.example", "v1", "Render", "renders")
    spec: RenderSpec
    status: RenderStatus = RenderStatus()


async def reconcile(render: Render, reader: Reader, client: Client) -> Result:
    """Have the Job run, and say how far it is.

    There is nothing to wait for: a change of the Job brings the Render here again. The read below
    shows the Job that an earlier call made, however late its watch event comes.
    """
    job = await reader.find(Job, render.key)
    if job is None:
        job = await client.create(job_of(render), owner=render)
    elif not is_controlled_by(job, render):
        raise TerminalError(f"Job {job.key} belongs to somebody else")
    phase = phase_of(job)
    if phase != render.status.phase:
        await client.apply_status(render, RenderStatus(phase=phase))
    return Result.done()


def job_of(render: Render) -> Job:
    """Return the Job that a Render wants."""
    container = {
        "name": "render",
        "image": render.spec.image,
        "args": render.spec.arguments,
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    spec = {"backoffLimit": 2, "template": {"spec": pod}}
    return Job.new(render.key.name, namespace=render.key.namespace, spec=spec)


def phase_of(job: Job) -> str:
    """Return what a Job's conditions say."""
    for condition in job.status.get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return "Succeeded" if condition["type"] == "Complete" else "Failed"
    return "Running"


def controller() -> Controller:
    """Return the controller; our own writes of the status do not bring a Render back."""
    return Controller(
        Render,
        owns=[Job],
        reconciler=object_reconciler(Render, reconcile),
        predicates=[generation_changed],
        max_concurrent_reconciles=4,
    )


async def main() -> None:
    """Run the operator."""
    async with Client.connect(ClientConfig.load(environ=os.environ)) as client:
        manager = Manager(client, health_address=":8081", metrics_address=":8080")
        manager.add(controller())
        await manager.run()


if __name__ == "__main__":
    asyncio.run(main())
