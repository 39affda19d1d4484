"""This module compiles the schemas of the built-in kinds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from dynamo_operator.apiserver.kinds import (
    access,
    admission,
    apps,
    batch,
    core,
    plain,
    services,
    system,
)
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
    **plain.KINDS,
}

_UNKNOWN: Final = KindRules(schema=plain.FREE_FORM, has_status=True, has_generation=True)
"""A kind of which only metadata, spec and status are known."""


def kind_rules(group: str, kind: str) -> KindRules:
    """Return what is particular to a built-in kind."""
    return _RULES.get((group, kind), _UNKNOWN)


@cache
def builtin_schema(group: str, kind: str) -> Schema:
    """Return the compiled schema of whole objects of a built-in kind."""
    return Schema.compile(kind_rules(group, kind).schema, root=True)
