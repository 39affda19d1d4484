"""Finds constants that no call can use, and formats that their values do not fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from dynamo_operator.apiserver.expressions.checker import children
from dynamo_operator.apiserver.expressions.standard import (
    duration_of,
    pattern_of,
    timestamp_of,
)
from dynamo_operator.apiserver.expressions.syntax import (
    Call,
    ExpressionError,
    ListOf,
    Literal,
    MapOf,
    Node,
)
from dynamo_operator.apiserver.expressions.texts import STRING_CLAUSE, clause_fault, clauses

_READ: Final[dict[str, Callable[[str], Any]]] = {
    "duration": duration_of,
    "timestamp": timestamp_of,
    "matches": pattern_of,
}


def literal_faults(node: Node, *, mixed: bool = False) -> Iterator[tuple[int, str]]:
    """Yield positions and what is wrong there, of a tree whose types are right.

    Args:
        node: the tree.
        mixed: whether lists and maps may have elements of several types.
    """
    if isinstance(node, Call):
        yield from _argument_faults(node)
        yield from _format_faults(node)
        mixed = mixed or node.function == "format"
    elif isinstance(node, ListOf) and not mixed:
        yield from _mixed(node.items, node.optional)
    elif isinstance(node, MapOf) and not mixed:
        yield from _mixed([entry.key for entry in node.entries], ())
        optional = {at for at, entry in enumerate(node.entries) if entry.optional}
        yield from _mixed([entry.value for entry in node.entries], optional)
    for child in children(node):
        yield from literal_faults(child, mixed=mixed)


def _mixed(nodes: Sequence[Node], optional: Collection[int]) -> Iterator[tuple[int, str]]:
    """The first element whose type is not that of the ones before it."""
    types = [
        each.type.arguments[0] if at in optional and each.type.arguments else each.type
        for at, each in enumerate(nodes)
    ]
    for each, found in zip(nodes, types, strict=True):
        if found != types[0]:
            yield each.position, f"expected type '{types[0]}' but found '{found}'"
            return


def _argument_faults(call: Call) -> Iterator[tuple[int, str]]:
    read = _READ.get(call.function)
    if read is None or not call.arguments:
        return
    argument = call.arguments[-1]
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        return
    try:
        read(argument.value)
    except ExpressionError:
        yield argument.position, f"invalid {call.function} argument"


def _format_faults(call: Call) -> Iterator[tuple[int, str]]:
    target = call.target
    if call.function != "format" or not isinstance(target, Literal) or len(call.arguments) != 1:
        return
    given = call.arguments[0]
    if not isinstance(given, ListOf) or not isinstance(target.value, str):
        return
    try:
        verbs = list(clauses(target.value))
    except ExpressionError as error:
        yield call.position, str(error)
        return
    for at, (verb, _) in enumerate(verbs):
        if at >= len(given.items):
            yield call.position, f"index {at} out of range"
            return
        item = given.items[at]
        wrong, fault = _misfit(verb, item)
        if fault:
            yield wrong.position, f"error during formatting: {fault}"
            return
    if len(given.items) > len(verbs):
        words = f"too many arguments supplied to string.format (expected {len(verbs)}, got "
        yield call.position, f"{words}{len(given.items)})"


def _misfit(verb: str, item: Node) -> tuple[Node, str]:
    """What of an item does not fit a clause, and why; nothing if it fits."""
    if item.type.kind == "dyn":
        return item, ""
    if verb != "s":
        return item, clause_fault(verb, item.type.name)
    if item.type.kind not in _SHOWN:
        return item, f"{STRING_CLAUSE} {item.type.name}"
    parts = children(item) if isinstance(item, (ListOf, MapOf)) else []
    for part in parts:
        wrong, fault = _misfit(verb, part)
        if fault:
            return wrong, fault
    return item, ""


def instantiation_fault(node: Node) -> str:
    """Return what is wrong with a conversion of a constant, or with a constant pattern."""
    for child in children(node):
        if fault := instantiation_fault(child):
            return fault
    if not isinstance(node, Call) or not node.arguments:
        return ""
    last = node.arguments[-1] if node.function != "findAll" else node.arguments[0]
    if not isinstance(last, Literal):
        return ""
    try:
        if node.function in _CONVERSIONS and node.target is None and len(node.overloads) == 1:
            node.overloads[0].do(last.value)
        elif node.function in ("find", "findAll") and isinstance(last.value, str):
            pattern_of(last.value)
    except ExpressionError as error:
        return str(error)
    return ""


_CONVERSIONS: Final = frozenset(
    ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"]
)
_SHOWN: Final = frozenset(
    [
        "list",
        "map",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "timestamp",
        "bytes",
        "duration",
        "type",
        "null_type",
        "error",
    ]
)
