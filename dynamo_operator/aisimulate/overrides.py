"""The layers of an effective document: settings with their origins, and merge patches."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from dynamo_operator.api.planner_contract import OUTPUT_ADAPTER

Path = tuple[str, ...]

OVERRIDES_FIELD: Final = "spec.aisimulate.inputOverrides"

PROTECTED_KEYS: Final = (
    "name",
    "namespace",
    "snapshot_dir",
    "runtime_image",
    "runtime_version_override",
    "num_gpus_per_node",
    "max_candidates",
    "derive_runtime_images",
)
"""Keys of the `dgdr_run` section that only the operator sets."""


class LoweringError(Exception):
    """A spec that cannot become an effective document; aimed at the person who wrote it.

    Args:
        path: the field, e.g. `spec.workload.static.load`.
        reason: what is wrong with it and what would be right.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class OriginKind(StrEnum):
    """Which layer a value comes from."""

    UNDERLAY = "static underlay"
    TYPED = "typed"
    DERIVED = "derived"
    OVERRIDE = "override"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value of the effective document comes from; `field` is the field of the spec."""

    kind: OriginKind
    field: str = ""

    def __str__(self) -> str:
        return f"{self.kind}, {self.field}" if self.field else str(self.kind)


@dataclass(slots=True)
class LayeredDocument:
    """A document under construction that remembers where each value comes from."""

    content: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)

    def set(self, path: str, value: Any, origin: Origin) -> None:
        """Set the value at a dotted path, making the objects above it."""
        *parents, last = keys = tuple(path.split("."))
        node = self.content
        for key in parents:
            node = node.setdefault(key, {})
        node[last] = value
        self._forget(keys)
        self.origins[keys] = origin

    def set_absent(self, path: str, value: Any, origin: Origin) -> None:
        """Set the value unless a higher layer has."""
        if tuple(path.split(".")) not in self.origins:
            self.set(path, value, origin)

    def remove(self, path: Path) -> None:
        """Remove a value, if it is there."""
        node: Any = self.content
        for key in path[:-1]:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.pop(path[-1], None)
        self._forget(path)

    def merge(self, patch: Mapping[str, Any]) -> None:
        """Apply an RFC 7386 merge patch: null deletes, objects merge, anything else replaces."""
        self._merge(self.content, patch, ())

    def origin_of(self, path: Path) -> Origin | None:
        """Return the origin of a value, or of the nearest value that it is part of."""
        for length in range(len(path), 0, -1):
            if (origin := self.origins.get(path[:length])) is not None:
                return origin
        return None

    def _merge(self, node: dict[str, Any], patch: Mapping[str, Any], path: Path) -> None:
        for key, value in patch.items():
            here = (*path, key)
            if value is None:
                node.pop(key, None)
                self._forget(here)
            elif isinstance(value, Mapping):
                if not isinstance(node.get(key), dict):
                    self._forget(here)
                    node[key] = {}
                    self.origins[here] = _override(here)
                self._merge(node[key], value, here)
            else:
                self._forget(here)
                node[key] = copy.deepcopy(value)
                self.origins[here] = _override(here)

    def _forget(self, path: Path) -> None:
        for known in [known for known in self.origins if known[: len(path)] == path]:
            del self.origins[known]


def _override(path: Path) -> Origin:
    return Origin(OriginKind.OVERRIDE, f"{OVERRIDES_FIELD}.{'.'.join(path)}")


def protected_violations(overrides: Mapping[str, Any]) -> Iterator[LoweringError]:
    """Yield an error for everything in the overrides that only the operator may set."""
    if OUTPUT_ADAPTER not in overrides:
        return
    section = overrides[OUTPUT_ADAPTER]
    where = f"{OVERRIDES_FIELD}.{OUTPUT_ADAPTER}"
    if not isinstance(section, Mapping):
        shown = "null" if section is None else repr(section)
        yield LoweringError(
            where, f"must be an object, not {shown}: it holds what the operator owns"
        )
        return
    for key in PROTECTED_KEYS:
        if key in section:
            yield LoweringError(f"{where}.{key}", "is set by the operator: remove it")
