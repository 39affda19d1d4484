import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.discovery import Discovery
from dynamo_operator.testing.virtual_time import VirtualClock
from informers.objects import ResourceType
from tests.dynamo_operator.runtime.client.scripted_transport import (
    ScriptedTransport,
    answer,
    refusal,
)

pytestmark = pytest.mark.virtual_time

VERBS = ["get", "list", "watch"]
METRICS = ResourceType("metrics.lab", "v1", "NodeMetrics", "nodes", namespaced=False)


def resource(plural, kind, **fields):
    return {
        "resource": plural,
        "responseKind": {"kind": kind},
        "scope": "Namespaced",
        "verbs": VERBS,
        **fields,
    }


def aggregated(*groups):
    items = [
        {"metadata": {"name": name}, "versions": [{"version": v, **rest} for v, rest in versions]}
        for name, versions in groups
    ]
    return {"kind": "APIGroupDiscoveryList", "items": items}


AGGREGATED = {
    "/api": aggregated(
        ("", [("v1", {"resources": [resource("configmaps", "ConfigMap", shortNames=["cm"])]})])
    ),
    "/apis": aggregated(
        (
            "batch",
            [
                (
                    "v1",
                    {
                        "resources": [
                            resource("jobs", "Job", subresources=[{"subresource": "status"}])
                        ]
                    },
                ),
                ("v1beta1", {"resources": [resource("jobs", "Job")]}),
            ],
        ),
        (
            "metrics.lab",
            [
                (
                    "v1",
                    {
                        "freshness": "Stale",
                        "resources": [
                            resource("nodes", "NodeMetrics", scope="Cluster", verbs=["get", "list"])
                        ],
                    },
                )
            ],
        ),
    ),
}

LEGACY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "batch",
                "versions": [{"groupVersion": "batch/v1beta1"}, {"groupVersion": "batch/v1"}],
                "preferredVersion": {"groupVersion": "batch/v1"},
            },
            {"name": "metrics.lab", "versions": [{"groupVersion": "metrics.lab/v1"}]},
        ],
    },
    "/api/v1": {
        "resources": [
            {
                "name": "configmaps",
                "kind": "ConfigMap",
                "namespaced": True,
                "verbs": VERBS,
                "shortNames": ["cm"],
            }
        ]
    },
    "/apis/batch/v1": {
        "resources": [
            {"name": "jobs", "kind": "Job", "namespaced": True, "verbs": VERBS},
            {"name": "jobs/status", "kind": "Job", "namespaced": True, "verbs": ["get"]},
        ]
    },
    "/apis/batch/v1beta1": {
        "resources": [{"name": "jobs", "kind": "Job", "namespaced": True, "verbs": VERBS}]
    },
}


def discovery_of(documents):
    def serve(request):
        found = documents.get(request.path)
        return refusal(404, "NotFound") if found is None else answer(200, found)

    transport = ScriptedTransport(serve)
    return transport, Discovery(Client.over(transport, clock=VirtualClock()))


@pytest.mark.parametrize("documents", [AGGREGATED, LEGACY], ids=["aggregated", "legacy"])
async def test_types_are_found_in_both_forms_of_discovery(documents):
    _, discovery = discovery_of(documents)

    job = await discovery.find("Job")
    config_map = await discovery.find("ConfigMap", group="")

    assert job is not None
    assert job.resource_type == Job.resource_type
    assert job.subresources == {"status"}
    assert config_map is not None
    assert config_map.short_names == ("cm",)
    assert await discovery.find("Job", version="v1beta1") is not None
    assert await discovery.find("Job", group="lab.test") is None
    assert await discovery.supports(ConfigMap, verb="watch")
    assert not await discovery.supports(ResourceType("lab.test", "v1", "Widget", "widgets"))
    assert "metrics.lab/v1" in discovery.unavailable


async def test_a_type_that_cannot_be_watched_is_told_by_its_verbs():
    _, discovery = discovery_of(AGGREGATED)

    assert await discovery.supports(METRICS, verb="list")
    assert not await discovery.supports(METRICS, verb="watch")


async def test_the_server_is_asked_once_until_a_refresh():
    transport, discovery = discovery_of(AGGREGATED)

    await discovery.supports(Job)
    await discovery.served()
    before = len(transport.requests)
    await discovery.refresh()

    assert (before, len(transport.requests)) == (2, 4)
