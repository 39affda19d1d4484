"""Permissions that code declares beside itself; the shipped roles are made from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on resources of one API group.

    `cluster_wide` is for what no namespaced role can grant; without it, a deployment that watches a
    few namespaces gets the permission in those only.

    Raises:
        ValueError: a wildcard, or nothing granted.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    cluster_wide: bool = False

    def __post_init__(self) -> None:
        if not self.resources or not self.verbs:
            raise ValueError(f"permission in group {self.group!r}: needs resources and verbs")
        if "*" in (self.group, *self.resources, *self.verbs):
            raise ValueError(
                f"permission on {', '.join(self.resources)}: wildcards are not granted"
            )
