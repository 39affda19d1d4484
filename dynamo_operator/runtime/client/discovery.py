"""What the server serves: types, their verbs, their preferred versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import ApiError, TransportError
from dynamo_operator.runtime.client.reader import Kind, M
from dynamo_operator.runtime.client.uncached_reader import LiveReader
from informers.objects import ResourceType

_JSON = "application/json"
_AGGREGATED = f"{_JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{_JSON}"


@dataclass(frozen=True, slots=True)
class ServedType:
    """A type that the server serves.

    `verbs` are those of the resource itself; `is_preferred` marks its group's preferred version.
    """

    resource_type: ResourceType
    verbs: frozenset[str] = frozenset()
    singular: str = ""
    short_names: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    is_preferred: bool = False


class Discovery:
    """The served types, asked for once and kept until `refresh`.

    The server is asked for the aggregated documents, and group by group where it has none. Groups
    that cannot answer, e.g. because an aggregated API server is down, are named in `unavailable`.
    """

    def __init__(self, client: LiveReader) -> None:
        self._client = client
        self._served: dict[ResourceType, ServedType] | None = None
        self._unavailable: dict[str, str] = {}

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Group versions that did not answer at the last refresh, and why."""
        return self._unavailable

    async def refresh(self) -> None:
        """Ask the server anew.

        Raises:
            ClientError: the server as a whole did not answer.
        """
        unavailable: dict[str, str] = {}
        served = [
            *await self._fetch("/api", unavailable),
            *await self._fetch("/apis", unavailable),
        ]
        self._served = {item.resource_type: item for item in served}
        self._unavailable = unavailable

    async def served(self) -> Sequence[ServedType]:
        """Return everything that is served."""
        if self._served is None:
            await self.refresh()
        return tuple((self._served or {}).values())

    async def supports(self, kind: Kind[M], *, verb: str = "") -> bool:
        """Whether the type is served, with that verb if one is given."""
        found = await self.lookup(kind)
        return found is not None and (not verb or verb in found.verbs)

    async def lookup(self, kind: Kind[M]) -> ServedType | None:
        """Return what is known of a type, or None if it is not served."""
        wanted = codec.resource_type_of(kind)
        for item in await self.served():
            found = item.resource_type
            if (found.group, found.version, found.kind, found.plural) == (
                wanted.group,
                wanted.version,
                wanted.kind,
                wanted.plural,
            ):
                return item
        return None

    async def find(
        self, kind: str, *, group: str | None = None, version: str | None = None
    ) -> ServedType | None:
        """Return the type of that kind, in its group's preferred version unless one is asked for.

        Args:
            kind: e.g. `ConfigMap`.
            group: only there; the empty string is the core group, None any group.
            version: only that one.
        """
        found = [
            item
            for item in await self.served()
            if item.resource_type.kind == kind
            and group in (None, item.resource_type.group)
            and version in (None, item.resource_type.version)
        ]
        return next((item for item in found if item.is_preferred), found[0] if found else None)

    async def _fetch(self, root: str, unavailable: dict[str, str]) -> list[ServedType]:
        document = await self._get(root, accept=_AGGREGATED)
        if document.get("kind") == "APIGroupDiscoveryList":
            return list(_aggregated(document, unavailable))
        if root == "/api":
            preferred = {
                version: index == 0 for index, version in enumerate(_texts(document, "versions"))
            }
        else:
            preferred = dict(_group_versions(document))
        served: list[ServedType] = []
        for group_version, is_preferred in preferred.items():
            try:
                resources = await self._get(f"{root}/{group_version}")
            except (ApiError, TransportError) as error:
                unavailable[group_version] = str(error)
                continue
            served += _legacy(group_version, resources, is_preferred=is_preferred)
        return served

    async def _get(self, path: str, *, accept: str = _JSON) -> Mapping[str, Any]:
        response = await self._client.request("GET", path, accept=accept)
        try:
            document = codec.decode_json(response.body)
        except codec.MalformedJsonError as error:
            raise TransportError(f"GET {path}: answered with {error}") from None
        if not isinstance(document, dict):
            raise TransportError(f"GET {path}: answered with no object")
        return document


def _aggregated(document: Mapping[str, Any], unavailable: dict[str, str]) -> Iterator[ServedType]:
    for group in _objects(document, "items"):
        group_name = (group.get("metadata") or {}).get("name") or ""
        for index, version in enumerate(_objects(group, "versions")):
            name = str(version.get("version"))
            if version.get("freshness") == "Stale":
                unavailable[f"{group_name}/{name}"] = "stale: its API server does not answer"
            for resource in _objects(version, "resources"):
                kind = (resource.get("responseKind") or {}).get("kind")
                if not kind:
                    continue
                plural = str(resource.get("resource"))
                namespaced = resource.get("scope") == "Namespaced"
                yield ServedType(
                    ResourceType(group_name, name, kind, plural, namespaced),
                    verbs=frozenset(_texts(resource, "verbs")),
                    singular=resource.get("singularResource") or "",
                    short_names=tuple(_texts(resource, "shortNames")),
                    subresources=frozenset(
                        str(sub.get("subresource")) for sub in _objects(resource, "subresources")
                    ),
                    is_preferred=index == 0,
                )


def _group_versions(document: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for group in _objects(document, "groups"):
        preferred = (group.get("preferredVersion") or {}).get("groupVersion")
        for version in _objects(group, "versions"):
            group_version = str(version.get("groupVersion"))
            yield group_version, group_version == preferred


def _legacy(
    group_version: str, document: Mapping[str, Any], *, is_preferred: bool
) -> Iterator[ServedType]:
    group, _, version = group_version.rpartition("/")
    resources = _objects(document, "resources")
    names = [str(resource.get("name")) for resource in resources]
    for name, resource in zip(names, resources, strict=True):
        if "/" in name:
            continue
        prefix = f"{name}/"
        yield ServedType(
            ResourceType(
                group, version, str(resource.get("kind")), name, bool(resource.get("namespaced"))
            ),
            verbs=frozenset(_texts(resource, "verbs")),
            singular=resource.get("singularName") or "",
            short_names=tuple(_texts(resource, "shortNames")),
            subresources=frozenset(n.removeprefix(prefix) for n in names if n.startswith(prefix)),
            is_preferred=is_preferred,
        )


def _objects(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [item for item in document.get(name) or () if isinstance(item, Mapping)]


def _texts(document: Mapping[str, Any], name: str) -> list[str]:
    return [item for item in document.get(name) or () if isinstance(item, str)]
