"""Writes: how an object is sent, and what is told of what the server stored."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast, overload

from pydantic import BaseModel

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import (
    ConflictError,
    InvalidError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.client.generated_models import GeneratedStruct
from dynamo_operator.runtime.client.paths import (
    Fields,
    Labels,
    object_path,
    resource_path,
    selector_query,
)
from dynamo_operator.runtime.client.reader import Kind, M
from dynamo_operator.runtime.client.statuses import refuses_uid
from dynamo_operator.runtime.client.uncached_reader import LiveReader, plain_of
from dynamo_operator.runtime.client.writes import (
    PatchType,
    Propagation,
    Write,
    body_of,
    delete_options,
    deletion_of,
    deletions_of,
    identity_of,
    key_of,
    key_of_object,
    may_have_happened,
    plain_status,
)
from dynamo_operator.runtime.owner_references import add_controller_reference
from informers.objects import ObjectKey, ResourceType

if TYPE_CHECKING:
    from dynamo_operator.runtime.owner_references import Owner

Query = Sequence[tuple[str, str]]

_APPLY = "application/apply-patch+yaml"
_DRY_RUN = ("dryRun", "All")


class Writer(LiveReader):
    """The writing half of `Client`."""

    @property
    def field_manager(self) -> str:
        """Whom writes are attributed to."""
        return self._options.field_manager

    @overload
    async def create(self, obj: M, *, owner: Owner | None = None, dry_run: bool = False) -> M: ...
    @overload
    async def create(
        self,
        obj: Mapping[str, Any],
        *,
        kind: ResourceType,
        owner: Owner | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...
    async def create(
        self,
        obj: M | Mapping[str, Any],
        *,
        kind: ResourceType | None = None,
        owner: Owner | None = None,
        dry_run: bool = False,
    ) -> M | dict[str, Any]:
        """Create an object and return it as stored.

        Args:
            obj: a model, or plain JSON together with `kind`.
            kind: the resource type of plain JSON.
            owner: the object that becomes its controller.
            dry_run: let the server check everything and store nothing.

        Raises:
            AlreadyExistsError: an object of that name exists.
            UnknownOutcomeError: it may have been created; nothing here tries again.
        """
        write_kind, body = body_of(obj, kind)
        namespace = self._own(write_kind, body, owner)
        path = resource_path(codec.resource_type_of(write_kind), namespace)
        query = self._write_query(dry_run=dry_run)
        key = ObjectKey(namespace, body["metadata"].get("name") or "")
        return await self._write(write_kind, key, "POST", path, query, body)

    @overload
    async def apply(
        self,
        obj: M,
        *,
        owner: Owner | None = None,
        uid: str | None = None,
        force: bool = False,
        subresource: str = "",
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> M: ...
    @overload
    async def apply(
        self,
        obj: Mapping[str, Any],
        *,
        kind: ResourceType,
        owner: Owner | None = None,
        uid: str | None = None,
        force: bool = False,
        subresource: str = "",
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...
    async def apply(
        self,
        obj: M | Mapping[str, Any],
        *,
        kind: ResourceType | None = None,
        owner: Owner | None = None,
        uid: str | None = None,
        force: bool = False,
        subresource: str = "",
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> M | dict[str, Any]:
        """Apply exactly the fields that were set (server-side apply); return the object as stored.

        Args:
            obj: a model built with `new`, or plain JSON together with `kind`.
            kind: the resource type of plain JSON.
            owner: the object that becomes its controller.
            uid: only that very instance; ConflictError if there is another or none. Not with a
                subresource, where API servers do not look at it.
            force: take fields over from other managers instead of raising ConflictError.
            subresource: e.g. `status`.
            field_manager: another name than the client's.
            dry_run: let the server check everything and store nothing.

        Raises:
            ConflictError: another manager owns a field with another value.
            ValueError: the object was read from the server, so that it would claim every field.
        """
        write_kind, body = body_of(obj, kind)
        namespace = self._own(write_kind, body, owner)
        metadata = body["metadata"]
        for name in ("managedFields", "resourceVersion"):
            if metadata.get(name):
                raise ValueError(
                    f"apply {codec.resource_type_of(write_kind)} {metadata.get('name')}: "
                    f"metadata.{name} is set: build an object that has only the fields to own"
                )
        if uid is not None:
            if subresource:
                raise ValueError(f"apply to {subresource}: a uid would not be looked at")
            metadata["uid"] = uid
        key = ObjectKey(namespace, metadata.get("name") or "")
        try:
            return await self._apply(
                write_kind, key, subresource, body, field_manager, force=force, dry_run=dry_run
            )
        except InvalidError as error:
            if uid is None or not refuses_uid(error):
                raise
            # Another instance of that name has the server call a change of its uid invalid.
            raise ConflictError(
                409, "Conflict", error.message, details=error.details, request=error.request
            ) from error

    async def apply_status(
        self,
        obj: M,
        status: BaseModel | GeneratedStruct | Mapping[str, Any],
        *,
        resource_version: str | None = None,
        field_manager: str | None = None,
        force: bool = True,
        dry_run: bool = False,
    ) -> M:
        """Apply a status; return the object as stored.

        Args:
            obj: the object that it is the status of.
            status: the fields to own; those not set are left to others, or removed if owned.
            resource_version: refuse with ConflictError if the object has changed since.
            field_manager: another name than the client's.
            force: take fields over from other managers.
            dry_run: let the server check everything and store nothing.
        """
        kind = type(obj)
        key = self._placed(kind, key_of_object(obj))
        metadata: dict[str, Any] = {"name": key.name}
        if key.namespace:
            metadata["namespace"] = key.namespace
        if resource_version is not None:
            metadata["resourceVersion"] = resource_version
        body = {**identity_of(kind), "metadata": metadata, "status": plain_status(status)}
        applied = await self._apply(
            kind, key, "status", body, field_manager, force=force, dry_run=dry_run
        )
        return cast("M", applied)

    @overload
    async def replace(self, obj: M, *, subresource: str = "", dry_run: bool = False) -> M: ...
    @overload
    async def replace(
        self,
        obj: Mapping[str, Any],
        *,
        kind: ResourceType,
        subresource: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]: ...
    async def replace(
        self,
        obj: M | Mapping[str, Any],
        *,
        kind: ResourceType | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> M | dict[str, Any]:
        """Replace an object by what was read and changed; return it as stored.

        Args:
            obj: the object as it shall be, with the resource version that it was read at.
            kind: the resource type of plain JSON.
            subresource: e.g. `status`.
            dry_run: let the server check everything and store nothing.

        Raises:
            ConflictError: the object has changed since it was read.
        """
        write_kind, body = body_of(obj, kind)
        key = self._placed(write_kind, key_of(body))
        path = object_path(codec.resource_type_of(write_kind), key, subresource)
        query = self._write_query(dry_run=dry_run)
        return await self._write(write_kind, key, "PUT", path, query, body)

    @overload
    async def patch(
        self,
        kind: type[M],
        key: ObjectKey,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
        dry_run: bool = False,
    ) -> M: ...
    @overload
    async def patch(
        self,
        kind: ResourceType,
        key: ObjectKey,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...
    async def patch(
        self,
        kind: Kind[M],
        key: ObjectKey,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
        dry_run: bool = False,
    ) -> M | dict[str, Any]:
        """Patch an object; return it as stored.

        Args:
            kind: its type.
            key: which one.
            patch: an object for MERGE and STRATEGIC, a list of operations for JSON.
            subresource: e.g. `status` or `scale`.
            patch_type: how to read it.
            dry_run: let the server check everything and store nothing.
        """
        if isinstance(patch, Mapping) is (patch_type is PatchType.JSON):
            raise ValueError("a JSON patch is a list of operations, any other patch an object")
        path = object_path(codec.resource_type_of(kind), self._placed(kind, key), subresource)
        query = self._write_query(dry_run=dry_run)
        content_type = patch_type.value
        return await self._write(kind, key, "PATCH", path, query, patch, content_type=content_type)

    async def delete(
        self,
        kind: Kind[M],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object, or begin to, where finalizers or a grace period hold it.

        Args:
            kind: its type.
            key: which one.
            uid: only that very instance; ConflictError for another.
            resource_version: only that version of it.
            propagation: what becomes of the objects that it owns.
            grace_period_seconds: how long its processes have to end.
            dry_run: let the server check everything and delete nothing.

        Raises:
            NotFoundError: there is none.
        """
        key = self._placed(kind, key)
        resource_type = codec.resource_type_of(kind)
        path = object_path(resource_type, key)
        dry_run = dry_run or self._options.dry_run
        options = delete_options(
            uid, resource_version, propagation, grace_period_seconds, dry_run=dry_run
        )
        with self._noting_doubt(resource_type, key, dry_run=dry_run):
            response = await self.request("DELETE", path, body=codec.encode(options))
        if not dry_run:
            self._told(deletion_of(resource_type, key, response.body, uid or ""))

    async def delete_all(
        self,
        kind: Kind[M],
        *,
        namespace: str,
        labels: Labels = None,
        fields: Fields = None,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete the objects of a namespace that match, or begin to; API servers do it one by one.

        Args:
            kind: their type.
            namespace: where; "" only for a kind that is in no namespace.
            labels: a label selector; without one, all are meant.
            fields: a field selector; `=` and `!=` only, on fields that the server selects by.
            propagation: what becomes of the objects that they own.
            grace_period_seconds: how long their processes have to end.
            dry_run: let the server check everything and delete nothing.
        """
        resource_type = codec.resource_type_of(kind)
        if resource_type.namespaced and not namespace:
            raise ValueError(f"{resource_type}: delete_all needs a namespace")
        path = resource_path(resource_type, self._scope(kind, namespace))
        dry_run = dry_run or self._options.dry_run
        options = delete_options(
            propagation=propagation, grace_period_seconds=grace_period_seconds, dry_run=dry_run
        )
        with self._noting_doubt(resource_type, ObjectKey(namespace, ""), dry_run=dry_run):
            response = await self.request(
                "DELETE", path, query=selector_query(labels, fields), body=codec.encode(options)
            )
        if not dry_run:
            for write in deletions_of(resource_type, response.body):
                self._told(write)

    async def create_subresource(
        self,
        kind: Kind[M],
        key: ObjectKey,
        subresource: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Create a subresource, e.g. `eviction`, `binding` or `token`; return the server's answer.

        Args:
            kind: the type of the object that it belongs to.
            key: which one.
            subresource: its name.
            body: plain JSON with apiVersion and kind.
            dry_run: let the server check everything and store nothing.
        """
        path = object_path(codec.resource_type_of(kind), self._placed(kind, key), subresource)
        query = self._write_query(dry_run=dry_run)
        data = codec.encode(body)
        response = await self.request("POST", path, query=query, body=data)
        return plain_of("POST", path, response)

    def _own(
        self,
        kind: Kind[M],
        body: dict[str, Any],
        owner: Owner | None,
    ) -> str:
        """Set the controller reference in `body`; return the namespace that the object goes to."""
        resource_type = codec.resource_type_of(kind)
        namespace = self._placed(kind, key_of(body)).namespace
        if owner is not None:
            add_controller_reference(
                body, owner, namespaced=resource_type.namespaced, namespace=namespace
            )
        return namespace

    def _write_query(
        self, *, dry_run: bool = False, field_manager: str | None = None, strict: bool = False
    ) -> builtins.list[tuple[str, str]]:
        options = self._options
        validation = "Strict" if strict else options.field_validation
        query = [
            ("fieldManager", field_manager or options.field_manager),
            ("fieldValidation", validation),
        ]
        return [*query, _DRY_RUN] if dry_run or options.dry_run else query

    async def _apply(
        self,
        kind: Kind[M],
        key: ObjectKey,
        subresource: str,
        body: Mapping[str, Any],
        field_manager: str | None,
        *,
        force: bool,
        dry_run: bool = False,
    ) -> M | dict[str, Any]:
        key = self._placed(kind, key)
        path = object_path(codec.resource_type_of(kind), key, subresource)
        query = self._write_query(dry_run=dry_run, field_manager=field_manager, strict=True)
        query.append(("force", "true" if force else "false"))
        return await self._write(kind, key, "PATCH", path, query, body, content_type=_APPLY)

    async def _write(
        self,
        kind: Kind[M],
        key: ObjectKey,
        method: str,
        path: str,
        query: Query,
        body: Any,
        *,
        content_type: str = "application/json",
    ) -> M | dict[str, Any]:
        data = codec.encode(body)
        resource_type = codec.resource_type_of(kind)
        dry_run = _DRY_RUN in query
        try:
            response = await self.request(
                method, path, query=query, body=data, content_type=content_type
            )
            try:
                stored = codec.decode_cached(response.body)
                if not dry_run and stored.key.name:
                    version = stored.resource_version
                    self._told(Write(resource_type, stored.key, version, stored=stored))
                return codec.decode(kind, response.body)
            except codec.MalformedJsonError as error:
                raise UnknownOutcomeError(f"{method} {path}: answered with {error}") from None
        except BaseException as error:
            self._note_doubt(error, resource_type, key, dry_run=dry_run)
            raise

    @contextmanager
    def _noting_doubt(
        self, resource_type: ResourceType, key: ObjectKey, *, dry_run: bool
    ) -> Iterator[None]:
        """Tell the observers of a write that ends, or is cancelled, without a clear answer."""
        try:
            yield
        except BaseException as error:
            self._note_doubt(error, resource_type, key, dry_run=dry_run)
            raise

    def _note_doubt(
        self, error: BaseException, resource_type: ResourceType, key: ObjectKey, *, dry_run: bool
    ) -> None:
        if not dry_run and may_have_happened(error):
            self._told(Write(resource_type, key, in_doubt=True))

    def _told(self, write: Write) -> None:
        for observer in self._options.write_observers:
            observer(write)
