"""This module compiles the schemas of the built-in kinds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from dynamo_operator.apiserver.kinds import (
    access,
    admission,
    apps,
    batch,
    columns,
    core,
    services,
    system,
)
from dynamo_operator.apiserver.kinds.openapi import ANYTHING, CONDITIONS, LABEL_SELECTOR, record
from dynamo_operator.apiserver.kinds.rules import KindRules
from dynamo_operator.apiserver.schema import Schema

_RULES: Final[Mapping[tuple[str, str], KindRules]] = {
    **core.KINDS,
    **services.KINDS,
    **apps.KINDS,
    **batch.KINDS,
    **access.KINDS,
    **system.KINDS,
    **admission.KINDS,
}

_FREE_FORM: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"status": {**record(conditions=CONDITIONS), **ANYTHING}},
    **ANYTHING,
}
_UNKNOWN: Final = KindRules(schema=_FREE_FORM, has_status=True, has_generation=True)
"""A kind of which only metadata, spec and status are known."""
_FREE: Final[Mapping[tuple[str, str], KindRules]] = {
    ("", "ResourceQuota"): KindRules(
        schema=_FREE_FORM, has_status=True, columns=columns.RESOURCE_QUOTA
    ),
    ("", "LimitRange"): KindRules(schema=_FREE_FORM),
    ("networking.k8s.io", "NetworkPolicy"): KindRules(
        schema={
            "type": "object",
            "properties": {"spec": {**record(podSelector=LABEL_SELECTOR), **ANYTHING}},
            **ANYTHING,
        },
        has_generation=True,
    ),
    ("scheduling.k8s.io", "PriorityClass"): KindRules(schema=_FREE_FORM, has_generation=True),
    ("storage.k8s.io", "StorageClass"): KindRules(schema=_FREE_FORM),
}
"""Likewise, of which it is known that they have less."""


def kind_rules(group: str, kind: str) -> KindRules:
    """Return what is particular to a built-in kind."""
    return _RULES.get((group, kind)) or _FREE.get((group, kind), _UNKNOWN)


@cache
def builtin_schema(group: str, kind: str) -> Schema:
    """Return the compiled schema of whole objects of a built-in kind."""
    return Schema.compile(kind_rules(group, kind).schema, root=True)
