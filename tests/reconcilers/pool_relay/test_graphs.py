"""Which graphs can be relayed, and where their workers are."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.api.conditions import ReadyReason
from informers.objects import ObjectKey
from reconcilers.pool_relay.graphs import (
    NotServed,
    ServedComponent,
    ServedGraph,
    servable,
    worker_namespaces,
)

BACKEND = "nvidia.com/dynamo-discovery-backend"
MODE = "nvidia.com/dynamo-kube-discovery-mode"
WORKER = {"name": "Decode", "type": "decode"}
FRONTEND = {"name": "Frontend", "type": "frontend"}


def graph(
    *components: dict[str, Any], name: str = "aurora", status: Any = None, **spec: Any
) -> ServedGraph:
    metadata = spec.pop("metadata", {})
    return ServedGraph.model_validate(
        {
            "metadata": {"name": name, "namespace": "lab", "uid": "g", **metadata},
            "spec": {"components": list(components), **spec},
            "status": status or {},
        }
    )


def component(
    type_: str = "decode", *, hash_: str = "", labels: dict[str, str] | None = None, **spec: Any
) -> ServedComponent:
    labels = {**({"nvidia.com/dynamo-worker-hash": hash_} if hash_ else {}), **(labels or {})}
    return ServedComponent.model_validate(
        {
            "metadata": {"name": "c", "namespace": "lab", "labels": labels},
            "spec": {"type": type_, **spec},
        }
    )


def annotated(**annotations: str) -> dict[str, Any]:
    """A worker whose Pod template carries them."""
    return {**WORKER, "podTemplate": {"metadata": {"annotations": named(annotations)}}}


def named(annotations: dict[str, str]) -> dict[str, str]:
    names = {"backend": BACKEND, "mode": MODE}
    return {names[key]: value for key, value in annotations.items()}


def judge(served: ServedGraph | None, *, default: str = "kubernetes", name: str = "aurora") -> Any:
    found = servable(ObjectKey("lab", name), served, default_backend=default)
    return found.reason if isinstance(found, NotServed) else None


INCOMPATIBLE = ReadyReason.INCOMPATIBLE_DISCOVERY


@pytest.mark.parametrize(
    ("served", "default", "reason"),
    [
        pytest.param(graph(WORKER), "kubernetes", None, id="the operator's default"),
        pytest.param(graph(WORKER), "etcd", INCOMPATIBLE, id="the operator's other default"),
        pytest.param(
            graph(annotated(backend="kubernetes")), "etcd", None, id="the template over the default"
        ),
        pytest.param(
            graph(annotated(backend="etcd"), annotations=named({"backend": "kubernetes"})),
            "kubernetes",
            INCOMPATIBLE,
            id="the template over spec",
        ),
        pytest.param(
            graph(
                WORKER,
                annotations=named({"backend": "kubernetes"}),
                metadata={"annotations": named({"backend": "etcd"})},
            ),
            "etcd",
            None,
            id="spec over metadata",
        ),
        pytest.param(
            graph(WORKER, metadata={"annotations": named({"backend": "etcd"})}),
            "kubernetes",
            INCOMPATIBLE,
            id="metadata over the default",
        ),
        pytest.param(
            graph(annotated(backend=""), annotations=named({"backend": "kubernetes"})),
            "kubernetes",
            INCOMPATIBLE,
            id="an empty text is a value",
        ),
        pytest.param(
            graph(WORKER, annotations=named({"mode": "container"})),
            "kubernetes",
            INCOMPATIBLE,
            id="container mode",
        ),
        pytest.param(
            graph(annotated(mode="pod"), annotations=named({"mode": "container"})),
            "kubernetes",
            None,
            id="pod mode of the template over spec",
        ),
        pytest.param(
            graph(annotated(mode="")), "kubernetes", INCOMPATIBLE, id="an empty mode is a value"
        ),
        pytest.param(
            graph(*[{**WORKER, "name": f"w{n}"} for n in range(5)], annotated(mode="container")),
            "kubernetes",
            INCOMPATIBLE,
            id="one of many",
        ),
        pytest.param(
            graph(WORKER, {**FRONTEND, **annotated(backend="etcd"), "type": "frontend"}),
            "kubernetes",
            None,
            id="who is no worker does not matter",
        ),
    ],
)
def test_every_worker_must_be_found_through_kubernetes_pods(served, default, reason):
    assert judge(served, default=default) == reason


def test_an_obstacle_names_the_component_and_what_would_do():
    found = servable(
        ObjectKey("lab", "aurora"), graph(annotated(mode="container")), default_backend="kubernetes"
    )

    assert isinstance(found, NotServed)
    assert "Decode" in found.message
    assert "'container'" in found.message
    assert MODE in found.message


@pytest.mark.parametrize("components", [(), (FRONTEND,), ({**WORKER, "type": "planner"},)])
def test_all_of_no_workers_is_not_enough(components):
    assert judge(graph(*components)) == ReadyReason.NO_WORKERS


def test_a_graph_that_is_missing_or_going_is_not_found():
    going = graph(WORKER, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})

    assert judge(None) == ReadyReason.DGD_NOT_FOUND
    assert judge(going) == ReadyReason.DGD_NOT_FOUND


@pytest.mark.parametrize("name", ["a.b", "1a", "a" * 53])
def test_a_name_that_no_service_can_have_is_refused(name):
    assert judge(graph(WORKER, name=name), name=name) == ReadyReason.INVALID_NAME


def test_the_longest_name_is_52_characters():
    assert judge(graph(WORKER, name="a" * 52), name="a" * 52) is None


SHARED = {"nvidia.com/dynamo-namespace": "shared_ns"}
REPORTED = {
    "components": {
        "Decode": {"runtimeNamespace": "lab-aurora-cc"},
        "Frontend": {"runtimeNamespace": "lab-aurora"},
    }
}


@pytest.mark.parametrize(
    ("served", "components", "namespaces"),
    [
        pytest.param(
            graph(WORKER),
            [component(hash_="aa"), component(hash_="bb"), component("prefill", hash_="bb")],
            {"lab-aurora-aa", "lab-aurora-bb"},
            id="both generations of a rollout",
        ),
        pytest.param(
            graph(WORKER), [component("frontend", hash_="aa")], {"lab-aurora"}, id="no worker"
        ),
        pytest.param(
            graph(WORKER), [component(labels=SHARED)], {"shared_ns"}, id="the component's label"
        ),
        pytest.param(
            graph(WORKER),
            [component(labels=SHARED, dynamoNamespace="kept", hash_="aa")],
            {"kept-aa"},
            id="a namespace that an older version wrote",
        ),
        pytest.param(
            graph(WORKER),
            [component(globalDynamoNamespace=True, hash_="aa")],
            {"dynamo-aa"},
            id="the global namespace",
        ),
        pytest.param(
            graph(WORKER),
            [
                component(
                    podTemplate={"metadata": {"labels": {"nvidia.com/dynamo-worker-hash": "ff"}}}
                )
            ],
            {"lab-aurora-ff"},
            id="the template's hash",
        ),
        pytest.param(
            graph(WORKER, FRONTEND, status=REPORTED), [], {"lab-aurora-cc"}, id="Grove's status"
        ),
        pytest.param(graph(WORKER), [], {"lab-aurora"}, id="nothing but the graph"),
        pytest.param(
            graph({**WORKER, "globalDynamoNamespace": True}, {**WORKER, "name": "w"}),
            [],
            {"dynamo", "lab-aurora"},
            id="several base namespaces",
        ),
        pytest.param(
            graph(WORKER, name="a.b"), [], {"lab-a-b"}, id="dots of the graph's name become dashes"
        ),
    ],
)
def test_workers_register_in_these_namespaces(served, components, namespaces):
    assert worker_namespaces(served, components) == namespaces


@pytest.mark.parametrize(
    "hostile",
    [
        {"spec": {"components": None}},
        {"spec": None},
        {"spec": {"components": [None, "text", {"type": ["worker"]}]}},
        {"spec": {"components": [{**WORKER, "podTemplate": None}], "annotations": None}},
        {"spec": {"components": [{**WORKER, "podTemplate": {"metadata": "text"}}]}},
        {"spec": {"components": [WORKER]}, "status": {"components": ["a"]}},
    ],
)
def test_content_that_nobody_expects_is_survived(hostile):
    found = ServedGraph.model_validate(
        {"metadata": {"name": "aurora", "namespace": "lab"}, **hostile}
    )

    judge(found)
    worker_namespaces(found, [])
