"""Kinds that are sent but never stored: options, reviews, requests to subresources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
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
from dynamo_operator.apiserver.schema import Schema, drop_nulls, prune, unknown_fields
from dynamo_operator.apiserver.schema_validation import Validator

_STRINGS: Final = array(STRING)
_DELETE_OPTIONS: Final = record(
    gracePeriodSeconds=INT64,
    preconditions=record(uid=STRING, resourceVersion=STRING),
    orphanDependents=BOOLEAN,
    propagationPolicy=STRING,
    ignoreStoreReadErrorWithClusterBreakingPotential=BOOLEAN,
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
_ATTRIBUTES: Final[Mapping[str, OpenAPI]] = {
    "resourceAttributes": _RESOURCE_ATTRIBUTES,
    "nonResourceAttributes": record(path=STRING, verb=STRING),
}
_ACCESS_REVIEW: Final = record(
    spec=record(**_ATTRIBUTES, user=STRING, groups=_STRINGS, extra=mapping(_STRINGS), uid=STRING),
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
    "SelfSubjectAccessReview": record(spec=record(**_ATTRIBUTES), status=FREE_OBJECT),
    "Namespace": record(spec=record(finalizers=_STRINGS), status=FREE_OBJECT),
}

_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Binding": ("v1",),
    "DeleteOptions": ("v1",),
    "Eviction": ("policy/v1", "policy/v1beta1"),
    "Scale": ("autoscaling/v1",),
    "TokenRequest": ("authentication.k8s.io/v1",),
}
"""What those may be that are not in the resource's own version; the first is taken for granted."""


def decode(call: Call, kind: str, value: Any, *, patched: bool = False) -> Object:
    """Return an object of a kind, unknown fields and nulls dropped; metadata is there.

    Args:
        call: the request.
        kind: what it must be.
        value: what was sent, or what a patch made.
        patched: whether the latter.

    Raises:
        StatusError: 400 for another kind, or a field of the wrong type.
    """
    if not isinstance(value, dict):
        raise status.bad_request(f"the object provided is unrecognized (must be of type {kind})")
    versions = _VERSIONS.get(kind) or (call.resource.api_version,)
    value = {"apiVersion": versions[0], "kind": kind, **value}
    given, version = str(value["kind"]), str(value["apiVersion"]).rpartition("/")[2]
    if given != kind or (value["apiVersion"] not in versions and kind != "DeleteOptions"):
        if kind == "DeleteOptions":
            raise status.bad_request(f'no kind "{given}" is registered for deletions')
        raise call.undecodable(given, version, "it is of another kind or version", wanted=kind)
    schema, validator = _compiled(kind)
    obj: Object = prune(value, schema)
    drop_nulls(obj, schema, nullable_too=True)
    for error in validator.validate(obj):
        raise call.undecodable(kind, version, str(error), wanted=kind)
    if kind != "DeleteOptions":
        call.report(unknown_fields(value, schema), patched=patched, kind=kind, version=version)
    return {**obj, "metadata": obj.get("metadata", {})}


def schema_of(kind: str) -> Schema:
    """Return the schema of a kind."""
    return _compiled(kind)[0]


@cache
def _compiled(kind: str) -> tuple[Schema, Validator]:
    schema = Schema.compile(_SCHEMAS[kind], root=True)
    return schema, Validator(schema)
