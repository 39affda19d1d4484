"""The example of a Job for each object works on a cluster."""

import pytest

from docs.examples import job_per_object as example
from dynamo_operator.runtime.builtin_kinds import Job
from dynamo_operator.testing import Cluster
from informers.objects import ObjectKey

FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
KEY = ObjectKey("default", "a")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "renders.media.example"},
    "spec": {
        "group": "media.example",
        "scope": "Namespaced",
        "names": {"kind": "Render", "plural": "renders"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": FREE, "status": FREE},
                    }
                },
            }
        ],
    },
}

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster():
    async with Cluster.start(crds=[DEFINITION], controllers=["gc"]) as cluster:
        yield cluster


def render(name="a"):
    return example.Render.new(name, namespace="default", spec={"image": "r:1", "arguments": ["x"]})


async def finish(cluster, kind):
    job = await cluster.client.get(Job, KEY)
    started, now = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
    interim = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    status = {
        "startTime": started,
        "conditions": [
            {"type": type_, "status": "True", "lastTransitionTime": now}
            for type_ in (interim, kind)
        ],
        **({"completionTime": now} if kind == "Complete" else {}),
    }
    await cluster.client.patch(Job, job.key, {"status": status}, subresource="status")


@pytest.mark.parametrize(
    ("kind", "phase"), [("Complete", "Succeeded"), ("Failed", "Failed")], ids=["good", "bad"]
)
async def test_each_object_gets_one_job_and_its_outcome(cluster, kind, phase):
    async with cluster.manager(example.controller()):
        await cluster.client.create(render())

        def current():
            return cluster.client.get(example.Render, KEY)

        await cluster.eventually(current, lambda r: r.status.phase == "Running")
        job = await cluster.client.get(Job, KEY)
        assert job.spec["template"]["spec"]["containers"][0]["args"] == ["x"]
        await finish(cluster, kind)
        await cluster.eventually(current, lambda r: r.status.phase == phase)
        assert len(await cluster.client.list(Job)) == 1

        await cluster.client.delete(example.Render, KEY)
        await cluster.eventually(lambda: cluster.client.list(Job), lambda jobs: not jobs)


async def test_a_job_of_somebody_else_is_left_alone(cluster):
    foreign = Job.new("a", namespace="default", spec=example.job_of(render()).spec)
    made = await cluster.client.create(foreign)
    async with cluster.manager(example.controller()) as manager:
        await cluster.client.create(render())
        await cluster.eventually(
            lambda: manager.metrics.render().decode(),
            lambda text: 'terminal_reconcile_errors_total{controller="render"} 1.0' in text,
        )

    assert (await cluster.client.get(Job, KEY)).uid == made.uid
