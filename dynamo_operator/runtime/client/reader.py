"""What a reconciler reads through, cached or live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, overload

from dynamo_operator.runtime.client.generated_models import GeneratedModel
from dynamo_operator.runtime.models import KubeModel
from informers.objects import ObjectKey, ResourceType

M = TypeVar("M", bound=KubeModel | GeneratedModel)
Kind = type[M] | ResourceType
"""What names a kind, and says in what its objects are given."""
AnyKind = type[KubeModel] | type[GeneratedModel] | ResourceType
"""What names a kind: a model class, ours or the generated client's, or a resource type."""


class Reader(Protocol):
    """Reads objects; a model class gives models, a ResourceType gives plain dicts."""

    @overload
    async def get(self, kind: type[M], key: ObjectKey) -> M: ...
    @overload
    async def get(self, kind: ResourceType, key: ObjectKey) -> dict[str, Any]: ...
    async def get(self, kind: type[M] | ResourceType, key: ObjectKey) -> M | dict[str, Any]:
        """Return the object.

        Raises:
            NotFoundError: there is none.
        """

    @overload
    async def find(self, kind: type[M], key: ObjectKey) -> M | None: ...
    @overload
    async def find(self, kind: ResourceType, key: ObjectKey) -> dict[str, Any] | None: ...
    async def find(self, kind: type[M] | ResourceType, key: ObjectKey) -> M | dict[str, Any] | None:
        """Return the object, or None when there is none."""

    @overload
    async def list(
        self,
        kind: type[M],
        *,
        namespace: str = "",
        labels: Mapping[str, str] | str | None = None,
        fields: Mapping[str, str] | str | None = None,
    ) -> list[M]: ...
    @overload
    async def list(
        self,
        kind: ResourceType,
        *,
        namespace: str = "",
        labels: Mapping[str, str] | str | None = None,
        fields: Mapping[str, str] | str | None = None,
    ) -> list[dict[str, Any]]: ...
    async def list(
        self,
        kind: type[M] | ResourceType,
        *,
        namespace: str = "",
        labels: Mapping[str, str] | str | None = None,
        fields: Mapping[str, str] | str | None = None,
    ) -> list[M] | list[dict[str, Any]]:
        """Return the objects that match, sorted by key; no namespace means all of them.

        Fields are dotted paths and the text that they must have, or selector text: `=`, `!=`,
        `in (a, b)` and `notin (a, b)`. What the API server does not select by is selected here.
        """
