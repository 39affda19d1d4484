"""Makes, mends and withdraws what a relay owns, never touching what it does not own."""

from __future__ import annotations

import json
from typing import TypeVar

from dynamo_operator.api.names import pool_relay_name
from dynamo_operator.api.relay_contract import SOURCES_FILE, SourceDocument
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime import CachedReader
from dynamo_operator.runtime.apply import (
    claim_created,
    create_applied,
    ensure,
    is_applied_by,
)
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    PodDisruptionBudget,
    RoleBinding,
    Service,
)
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
)
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.owner_references import is_controlled_by
from informers.objects import ObjectKey, controller_ref
from reconcilers.owners import require_there
from reconcilers.pool_relay.errors import ApplyFailedError, OwnershipConflictError
from reconcilers.pool_relay.manifests import (
    render_deployment,
    render_disruption_budget,
    render_role,
    render_role_binding,
    render_service,
    render_service_account,
    render_sources,
    replicas_of,
)
from reconcilers.pool_relay.settings import RelaySettings

Child = TypeVar("Child", bound=KubeModel)

_RETRY_SECONDS = 30.0


class Children:
    """Everything that one relay owns.

    Args:
        reader: the manager's cached reader; it knows children by their label.
        live: a reader without cache, which also sees objects that only have a child's name.
        client: writes.
        settings: of every relay.
    """

    def __init__(
        self, reader: CachedReader, live: Reader, client: Client, settings: RelaySettings
    ) -> None:
        self._reader = reader
        self._live = live
        self._client = client
        self._settings = settings

    async def ensure(self, relay: DynamoPoolRelay, document: SourceDocument) -> Deployment:
        """Make all children as they should be, the Service last; return the Deployment.

        Raises:
            OwnershipConflictError: an object of a child's name is not the relay's; nothing was
                written then.
            ApplyFailedError: the server refused one.
            ConflictError: one changed since it was read.
        """
        deployment = render_deployment(relay, self._settings)
        wanted: list[KubeModel] = [
            render_service_account(relay),
            render_role(relay),
            render_role_binding(relay),
            render_sources(relay, document),
            deployment,
            render_service(relay),
        ]
        budget = render_disruption_budget(relay)
        if replicas_of(relay) > 1:
            wanted.insert(-1, budget)
        found = [await self._find_own(type(each), each.key, relay) for each in wanted]
        if None in found:
            await require_there(self._live, relay)
        for desired, live in zip(wanted, found, strict=True):
            made = await self._ensure(relay, desired, live)
            if isinstance(made, Deployment):
                deployment = made
        if budget not in wanted:
            await self._delete(await self._reader.find(PodDisruptionBudget, budget.key), relay)
        return deployment

    async def published(self, relay: DynamoPoolRelay) -> SourceDocument | None:
        """Return what the relays are told to watch now, or None where that cannot be told."""
        name = render_sources(relay, SourceDocument("", ())).key
        found = await self._reader.find(ConfigMap, name)
        return _document(found) if found is not None else None

    async def withdraw(self, relay: DynamoPoolRelay) -> None:
        """Take the relays from their subscribers: no Service, and nothing left to watch.

        What else there is stays for a quick return. Objects that are not the relay's stay, too.

        Raises:
            ApplyFailedError: the server refused it.
            ConflictError: an object changed since it was read.
        """
        name = ObjectKey(relay.key.namespace, pool_relay_name(relay.key.name))
        await self._delete(await self._find(Service, name), relay)
        empty = render_sources(relay, SourceDocument("", ()))
        sources = await self._find(ConfigMap, empty.key)
        if sources is None or not is_controlled_by(sources, relay):
            return
        published = _document(sources)
        if published is None or published.namespaces:
            revision = published.connection_revision if published else ""
            document = SourceDocument(revision, ())
            await self._ensure(relay, render_sources(relay, document), sources)

    async def _ensure(self, relay: DynamoPoolRelay, desired: Child, live: Child | None) -> Child:
        what = f"{desired.resource_type.kind} {desired.key.name}"
        try:
            if live is not None and _binds_another(live, desired):  # it can only be replaced
                await self._client.delete(RoleBinding, live.key, uid=live.uid)
                live = None
            if live is None:
                return await create_applied(self._client, desired, owner=relay)
            if not is_applied_by(live, self._client.field_manager):
                live = await claim_created(
                    self._client, await self._live.get(type(desired), desired.key)
                )
            return await ensure(self._client, desired, live=live, owner=relay)
        except AlreadyExistsError as error:
            raise ConflictError(409, "Conflict", f"{what} was made meanwhile") from error
        except ConflictError:
            raise
        except ApiError as error:
            raise ApplyFailedError(f"{what}: {error.message}") from error

    async def _delete(self, child: KubeModel | None, relay: DynamoPoolRelay) -> None:
        if child is None or not is_controlled_by(child, relay) or child.is_deleting:
            return
        try:
            await self._client.delete(type(child), child.key, uid=child.uid)
        except NotFoundError:
            return
        except ConflictError:
            raise
        except ApiError as error:
            name = f"{child.resource_type.kind} {child.key.name}"
            raise ApplyFailedError(f"{name} cannot be deleted: {error.message}") from error

    async def _find(self, kind: type[Child], key: ObjectKey) -> Child | None:
        """Find an object also where it lost the label by which the cache knows children."""
        return await self._reader.find(kind, key) or await self._live.find(kind, key)

    async def _find_own(
        self, kind: type[Child], key: ObjectKey, relay: DynamoPoolRelay
    ) -> Child | None:
        """Find a child; what has its name and is another's is a conflict."""
        found = await self._reader.find(kind, key)
        if found is None or not is_controlled_by(found, relay):
            found = await self._live.find(kind, key)
        if found is None:
            return None
        if not is_controlled_by(found, relay):
            raise OwnershipConflictError(
                f"{kind.resource_type.kind} {key.name} {_owner(found)}; it stays untouched:"
                " delete or rename it",
                retry_seconds=_RETRY_SECONDS,
            )
        if found.is_deleting:
            raise ConflictError(
                409, "Conflict", f"{kind.resource_type.kind} {key} is being deleted"
            )
        return found


def _document(sources: ConfigMap) -> SourceDocument | None:
    """Return the document as we wrote it, None where somebody else changed it."""
    try:
        document = json.loads(sources.data.get(SOURCES_FILE, ""))
        read = SourceDocument(
            document.get("connectionRevision", ""),
            tuple(source["namespace"] for source in document["sources"]),
        )
        return read if read.to_json() == sources.data[SOURCES_FILE] else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _binds_another(live: KubeModel, desired: KubeModel) -> bool:
    return (
        isinstance(live, RoleBinding)
        and isinstance(desired, RoleBinding)
        and live.role_ref != desired.role_ref
    )


def _owner(obj: KubeModel) -> str:
    reference = controller_ref(obj)
    return f"belongs to {reference.kind} {reference.name}" if reference else "has no controller"
