"""A small operator such as many have: a Deployment, a Service and ConfigMaps for each Relay.

It stands for what the bugs of other operators were found in: a finalizer with a cleanup outside of
what the garbage collector sees, an immutable child that is replaced, children of which there may
only ever be one, and a status that says whether the newest spec is served.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dynamo_operator.api.conditions import Condition
from dynamo_operator.runtime import (
    Controller,
    KubeModel,
    KubeStruct,
    LeaderElection,
    Manager,
    Result,
)
from dynamo_operator.runtime.apply import ensure
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Deployment, Service
from dynamo_operator.runtime.cached_reader import CachedReader
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from dynamo_operator.runtime.conditions import set_condition
from dynamo_operator.runtime.finalizers import ensure_finalizer, remove_finalizer
from informers.clock import Clock, Random
from informers.indexers import BY_OWNER_UID
from informers.objects import KubeObject, ObjectKey, ResourceType, controller_ref

FINALIZER = "example.com/registered"
REGISTRY = ObjectKey("default", "registry")
ROLE_LABEL = "example.com/role"
RELAY_LABEL = "example.com/relay"
_RETRY_SECONDS = 30.0
_NAME_LIMIT = 40


class RelaySpec(KubeStruct):
    """What is wanted."""

    port: int
    upstream: str


class RelayStatus(KubeStruct):
    """What there is."""

    observed_generation: int = 0
    session: str = ""
    conditions: list[Condition] = []


class Relay(KubeModel):
    """Passes on to an upstream."""

    resource_type = ResourceType("example.com", "v1", "Relay", "relays")
    spec: RelaySpec
    status: RelayStatus = RelayStatus()


class StrangersError(Exception):
    """An object of an expected name is not the Relay's."""


class RelayReconciler:
    """Keeps the children of each Relay, and its entry in the registry.

    Args:
        reader: the manager's cached reader.
        live: a reader without cache.
        client: writes.
        clock: time of conditions.
    """

    def __init__(self, reader: CachedReader, live: Reader, client: Client, clock: Clock) -> None:
        self.reader = reader
        self.live = live
        self.client = client
        self.clock = clock

    async def reconcile(self, key: ObjectKey) -> Result:
        """Bring one Relay up to date."""
        relay = await self.reader.find(Relay, key)
        if relay is None:
            return Result.done()
        try:
            if relay.is_deleting:
                await self.clean_up(relay)
                return Result.done()
            return await self.advance(await ensure_finalizer(self.client, relay, FINALIZER))
        except (ConflictError, NotFoundError) as error:
            return self.look_again(error)

    def look_again(self, error: Exception) -> Result:
        """Return what follows when something changed since it was read."""
        return Result.backoff(str(error))

    async def advance(self, relay: Relay) -> Result:
        """Make what is wanted, then say what there is."""
        try:
            await self.register(relay, relay.spec.upstream)
            session = await self.session(relay)
            config = await self.config(relay)
            await self.child(relay, service_of(relay))
            deployment = await self.child(relay, deployment_of(relay, config))
        except (StrangersError, InvalidError) as error:
            await self.tell(relay, "False", "Refused", str(error), session="")
            return Result.requeue(after=_RETRY_SECONDS)
        if not is_available(deployment):
            await self.tell(relay, "False", "Starting", "", session=session)
            return Result.done()  # the Deployment's next change brings the Relay here
        await self.drop_old_configs(relay, config)
        await self.tell(relay, "True", "Available", "", session=session)
        return Result.done()

    async def clean_up(self, relay: Relay) -> None:
        """Take the Relay out of the registry, then let it go."""
        if FINALIZER in relay.metadata.finalizers:
            await self.register(relay, None)
            await self.let_go(relay)

    async def let_go(self, relay: Relay) -> None:
        """Remove the finalizer."""
        await remove_finalizer(self.client, relay, FINALIZER)

    async def register(self, relay: Relay, upstream: str | None) -> None:
        """Write the Relay's line of the registry, or remove it."""
        if upstream is not None:
            await self.require_living(relay)
        found = await self.live.find(ConfigMap, REGISTRY)
        lines = found.data if found is not None else {}
        if lines.get(relay.uid) == upstream:
            return
        if found is None:
            lines = {relay.uid: upstream} if upstream is not None else {}
            new = ConfigMap.new(REGISTRY.name, namespace=REGISTRY.namespace, data=lines)
            await self.client.create(new)
            return
        rest = {uid: line for uid, line in lines.items() if uid != relay.uid}
        found.data = rest if upstream is None else {**rest, relay.uid: upstream}
        await self.client.replace(found)

    async def require_living(self, relay: Relay) -> None:
        """Refuse what nobody would clean up: the registry outlives its Relays.

        Raises:
            ConflictError: the Relay is not any more what was read.
        """
        latest = await self.live.find(Relay, relay.key)
        if latest is None or latest.uid != relay.uid or latest.is_deleting:
            raise ConflictError(409, "Conflict", f"Relay {relay.key} is gone")

    async def session(self, relay: Relay) -> str:
        """Return the name of the Relay's one session: two processes at once make the same one."""
        session = await self.child(relay, session_of(relay))
        return str(session.key.name)

    async def config(self, relay: Relay) -> ConfigMap:
        """Return the frozen configuration; another one has another name."""
        config: ConfigMap = await self.child(relay, config_of(relay))
        return config

    async def child(self, relay: Relay, desired: Any) -> Any:
        """Make a child as it should be.

        Raises:
            StrangersError: one of that name is not the Relay's.
        """
        kind = type(desired)
        found = await self.reader.find(kind, desired.key) or await self.live.find(kind, desired.key)
        if found is None:
            try:
                return await self.client.create(desired, owner=relay)
            except AlreadyExistsError:
                found = await self.live.get(kind, desired.key)
        if not is_owned(found, relay):
            raise StrangersError(f"{kind.__name__} {desired.key} is not this Relay's")
        return await self.keep(relay, found, desired)

    async def keep(self, relay: Relay, found: Any, desired: Any) -> Any:
        """Write what differs."""
        return await ensure(self.client, desired, live=found, owner=relay)

    async def drop_old_configs(self, relay: Relay, current: ConfigMap) -> None:
        """Delete the configurations that nothing uses any more."""
        for each in await self.reader.by_index(ConfigMap, BY_OWNER_UID, relay.uid):
            if each.labels.get(ROLE_LABEL) == "config" and each.key != current.key:
                await self.drop(each)

    async def drop(self, old: ConfigMap) -> None:
        """Delete one, that very instance."""
        await self.client.delete(ConfigMap, old.key, uid=old.uid)

    async def tell(
        self, relay: Relay, ready: str, reason: str, message: str, *, session: str
    ) -> None:
        """Write the status, if it says something new."""
        conditions = [condition.model_copy() for condition in relay.status.conditions]
        condition = Condition(
            type="Ready",
            status=ready,
            reason=reason,
            message=message,
            observed_generation=relay.generation,
        )
        set_condition(conditions, condition, now=self.clock.now())
        status = {
            "observedGeneration": relay.generation,
            "session": session or relay.status.session,
            "conditions": [each.to_dict() for each in conditions],
        }
        if status != relay.status.to_dict():
            await self.write_status(relay, status)

    async def write_status(self, relay: Relay, status: dict[str, Any]) -> None:
        """Write it to the very version that it was computed from."""
        await self.client.apply_status(relay, status, resource_version=relay.resource_version)


def child_name(relay: KubeObject, role: str) -> str:
    """Return a name that no other Relay's child has."""
    digest = hashlib.sha256(f"{relay.uid}/{role}".encode()).hexdigest()[:10]
    return f"{relay.key.name[:_NAME_LIMIT]}-{digest}"


def config_name(relay: Relay) -> str:
    """Return the name of the configuration: another one for another content."""
    content = hashlib.sha256(json.dumps(data_of(relay)).encode()).hexdigest()[:10]
    return f"{child_name(relay, 'config')}-{content}"


def session_of(relay: Relay) -> ConfigMap:
    """Build the session."""
    return ConfigMap.new(
        child_name(relay, "session"),
        namespace=relay.key.namespace,
        labels={ROLE_LABEL: "session", RELAY_LABEL: relay.key.name},
    )


def data_of(relay: Relay) -> dict[str, str]:
    """Return what the configuration says."""
    return {"upstream": relay.spec.upstream, "port": str(relay.spec.port)}


def config_of(relay: Relay) -> ConfigMap:
    """Build the frozen configuration."""
    return ConfigMap.new(
        config_name(relay),
        namespace=relay.key.namespace,
        labels={ROLE_LABEL: "config", RELAY_LABEL: relay.key.name},
        data=data_of(relay),
        immutable=True,
    )


def service_of(relay: Relay) -> Service:
    """Build the Service."""
    return Service.new(
        child_name(relay, "service"),
        namespace=relay.key.namespace,
        labels={RELAY_LABEL: relay.key.name},
        spec={
            "ports": [{"name": "http", "port": relay.spec.port}],
            "selector": {"relay": relay.uid},
        },
    )


def deployment_of(relay: Relay, config: ConfigMap) -> Deployment:
    """Build the Deployment; it rolls when the configuration is another one."""
    labels = {"relay": relay.uid}
    container = {
        "name": "relay",
        "image": "registry.example/relay:1",
        "envFrom": [{"configMapRef": {"name": config.key.name}}],
    }
    return Deployment.new(
        child_name(relay, "deployment"),
        namespace=relay.key.namespace,
        labels={RELAY_LABEL: relay.key.name},
        spec={
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    )


def is_owned(obj: KubeObject, relay: KubeObject) -> bool:
    """Whether the object's controller is that very Relay."""
    reference = controller_ref(obj)
    return reference is not None and reference.uid == relay.uid


def is_available(deployment: Deployment) -> bool:
    """Whether what runs is what its newest spec says."""
    status = deployment.status
    return (
        status.get("observedGeneration") == deployment.generation
        and status.get("availableReplicas", 0) >= 1
    )


def build_relay_manager(
    client: Client, *, clock: Clock, random: Random, election: LeaderElection | None = None
) -> Manager:
    """Make the operator."""
    manager = Manager(
        client,
        clock=clock,
        random=random,
        name="relay-operator",
        graceful_shutdown_seconds=25.0,
        leader_election=election,
    )
    reconciler = RelayReconciler(manager.reader, manager.uncached_reader, manager.client, clock)
    manager.add(relay_controller(reconciler))
    return manager


def relay_controller(reconciler: RelayReconciler) -> Controller:
    """Declare the controller."""
    return Controller(
        Relay,
        owns=[ConfigMap, Service, Deployment],
        reconciler=reconciler,
        max_concurrent_reconciles=1,
    )


RELAY_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "relays.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "relays",
            "singular": "relay",
            "kind": "Relay",
            "listKind": "RelayList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["port", "upstream"],
                                "properties": {
                                    "port": {"type": "integer"},
                                    "upstream": {"type": "string"},
                                },
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "conditions": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["type"],
                                        "items": {
                                            "type": "object",
                                            "required": ["type"],
                                            "x-kubernetes-preserve-unknown-fields": True,
                                            "properties": {"type": {"type": "string"}},
                                        },
                                    }
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}
