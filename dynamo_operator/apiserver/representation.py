"""Stored objects as bytes in the version and the form that a client asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dynamo_operator.apiserver import tables
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.negotiation import Form
from dynamo_operator.apiserver.resources import Object, Resource
from dynamo_operator.apiserver.storage import StoredObject


def served_value(resource: Resource, stored: StoredObject) -> Object:
    """Return the object in the resource's version; the result is shared and must not be changed."""
    return resource.served(stored.value)


def served_data(resource: Resource, stored: StoredObject) -> bytes:
    """Return the object in the resource's version as JSON that begins with apiVersion."""
    if resource.from_storage is not None:
        return to_json(resource.from_storage(stored.value))
    kept = stored.value["apiVersion"]
    if kept == resource.api_version:
        return stored.data
    prefix = len(b'{"apiVersion":' + to_json(kept))
    return b'{"apiVersion":' + to_json(resource.api_version) + stored.data[prefix:]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes objects of one resource for one request."""

    resource: Resource
    form: Form
    include_object: str
    now: datetime

    def object(self, stored: StoredObject, *, headers: bool = True) -> bytes:
        """Encode one object as the answer to a get, or inside a watch event."""
        match self.form:
            case Form.METADATA:
                return _as_meta_v1(stored)
            case Form.TABLE:
                return to_json(self._table([stored], headers=headers))
        return served_data(self.resource, stored)

    def list(
        self, items: Sequence[StoredObject], *, version: int, token: str, remaining: int | None
    ) -> bytes:
        """Encode a list."""
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if token or (self.resource.custom and self.form is Form.OBJECT):
            metadata["continue"] = token
        if remaining is not None:
            metadata["remainingItemCount"] = remaining
        match self.form:
            case Form.TABLE:
                return to_json({**self._table(items, headers=True), "metadata": metadata})
            case Form.METADATA:
                kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
                encoded = [_as_meta_v1(item) for item in items]
            case _:
                kind = self.resource.list_kind or f"{self.resource.kind}List"
                api_version = self.resource.api_version
                encoded = [self._list_item(item) for item in items]
        head = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        return to_json(head)[:-1] + b',"items":[' + b",".join(encoded) + b"]}"

    def _list_item(self, item: StoredObject) -> bytes:
        data = served_data(self.resource, item)
        if self.resource.custom:
            return data
        # The items of a built-in list carry neither apiVersion nor kind.
        return b'{"metadata":' + data.split(b',"metadata":', 1)[1]

    def _table(self, items: Sequence[StoredObject], *, headers: bool) -> dict[str, Any]:
        return tables.table(
            self.resource,
            [served_value(self.resource, item) for item in items],
            now=self.now,
            include_object=self.include_object,
            headers=headers,
        )


def _as_meta_v1(stored: StoredObject) -> bytes:
    return stored.metadata_data
