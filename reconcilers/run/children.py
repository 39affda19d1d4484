"""Makes and mends what a Run owns beside its Job, never touching what it does not own."""

from __future__ import annotations

from typing import TypeVar

from dynamo_operator.aisimulate.document import dump_document
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun, ExecutionSnapshot
from dynamo_operator.runtime import CachedReader
from dynamo_operator.runtime.apply import matches
from dynamo_operator.runtime.builtin_kinds import ConfigMap, RoleBinding
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    InvalidError,
    RequestTooLargeError,
)
from dynamo_operator.runtime.models import KubeModel
from informers.objects import ObjectKey
from reconcilers.owners import require_there
from reconcilers.run.errors import (
    InvalidExecutionError,
    InvalidInputError,
    OwnershipConflictError,
)
from reconcilers.run.execution import Execution, digest, read_frozen
from reconcilers.run.freeze import Freezer
from reconcilers.run.manifests import (
    render_config_map,
    render_role,
    render_role_binding,
    render_service_account,
    require_owned,
)
from reconcilers.run.status_writer import StatusWriter

Child = TypeVar("Child", bound=KubeModel)


async def create_child(client: Client, desired: Child, run: DynamoGraphDeploymentRun) -> Child:
    """Create an object that the Run owns.

    Raises:
        InvalidInputError: the server refuses it for good; the text is the server's.
        AlreadyExistsError: an object of that name exists.
    """
    try:
        return await client.create(desired, owner=run)
    except (BadRequestError, InvalidError, RequestTooLargeError) as error:
        raise InvalidInputError(error.message) from error


class Children:
    """The ConfigMap, ServiceAccount, Role and RoleBinding of one Run.

    Args:
        reader: the manager's cached reader.
        live: a reader without cache. "Not in the cache" is never taken for "gone".
        client: writes; create is the lock, the names are deterministic.
        freezer: decides what a new Run is executed with.
    """

    def __init__(
        self, reader: CachedReader, live: Reader, client: Client, freezer: Freezer
    ) -> None:
        self._reader = reader
        self._live = live
        self._client = client
        self._freezer = freezer

    async def ensure_frozen_execution(self, status: StatusWriter) -> Execution:
        """Return what the Run is executed with, freezing and recording it the first time.

        Raises:
            InvalidExecutionError: what was recorded is gone, another object, or changed.
            OwnershipConflictError: an object of that name is not what we would have made.
            WaitingError: topology or a pull secret is not to be had yet.
            InvalidInputError: the spec cannot be lowered, or its input cannot be stored.
        """
        run = status.run
        if (recorded := run.status.execution_snapshot) is not None:
            return await self._read_recorded(run, recorded)
        frozen = await self._freezer.freeze(run)
        desired = render_config_map(run, dump_document(frozen.document), frozen.execution)
        config_map = await self._create_frozen(run, desired)
        try:
            await status.frozen(config_map, digest(config_map.data), frozen.document)
        except RequestTooLargeError as error:
            raise InvalidInputError(f"the Run cannot hold its input: {error.message}") from error
        return frozen.execution

    async def ensure_publisher_access(self, run: DynamoGraphDeploymentRun) -> None:
        """Make ServiceAccount, Role and RoleBinding as they should be, whatever drifted.

        Raises:
            OwnershipConflictError: one of that name is not the Run's, or binds another role.
            InvalidInputError: the server refuses one for good.
        """
        await self._ensure(run, render_service_account(run))
        await self._ensure(run, render_role(run))
        binding = render_role_binding(run)
        found = await self._find(RoleBinding, binding.key)
        if found is not None and found.role_ref != binding.role_ref:
            raise OwnershipConflictError(
                f"RoleBinding {found.key} binds {found.role_ref.get('kind')}"
                f" {found.role_ref.get('name')}; it stays untouched: delete it, then run again"
            )
        await self._ensure(run, binding)

    async def _read_recorded(
        self, run: DynamoGraphDeploymentRun, recorded: ExecutionSnapshot
    ) -> Execution:
        key = ObjectKey(run.key.namespace, recorded.name)
        config_map = await self._reader.find(ConfigMap, key)
        if config_map is None or config_map.uid != recorded.uid:
            config_map = await self._live.find(ConfigMap, key)
        if config_map is None:
            raise InvalidExecutionError(
                f"ConfigMap {key}, which holds what this Run executes, is gone;"
                " it is never rebuilt with possibly other settings"
            )
        return read_frozen(config_map, uid=recorded.uid, sha256=recorded.sha256)

    async def _create_frozen(self, run: DynamoGraphDeploymentRun, desired: ConfigMap) -> ConfigMap:
        found = await self._live.find(ConfigMap, desired.key)
        if found is None:
            await require_there(self._live, run)
            try:
                return await create_child(self._client, desired, run)
            except AlreadyExistsError:
                found = await self._live.get(ConfigMap, desired.key)
        require_owned("ConfigMap", found, run)
        if found.is_deleting:
            raise ConflictError(409, "Conflict", f"ConfigMap {found.key} is being deleted")
        if found.data != desired.data or not found.immutable or found.binary_data:
            # An owner reference can be forged; the content cannot be both forged and harmless.
            raise OwnershipConflictError(
                f"ConfigMap {found.key} differs from what this Run would be executed with;"
                " it stays untouched: delete it, then run again"
            )
        return found

    async def _ensure(self, run: DynamoGraphDeploymentRun, desired: Child) -> None:
        kind = type(desired)
        found = await self._find(kind, desired.key)
        if found is None:
            try:
                await create_child(self._client, desired, run)
                return
            except AlreadyExistsError:
                found = await self._live.get(kind, desired.key)
        require_owned(kind.resource_type.kind, found, run)
        if not matches(found, desired, owner=run, field_manager=self._client.field_manager):
            await self._client.apply(desired, owner=run, uid=found.uid, force=True)

    async def _find(self, kind: type[Child], key: ObjectKey) -> Child | None:
        return await self._reader.find(kind, key) or await self._live.find(kind, key)
