"""The EndpointSlices that a Service should have, made from those that it has. Pure.

Source: Kubernetes' endpointslice library (k8s.io/endpointslice: reconciler.go, utils.go). What is
left out: hints for topologies, and the annotation with the time of the last change.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from dynamo_operator.local_cluster.pod_facts import has_ended, is_ready
from dynamo_operator.runtime.builtin_kinds import EndpointSlice, Node, Pod, Service
from dynamo_operator.runtime.owner_references import is_owned_by, owner_reference

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"

_RESERVED = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})
_ZONE = "topology.kubernetes.io/zone"
_MOST_ENDPOINTS = 100
_LONGEST_PREFIX = 57


@dataclass(slots=True)
class SlicePlan:
    """What to do, in this order: create, replace, delete.

    Args:
        create: new slices.
        replace: slices as they are to be.
        delete: slices that nothing needs.
        unplaced: Pods left out because their Node is not there yet.
    """

    create: list[dict[str, Any]] = field(default_factory=list)
    replace: list[EndpointSlice] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)
    unplaced: list[Pod] = field(default_factory=list)


def plan_slices(
    service: Service,
    pods: Iterable[Pod],
    present: Sequence[EndpointSlice],
    nodes: Mapping[str, Node],
) -> SlicePlan:
    """Decide which slices a Service lacks, and which are wrong.

    Args:
        service: the Service; it has a selector.
        pods: those that it selects.
        present: the slices of its name that this controller manages, none of them being deleted.
        nodes: the Nodes, by name.
    """
    plan = SlicePlan()
    pods = list(pods)
    families = service.spec.get("ipFamilies") or ["IPv4"]
    plan.delete = [each for each in present if each.address_type not in families]
    for family in families:
        slices = [each for each in present if each.address_type == family]
        _plan_family(plan, service, family, pods, slices, nodes)
    return plan


def _plan_family(
    plan: SlicePlan,
    service: Service,
    family: str,
    pods: Iterable[Pod],
    present: Sequence[EndpointSlice],
    nodes: Mapping[str, Node],
) -> None:
    wanted: dict[str, _Group] = {}
    for pod in pods:
        if has_ended(pod) or not _addresses(pod, family):
            continue
        ports = endpoint_ports(service, pod)
        group = wanted.setdefault(_ports_key(ports), _Group(ports))
        node = nodes.get(pod.spec.get("nodeName", ""))
        if node is None and not service.spec.get("publishNotReadyAddresses"):
            plan.unplaced.append(pod)
            continue
        group.endpoints[pod.uid] = endpoint_of(pod, service, node, family)
    create: list[dict[str, Any]] = []
    delete: list[EndpointSlice] = []
    by_ports: dict[str, list[EndpointSlice]] = {}
    for each in present:
        if is_owned_by(each, service):
            by_ports.setdefault(_ports_key(each.ports), []).append(each)
        else:
            delete.append(each)
    for key, group in wanted.items():
        _plan_group(service, family, group, by_ports.pop(key, []), create, plan.replace, delete)
    for slices in by_ports.values():
        delete += slices
    _keep_one(service, family, present, create, delete)
    # A slice that would go becomes one that is needed: those who watch see fewer changes.
    for unneeded in [each for each in delete if is_owned_by(each, service)]:
        if not create:
            break
        plan.replace.append(_remade(unneeded, create.pop()))
        delete.remove(unneeded)
    plan.create += create
    plan.delete += delete


@dataclass(slots=True)
class _Group:
    """The endpoints that have the same ports."""

    ports: list[dict[str, Any]]
    endpoints: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the Pod's UID


def _plan_group(
    service: Service,
    family: str,
    group: _Group,
    present: Iterable[EndpointSlice],
    create: list[dict[str, Any]],
    replace: list[EndpointSlice],
    delete: list[EndpointSlice],
) -> None:
    left = dict(group.endpoints)
    labels = slice_labels(service)
    kept: list[tuple[EndpointSlice, list[dict[str, Any]]]] = []
    for each in present:
        uids = [(end.get("targetRef") or {}).get("uid", "") for end in each.endpoints]
        endpoints = [left.pop(uid) for uid in uids if uid in left]
        if endpoints:
            kept.append((each, endpoints))
        else:
            delete.append(each)
    # What changes anyway is filled first, then the fullest slice with room for all that is left.
    changed = [pair for pair in kept if _differs(pair, labels)]
    for _, endpoints in changed:
        _fill(endpoints, left)
    if left and len(left) < _MOST_ENDPOINTS:
        fitting = [p for p in kept if len(p[1]) + len(left) <= _MOST_ENDPOINTS]
        if fitting:
            _fill(max(fitting, key=lambda pair: len(pair[1]))[1], left)
    for pair in kept:
        if _differs(pair, labels):
            made = new_slice(service, family, group.ports, pair[1])
            replace.append(_remade(pair[0], made))
    while left:
        endpoints = []
        _fill(endpoints, left)
        create.append(new_slice(service, family, group.ports, endpoints))


def _fill(endpoints: list[dict[str, Any]], left: dict[str, dict[str, Any]]) -> None:
    while left and len(endpoints) < _MOST_ENDPOINTS:
        endpoints.append(left.pop(next(iter(left))))


def _differs(pair: tuple[EndpointSlice, list[dict[str, Any]]], labels: Mapping[str, str]) -> bool:
    present, endpoints = pair
    return present.endpoints != endpoints or dict(present.metadata.labels) != labels


def _keep_one(
    service: Service,
    family: str,
    present: Sequence[EndpointSlice],
    create: list[dict[str, Any]],
    delete: list[EndpointSlice],
) -> None:
    """Leave a Service without endpoints one slice that says so."""
    if create or len(delete) < len(present):
        return
    placeholder = new_slice(service, family, [], [])
    for each in delete:
        is_empty = not each.endpoints and not each.ports
        if is_empty and is_owned_by(each, service) and each.labels == slice_labels(service):
            delete.remove(each)
            return
    create.append(placeholder)


def endpoint_of(pod: Pod, service: Service, node: Node | None, family: str) -> dict[str, Any]:
    """Return a Pod as an endpoint of a Service."""
    serving, terminating = is_ready(pod), pod.is_deleting
    ready = bool(service.spec.get("publishNotReadyAddresses")) or (serving and not terminating)
    endpoint: dict[str, Any] = {
        "addresses": _addresses(pod, family),
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.key.namespace,
            "name": pod.key.name,
            "uid": pod.uid,
        },
    }
    if pod.spec.get("nodeName"):
        endpoint["nodeName"] = pod.spec["nodeName"]
    if node is not None and node.metadata.labels.get(_ZONE):
        endpoint["zone"] = node.metadata.labels[_ZONE]
    if pod.spec.get("hostname") and pod.spec.get("subdomain") == service.key.name:
        endpoint["hostname"] = pod.spec["hostname"]
    return endpoint


def endpoint_ports(service: Service, pod: Pod) -> list[dict[str, Any]]:
    """Return a Service's ports as a Pod has them; one that the Pod does not name is left out."""
    ports = []
    for port in service.spec.get("ports") or ():
        protocol = port.get("protocol", "TCP")
        number = _target(pod, port.get("targetPort", port["port"]), protocol)
        if number is None:
            continue
        found = {"name": port.get("name", ""), "port": number, "protocol": protocol}
        if port.get("appProtocol"):
            found["appProtocol"] = port["appProtocol"]
        ports.append(found)
    return ports


def slice_labels(service: Service) -> dict[str, str]:
    """Return the labels of a Service's slices: its own, and those by which they are found."""
    labels = {k: v for k, v in service.metadata.labels.items() if k not in _RESERVED}
    if service.spec.get("clusterIP") in (None, "", "None"):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.key.name, MANAGED_BY: MANAGER}


def new_slice(
    service: Service,
    family: str,
    ports: Sequence[Mapping[str, Any]],
    endpoints: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return a slice to be created."""
    owner = {**owner_reference(service), "controller": True, "blockOwnerDeletion": True}
    return {
        "apiVersion": EndpointSlice.resource_type.api_version,
        "kind": EndpointSlice.resource_type.kind,
        "metadata": {
            "generateName": f"{service.key.name[:_LONGEST_PREFIX]}-",
            "namespace": service.key.namespace,
            "labels": slice_labels(service),
            "ownerReferences": [owner],
        },
        "addressType": family,
        "endpoints": [dict(each) for each in endpoints],
        "ports": [dict(each) for each in ports],
    }


def _remade(present: EndpointSlice, made: Mapping[str, Any]) -> EndpointSlice:
    body = deepcopy(present.to_dict())
    body["metadata"]["labels"] = made["metadata"]["labels"]
    body |= {"endpoints": made["endpoints"], "ports": made["ports"]}
    return EndpointSlice.model_validate(body)


def _ports_key(ports: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps(sorted(json.dumps(dict(port), sort_keys=True) for port in ports))


def _addresses(pod: Pod, family: str) -> list[str]:
    version = 6 if family == "IPv6" else 4
    listed: Collection[Mapping[str, str]] = pod.status.get("podIPs") or ()
    found = [ipaddress.ip_address(entry["ip"]) for entry in listed]
    return [str(address) for address in found if address.version == version]


def _target(pod: Pod, target: Any, protocol: str) -> int | None:
    if isinstance(target, int):
        return target
    sidecars = [
        container
        for container in pod.spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    for container in [*(pod.spec.get("containers") or ()), *sidecars]:
        for port in container.get("ports") or ():
            if port.get("name") == target and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None
