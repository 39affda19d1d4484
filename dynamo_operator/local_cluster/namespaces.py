"""What every namespace is given, and how one ends."""

from __future__ import annotations

from typing import Any

from dynamo_operator.local_cluster.cluster_controller import ClusterController
from dynamo_operator.local_cluster.namespace_conditions import Remains, ending_conditions
from dynamo_operator.local_cluster.served_resources import served_resources
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, ServiceAccount
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    MethodNotAllowedError,
    NotFoundError,
)
from dynamo_operator.runtime.client.reader import Reader
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.enqueue import enqueue_mapped
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from dynamo_operator.runtime.sources import Watch
from informers.clock import Clock, Random
from informers.objects import CachedObject, ObjectKey, ResourceType

ROOT_CA = "kube-root-ca.crt"

_FINALIZER = "kubernetes"
_RETRY_SECONDS = 1.0
_WORKERS = 10  # so that new namespaces need not wait for others to be emptied


class Namespaces(ClusterController):
    """Gives namespaces their ServiceAccount and CA, and empties those that are deleted.

    Args:
        client: of the cluster.
        root_ca: certificates in PEM by which Pods know the API server; "" for no ConfigMap.
        clock: times.
        random: jitter.
    """

    name = "namespace-controller"

    def __init__(
        self,
        client: Client,
        *,
        root_ca: str = "",
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(client, clock=clock, random=random)
        self._root_ca = root_ca

    def add_to(self, manager: Manager) -> None:
        """Add what this controls to the manager."""
        manager.add(
            Controller(
                Namespace,
                watches=[
                    Watch(ServiceAccount, enqueue=enqueue_mapped(_of_default_account)),
                    Watch(ConfigMap, enqueue=enqueue_mapped(_of_root_ca)),
                ],
                reconciler=NamespaceReconciler(
                    manager.reader, manager.client, root_ca=self._root_ca, clock=self._clock
                ),
                name="namespace-controller",
                max_concurrent_reconciles=_WORKERS,
                needs_leadership=False,
            )
        )


class NamespaceReconciler:
    """Brings one namespace on."""

    def __init__(self, reader: Reader, client: Client, *, root_ca: str, clock: Clock) -> None:
        self._clock = clock
        self._reader = reader
        self._client = client
        self._root_ca = root_ca

    async def reconcile(self, key: ObjectKey) -> Result:
        """Give the namespace what it lacks, or end it."""
        namespace = await self._reader.find(Namespace, key)
        if namespace is None:
            return Result.done()
        if not namespace.is_deleting:
            await self._furnish(key.name)
            return Result.done()
        if _FINALIZER not in (namespace.spec.get("finalizers") or ()):
            return Result.done()
        remains = await self._delete_contents(key.name)
        try:
            namespace = await self._report(namespace, remains)
        except (ConflictError, NotFoundError):
            return Result.backoff("the namespace changed since it was read")
        if not remains.is_empty:
            return Result.requeue(after=_RETRY_SECONDS)
        await self._finalize(namespace)
        return Result.done()

    async def _furnish(self, namespace: str) -> None:
        account = ObjectKey(namespace, "default")
        if await self._reader.find(ServiceAccount, account) is None:
            await self._create(ServiceAccount.new("default", namespace=namespace))
        if not self._root_ca:
            return
        data = {"ca.crt": self._root_ca}
        present = await self._reader.find(ConfigMap, ObjectKey(namespace, ROOT_CA))
        if present is None:
            await self._create(ConfigMap.new(ROOT_CA, namespace=namespace, data=data))
        elif present.data != data:
            await self._client.patch(ConfigMap, present.key, {"data": data})

    async def _create(self, obj: ServiceAccount | ConfigMap) -> None:
        try:
            await self._client.create(obj)
        except AlreadyExistsError:
            return
        except (ForbiddenError, NotFoundError):
            return  # the namespace is being deleted, or gone

    async def _delete_contents(self, namespace: str) -> Remains:
        """Delete what the namespace holds; returns what is still there then.

        Raises:
            ClientError: some resources could not be listed; the namespace must wait.
        """
        resources = await served_resources(self._client)
        remains = Remains()
        if not resources.is_complete:
            remains.undiscovered = "Discovery failed for some groups"
        for found in resources.types:
            if found.resource_type.namespaced and {"list", "delete"} <= found.verbs:
                await self._delete_all(found.resource_type, namespace, remains)
        return remains

    async def _delete_all(
        self, resource_type: ResourceType, namespace: str, remains: Remains
    ) -> None:
        objects = await self._list(resource_type, namespace)
        for obj in objects:
            await self._delete(resource_type, obj)
        if not objects:
            return
        name = f"{resource_type.plural}.{resource_type.group}"
        for obj in await self._list(resource_type, namespace):
            remains.resources[name] += 1
            remains.finalizers.update(obj["metadata"].get("finalizers") or ())

    async def _list(self, resource_type: ResourceType, namespace: str) -> list[dict[str, Any]]:
        try:
            return await self._client.list(resource_type, namespace=namespace)
        except (NotFoundError, MethodNotAllowedError):
            return []

    async def _report(self, namespace: Namespace, remains: Remains) -> Namespace:
        """Say what holds the namespace; returns it as it is then."""
        conditions = ending_conditions(namespace.status, remains, self._clock.now())
        if conditions == list(namespace.status.get("conditions") or ()):
            return namespace
        status = {**namespace.status, "conditions": conditions}
        changed = namespace.model_copy(update={"status": status})
        return await self._client.replace(changed, subresource="status")

    async def _delete(self, resource_type: ResourceType, obj: dict[str, Any]) -> None:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return
        key = ObjectKey(metadata["namespace"], metadata["name"])
        try:
            await self._client.delete(
                resource_type, key, uid=metadata["uid"], propagation="Background"
            )
        except (NotFoundError, ConflictError):
            return

    async def _finalize(self, namespace: Namespace) -> None:
        body = namespace.to_dict()
        kept = [name for name in namespace.spec["finalizers"] if name != _FINALIZER]
        body["spec"] = {**body["spec"], "finalizers": kept}
        path = f"/api/v1/namespaces/{namespace.key.name}/finalize"
        try:
            await self._client.request("PUT", path, body=codec.encode(body))
        except NotFoundError:
            return


def _of_default_account(obj: CachedObject) -> list[ObjectKey]:
    return [ObjectKey("", obj.key.namespace)] if obj.key.name == "default" else []


def _of_root_ca(obj: CachedObject) -> list[ObjectKey]:
    return [ObjectKey("", obj.key.namespace)] if obj.key.name == ROOT_CA else []
