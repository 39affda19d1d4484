"""Every resource that an API server serves, each in one version."""

from __future__ import annotations

from dataclasses import dataclass

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.discovery import Discovery, ServedType
from informers.objects import ResourceType


@dataclass(frozen=True, slots=True)
class ServedResources:
    """What was found.

    Args:
        types: each resource once, in its group's preferred version where that has it.
        is_complete: whether every group answered.
    """

    types: tuple[ServedType, ...] = ()
    is_complete: bool = True

    def find(self, group: str, kind: str) -> ResourceType | None:
        """Return the resource type of a kind, or None when it is not served."""
        for served in self.types:
            if served.resource_type.group == group and served.resource_type.kind == kind:
                return served.resource_type
        return None


async def served_resources(client: Client) -> ServedResources:
    """Ask the server what it serves.

    Raises:
        ClientError: the server as a whole did not answer.
    """
    discovery = Discovery(client)
    found: dict[tuple[str, str], ServedType] = {}
    for served in await discovery.served():
        name = (served.resource_type.group, served.resource_type.plural)
        if name not in found or served.is_preferred:
            found[name] = served
    return ServedResources(tuple(found.values()), not discovery.unavailable)
