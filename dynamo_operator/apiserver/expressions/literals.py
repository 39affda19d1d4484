"""Finds constants that no call can use, and formats that their values do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    Node,
)
from dynamo_operator.apiserver.expressions.texts import clause_fault, clauses

_READ: Final[dict[str, Callable[[str], Any]]] = {
    "duration": duration_of,
    "timestamp": timestamp_of,
    "matches": pattern_of,
}


def literal_faults(node: Node) -> Iterator[tuple[int, str]]:
    """Yield positions and what is wrong there, of a tree whose types are right."""
    if isinstance(node, Call):
        yield from _argument_faults(node)
        yield from _format_faults(node)
    for child in children(node):
        yield from literal_faults(child)


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
        fault = "" if item.type.kind == "dyn" else clause_fault(verb, item.type.name)
        if fault:
            yield item.position, f"error during formatting: {fault}"
            return
    if len(given.items) > len(verbs):
        words = f"too many arguments supplied to string.format (expected {len(verbs)}, got "
        yield call.position, f"{words}{len(given.items)})"
