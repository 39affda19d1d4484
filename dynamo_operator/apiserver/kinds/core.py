"""This module holds Namespace, Node, ConfigMap, Secret, ServiceAccount, claims, and Pod."""

from __future__ import annotations

import base64
import binascii
import json
import re
from ipaddress import ip_address
from typing import Any, Final

from dynamo_operator.apiserver.kinds import columns
from dynamo_operator.apiserver.kinds.ephemeral_containers import validate_ephemeral_change
from dynamo_operator.apiserver.kinds.openapi import (
    BOOLEAN,
    BYTES,
    CONDITIONS,
    FREE_OBJECT,
    INT32,
    LOCAL_REFERENCE,
    OBJECT_REFERENCE,
    QUANTITIES,
    STRING,
    STRINGS,
    TIME,
    array,
    kind,
    map_list,
    mapping,
    record,
    set_of,
)
from dynamo_operator.apiserver.kinds.pod_confinement import take_app_armor_annotations
from dynamo_operator.apiserver.kinds.pod_defaults import created_pod, default_pod
from dynamo_operator.apiserver.kinds.pod_schema import CLAIM_SPEC, POD
from dynamo_operator.apiserver.kinds.pod_validation import (
    validate_new_pod,
    validate_pod,
    validate_pod_status,
    validate_pod_update,
)
from dynamo_operator.apiserver.kinds.pod_warnings import (
    app_armor_warnings,
    name_warnings,
    pod_warnings,
)
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    KindRules,
    Kinds,
    Part,
    duplicate,
    forbidden,
    immutable,
    invalid,
    required,
    supported,
    too_long,
)
from dynamo_operator.apiserver.quantities import canonical_quantity
from dynamo_operator.apiserver.resources import Object

_MAX_DATA_BYTES: Final = 1024 * 1024
_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_REQUIRED_KEYS: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_TAINT_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")

NODE: Final = kind(
    spec=record(
        podCIDR=STRING,
        podCIDRs=set_of(STRING),
        providerID=STRING,
        unschedulable=BOOLEAN,
        taints=array(record(key=STRING, value=STRING, effect=STRING, timeAdded=TIME)),
        configSource=FREE_OBJECT,
        externalID=STRING,
    ),
    status=record(
        capacity=QUANTITIES,
        allocatable=QUANTITIES,
        phase=STRING,
        conditions=CONDITIONS,
        addresses=map_list("type", record(type=STRING, address=STRING)),
        daemonEndpoints=record(kubeletEndpoint=record(Port=INT32)),
        nodeInfo=mapping(STRING),
        images=array(FREE_OBJECT),
        volumesInUse=array(STRING),
        volumesAttached=array(FREE_OBJECT),
        config=FREE_OBJECT,
        runtimeHandlers=array(FREE_OBJECT),
        features=FREE_OBJECT,
        declaredFeatures=array(STRING),
    ),
)
NAMESPACE: Final = kind(
    spec=record(finalizers=array(STRING)),
    status=record(phase=STRING, conditions=CONDITIONS),
)
CONFIG_MAP: Final = kind(data=STRINGS, binaryData=mapping(BYTES), immutable=BOOLEAN)
SECRET: Final = kind(
    data=mapping({**BYTES, "nullable": True}), stringData=STRINGS, type=STRING, immutable=BOOLEAN
)
SERVICE_ACCOUNT: Final = kind(
    secrets=map_list("name", OBJECT_REFERENCE),
    imagePullSecrets=array(LOCAL_REFERENCE),
    automountServiceAccountToken=BOOLEAN,
)
CLAIM: Final = kind(
    spec=CLAIM_SPEC,
    status=record(
        phase=STRING,
        accessModes=array(STRING),
        capacity=QUANTITIES,
        conditions=CONDITIONS,
        allocatedResources=QUANTITIES,
        allocatedResourceStatuses=STRINGS,
        currentVolumeAttributesClassName=STRING,
        modifyVolumeStatus=FREE_OBJECT,
    ),
)


def _create_pod(pod: Object) -> None:
    created_pod(pod)
    take_app_armor_annotations(pod)
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _create_namespace(namespace: Object) -> None:
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    namespace["status"] = {"phase": "Active"}


def _default_namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}


def _keep_finalizers(new: Object, old: Object) -> None:
    """Only the finalize subresource changes a namespace's finalizers."""
    new["spec"] = old.get("spec") or {}


def _validate_namespace(namespace: Object) -> Errors:
    for finalizer in namespace["spec"].get("finalizers") or ():
        if "/" not in finalizer and finalizer != "kubernetes":
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid("spec.finalizers", finalizer, detail)


def _default_pod_status(pod: Object) -> None:
    """Of a Pod's address and its addresses the one speaks for the others."""
    said = pod["status"]
    address, addresses = said.get("podIP"), said.get("podIPs") or []
    if address and (not addresses or addresses[0].get("ip") != address):
        said["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        said["podIP"] = addresses[0].get("ip", "")


def _validate_pod_status(new: Object, old: Object) -> Errors:
    yield from validate_pod_status(new, old)
    for index, entry in enumerate((new.get("status") or {}).get("podIPs") or ()):
        try:
            ip_address(entry.get("ip", ""))
        except ValueError:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(f"status.podIPs[{index}]", entry.get("ip", ""), detail)


def _default_node(node: Object) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    for field in ("capacity", "allocatable"):
        if status.get(field):
            status[field] = {k: canonical_quantity(v) for k, v in status[field].items()}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _validate_node(node: Object) -> Errors:
    seen = set()
    for position, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        path = f"spec.taints[{position}]"
        if not taint.get("key"):
            yield required(f"{path}.key")
        yield from supported(f"{path}.effect", taint.get("effect"), _TAINT_EFFECTS)
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            yield duplicate(path, taint)
        seen.add(identity)


def _validate_node_update(new: Object, old: Object) -> Errors:
    before, after = ((o.get("spec") or {}).get("providerID") for o in (old, new))
    if before and before != after:
        yield forbidden(
            "spec.providerID", 'node updates may not change providerID except from "" to valid'
        )


def _validate_config_map(config_map: Object) -> Errors:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    yield from _key_errors(data, "data")
    yield from _key_errors(binary, "binaryData")
    for key in data:
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    size = sum(len(text.encode()) for text in data.values())
    size += sum(_decoded_size(text) for text in binary.values())
    if size > _MAX_DATA_BYTES:
        yield too_long("<nil>", _MAX_DATA_BYTES)


def _validate_config_map_update(new: Object, old: Object) -> Errors:
    return _sealed(new, old, ("data", "binaryData"))


def _sealed(new: Object, old: Object, fields: tuple[str, ...]) -> Errors:
    if not old.get("immutable"):
        return
    detail = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield forbidden("immutable", detail)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield forbidden(field, detail)


def _key_errors(data: dict[str, Any], path: str) -> Errors:
    for key in data:
        if len(key) > 253:
            yield invalid(f"{path}[{key}]", key, "must be no more than 253 bytes")
        if key in (".", "..") or key.startswith("..") or _DATA_KEY.fullmatch(key) is None:
            detail = (
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
                "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
                "'[-._a-zA-Z0-9]+')"
            )
            yield invalid(f"{path}[{key}]", key, detail)


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4


def _default_secret(secret: Object) -> None:
    if not secret.get("type"):
        secret["type"] = "Opaque"
    plain = secret.pop("stringData", None) or {}
    if plain:
        encoded = {k: base64.b64encode(v.encode()).decode() for k, v in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _validate_secret(secret: Object) -> Errors:
    data = secret.get("data") or {}
    yield from _key_errors(data, "data")
    if sum(_decoded_size(value or "") for value in data.values()) > _MAX_DATA_BYTES:
        yield too_long("data", _MAX_DATA_BYTES)
    for key in _REQUIRED_KEYS.get(secret.get("type", ""), ()):
        if key not in data:
            yield required(f"data[{key}]")
    for key in (".dockercfg", ".dockerconfigjson"):
        if key in _REQUIRED_KEYS.get(secret.get("type", ""), ()) and key in data:
            yield from _json_errors(data[key], f"data[{key}]")


def _json_errors(encoded: str, path: str) -> Errors:
    try:
        json.loads(base64.b64decode(encoded or "", validate=True))
    except (ValueError, binascii.Error) as error:
        yield invalid(path, "<secret contents redacted>", f"invalid JSON: {error}")


def _validate_secret_update(new: Object, old: Object) -> Errors:
    yield from immutable("type", new.get("type"), old.get("type"))
    yield from _sealed(new, old, ("data",))


def _default_claim(claim: Object) -> None:
    spec = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    requests = (spec.get("resources") or {}).get("requests") or {}
    for name, value in requests.items():
        requests[name] = canonical_quantity(value)


def _create_claim(claim: Object) -> None:
    claim["status"] = {"phase": "Pending"}


def _validate_claim(claim: Object) -> Errors:
    spec = claim["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes", "at least 1 access mode is required")
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        yield required("spec.resources[storage]")


def _validate_claim_update(new: Object, old: Object) -> Errors:
    def fixed(claim: Object) -> Object:
        left_out = ("resources", "volumeName", "volumeAttributesClassName")
        return {k: v for k, v in claim["spec"].items() if k not in left_out}

    bound = old["spec"].get("volumeName")
    if fixed(new) != fixed(old) or (bound and new["spec"].get("volumeName") != bound):
        yield forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims",
        )


KINDS: Final[Kinds] = {
    ("", "Pod"): KindRules(
        schema=POD,
        has_status=True,
        has_generation=True,
        default=default_pod,
        created=_create_pod,
        validate=validate_pod,
        validate_new=validate_new_pod,
        validate_update=validate_pod_update,
        validate_status=_validate_pod_status,
        parts={"ephemeralcontainers": Part("ephemeralContainers", validate_ephemeral_change)},
        default_status=_default_pod_status,
        warn=pod_warnings,
        warn_new=name_warnings,
        warn_at_once=app_armor_warnings,
        columns=columns.POD,
        selectable={
            "spec.nodeName": "",
            "spec.restartPolicy": "",
            "spec.schedulerName": "",
            "spec.serviceAccountName": "",
            "spec.hostNetwork": "false",
            "status.phase": "",
            "status.podIP": "",
            "status.podIPs": "",
            "status.nominatedNodeName": "",
        },
    ),
    ("", "Node"): KindRules(
        schema=NODE,
        has_status=True,
        status_on_create=True,
        default=_default_node,
        validate=_validate_node,
        validate_update=_validate_node_update,
        columns=columns.NODE,
        selectable={"spec.unschedulable": "false"},
    ),
    ("", "Namespace"): KindRules(
        schema=NAMESPACE,
        has_status=True,
        default=_default_namespace,
        created=_create_namespace,
        carry=_keep_finalizers,
        validate=_validate_namespace,
        columns=columns.NAMESPACE,
        selectable={"status.phase": ""},
    ),
    ("", "ConfigMap"): KindRules(
        schema=CONFIG_MAP,
        validate=_validate_config_map,
        validate_update=_validate_config_map_update,
        columns=columns.CONFIG_MAP,
    ),
    ("", "Secret"): KindRules(
        schema=SECRET,
        default=_default_secret,
        validate=_validate_secret,
        validate_update=_validate_secret_update,
        columns=columns.SECRET,
        selectable={"type": ""},
    ),
    ("", "ServiceAccount"): KindRules(schema=SERVICE_ACCOUNT, columns=columns.SERVICE_ACCOUNT),
    ("", "PersistentVolumeClaim"): KindRules(
        schema=CLAIM,
        has_status=True,
        default=_default_claim,
        created=_create_claim,
        validate=_validate_claim,
        validate_update=_validate_claim_update,
        columns=columns.CLAIM,
    ),
}
