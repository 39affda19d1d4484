"""The client: live reads, writes, and the informers' lists and watches."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from pydantic import BaseModel

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.runtime.client.errors import (
    ConflictError,
    InvalidError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.client.generated_models import GeneratedStruct
from dynamo_operator.runtime.client.http import Transport, WriteFence
from dynamo_operator.runtime.client.list_watch import ClientListWatch
from dynamo_operator.runtime.client.paths import (
    Fields,
    Labels,
    object_path,
    resource_path,
    selector_query,
)
from dynamo_operator.runtime.client.reader import M
from dynamo_operator.runtime.client.rest import RequestObserver, RestClient
from dynamo_operator.runtime.client.statuses import refuses_uid
from dynamo_operator.runtime.client.uncached_reader import Kind, LiveReader
from dynamo_operator.runtime.client.writes import (
    PatchType,
    Write,
    WriteObserver,
    body_of,
    deletion_of,
    identity_of,
    key_of,
    key_of_object,
    plain_status,
)
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.owner_references import add_controller_reference
from informers.clock import Clock, Random
from informers.list_watch import ListWatch
from informers.objects import ObjectKey, ResourceType

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

Query = Sequence[tuple[str, str]]

DEFAULT_FIELD_MANAGER = "operator-runtime"

_APPLY = "application/apply-patch+yaml"


class Client(LiveReader):
    """Reads and writes objects of one cluster; also a `Reader`, whose reads are live.

    A kind is a model class or a ResourceType. Objects without a namespace go to, and are looked
    for in, `default_namespace`.

    Example:
        >>> async def scale(client: Client, key: ObjectKey) -> None:
        ...     await client.patch(Deployment, key, {"spec": {"replicas": 2}})
    """

    def __init__(
        self,
        rest: RestClient,
        *,
        field_manager: str = DEFAULT_FIELD_MANAGER,
        default_namespace: str = "default",
        write_observers: tuple[WriteObserver, ...] = (),
    ) -> None:
        super().__init__(rest, default_namespace)
        self._field_manager = field_manager
        self._write_observers = write_observers

    @classmethod
    def connect(
        cls,
        config: ClientConfig,
        *,
        field_manager: str = DEFAULT_FIELD_MANAGER,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> Client:
        """Make a client of the cluster that a configuration names; connects at the first call."""
        # Imported here: a client on another transport needs no HTTP library.
        from dynamo_operator.runtime.client.transport import HttpTransport

        rest = RestClient(
            HttpTransport(config),
            credentials=config.credentials,
            host=config.host,
            clock=clock,
            random=random,
        )
        return cls(rest, field_manager=field_manager, default_namespace=config.namespace)

    @classmethod
    def over(
        cls,
        transport: Transport,
        *,
        field_manager: str = DEFAULT_FIELD_MANAGER,
        default_namespace: str = "default",
        host: str = "",
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> Client:
        """Make a client on a transport that needs no credentials."""
        rest = RestClient(transport, host=host, clock=clock, random=random)
        return cls(rest, field_manager=field_manager, default_namespace=default_namespace)

    @property
    def field_manager(self) -> str:
        """Whom writes are attributed to."""
        return self._field_manager

    def with_field_manager(self, name: str) -> Client:
        """Return a client on the same transport that writes under another name."""
        return self._variant(field_manager=name)

    def with_write_observer(self, observer: WriteObserver) -> Client:
        """Return a client on the same transport whose writes `observer` is told of, too."""
        return self._variant(write_observers=(*self._write_observers, observer))

    def with_request_observer(self, observer: RequestObserver) -> Client:
        """Return a client on the same transport whose requests `observer` is told of, too."""
        return self._variant(rest=self._rest.with_observer(observer))

    def with_fence(self, fence: WriteFence) -> Client:
        """Return a client on the same transport whose writes the fence may refuse.

        They fail with NotLeadingError, unsent, once the fence has no seconds left; reads go on.
        """
        return self._variant(rest=self._rest.with_fence(fence))

    def with_own_connections(self, user_agent_suffix: str) -> Client:
        """Return a client of the same server whose requests wait for no others.

        Args:
            user_agent_suffix: by which the server can tell its requests apart.
        """
        return self._variant(rest=self._rest.with_own_connections(user_agent_suffix))

    def _variant(
        self,
        *,
        rest: RestClient | None = None,
        field_manager: str | None = None,
        write_observers: tuple[WriteObserver, ...] | None = None,
    ) -> Client:
        return Client(
            rest or self._rest,
            field_manager=self._field_manager if field_manager is None else field_manager,
            default_namespace=self._default_namespace,
            write_observers=self._write_observers if write_observers is None else write_observers,
        )

    def api_client(self) -> AbstractAsyncContextManager[ApiClient]:
        """Return a context that yields an ApiClient of kubernetes_asyncio for its API classes.

        Its requests go the way of this client's: connections, credentials, repetitions, deadlines
        and the fence are shared. A refusal raises kubernetes_asyncio's ApiException, any other
        fault an error of ours. What its watches and logs opened is closed with the context.

        Example:
            >>> async def names(client: Client) -> list[str]:
            ...     async with client.api_client() as api:
            ...         nodes = await CoreV1Api(api).list_node()
            ...     return [node.metadata.name for node in nodes.items]
        """
        from dynamo_operator.runtime.client.kubernetes_asyncio_bridge import api_client

        return api_client(self._rest)

    async def close(self) -> None:
        """Close the transport, for all clients that share it."""
        await self._rest.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # Writes

    @overload
    async def create(
        self, obj: M, *, owner: KubeModel | None = None, dry_run: bool = False
    ) -> M: ...
    @overload
    async def create(
        self,
        obj: Mapping[str, Any],
        *,
        kind: ResourceType,
        owner: KubeModel | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]: ...
    async def create(
        self,
        obj: M | Mapping[str, Any],
        *,
        kind: ResourceType | None = None,
        owner: KubeModel | None = None,
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
        query = self._write_query(dry_run)
        return await self._write(write_kind, "POST", path, query, body, dry_run=dry_run)

    @overload
    async def apply(
        self,
        obj: M,
        *,
        owner: KubeModel | None = None,
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
        owner: KubeModel | None = None,
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
        owner: KubeModel | None = None,
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
    ) -> M:
        """Apply a status; return the object as stored.

        Args:
            obj: the object that it is the status of.
            status: the fields to own; those not set are left to others, or removed if owned.
            resource_version: refuse with ConflictError if the object has changed since.
            field_manager: another name than the client's.
            force: take fields over from other managers.
        """
        kind = type(obj)
        key = self._placed(kind, key_of_object(obj))
        metadata: dict[str, Any] = {"name": key.name}
        if key.namespace:
            metadata["namespace"] = key.namespace
        if resource_version is not None:
            metadata["resourceVersion"] = resource_version
        body = {**identity_of(kind), "metadata": metadata, "status": plain_status(status)}
        return cast("M", await self._apply(kind, key, "status", body, field_manager, force=force))

    @overload
    async def replace(self, obj: M, *, subresource: str = "") -> M: ...
    @overload
    async def replace(
        self, obj: Mapping[str, Any], *, kind: ResourceType, subresource: str = ""
    ) -> dict[str, Any]: ...
    async def replace(
        self,
        obj: M | Mapping[str, Any],
        *,
        kind: ResourceType | None = None,
        subresource: str = "",
    ) -> M | dict[str, Any]:
        """Replace an object by what was read and changed; return it as stored.

        Raises:
            ConflictError: the object has changed since it was read.
        """
        write_kind, body = body_of(obj, kind)
        key = self._placed(write_kind, key_of(body))
        path = object_path(codec.resource_type_of(write_kind), key, subresource)
        return await self._write(write_kind, "PUT", path, self._write_query(), body)

    @overload
    async def patch(
        self,
        kind: type[M],
        key: ObjectKey,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
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
    ) -> dict[str, Any]: ...
    async def patch(
        self,
        kind: Kind[M],
        key: ObjectKey,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
    ) -> M | dict[str, Any]:
        """Patch an object; return it as stored.

        Args:
            kind: its type.
            key: which one.
            patch: an object for MERGE and STRATEGIC, a list of operations for JSON.
            subresource: e.g. `status` or `scale`.
            patch_type: how to read it.
        """
        if isinstance(patch, Mapping) is (patch_type is PatchType.JSON):
            raise ValueError("a JSON patch is a list of operations, any other patch an object")
        path = object_path(codec.resource_type_of(kind), self._placed(kind, key), subresource)
        query = self._write_query()
        return await self._write(kind, "PATCH", path, query, patch, content_type=patch_type.value)

    async def delete(
        self,
        kind: Kind[M],
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete an object, or begin to, where finalizers or a grace period hold it.

        Args:
            kind: its type.
            key: which one.
            uid: only that very instance; ConflictError for another.
            resource_version: only that version of it.
            propagation: what becomes of the objects that it owns.
            grace_period_seconds: how long its processes have to end.

        Raises:
            NotFoundError: there is none.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {name: value for name, value in preconditions.items() if value is not None}
        if preconditions:
            options["preconditions"] = preconditions
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        key = self._placed(kind, key)
        resource_type = codec.resource_type_of(kind)
        path = object_path(resource_type, key)
        response = await self.request("DELETE", path, body=codec.encode(options))
        self._told(deletion_of(resource_type, key, response.body, uid or ""))

    # Lists and watches

    def list_watch(
        self,
        kind: Kind[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        metadata_only: bool = False,
    ) -> ListWatch:
        """Return the informers' port to the objects of one type that match.

        Args:
            kind: the type.
            namespace: only there; empty for all.
            labels: a label selector.
            fields: a field selector; `=` and `!=` only, on fields that the server selects by.
            metadata_only: fetch and keep metadata only.
        """
        resource_type = codec.resource_type_of(kind)
        return ClientListWatch(
            self._rest,
            resource_type,
            resource_path(resource_type, namespace),
            selector_query(labels, fields),
            metadata_only=metadata_only,
        )

    # How writes are made

    def _own(
        self,
        kind: Kind[M],
        body: dict[str, Any],
        owner: KubeModel | None,
    ) -> str:
        """Set the controller reference in `body`; return the namespace that the object goes to."""
        resource_type = codec.resource_type_of(kind)
        namespace = self._placed(kind, key_of(body)).namespace
        if owner is not None:
            add_controller_reference(
                body, owner, namespaced=resource_type.namespaced, namespace=namespace
            )
        return namespace

    def _write_query(self, dry_run: bool = False) -> builtins.list[tuple[str, str]]:
        query = [("fieldManager", self._field_manager), ("fieldValidation", "Strict")]
        return [*query, ("dryRun", "All")] if dry_run else query

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
        path = object_path(codec.resource_type_of(kind), self._placed(kind, key), subresource)
        query = [("fieldManager", field_manager or self._field_manager)]
        query += [("force", "true" if force else "false"), ("fieldValidation", "Strict")]
        if dry_run:
            query.append(("dryRun", "All"))
        return await self._write(
            kind, "PATCH", path, query, body, content_type=_APPLY, dry_run=dry_run
        )

    async def _write(
        self,
        kind: Kind[M],
        method: str,
        path: str,
        query: Query,
        body: Any,
        *,
        content_type: str = "application/json",
        dry_run: bool = False,
    ) -> M | dict[str, Any]:
        data = codec.encode(body)
        response = await self.request(
            method, path, query=query, body=data, content_type=content_type
        )
        resource_type = codec.resource_type_of(kind)
        try:
            stored = codec.decode_cached(response.body)
            if not dry_run and stored.key.name:
                version = stored.resource_version
                self._told(Write(resource_type, stored.key, version, stored=stored))
            return codec.decode(kind, response.body)
        except codec.MalformedJsonError as error:
            raise UnknownOutcomeError(f"{method} {path}: answered with {error}") from None

    def _told(self, write: Write) -> None:
        for observer in self._write_observers:
            observer(write)
