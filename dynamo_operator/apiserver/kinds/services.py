"""This module holds Service and EndpointSlice."""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Any, Final

from dynamo_operator.apiserver.kinds import columns
from dynamo_operator.apiserver.kinds.openapi import (
    BOOLEAN,
    CONDITIONS,
    FREE_OBJECT,
    INT32,
    INT_OR_STRING,
    OBJECT_REFERENCE,
    STRING,
    STRINGS,
    array,
    atomic,
    kind,
    map_list,
    record,
    with_default,
)
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    KindRules,
    Kinds,
    duplicate,
    forbidden,
    immutable,
    invalid,
    problems,
    required,
    supported,
)
from dynamo_operator.apiserver.object_metadata import dns_label, dns_subdomain, validate_labels
from dynamo_operator.apiserver.resources import Object

_SERVICE_NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/12")
_NODE_PORTS: Final = range(30000, 32768)
_AFFINITY_SECONDS: Final = 10_800
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")

SERVICE: Final = kind(
    spec=record(
        ports=map_list(
            "port protocol",
            record(
                name=STRING,
                protocol=with_default(STRING, "TCP"),
                appProtocol=STRING,
                port=INT32,
                targetPort=INT_OR_STRING,
                nodePort=INT32,
            ),
        ),
        selector=atomic(STRINGS),
        clusterIP=STRING,
        clusterIPs=array(STRING),
        type=STRING,
        externalIPs=array(STRING),
        sessionAffinity=STRING,
        loadBalancerIP=STRING,
        loadBalancerSourceRanges=array(STRING),
        externalName=STRING,
        externalTrafficPolicy=STRING,
        healthCheckNodePort=INT32,
        publishNotReadyAddresses=BOOLEAN,
        sessionAffinityConfig=record(clientIP=record(timeoutSeconds=INT32)),
        ipFamilies=array(STRING),
        ipFamilyPolicy=STRING,
        allocateLoadBalancerNodePorts=BOOLEAN,
        loadBalancerClass=STRING,
        internalTrafficPolicy=STRING,
        trafficDistribution=STRING,
    ),
    status=record(loadBalancer=record(ingress=array(FREE_OBJECT)), conditions=CONDITIONS),
)
ENDPOINT_SLICE: Final = kind(
    addressType=STRING,
    endpoints=array(
        record(
            addresses=array(STRING),
            conditions=record(ready=BOOLEAN, serving=BOOLEAN, terminating=BOOLEAN),
            hostname=STRING,
            targetRef=OBJECT_REFERENCE,
            deprecatedTopology=STRINGS,
            nodeName=STRING,
            zone=STRING,
            hints=FREE_OBJECT,
        )
    ),
    ports=array(record(name=STRING, protocol=STRING, port=INT32, appProtocol=STRING)),
)


def _default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort") and "port" in port:
            port["targetPort"] = port["port"]
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["sessionAffinity"] == "ClientIP" and not spec.get("sessionAffinityConfig"):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}


def _allocate(metadata: Object, spec: Object) -> None:
    """Give addresses and node ports by hash: the same for the same Service."""
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        given = spec.get("clusterIPs") or ()
        spec["clusterIP"] = given[0] if given else _address(metadata)
    spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
    if spec["clusterIP"] == "None" and not spec.get("selector"):
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
    spec.setdefault("ipFamilies", ["IPv6" if ":" in spec["clusterIP"] else "IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                number = _number(metadata, f"{port.get('port')}/{port.get('protocol')}")
                port["nodePort"] = _NODE_PORTS[number % len(_NODE_PORTS)]


def _address(metadata: Object) -> str:
    # The first addresses are the cluster's own (10.96.0.1 is the API server).
    offset = 16 + _number(metadata, "") % (_SERVICE_NETWORK.num_addresses - 32)
    return str(_SERVICE_NETWORK[offset])


def _number(metadata: Object, salt: str) -> int:
    identity = f"{metadata.get('namespace')}/{metadata.get('name')}/{salt}"
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big")


def _create_service(service: Object) -> None:
    service["status"] = {"loadBalancer": {}}
    _allocate(service["metadata"], service["spec"])


def _keep_allocations(new: Object, old: Object) -> None:
    """A client that leaves out what the server allocated does not give it up."""
    before, after = old["spec"], new.setdefault("spec", {})
    if after.get("type", "ClusterIP") == "ExternalName":
        return
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if not after.get(field) and before.get(field):
            after[field] = before[field]
    node_ports = {
        (p.get("port"), p.get("protocol")): p.get("nodePort") for p in before.get("ports") or ()
    }
    if after.get("type") in ("NodePort", "LoadBalancer"):
        for port in after.get("ports") or ():
            known = node_ports.get((port.get("port"), port.get("protocol", "TCP")))
            if known and not port.get("nodePort"):
                port["nodePort"] = known
    _default_service(new)
    _allocate(new["metadata"], after)


def _validate_service(service: Object) -> Errors:
    spec = service["spec"]
    yield from supported("spec.type", spec.get("type"), _TYPES)
    yield from supported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    yield from validate_labels(spec.get("selector") or {}, "spec.selector")
    address = spec.get("clusterIP")
    if spec.get("type") == "ExternalName":
        name = spec.get("externalName") or ""
        yield from problems("spec.externalName", name, dns_subdomain(name.rstrip(".")))
    elif address != "None":
        if not spec.get("ports"):
            yield required("spec.ports")
        if address and not _is_address(address):
            yield invalid("spec.clusterIPs[0]", address, "must be a valid IP address")
    elif spec.get("type") in ("NodePort", "LoadBalancer"):
        detail = f"may not be set to 'None' for {spec['type']} services"
        yield invalid("spec.clusterIPs[0]", "None", detail)
    yield from _port_errors(spec.get("ports") or [])


def _port_errors(ports: list[Any]) -> Errors:
    names, numbers = set(), set()
    for position, port in enumerate(ports):
        path, name, number = f"spec.ports[{position}]", port.get("name") or "", port.get("port")
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name:
            yield from problems(f"{path}.name", name, dns_label(name))
            if name in names:
                yield duplicate(f"{path}.name", name)
        names.add(name)
        yield from _number_errors(f"{path}.port", number)
        target = port.get("targetPort")
        if isinstance(target, int):
            yield from _number_errors(f"{path}.targetPort", target)
        yield from supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
        identity = (number, port.get("protocol"))
        if identity in numbers:
            yield duplicate(path, {"port": number, "protocol": port.get("protocol")})
        numbers.add(identity)


def _number_errors(path: str, number: Any) -> Errors:
    if number is None:
        yield required(path)
    elif not 1 <= number <= 65535:
        yield invalid(path, number, "must be between 1 and 65535, inclusive")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _validate_service_update(new: Object, old: Object) -> Errors:
    before, after = old["spec"].get("clusterIPs"), new["spec"].get("clusterIPs")
    if before and new["spec"].get("type") != "ExternalName" and before[:1] != (after or [])[:1]:
        yield invalid("spec.clusterIPs[0]", after, "may not change once set")


def _default_endpoint_slice(endpoint_slice: Object) -> None:
    for port in endpoint_slice.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _validate_endpoint_slice(endpoint_slice: Object) -> Errors:
    kind_of_address = endpoint_slice.get("addressType")
    if not kind_of_address:
        yield required("addressType")
    else:
        yield from supported("addressType", kind_of_address, _ADDRESS_TYPES)
    for position, endpoint in enumerate(endpoint_slice.get("endpoints") or ()):
        path = f"endpoints[{position}].addresses"
        if not endpoint.get("addresses"):
            yield required(path, "must contain at least 1 address")
        elif kind_of_address in ("IPv4", "IPv6"):
            yield from _endpoint_address_errors(path, endpoint["addresses"], kind_of_address)
    names = [port.get("name") for port in endpoint_slice.get("ports") or ()]
    for position, name in enumerate(names):
        if name in names[:position]:
            yield duplicate(f"ports[{position}].name", name)


def _endpoint_address_errors(path: str, addresses: list[str], family: str) -> Errors:
    for number, text in enumerate(addresses):
        at = f"{path}[{number}]"
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(at, text, detail)
            continue
        if f"IPv{address.version}" != family:
            yield invalid(path, text, f"must be an {family} address")
        if address.is_unspecified:
            yield invalid(at, text, f"may not be unspecified ({text})")
        if address.is_loopback:
            yield invalid(at, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
        if address.is_link_local:
            detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
            yield invalid(at, text, detail)


def _validate_endpoint_slice_update(new: Object, old: Object) -> Errors:
    return immutable("addressType", new.get("addressType"), old.get("addressType"))


def _validate_service_status(new: Object, _old: Object) -> Errors:
    balancer = (new.get("status") or {}).get("loadBalancer") or {}
    if balancer.get("ingress") and new["spec"].get("type") != "LoadBalancer":
        detail = "may only be used when `spec.type` is 'LoadBalancer'"
        yield forbidden("status.loadBalancer.ingress", detail)


KINDS: Final[Kinds] = {
    ("", "Service"): KindRules(
        schema=SERVICE,
        has_status=True,
        default=_default_service,
        created=_create_service,
        carry=_keep_allocations,
        validate=_validate_service,
        validate_update=_validate_service_update,
        validate_status=_validate_service_status,
        columns=columns.SERVICE,
        selectable={"spec.clusterIP": "", "spec.type": ""},
    ),
    ("discovery.k8s.io", "EndpointSlice"): KindRules(
        schema=ENDPOINT_SLICE,
        has_generation=True,
        generation_fields=("addressType", "endpoints", "ports"),
        default=_default_endpoint_slice,
        validate=_validate_endpoint_slice,
        validate_update=_validate_endpoint_slice_update,
        columns=columns.ENDPOINT_SLICE,
    ),
}
