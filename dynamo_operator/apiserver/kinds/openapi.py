"""This module is a short way to write OpenAPI schemas of built-in kinds."""

from __future__ import annotations

from typing import Any, Final

from dynamo_operator.apiserver.schema import OBJECT_META_SCHEMA

OpenAPI = dict[str, Any]

STRING: Final[OpenAPI] = {"type": "string"}
BOOLEAN: Final[OpenAPI] = {"type": "boolean"}
INT32: Final[OpenAPI] = {"type": "integer", "format": "int32"}
INT64: Final[OpenAPI] = {"type": "integer", "format": "int64"}
TIME: Final[OpenAPI] = {"type": "string", "format": "date-time"}
BYTES: Final[OpenAPI] = {"type": "string", "format": "byte"}
INT_OR_STRING: Final[OpenAPI] = {"x-kubernetes-int-or-string": True}
ANYTHING: Final[OpenAPI] = {"x-kubernetes-preserve-unknown-fields": True}
FREE_OBJECT: Final[OpenAPI] = {"type": "object", **ANYTHING}


def record(required: str = "", /, **properties: OpenAPI) -> OpenAPI:
    """An object of declared fields; `required` names some of them, separated by blanks."""
    schema: OpenAPI = {"type": "object", "properties": properties}
    return {**schema, "required": required.split()} if required else schema


def atomic(schema: OpenAPI) -> OpenAPI:
    """The schema as one that is replaced whole."""
    return {**schema, "x-kubernetes-map-type": "atomic"}


def mapping(values: OpenAPI) -> OpenAPI:
    """An object of free keys."""
    return {"type": "object", "additionalProperties": values}


def array(items: OpenAPI) -> OpenAPI:
    """A list that is replaced whole."""
    return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}


def set_of(items: OpenAPI) -> OpenAPI:
    """A list of distinct scalars."""
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "set",
        "x-kubernetes-patch-strategy": "merge",
    }


def map_list(keys: str, items: OpenAPI, *, patch: str = "merge") -> OpenAPI:
    """A list whose items are told by `keys`; strategic merge goes by the first of them."""
    schema: OpenAPI = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys.split(),
    }
    if not patch:
        return schema
    merge_key = keys.split()[0]
    return {
        **schema,
        "x-kubernetes-patch-strategy": patch,
        "x-kubernetes-patch-merge-key": merge_key,
    }


def kind(**properties: OpenAPI) -> OpenAPI:
    """A whole object, apart from its apiVersion, kind and metadata."""
    return {"type": "object", "properties": properties}


def with_default(schema: OpenAPI, default: Any) -> OpenAPI:
    """The schema with a default."""
    return {**schema, "default": default}


STRINGS: Final = mapping(STRING)
QUANTITIES: Final = mapping(ANYTHING)
OBJECT_META: Final[OpenAPI] = dict(OBJECT_META_SCHEMA)
LABEL_SELECTOR: Final = atomic(
    record(
        matchLabels=STRINGS,
        matchExpressions=array(
            record("key operator", key=STRING, operator=STRING, values=array(STRING))
        ),
    )
)
OBJECT_REFERENCE: Final = atomic(
    record(
        kind=STRING,
        namespace=STRING,
        name=STRING,
        uid=STRING,
        apiVersion=STRING,
        resourceVersion=STRING,
        fieldPath=STRING,
    )
)
LOCAL_REFERENCE: Final = atomic(record(name=STRING))
TYPED_REFERENCE: Final = atomic(record(apiGroup=STRING, kind=STRING, name=STRING, namespace=STRING))
CONDITION: Final = record(
    type=STRING,
    status=STRING,
    observedGeneration=INT64,
    lastProbeTime={**TIME, "nullable": True},
    lastHeartbeatTime={**TIME, "nullable": True},
    lastUpdateTime={**TIME, "nullable": True},
    lastTransitionTime={**TIME, "nullable": True},
    reason=STRING,
    message=STRING,
)
CONDITIONS: Final = map_list("type", CONDITION)
