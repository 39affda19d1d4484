"""Models of the generated client kubernetes_asyncio, told apart without loading it."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard


class GeneratedStruct(Protocol):
    """Any of its models, e.g. a `V1JobStatus`."""

    def to_str(self) -> str:
        """Return the model's text."""


class GeneratedModel(GeneratedStruct, Protocol):
    """Its model of an object, e.g. a `V1Job`; taken wherever a `KubeModel` is."""

    @property
    def api_version(self) -> str:
        """The object's apiVersion."""

    @property
    def kind(self) -> str:
        """The object's kind."""

    @property
    def metadata(self) -> Any:
        """A `V1ObjectMeta`."""


def is_generated(kind: object) -> TypeGuard[type[GeneratedModel]]:
    """Whether a kind is a class of the generated client."""
    return isinstance(kind, type) and hasattr(kind, "openapi_types")
