"""The base of every kind that is a Python class: its JSON form is the wire's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticUndefined

from informers.objects import ObjectKey, OwnerReference, ResourceType

_SCALARS = frozenset((str, int, float, bool, type(None)))  # cheaper asked than an abstract class


class KubeStruct(BaseModel):
    """A JSON object inside a kind: snake_case attributes, camelCase on the wire.

    Fields that the class does not declare are kept as they came. `null` where a value belongs means
    absent, as the
    API server treats it for built-in kinds.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="allow",
        validate_assignment=False,
        defer_build=True,  # most programs use a few of the kinds that they import
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Have empty defaults made anew; pydantic would copy them deeply for every object read."""
        super().__pydantic_init_subclass__(**options)
        for declared in cls.model_fields.values():
            default = declared.default
            if default in ({}, []) or (
                isinstance(default, KubeStruct) and not default.model_fields_set
            ):
                declared.default_factory = type(default)
                declared.default = PydanticUndefined

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        # The exact type first: asking an abstract class costs more than all of the rest.
        if (type(data) is dict or isinstance(data, Mapping)) and None in data.values():
            return {name: value for name, value in data.items() if value is not None}
        return data

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form with exactly the fields that were set, never a default.

        A default that was filled in place (`obj.metadata.labels["a"] = "b"`) counts as set.
        """
        _note_filled_defaults(self)
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class OwnerReferenceModel(KubeStruct):
    """`metadata.ownerReferences[]`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(KubeStruct):
    """`metadata` of an object; timestamps stay the RFC 3339 text that they are on the wire."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReferenceModel] = []


class KubeModel(KubeStruct):
    """An object of one kind. A subclass sets `resource_type` and declares its fields.

    It satisfies `informers.objects.KubeObject`.

    Example:
        >>> class Widget(KubeModel):
        ...     resource_type = ResourceType("lab.test", "v1", "Widget", "widgets")
        ...     spec: dict[str, Any] = {}
        >>> Widget.new("a", namespace="default", spec={"size": 1}).to_dict()["kind"]
        'Widget'
    """

    resource_type: ClassVar[ResourceType]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Self:
        """Build an object to be written.

        Args:
            name: `metadata.name`.
            namespace: `metadata.namespace`; empty for the client's default namespace or a cluster-
            scoped kind.
            labels: `metadata.labels`.
            annotations: `metadata.annotations`.
            fields: the kind's own fields, as values or as plain JSON.

        Raises:
            pydantic.ValidationError: a field has the wrong type.
        """
        metadata: dict[str, Any] = {"name": name}
        if namespace:
            metadata["namespace"] = namespace
        if labels:
            metadata["labels"] = dict(labels)
        if annotations:
            metadata["annotations"] = dict(annotations)
        return cls.model_validate(
            {
                "apiVersion": cls.resource_type.api_version,
                "kind": cls.resource_type.kind,
                "metadata": metadata,
                **fields,
            }
        )

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.metadata.namespace, self.metadata.name)

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        """`metadata.resourceVersion`."""
        return self.metadata.resource_version

    @property
    def generation(self) -> int:
        """`metadata.generation`."""
        return self.metadata.generation

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`."""
        return self.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """`metadata.annotations`."""
        return self.metadata.annotations

    @property
    def owner_references(self) -> tuple[OwnerReference, ...]:
        """`metadata.ownerReferences`."""
        return tuple(
            OwnerReference(
                r.api_version, r.kind, r.name, r.uid, r.controller, r.block_owner_deletion
            )
            for r in self.metadata.owner_references
        )

    @property
    def is_deleting(self) -> bool:
        """Whether the object is being deleted."""
        return self.metadata.deletion_timestamp is not None


def _note_filled_defaults(struct: BaseModel) -> None:
    are_set = struct.model_fields_set
    for name, value in vars(struct).items():
        if type(value) in _SCALARS:
            continue
        if isinstance(value, BaseModel):
            _note_filled_defaults(value)
        elif isinstance(value, list | dict):
            for item in value.values() if isinstance(value, dict) else value:
                if type(item) not in _SCALARS and isinstance(item, BaseModel):
                    _note_filled_defaults(item)
        else:
            continue
        if name not in are_set and value != _default_of(type(struct), name):
            are_set.add(name)


@cache
def _default_of(struct: type[BaseModel], name: str) -> Any:
    """Return what a field is by default, for comparison; pydantic takes half a millisecond."""
    field = struct.model_fields[name]
    return field.get_default(call_default_factory=True, validated_data={})
