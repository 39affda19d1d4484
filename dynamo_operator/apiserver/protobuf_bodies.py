"""Request bodies in Kubernetes' protobuf, as kubectl's typed commands send them.

`kubectl create namespace`, `auth can-i` or `drain` have no JSON form to fall back to; what they
send is decoded by tables of field numbers. Other kinds stay unsupported in this form.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dynamo_operator.apiserver import status

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: str = "string"
    repeated: bool = False


def _fields(text: str) -> dict[int, _Field]:
    """Read `number:name[:type]`, with `*` behind the type of a repeated field."""
    fields = {}
    for entry in text.split():
        number, name, *kind = entry.split(":")
        wire = kind[0] if kind else "string"
        fields[int(number)] = _Field(name, wire.rstrip("*"), wire.endswith("*"))
    return fields


_OBJECT = "1:metadata:ObjectMeta"
_MESSAGES: Mapping[str, Mapping[int, _Field]] = {
    name: _fields(text)
    for name, text in {
        "Unknown": "1:typeMeta:TypeMeta 2:raw:bytes",
        "TypeMeta": "1:apiVersion 2:kind",
        "ObjectMeta": "1:name 2:generateName 3:namespace 5:uid 6:resourceVersion 7:generation:int "
        "9:deletionTimestamp:Time 10:deletionGracePeriodSeconds:int 11:labels:map "
        "12:annotations:map 13:ownerReferences:OwnerReference* 14:finalizers:string*",
        "Time": "1:seconds:int",
        "OwnerReference": "1:kind 3:name 4:uid 5:apiVersion 6:controller:bool "
        "7:blockOwnerDeletion:bool",
        "DeleteOptions": "1:gracePeriodSeconds:int 2:preconditions:Preconditions "
        "3:orphanDependents:bool 4:propagationPolicy 5:dryRun:string*",
        "Preconditions": "1:uid 2:resourceVersion",
        "Namespace": f"{_OBJECT} 2:spec:NamespaceSpec",
        "NamespaceSpec": "1:finalizers:string*",
        "ConfigMap": f"{_OBJECT} 2:data:map 3:binaryData:bytesmap 4:immutable:bool",
        "Secret": f"{_OBJECT} 2:data:bytesmap 3:type 4:stringData:map 5:immutable:bool",
        "ServiceAccount": f"{_OBJECT} 3:imagePullSecrets:LocalObjectReference* "
        "4:automountServiceAccountToken:bool",
        "LocalObjectReference": "1:name",
        "PolicyRule": "1:verbs:string* 2:apiGroups:string* 3:resources:string* "
        "4:resourceNames:string* 5:nonResourceURLs:string*",
        "Role": f"{_OBJECT} 2:rules:PolicyRule*",
        "ClusterRole": f"{_OBJECT} 2:rules:PolicyRule*",
        "RoleBinding": f"{_OBJECT} 2:subjects:Subject* 3:roleRef:RoleRef",
        "ClusterRoleBinding": f"{_OBJECT} 2:subjects:Subject* 3:roleRef:RoleRef",
        "Subject": "1:kind 2:apiGroup 3:name 4:namespace",
        "RoleRef": "1:apiGroup 2:kind 3:name",
        "SelfSubjectAccessReview": f"{_OBJECT} 2:spec:AccessReviewSpec",
        "SubjectAccessReview": f"{_OBJECT} 2:spec:AccessReviewSpec",
        "LocalSubjectAccessReview": f"{_OBJECT} 2:spec:AccessReviewSpec",
        "AccessReviewSpec": "1:resourceAttributes:ResourceAttributes "
        "2:nonResourceAttributes:NonResourceAttributes 3:user 4:groups:string* 6:uid",
        "ResourceAttributes": "1:namespace 2:verb 3:group 4:version 5:resource 6:subresource "
        "7:name",
        "NonResourceAttributes": "1:path 2:verb",
        "SelfSubjectRulesReview": f"{_OBJECT} 2:spec:RulesReviewSpec",
        "RulesReviewSpec": "1:namespace",
        "SelfSubjectReview": _OBJECT,
        "TokenReview": f"{_OBJECT} 2:spec:TokenReviewSpec",
        "TokenReviewSpec": "1:token 2:audiences:string*",
        "TokenRequest": f"{_OBJECT} 2:spec:TokenRequestSpec",
        "TokenRequestSpec": "1:audiences:string* 3:boundObjectRef:BoundObjectReference "
        "4:expirationSeconds:int",
        "BoundObjectReference": "1:kind 2:apiVersion 3:name 4:uid",
        "Eviction": f"{_OBJECT} 2:deleteOptions:DeleteOptions",
        "Scale": f"{_OBJECT} 2:spec:ScaleSpec",
        "ScaleSpec": "1:replicas:int",
    }.items()
}
_KINDS = frozenset(
    name
    for name, fields in _MESSAGES.items()
    if fields.get(1) == _Field("metadata", "ObjectMeta") or name == "DeleteOptions"
)


def parse_protobuf(data: bytes) -> dict[str, Any]:
    """Decode an object.

    Raises:
        StatusError: 400 for a body that is not what it claims, 415 for a kind without a table.
    """
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("provided data does not appear to be a protobuf message")
        envelope = _message("Unknown", data[len(_MAGIC) :])
        type_meta = envelope.get("typeMeta", {})
        kind = type_meta.get("kind", "")
        if kind not in _KINDS:
            raise status.unsupported_media_type(("application/json", "application/yaml"))
        obj = _message(kind, base64.b64decode(envelope.get("raw", "")))
    except (ValueError, IndexError) as error:
        raise status.bad_request(f"error decoding protobuf: {error}") from None
    return {"apiVersion": type_meta.get("apiVersion", ""), "kind": kind, **_without_empty(obj)}


def _message(name: str, data: bytes) -> dict[str, Any]:
    table = _MESSAGES[name]
    result: dict[str, Any] = {}
    for number, value in _wire_fields(data):
        field = table.get(number)
        if field is None:
            continue
        if field.type in {"map", "bytesmap"}:
            entry = _entry(value, is_bytes=field.type == "bytesmap")
            result.setdefault(field.name, {}).update(entry)
        elif field.repeated:
            result.setdefault(field.name, []).append(_value(field.type, value))
        else:
            result[field.name] = _value(field.type, value)
    return result


def _value(kind: str, value: int | bytes) -> Any:
    if isinstance(value, int):
        if kind == "bool":
            return bool(value)
        return value - (1 << 64) if value >> 63 else value
    match kind:
        case "string":
            return value.decode()
        case "bytes":
            return base64.b64encode(value).decode()
        case "Time":
            seconds = _message("Time", value).get("seconds", 0)
            return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return _message(kind, value)


def _entry(value: int | bytes, *, is_bytes: bool) -> dict[str, str]:
    if isinstance(value, int):
        raise ValueError("a map entry is no message")
    pair = dict(_wire_fields(value))
    kind = "bytes" if is_bytes else "string"
    return {_value("string", pair.get(1, b"")): _value(kind, pair.get(2, b""))}


def _wire_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers and raw values; fixed-width ones are skipped, as no table has any."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        match wire_type:
            case 0:
                value, position = _varint(data, position)
                yield number, value
            case 2:
                length, position = _varint(data, position)
                if position + length > len(data):
                    raise ValueError("unexpected end of data")
                yield number, data[position : position + length]
                position += length
            case 1:
                position += 8
            case 5:
                position += 4
            case _:
                raise ValueError(f"unknown wire type {wire_type}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _without_empty(value: Any) -> Any:
    """Drop empty strings and messages: protobuf writes them where JSON leaves a field out.

    List elements stay (an empty API group means the core group).
    """
    if not isinstance(value, dict):
        return [_without_empty(item) for item in value] if isinstance(value, list) else value
    cleaned = {key: _without_empty(item) for key, item in value.items()}
    return {key: item for key, item in cleaned.items() if item not in ("", {}, [])}
