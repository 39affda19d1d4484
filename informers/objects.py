"""Identities of Kubernetes objects, and the form in which a cache keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

_NOTHING: Mapping[str, str] = MappingProxyType({})


class ObjectKey(NamedTuple):
    """Namespace and name of an object; the namespace is empty for cluster-scoped kinds.

    This is the work queue's item (controller-runtime's `reconcile.Request`). It is hashed many
    times for each event, which a tuple does in C.

    `cluster` tells the clusters of a controller of several apart; it is empty for the cluster of
    whoever is asked, and no reader or client takes another.
    """

    namespace: str
    name: str
    cluster: str = ""

    @property
    def local(self) -> ObjectKey:
        """The key as its own cluster knows it."""
        return ObjectKey(self.namespace, self.name) if self.cluster else self

    def __str__(self) -> str:
        text = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}:{text}" if self.cluster else text


@dataclass(frozen=True, slots=True)
class ResourceType:
    """What the API server calls a kind: group, version, kind, plural resource name and scope.

    The core group is the empty string.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or only the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """The type as manifests spell it: `apps/v1 Deployment`."""
        return f"{self.api_version} {self.kind}"

    def __str__(self) -> str:
        return (
            f"{self.plural}.{self.version}.{self.group}"
            if self.group
            else f"{self.plural}.{self.version}"
        )


class OwnerReference(NamedTuple):
    """One entry of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False

    @property
    def group(self) -> str:
        """API group of the owner, empty for the core group."""
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A pointer to one instance: type, key and UID (empty: any instance of that name)."""

    resource_type: ResourceType
    key: ObjectKey
    uid: str = ""


class KubeObject(Protocol):
    """What the machinery reads of any object, cached or decoded."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""

    @property
    def uid(self) -> str:
        """`metadata.uid`."""

    @property
    def resource_version(self) -> str:
        """`metadata.resourceVersion`; comparable as a number within one resource type."""

    @property
    def generation(self) -> int:
        """`metadata.generation`, 0 where the kind has none."""

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """`metadata.annotations`."""

    @property
    def owner_references(self) -> tuple[OwnerReference, ...]:
        """`metadata.ownerReferences`."""

    @property
    def is_deleting(self) -> bool:
        """Whether `metadata.deletionTimestamp` is set."""


class CachedObject(NamedTuple):
    """An object as a cache keeps it: the few decoded fields, and the JSON as it came.

    One is made of every object of every event; a tuple is the cheapest frozen thing to make.

    `data` is the object's own copy of its JSON bytes (never a slice that pins a response), or empty
    in a
    metadata-only cache. Readers decode `data` afresh, so nothing that they do can reach the cache.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    generation: int = 0
    labels: Mapping[str, str] = _NOTHING
    annotations: Mapping[str, str] = _NOTHING
    owner_references: tuple[OwnerReference, ...] = ()
    is_deleting: bool = False
    data: bytes = b""


def controller_ref(obj: KubeObject) -> OwnerReference | None:
    """Return the owner reference whose `controller` is true, or None."""
    for reference in obj.owner_references:
        if reference.controller:
            return reference
    return None
