"""The layers of an effective document: settings with their origins, and merge patches."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from dynamo_operator.aisimulate.violations import dotted
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


DEEPEST: Final = 64
"""Levels of objects and lists in overrides; AISimulate's own input has about ten."""


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
class _Origins:
    """The origins of a value and of what is in it: a tree, so that forgetting one costs no scan."""

    here: Origin | None = None
    below: dict[str, _Origins] = field(default_factory=dict)

    def put(self, path: Path, origin: Origin) -> None:
        """Note the origin of the value at a path; what was known of its inside is forgotten."""
        node = self
        for key in path[:-1]:
            node = node.below.setdefault(key, _Origins())
        node.below[path[-1]] = _Origins(origin)

    def drop(self, path: Path) -> None:
        """Forget the value at a path, and its inside."""
        node: _Origins | None = self
        for key in path[:-1]:
            node = node.below.get(key) if node else None
        if node is not None:
            node.below.pop(path[-1], None)

    def along(self, path: Path) -> Iterator[Origin | None]:
        """Yield what is known of each value on the way to a path, outermost first."""
        node: _Origins | None = self
        for key in path:
            node = node.below.get(key) if node else None
            yield node.here if node else None

    def any_of(self, kind: OriginKind) -> bool:
        """Whether any value is of that kind."""
        is_here = self.here is not None and self.here.kind is kind
        return is_here or any(node.any_of(kind) for node in self.below.values())


@dataclass(slots=True)
class LayeredDocument:
    """A document under construction that remembers where each value comes from."""

    content: dict[str, Any] = field(default_factory=dict)
    _origins: _Origins = field(default_factory=_Origins)

    def set(self, path: str, value: Any, origin: Origin) -> None:
        """Set the value at a dotted path, making the objects above it."""
        *parents, last = keys = tuple(path.split("."))
        node = self.content
        for key in parents:
            node = node.setdefault(key, {})
        node[last] = value
        self._origins.put(keys, origin)

    def set_absent(self, path: str, value: Any, origin: Origin) -> None:
        """Set the value unless a higher layer has."""
        *_, known = self._origins.along(tuple(path.split(".")))
        if known is None:
            self.set(path, value, origin)

    def remove(self, path: Path) -> None:
        """Remove a value, if it is there."""
        node: Any = self.content
        for key in path[:-1]:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.pop(path[-1], None)
        self._origins.drop(path)

    def merge(self, patch: Mapping[str, Any]) -> None:
        """Apply an RFC 7386 merge patch: null deletes, objects merge, anything else replaces."""
        self._merge(self.content, patch, ())

    def origin_of(self, path: Path) -> Origin | None:
        """Return the origin of a value, or of the nearest value that it is part of."""
        known = [origin for origin in self._origins.along(path) if origin is not None]
        return known[-1] if known else None

    def has_any(self, kind: OriginKind) -> bool:
        """Whether any value comes from that layer."""
        return self._origins.any_of(kind)

    def _merge(self, node: dict[str, Any], patch: Mapping[str, Any], path: Path) -> None:
        for key, value in patch.items():
            here = (*path, key)
            if value is None:
                node.pop(key, None)
                self._origins.drop(here)
            elif isinstance(value, Mapping):
                if not isinstance(node.get(key), dict):
                    node[key] = {}
                    self._origins.put(here, _override(here))
                self._merge(node[key], value, here)
            else:
                node[key] = copy.deepcopy(value)
                self._origins.put(here, _override(here))


def _override(path: Path) -> Origin:
    return Origin(OriginKind.OVERRIDE, dotted((OVERRIDES_FIELD, *path)))


def is_too_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Whether objects and lists are nested deeper than that; hostile depths do no harm."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [
            item
            for each in layer
            if isinstance(each, Mapping | list)
            for item in (each.values() if isinstance(each, Mapping) else each)
        ]
    return bool(layer)


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
