"""The JSON patch that does to a raw object what a handler did to its decoded form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Operation = dict[str, Any]


def patch_of(raw: Any, before: Any, after: Any) -> list[Operation]:
    """Return the operations that bring `raw` to what became of it.

    What only decoding changed, a dropped null or a field it does not know, stays as it is: an
    operation comes only from a difference between `before` and `after`.

    Args:
        raw: the object as it came.
        before: what it looks like once decoded and encoded again.
        after: the same after the handler.
    """
    return list(_operations(raw, before, after, ""))


def _operations(raw: Any, before: Any, after: Any, path: str) -> Iterator[Operation]:
    if is_same_json(before, after):
        return
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        yield from _members(raw, before, after, path)
    elif _is_aligned(raw, before, after):
        for position, items in enumerate(zip(raw, before, after[: len(raw)], strict=True)):
            yield from _operations(*items, f"{path}/{position}")
        for item in after[len(raw) :]:
            yield {"op": "add", "path": f"{path}/-", "value": item}
    elif not is_same_json(raw, after):
        yield {"op": "replace", "path": path, "value": after}


def _members(
    raw: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any], path: str
) -> Iterator[Operation]:
    for name in before:
        if name not in after and name in raw:
            yield {"op": "remove", "path": _below(path, name)}
    for name, value in after.items():
        where = _below(path, name)
        if name in raw and name in before:
            yield from _operations(raw[name], before[name], value, where)
        elif name not in before or not is_same_json(before[name], value):
            yield {"op": "add", "path": where, "value": value}


def _is_aligned(raw: Any, before: Any, after: Any) -> bool:
    """Whether all are lists, and the first items of `after` are those of the others."""
    if not (isinstance(raw, list) and isinstance(before, list) and isinstance(after, list)):
        return False
    if not len(raw) == len(before) <= len(after):
        return False
    return len(after) == len(before) or is_same_json(before, after[: len(before)])


def is_same_json(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON has it, at any depth: true is not 1, 1.0 is."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if left is right:
            continue
        if isinstance(left, bool) or isinstance(right, bool):
            return False
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            if left.keys() != right.keys():
                return False
            pairs.extend((left[name], right[name]) for name in left)
        elif _is_list(left) and _is_list(right):
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif left != right:
            return False
    return True


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _below(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
