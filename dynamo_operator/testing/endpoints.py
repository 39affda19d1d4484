"""Finds who answers for a Service, where nothing forwards what is sent to its address."""

from __future__ import annotations

from dataclasses import dataclass

from dynamo_operator.runtime.builtin_kinds import EndpointSlice
from dynamo_operator.runtime.client.reader import Reader
from informers.objects import ObjectKey


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """One port of a Pod that answers for a Service.

    Args:
        address: the Pod's IP.
        port: of the Pod.
        pod: its name.
        uid: its UID.
    """

    address: str
    port: int
    pod: str = ""
    uid: str = ""


async def ready_endpoints(reader: Reader, service: ObjectKey, port: str = "") -> list[Endpoint]:
    """Return the Ready endpoints of a Service, sorted, as its EndpointSlices tell them.

    On a local cluster the addresses are those of its node's Pods, which any program on this machine
    can connect to.

    Args:
        reader: of the cluster.
        service: the Service.
        port: the name of one of its ports; "" for the port without a name.
    """
    labels = {"kubernetes.io/service-name": service.name}
    slices = await reader.list(EndpointSlice, namespace=service.namespace, labels=labels)
    found: set[Endpoint] = set()
    for each in slices:
        numbers = [int(p["port"]) for p in each.ports if p.get("name", "") == port]
        for endpoint in each.endpoints:
            # Unknown counts as ready (EndpointConditions.ready).
            if (endpoint.get("conditions") or {}).get("ready", True) and not each.is_deleting:
                pod = endpoint.get("targetRef") or {}
                found |= {
                    Endpoint(address, number, pod.get("name", ""), pod.get("uid", ""))
                    for address in endpoint["addresses"]
                    for number in numbers
                }
    return sorted(found)
