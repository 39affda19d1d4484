"""Resources the server knows: what identifies them, and the strategy that knows their kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import FieldError

Object = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a Table; `cell` gets the object and the present time (for ages)."""

    name: str
    type: str
    cell: Callable[[Object, datetime], Any]
    description: str = ""
    format: str = ""
    priority: int = 0


class Strategy(Protocol):
    """What is particular to one kind. Purely functional: arguments are never changed in place.

    `subresource` is "", "status" or another subresource that writes the object.
    """

    @property
    def schema(self) -> Schema | None:
        """Schema of the whole object: list types and keys, what OpenAPI shows; None: free form."""

    @property
    def columns(self) -> Sequence[Column]:
        """Columns after Name, without Age unless declared; empty for the default Name and Age."""

    @property
    def zero_value(self) -> Mapping[str, Any]:
        """What any object of the kind shows, though nobody set it; see `kinds.zero_values`."""

    @property
    def completes_new(self) -> bool:
        """Whether `prepare_create` sets more than defaults."""

    def unknown_fields(self, obj: Object) -> list[str]:
        """Paths that pruning would drop, for fieldValidation."""

    def decoded(self, obj: Object) -> Object:
        """Prune and default what a client sent, and set nothing else."""

    def prepare_create(self, obj: Object) -> Object:
        """Prune and default; drop status where status is a subresource. Metadata stays."""

    def nulls_written(self, obj: Object) -> list[FieldError]:
        """Return what refuses the nulls of an object as webhooks left it."""

    def prepare_update(self, new: Object, old: Object, subresource: str) -> Object:
        """Prune and default, and keep from `old` what that (sub)resource may not write.

        Through "status" all but status and metadata comes from `old`; through "" status does.
        """

    def validate_create(self, obj: Object, found: Sequence[FieldError] = ()) -> list[FieldError]:
        """Return what is wrong with a new object, beside what was `found` in its metadata."""

    def validate_update(
        self, new: Object, old: Object, subresource: str, found: Sequence[FieldError] = ()
    ) -> list[FieldError]:
        """Return what is wrong with a change, beside what was `found` in the metadata."""

    def as_read(self, obj: Object) -> Object:
        """Return a new, valid object as it is when it is read again."""

    def warnings_at_once(self, obj: Object) -> list[str]:
        """Texts for Warning headers about a new object, told even if it is refused."""

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Texts for Warning headers."""

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Fields a field selector may name, besides metadata.name and metadata.namespace.

        Called with an empty object too: the keys must not depend on the object.
        """

    def bumps_generation(self, new: Object, old: Object) -> bool:
        """Whether a change of the main resource raises metadata.generation."""

    @property
    def has_generation(self) -> bool:
        """Whether objects of the kind carry metadata.generation."""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """JSON paths (with a leading dot) of the scale subresource."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One served resource in one version.

    Args:
        strategy: what is particular to the kind.
        subresources: of status, scale, log, token, binding, eviction, ...
        storage_group: group under which objects are kept, when another group serves the same ones.
        storage_api_version: apiVersion of what is kept; "" for this resource's own.
        to_storage: converts what a client wrote to the kept form; None: only apiVersion differs.
        from_storage: the other way.
        custom: whether a CustomResourceDefinition declares it.
        deprecation_warning: text for a Warning header of every request, or "".
        preferred: whether discovery shows this version first.
        prefetch: gets ready to convert many kept objects at once; None: nothing to get ready.
    """

    group: str
    version: str
    kind: str
    plural: str
    strategy: Strategy
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: frozenset[str] = frozenset()
    scale: ScalePaths | None = None
    storage_group: str | None = None
    storage_api_version: str = ""
    to_storage: Callable[[Object], Object] | None = None
    from_storage: Callable[[Object], Object] | None = None
    custom: bool = False
    deprecation_warning: str = ""
    preferred: bool = True
    prefetch: Callable[[Sequence[Object]], None] | None = None

    @property
    def api_version(self) -> str:
        """`group/version`, or only the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def error_group(self) -> str:
        """The group that errors about objects name: that of the kind they are kept as."""
        return self.group if self.storage_group is None else self.storage_group

    @property
    def storage_key(self) -> tuple[str, str]:
        """Group and plural under which objects are kept."""
        return (self.error_group, self.plural)

    def kept(self, obj: Object) -> Object:
        """Return an object of this version in the form that is kept."""
        if self.to_storage is not None:
            return self.to_storage(obj)
        if self.storage_api_version:
            return {**obj, "apiVersion": self.storage_api_version}
        return obj

    def served(self, kept: Object) -> Object:
        """Return a kept object in this version; the result is shared and must not be changed."""
        if self.from_storage is not None:
            return self.from_storage(kept)
        if kept["apiVersion"] == self.api_version:
            return kept
        return {**kept, "apiVersion": self.api_version}

    def from_version(self, obj: Object, source: Resource) -> Object:
        """Return an object of another version of the same thing in this one."""
        return obj if source is self else self.served(source.kept(obj))


@dataclass(slots=True)
class ResourceRegistry:
    """Everything served right now, by group, version and plural.

    `revision` tells two states of it apart.
    """

    revision: int = 0
    _resources: dict[tuple[str, str, str], Resource] = field(default_factory=dict)

    def add(self, resource: Resource) -> None:
        """Serve `resource`, in place of an earlier one of the same address."""
        self._resources[(resource.group, resource.version, resource.plural)] = resource
        self.revision += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving every version of a resource."""
        for key in [k for k in self._resources if k[0] == group and k[2] == plural]:
            del self._resources[key]
            self.revision += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource at that address, or None."""
        return self._resources.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource that serves a kind, or None."""
        for resource in self._resources.values():
            if (resource.group, resource.version, resource.kind) == (group, version, kind):
                return resource
        return None

    def has_group_version(self, group: str, version: str) -> bool:
        """Whether anything is served there."""
        return any(key[:2] == (group, version) for key in self._resources)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())
