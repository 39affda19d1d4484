"""Stored objects as bytes in the version and the form that a client asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dynamo_operator.apiserver import status, tables
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.negotiation import Form, Representation
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
    representation: Representation
    include_object: str
    now: datetime

    def object(self, stored: StoredObject, *, headers: bool = True) -> bytes:
        """Encode one object as the answer to a get, or inside a watch event.

        Raises:
            StatusError: 406 or 500 where the metadata of a list is asked for.
        """
        match self.form:
            case Form.METADATA:
                return self._metadata(stored)
            case Form.METADATA_LIST if self.resource.custom:
                raise status.StatusError(500, "", "content is not a list")
            case Form.METADATA_LIST:
                raise _of_another_form("PartialObjectMetadataList", "not a list", self._go_type)
            case Form.TABLE:
                return to_json(self._table([stored], headers=headers))
        return served_data(self.resource, stored)

    def list(
        self, items: Sequence[StoredObject], *, version: int, token: str, remaining: int | None
    ) -> bytes:
        """Encode a list.

        Raises:
            StatusError: 406 where the metadata of one object is asked for.
        """
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if token or (self.resource.custom and self.form is Form.OBJECT):
            metadata["continue"] = token
        if remaining is not None:
            metadata["remainingItemCount"] = remaining
        match self.form:
            case Form.TABLE:
                return to_json({**self._table(items, headers=True), "metadata": metadata})
            case Form.METADATA:
                go_type = f"{self._go_type}List"
                raise _of_another_form("PartialObjectMetadata", "a list", go_type)
            case Form.METADATA_LIST:
                kind, api_version = "PartialObjectMetadataList", self.representation.meta_version
                encoded = [self._metadata(item) for item in items]
            case _:
                kind = self.resource.list_kind or f"{self.resource.kind}List"
                api_version = self.resource.api_version
                encoded = [self._list_item(item) for item in items]
        head = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if not items and self.form is Form.METADATA_LIST:
            return to_json({**head, "items": None})
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
            api_version=self.representation.meta_version,
        )

    @property
    def form(self) -> Form:
        """The shape of the objects."""
        return self.representation.form

    @property
    def _go_type(self) -> str:
        if self.resource.custom:
            return "*unstructured.Unstructured"
        package = self.resource.group.partition(".")[0] or "core"
        return f"*{'core' if package == 'events' else package}.{self.resource.kind}"

    def _metadata(self, stored: StoredObject) -> bytes:
        kept, wanted = Representation().meta_version, self.representation.meta_version
        if wanted == kept:
            return stored.metadata_data
        return stored.metadata_data.replace(to_json(kept), to_json(wanted), 1)


def _of_another_form(wanted: str, found: str, go_type: str) -> status.StatusError:
    text = f"you requested {wanted}, but the requested object is {found} ({go_type})"
    return status.StatusError(406, "NotAcceptable", text)
