"""Whether a custom resource is served: as its CustomResourceDefinition tells, or discovery does.

Definitions belong to the cluster as a whole. Who may read nothing but some namespaces asks for the
discovery document of the kind's API version instead, which everybody may read; nothing can watch
that, so it is asked for again and again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import NotFoundError
from dynamo_operator.runtime.client.uncached_reader import LiveReader
from dynamo_operator.runtime.permissions import Permission
from informers.events import WatchEvent
from informers.list_watch import ListPage
from informers.objects import CachedObject, ObjectKey, ResourceType

DISCOVERY_POLL_SECONDS: Final = 10.0

DISCOVERED_KIND: Final = ResourceType(
    "apidiscovery.k8s.io", "v2", "DiscoveredKind", "discoveredkinds", namespaced=False
)
"""Stands for a kind that discovery tells of: no resource of an API server, but cached alike."""


def discovered_key(resource_type: ResourceType) -> ObjectKey:
    """Return the key of what stands for a kind that discovery tells of."""
    names = (resource_type.plural, resource_type.version, resource_type.group)
    return ObjectKey("", ".".join(names))


class DiscoveredKinds:
    """`informers.list_watch.ListWatch` of one kind: one object while it is served, else none.

    Args:
        client: asks for discovery documents.
        key: as `discovered_key` makes it.
    """

    resource_type = DISCOVERED_KIND

    def __init__(self, client: LiveReader, key: ObjectKey) -> None:
        self._client = client
        self._key = key
        self._plural, self._version, self._group = key.name.split(".", 2)

    async def list(
        self, *, resource_version: str = "", limit: int = 0, continue_token: str = ""
    ) -> ListPage:
        """Ask whether it is served.

        Raises:
            ClientError: nobody answered that.
        """
        found = [CachedObject(self._key, "", "0")] if await self._is_served() else []
        return ListPage(found, "0")

    def watch(
        self, *, resource_version: str, timeout_seconds: int, send_initial_events: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[WatchEvent]]]:
        """Refuse: discovery documents cannot be watched."""
        raise NotImplementedError(f"{self._key.name}: discovery is polled")

    async def _is_served(self) -> bool:
        path = f"/apis/{self._group}/{self._version}"
        try:
            response = await self._client.request("GET", path)
        except NotFoundError:
            return False
        resources = codec.decode_json(response.body).get("resources") or ()
        return any(resource.get("name") == self._plural for resource in resources)


def definition_key(resource_type: ResourceType) -> ObjectKey:
    """Return the key of the definition of a custom resource."""
    return ObjectKey("", f"{resource_type.plural}.{resource_type.group}")


def definition_permission(resource_type: ResourceType) -> Permission:
    """Return what an optional kind needs beside the permissions on the kind itself.

    Where a manager is restricted to namespaces by name, it needs no more than those.
    """
    return Permission(
        CustomResourceDefinition.resource_type.group,
        (CustomResourceDefinition.resource_type.plural,),
        ("list", "watch"),
        names=(definition_key(resource_type).name,),
        cluster_wide=True,
    )


def is_served(definition: CachedObject, resource_type: ResourceType) -> bool:
    """Whether a definition is established and serves the version that the type names.

    One that is being deleted still does: it goes after its last object, which may wait for us.
    """
    decoded = codec.decode_json(definition.data)
    spec, status = decoded.get("spec") or {}, decoded.get("status") or {}
    return _is_established(status) and any(
        version.get("name") == resource_type.version and version.get("served")
        for version in spec.get("versions") or ()
    )


def _is_established(status: Mapping[str, Any]) -> bool:
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
