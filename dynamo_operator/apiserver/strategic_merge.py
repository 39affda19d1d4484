"""This module applies strategic merge patches, the built-in kinds' own patch type.

Maps merge; a list merges when its schema says `x-kubernetes-patch-strategy: merge`, by
`x-kubernetes-patch-merge-key` or, without a key, as a set of values. Directives: `$patch: delete |
replace | merge`, `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dynamo_operator.apiserver.go_texts import go_text
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import StatusError, bad_request

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"


def strategic_merge_patch(target: Any, patch: Any, schema: Schema | None) -> Any:
    """Return `target` with `patch` merged in; neither argument is changed.

    Raises:
        StatusError: 400 for an unknown directive, 422 for a list item without its merge key.
    """
    if not isinstance(patch, dict):
        found = "array" if isinstance(patch, list) else "value"
        go_type = "Go value of type map[string]interface {}"
        raise bad_request(f"json: cannot unmarshal {found} into {go_type}")
    return _merge_map(target, patch, schema)


def _merge_map(target: Any, patch: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return copy.deepcopy({name: v for name, v in patch.items() if name != _PATCH})
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _unknown_directive(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        merged = {name: v for name, v in merged.items() if name in patch[_RETAIN]}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        child = schema.child(name) if schema else None
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            _merge_child(merged, name, value, child)
        elif isinstance(value, list) and child is not None and "merge" in child.patch_strategies:
            order = patch.get(_ORDER + name)
            merged[name] = _merge_list(merged.get(name) or [], value, child, order)
        else:
            merged[name] = copy.deepcopy(value)
    _edit_lists(merged, patch, schema)
    return merged


def _merge_child(
    merged: dict[str, Any], name: str, value: Mapping[str, Any], child: Schema | None
) -> None:
    if value.get(_PATCH) == "delete":
        merged.pop(name, None)
    else:
        merged[name] = _merge_map(merged.get(name), value, child)


def _edit_lists(merged: dict[str, Any], patch: Mapping[str, Any], schema: Schema | None) -> None:
    """Directives that concern a list beside which they stand."""
    for directive, value in patch.items():
        if directive.startswith(_DELETE_VALUES):
            name = directive.removeprefix(_DELETE_VALUES)
            if name in merged:
                merged[name] = [item for item in merged[name] if item not in value]
        elif directive.startswith(_ORDER):
            name = directive.removeprefix(_ORDER)
            child = schema.child(name) if schema else None
            if name in merged and name not in patch and child is not None:
                merged[name] = _ordered(merged[name], value, child.merge_key, merged[name])
        elif directive.startswith("$") and directive not in (_PATCH, _RETAIN):
            raise _unknown_directive(patch)


def _merge_list(
    target: Sequence[Any], patch: Sequence[Any], schema: Schema, order: Sequence[Any] | None
) -> list[Any]:
    key = schema.merge_key
    if not key:
        merged = [*target, *(item for item in patch if item not in target)]
        return _ordered(merged, order if order is not None else patch, key, target)
    plain = [item for item in patch if not (isinstance(item, dict) and _PATCH in item)]
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch):
        return copy.deepcopy(plain)
    items = {_key_of(item, key): item for item in target}
    for item in patch:
        identity = _key_of(item, key)
        directive = item.get(_PATCH)
        if directive == "delete":
            items.pop(identity, None)
        elif directive in (None, "merge"):
            content = {name: v for name, v in item.items() if name != _PATCH}
            items[identity] = _merge_map(items.get(identity), content, schema.items)
        else:
            raise _unknown_directive(item)
    return _ordered(list(items.values()), order if order is not None else plain, key, target)


def _ordered(
    items: Sequence[Any], order: Sequence[Any], key: str, live: Sequence[Any]
) -> list[Any]:
    """Items that `order` names in its order, among the others as they stood in the live list.

    One that the live list did not have comes as soon as it is its turn, before the others.
    """
    wanted = _ranks(order, key)
    stood = _ranks(live, key)
    named = [item for item in items if _identity(item, key) in wanted]
    named.sort(key=lambda item: wanted[_identity(item, key)])
    others = [item for item in items if _identity(item, key) not in wanted]
    result: list[Any] = []
    for item in named:
        place = stood.get(_identity(item, key), -1)
        while others and stood.get(_identity(others[0], key), -1) <= place:
            result.append(others.pop(0))
        result.append(item)
    return [*result, *others]


def _ranks(items: Sequence[Any], key: str) -> dict[Any, int]:
    return {_identity(one, key): rank for rank, one in reversed(list(enumerate(items)))}


def _identity(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, dict) else item


def _key_of(item: Any, key: str) -> Any:
    if not isinstance(item, dict) or key not in item:
        shown = (
            " ".join(f"{name}:{value}" for name, value in sorted(item.items()))
            if isinstance(item, dict)
            else item
        )
        detail = f"map: map[{shown}] does not contain declared merge key: {key}"
        raise StatusError(500, "", detail)
    identity = item[key]
    if isinstance(identity, (dict, list)):
        raise StatusError(422, "Invalid", f"map: the merge key {key} of {item} is no scalar")
    return identity


def _unknown_directive(patch: Mapping[str, Any]) -> StatusError:
    text = f"unknown patch type: {patch[_PATCH]} in map: {go_text(patch)}"
    return StatusError(500, "", text)
