"""What a relay needs to know of a DynamoGraphDeployment: whether it can be served, and its workers.

The kinds are the upstream operator's and are read as `nvidia.com/v1beta1`, whatever version wrote
them; fields that nothing here needs are not looked at, so that no unknown content is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dynamo_operator.api.conditions import ReadyReason
from dynamo_operator.api.labels import (
    DISCOVERY_BACKEND,
    DISCOVERY_MODE,
    DYNAMO_NAMESPACE_LABEL,
    GROUP,
    WORKER_HASH_LABEL,
)
from dynamo_operator.api.names import pool_relay_name
from dynamo_operator.runtime.models import KubeModel
from informers.objects import ObjectKey, ResourceType

KUBERNETES: Final = "kubernetes"
POD_MODE: Final = "pod"
GLOBAL_NAMESPACE: Final = "dynamo"

_WORKER_TYPES: Final = ("worker", "prefill", "decode")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


class ServedGraph(KubeModel):
    """A DynamoGraphDeployment as any version of its operator may have written it."""

    resource_type = ResourceType(
        GROUP, "v1beta1", "DynamoGraphDeployment", "dynamographdeployments"
    )
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ServedComponent(KubeModel):
    """A DynamoComponentDeployment: one component of a graph, in one generation of it."""

    resource_type = ResourceType(
        GROUP, "v1beta1", "DynamoComponentDeployment", "dynamocomponentdeployments"
    )
    spec: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class NotServed:
    """Why a graph cannot be relayed."""

    reason: ReadyReason
    message: str


def servable(
    key: ObjectKey, graph: ServedGraph | None, *, default_backend: str
) -> ServedGraph | NotServed:
    """Return the graph of a relay, or say why it cannot be served.

    Args:
        key: of the relay, and so of the graph.
        graph: None where there is none.
        default_backend: discovery backend of workers whose graph names none.
    """
    if not _DNS_1035.fullmatch(name := pool_relay_name(key.name)):
        return NotServed(
            ReadyReason.INVALID_NAME,
            f"{name!r} cannot be a Service's name: a graph that is relayed starts with a letter"
            " and has at most 52 lower-case letters, digits and -",
        )
    if graph is None:
        return NotServed(ReadyReason.DGD_NOT_FOUND, f"there is no DynamoGraphDeployment {key.name}")
    if graph.is_deleting:
        return NotServed(
            ReadyReason.DGD_NOT_FOUND, f"DynamoGraphDeployment {key.name} is being deleted"
        )
    workers = list(_workers(graph))
    if not workers:
        return NotServed(
            ReadyReason.NO_WORKERS,
            f"DynamoGraphDeployment {key.name} has no worker component"
            f" (of type {', '.join(_WORKER_TYPES)})",
        )
    for worker in workers:
        backend = _resolved(graph, worker, DISCOVERY_BACKEND, default_backend)
        mode = _resolved(graph, worker, DISCOVERY_MODE, POD_MODE)
        if (backend, mode) != (KUBERNETES, POD_MODE):
            return NotServed(
                ReadyReason.INCOMPATIBLE_DISCOVERY,
                f"component {worker.get('name')} uses the discovery backend {backend!r} in mode"
                f" {mode!r}; relays need {KUBERNETES!r} in mode {POD_MODE!r}"
                f" (annotations {DISCOVERY_BACKEND}, {DISCOVERY_MODE})",
            )
    return graph


def worker_namespaces(graph: ServedGraph, components: Iterable[ServedComponent]) -> set[str]:
    """Return the Dynamo namespaces in which a graph's workers register.

    While workers are rolled both generations' are among them: each generation has components of
    its own until its last Pod is gone.

    Args:
        graph: that can be served.
        components: of the graph; empty where it is made without them (by Grove): its status then
            says where its workers are, or they are in its base namespace.
    """
    found = {_namespace_of(component, graph) for component in components if _is_worker(component)}
    if not found:
        found = set(_reported(graph))
    if not found:
        found = {_base_namespace(worker, graph) for worker in _workers(graph)}
    return {namespace for namespace in found if namespace}


def _namespace_of(component: ServedComponent, graph: ServedGraph) -> str:
    base = (
        component.spec.get("dynamoNamespace")
        or component.labels.get(DYNAMO_NAMESPACE_LABEL)
        or _base_namespace(component.spec, graph)
    )
    labels = _at(component.spec, "podTemplate", "metadata", "labels")
    worker_hash = component.labels.get(WORKER_HASH_LABEL) or labels.get(WORKER_HASH_LABEL)
    return f"{base}-{worker_hash}" if worker_hash else str(base)


def _base_namespace(component: Mapping[str, Any], graph: ServedGraph) -> str:
    if component.get("globalDynamoNamespace"):
        return GLOBAL_NAMESPACE
    return f"{graph.key.namespace}-{graph.key.name.replace('.', '-')}"


def _reported(graph: ServedGraph) -> Iterator[str]:
    workers = {worker.get("name") for worker in _workers(graph)}
    for name, component in _at(graph.status, "components").items():
        if name in workers and isinstance(component, dict):
            yield str(component.get("runtimeNamespace") or "")


def _is_worker(component: ServedComponent) -> bool:
    return component.spec.get("type") in _WORKER_TYPES


def _workers(graph: ServedGraph) -> Iterator[Mapping[str, Any]]:
    components: Sequence[Any] = graph.spec.get("components") or ()
    for component in components:
        if isinstance(component, dict) and component.get("type") in _WORKER_TYPES:
            yield component


def _resolved(graph: ServedGraph, worker: Mapping[str, Any], annotation: str, default: str) -> str:
    """Return what holds for a worker: the first that is there, be it empty."""
    places = (
        _at(worker, "podTemplate", "metadata", "annotations"),
        _at(graph.spec, "annotations"),
        graph.annotations,
    )
    return next((str(place[annotation]) for place in places if annotation in place), default)


def _at(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the object at a path, an empty one where there is none."""
    for name in path:
        inner = value.get(name)
        if not isinstance(inner, dict):
            return {}
        value = inner
    return value
