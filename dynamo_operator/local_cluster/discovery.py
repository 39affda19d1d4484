"""Which resources an API server has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ApiError, NotFoundError
from informers.objects import ResourceType


@dataclass(frozen=True, slots=True)
class Discovered:
    """A resource in its group's preferred version, and what can be done with it."""

    resource_type: ResourceType
    verbs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Discovery:
    """An API server's resources.

    Args:
        resources: each once, in its group's preferred version where that has it.
        is_complete: whether every group answered.
    """

    resources: tuple[Discovered, ...]
    is_complete: bool = True

    def find(self, group: str, kind: str) -> ResourceType | None:
        """Return the resource type of a kind."""
        for found in self.resources:
            if found.resource_type.group == group and found.resource_type.kind == kind:
                return found.resource_type
        return None


async def discover(client: Client) -> Discovery:
    """Ask for every resource of every group; a group that does not answer is left out."""
    groups = await _get(client, "/apis")
    versions = {"": ["v1"]}
    for group in groups.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        others = [v["version"] for v in group.get("versions") or () if v["version"] != preferred]
        versions[group["name"]] = [*([preferred] if preferred else []), *others]
    found: dict[tuple[str, str], Discovered] = {}
    is_complete = True
    for name, ordered in versions.items():
        for version in ordered:
            try:
                document = await _get(client, f"/apis/{name}/{version}" if name else "/api/v1")
            except NotFoundError:
                continue
            except ApiError:
                is_complete = False
                continue
            for resource in document.get("resources") or ():
                if "/" not in resource["name"]:
                    found.setdefault((name, resource["name"]), _discovered(name, version, resource))
    return Discovery(tuple(found.values()), is_complete)


def _discovered(group: str, version: str, resource: dict[str, Any]) -> Discovered:
    resource_type = ResourceType(
        group=group,
        version=version,
        kind=resource["kind"],
        plural=resource["name"],
        namespaced=resource.get("namespaced", False),
    )
    return Discovered(resource_type, frozenset(resource.get("verbs") or ()))


async def _get(client: Client, path: str) -> dict[str, Any]:
    response = await client.request("GET", path)
    document: dict[str, Any] = codec.decode_json(response.body)
    return document
