"""What a write is: its body, its kind of patch, and what its observers learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

from pydantic import BaseModel

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import (
    ClientError,
    ServerError,
    TransportError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.client.generated_models import GeneratedStruct, is_generated
from dynamo_operator.runtime.client.reader import Kind, M
from dynamo_operator.runtime.models import KubeModel, KubeStruct
from informers.objects import CachedObject, ObjectKey, ResourceType


class PatchType(StrEnum):
    """How the server reads a patch; the value is its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Write:
    """A write that the server took, or may have taken: what a cache must see to be up to date.

    `resource_version` is the object's after the write. After a delete it is set only if the object
    is still there (finalizers, grace period); `deleted_uid` then names the deleted instance, as it
    does when the object is gone ("" where the server did not say). `stored` is the object after the
    write, None when it is gone. `in_doubt` says that no answer told whether the write was taken;
    nothing but the key is known then, and of a generated name not even that.
    """

    resource_type: ResourceType
    key: ObjectKey
    resource_version: str = ""
    deleted: bool = False
    deleted_uid: str = ""
    in_doubt: bool = False
    stored: CachedObject | None = field(default=None, compare=False, repr=False)


WriteObserver = Callable[[Write], None]
Propagation = Literal["Background", "Foreground", "Orphan"]


def may_have_happened(error: BaseException) -> bool:
    """Whether a write that ended in this error, or was cancelled, may have been taken."""
    if isinstance(error, TransportError):
        return error.sent
    if isinstance(error, ClientError):
        return isinstance(error, UnknownOutcomeError | ServerError)
    return True


def identity_of(kind: Kind[M]) -> dict[str, str]:
    """Return the apiVersion and kind of a type's objects."""
    resource_type = codec.resource_type_of(kind)
    return {"apiVersion": resource_type.api_version, "kind": resource_type.kind}


def body_of(
    obj: M | Mapping[str, Any], kind: ResourceType | None
) -> tuple[Kind[M], dict[str, Any]]:
    """Return the type to answer in, and the JSON to send, which the caller may change."""
    write_kind: Kind[M]
    if isinstance(obj, KubeModel):
        write_kind, fields = type(obj), obj.to_dict()
    elif is_generated(type(obj)):
        write_kind, fields = cast("type[M]", type(obj)), _generated_dict(obj)
    elif kind is None:
        raise TypeError("plain JSON needs kind=: the ResourceType that it is of")
    else:
        write_kind, fields = kind, dict(cast("Mapping[str, Any]", obj))
    body = {**fields, **identity_of(write_kind)}
    body["metadata"] = dict(body.get("metadata") or {})
    return write_kind, body


def key_of(body: Mapping[str, Any]) -> ObjectKey:
    """Return the key of an object's JSON."""
    metadata = body["metadata"]
    return ObjectKey(metadata.get("namespace") or "", metadata.get("name") or "")


def key_of_object(obj: M) -> ObjectKey:
    """Return the key of a model, ours or the generated client's."""
    return obj.key if isinstance(obj, KubeModel) else key_of(body_of(obj, None)[1])


def plain_status(status: BaseModel | GeneratedStruct | Mapping[str, Any]) -> Any:
    """Return the JSON of a status, with exactly the fields that were set."""
    if isinstance(status, KubeStruct):
        return status.to_dict()
    if isinstance(status, BaseModel):
        return status.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return dict(status) if isinstance(status, Mapping) else _generated_dict(status)


def _generated_dict(obj: object) -> dict[str, Any]:
    from dynamo_operator.runtime.client import kubernetes_asyncio_bridge as bridge

    return bridge.to_dict(obj)


def delete_options(
    uid: str | None = None,
    resource_version: str | None = None,
    propagation: Propagation | None = None,
    grace_period_seconds: int | None = None,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    """Return the body of a delete."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {name: value for name, value in preconditions.items() if value is not None}
    wanted = {
        "preconditions": preconditions or None,
        "propagationPolicy": propagation,
        "gracePeriodSeconds": grace_period_seconds,
        "dryRun": ["All"] if dry_run else None,
    }
    options = {name: value for name, value in wanted.items() if value is not None}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options}


def deletions_of(resource_type: ResourceType, body: bytes) -> Iterator[Write]:
    """Yield a write for each object that the deletion of many, answered with `body`, was about.

    The answer lists them as they were before: what became of each is in doubt.
    """
    try:
        page = codec.decode_list(body)
    except codec.MalformedJsonError:
        return  # a Status: the server does not say which ones
    for item in page.items:
        yield Write(resource_type, item.key, deleted=True, deleted_uid=item.uid, in_doubt=True)


def deletion_of(resource_type: ResourceType, key: ObjectKey, body: bytes, uid: str) -> Write:
    """Return what a delete, answered with `body`, means; `uid` is what it asked for."""
    status = codec.decode_status(body)
    if status is not None:
        uid = str(status.details.get("uid") or uid)
        return Write(resource_type, key, deleted=True, deleted_uid=uid)
    try:
        left = codec.decode_cached(body)
    except codec.MalformedJsonError:
        return Write(resource_type, key, deleted=True, deleted_uid=uid)
    version = left.resource_version if left.is_deleting else ""
    return Write(
        resource_type, key, version, deleted=True, deleted_uid=left.uid or uid, stored=left
    )
