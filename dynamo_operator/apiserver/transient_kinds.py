"""Kinds that are sent but never stored: options, reviews, requests to subresources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.kinds.openapi import (
    BOOLEAN,
    FREE_OBJECT,
    INT32,
    INT64,
    STRING,
    OpenAPI,
    array,
    mapping,
    record,
)
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.schema import Schema, drop_nulls, prune
from dynamo_operator.apiserver.schema_validation import Validator

_STRINGS: Final = array(STRING)
_DELETE_OPTIONS: Final = record(
    gracePeriodSeconds=INT64,
    preconditions=record(uid=STRING, resourceVersion=STRING),
    orphanDependents=BOOLEAN,
    propagationPolicy=STRING,
    dryRun=_STRINGS,
)
_RESOURCE_ATTRIBUTES: Final = record(
    namespace=STRING,
    verb=STRING,
    group=STRING,
    version=STRING,
    resource=STRING,
    subresource=STRING,
    name=STRING,
    fieldSelector=FREE_OBJECT,
    labelSelector=FREE_OBJECT,
)
_ACCESS_REVIEW: Final = record(
    spec=record(
        resourceAttributes=_RESOURCE_ATTRIBUTES,
        nonResourceAttributes=record(path=STRING, verb=STRING),
        user=STRING,
        groups=_STRINGS,
        extra=mapping(_STRINGS),
        uid=STRING,
    ),
    status=FREE_OBJECT,
)
_SCHEMAS: Final[Mapping[str, OpenAPI]] = {
    "DeleteOptions": _DELETE_OPTIONS,
    "Eviction": record(deleteOptions=_DELETE_OPTIONS),
    "Binding": record(
        target=record(kind=STRING, name=STRING, namespace=STRING, uid=STRING, apiVersion=STRING)
    ),
    "Scale": record(spec=record(replicas=INT32), status=FREE_OBJECT),
    "TokenRequest": record(
        spec=record(
            audiences=_STRINGS,
            expirationSeconds=INT64,
            boundObjectRef=record(kind=STRING, apiVersion=STRING, name=STRING, uid=STRING),
        ),
        status=FREE_OBJECT,
    ),
    "TokenReview": record(spec=record(token=STRING, audiences=_STRINGS), status=FREE_OBJECT),
    "SelfSubjectReview": record(status=FREE_OBJECT),
    "SelfSubjectRulesReview": record(spec=record(namespace=STRING), status=FREE_OBJECT),
    "SubjectAccessReview": _ACCESS_REVIEW,
    "LocalSubjectAccessReview": _ACCESS_REVIEW,
    "SelfSubjectAccessReview": _ACCESS_REVIEW,
    "Namespace": record(spec=record(finalizers=_STRINGS), status=FREE_OBJECT),
}


def decode(kind: str, value: Any) -> Object:
    """Return an object of a kind, unknown fields and nulls dropped; metadata is there.

    Raises:
        StatusError: 400 for another kind, or a field of the wrong type.
    """
    if not isinstance(value, dict) or value.get("kind", kind) != kind:
        raise status.bad_request(f"the object provided is unrecognized (must be of type {kind})")
    schema, validator = _compiled(kind)
    obj: Object = prune(value, schema)
    drop_nulls(obj, schema, nullable_too=True)
    for error in validator.validate(obj):
        raise status.bad_request(f"{kind} cannot be handled as a {kind}: {error}")
    return {"metadata": {}, **obj}


@cache
def _compiled(kind: str) -> tuple[Schema, Validator]:
    schema = Schema.compile(_SCHEMAS[kind], root=True)
    return schema, Validator(schema)
