"""Old values as rules compare them with new ones."""

from __future__ import annotations

import json
from typing import Any

from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.value_checks import map_key


def aligned(old: Any, new: Any, schema: Schema | None) -> Any:
    """Return `old` rearranged so that plain equality with `new` means what the API server means.

    Sets and map lists are equal in any order. Undeclared fields of a preserve-unknown object are
    compared only where both sides have them, so a renamed one goes unnoticed.
    """
    if schema is None:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        same = {n: aligned(v, new.get(n), schema.child(n)) for n, v in old.items()}
        return _forget_renames(same, new, schema)
    if isinstance(old, list) and isinstance(new, list):
        return _in_order_of(old, new, schema)
    return old


def _forget_renames(old: dict[str, Any], new: dict[str, Any], schema: Schema) -> dict[str, Any]:
    if not (schema.preserve_unknown and schema.type == "object"):
        return old
    gone = [n for n in old if n not in new and schema.child(n) is None]
    come = [n for n in new if n not in old and schema.child(n) is None]
    if len(gone) != len(come):
        return old
    return {n: v for n, v in old.items() if n not in gone} | {n: new[n] for n in come}


def _in_order_of(old: list[Any], new: list[Any], schema: Schema) -> list[Any]:
    if schema.list_type not in ("set", "map"):
        pairs = zip(old, [*new, *[None] * len(old)], strict=False)
        return [aligned(item, other, schema.items) for item, other in pairs]

    def identity(item: Any) -> Any:
        if schema.list_type == "map":
            return map_key(item, schema.list_keys, schema.items)
        return json.dumps(item, sort_keys=True)

    before = {identity(item): item for item in old}
    shared = {identity(item): item for item in new if identity(item) in before}
    if len(before) != len(old) or len(shared) != sum(identity(i) in before for i in new):
        return old  # duplicates: no list that passes validation today has them
    order = [aligned(before.pop(key), item, schema.items) for key, item in shared.items()]
    return [*order, *before.values()]
