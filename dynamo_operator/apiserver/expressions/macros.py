"""Expands macros: calls that are folds over lists and maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dynamo_operator.apiserver.expressions.syntax import (
    RESULT,
    Call,
    Comprehension,
    Entry,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Select,
    SyntaxFault,
)

_TARGET: Final = "#target"
_TWO_VARIABLES: Final = frozenset({"all", "exists", "existsOne"})


def expanded(call: Call) -> Node | None:
    """Return what a macro stands for; None for other calls.

    Raises:
        SyntaxFault: its variable is no simple name.
    """
    count = len(call.arguments)
    if call.target is None:
        return _presence(call) if call.function == "has" and count == 1 else None
    macro = _MACROS.get((call.function, count))
    return macro(call) if macro else None


def _presence(call: Call) -> Node:
    argument = call.arguments[0]
    if isinstance(argument, Select) and not argument.tests:
        return Select(call.position, argument.operand, argument.field_name, tests=True)
    raise SyntaxFault("invalid argument to has() macro", argument.position)


def _name(node: Node) -> str:
    if not isinstance(node, Name):
        raise SyntaxFault("argument must be a simple name", node.position)
    if node.name == RESULT:
        raise SyntaxFault("iteration variable overwrites accumulator variable", node.position)
    return node.name


class _Fold:
    """Builds nodes at the place of one macro."""

    def __init__(self, call: Call, variables: int) -> None:
        assert call.target is not None
        self._at = call.position
        self._over = call.target
        names = [_name(each) for each in call.arguments[:variables]]
        self._names = (names[0], names[1] if variables == 2 else "")
        self.rest = call.arguments[variables:]

    def literal(self, value: object) -> Node:
        return Literal(self._at, value)

    def result(self) -> Node:
        return Name(self._at, RESULT)

    def call(self, function: str, *arguments: Node) -> Node:
        return Call(self._at, function, list(arguments))

    def list_of(self, *items: Node) -> Node:
        return ListOf(self._at, list(items))

    def map_of(self, *entries: Entry) -> Node:
        return MapOf(self._at, list(entries))

    def entry(self, key: Node, value: Node) -> Entry:
        return Entry(self._at, key, value)

    def variable(self, number: int) -> Node:
        return Name(self._at, self._names[number])

    def if_(self, condition: Node | None, step: Node) -> Node:
        """The step where the condition holds, otherwise what was there before."""
        return self.call("_?_:_", condition, step, self.result()) if condition else step

    def made(self, start: Node, condition: Node, step: Node, result: Node) -> Node:
        one, two = self._names
        return Comprehension(self._at, self._over, one, two, RESULT, start, condition, step, result)


def _variables(call: Call) -> int:
    two = len(call.arguments) == 3 and call.function in _TWO_VARIABLES
    return 2 if two or call.function.startswith("transform") else 1


def _all(call: Call) -> Node:
    fold = _Fold(call, _variables(call))
    condition = fold.call("@not_strictly_false", fold.result())
    step = fold.call("_&&_", fold.result(), fold.rest[0])
    return fold.made(fold.literal(True), condition, step, fold.result())


def _exists(call: Call) -> Node:
    fold = _Fold(call, _variables(call))
    condition = fold.call("@not_strictly_false", fold.call("!_", fold.result()))
    step = fold.call("_||_", fold.result(), fold.rest[0])
    return fold.made(fold.literal(False), condition, step, fold.result())


def _exists_one(call: Call) -> Node:
    fold = _Fold(call, _variables(call))
    more = fold.call("_+_", fold.result(), fold.literal(1))
    step = fold.call("_?_:_", fold.rest[0], more, fold.result())
    result = fold.call("_==_", fold.result(), fold.literal(1))
    return fold.made(fold.literal(0), fold.literal(True), step, result)


def _mapped(call: Call) -> Node:
    """`map`, with a condition or without, and `transformList`."""
    fold = _Fold(call, _variables(call))
    condition = fold.rest[0] if len(fold.rest) == 2 else None
    step = fold.call("_+_", fold.result(), fold.list_of(fold.rest[-1]))
    start = fold.list_of()
    return fold.made(start, fold.literal(True), fold.if_(condition, step), fold.result())


def _filter(call: Call) -> Node:
    fold = _Fold(call, 1)
    step = fold.call("_+_", fold.result(), fold.list_of(fold.variable(0)))
    start = fold.list_of()
    return fold.made(start, fold.literal(True), fold.if_(fold.rest[0], step), fold.result())


def _transform_map(call: Call) -> Node:
    fold = _Fold(call, 2)
    condition = fold.rest[0] if len(fold.rest) == 2 else None
    step = fold.call("cel.@mapInsert", fold.result(), fold.variable(0), fold.rest[-1])
    start = fold.map_of()
    return fold.made(start, fold.literal(True), fold.if_(condition, step), fold.result())


def _transform_entry(call: Call) -> Node:
    fold = _Fold(call, 2)
    condition = fold.rest[0] if len(fold.rest) == 2 else None
    step = fold.call("cel.@mapInsert", fold.result(), fold.rest[-1])
    start = fold.map_of()
    return fold.made(start, fold.literal(True), fold.if_(condition, step), fold.result())


def _let(position: int, name: str, value: Node, result: Node) -> Node:
    """The result with a variable of that value: a fold over nothing."""
    nothing, never = ListOf(position, []), Literal(position, False)
    same = Name(position, name)
    return Comprehension(position, nothing, "#unused", "", name, value, never, same, result)


def _opt_map(call: Call) -> Node:
    return _optional(call, lambda node: Call(call.position, "optional.of", [node]))


def _opt_flat_map(call: Call) -> Node:
    return _optional(call, lambda node: node)


def _optional(call: Call, wrapped: Callable[[Node], Node]) -> Node:
    assert call.target is not None
    at, target = call.position, call.target
    name = _name(call.arguments[0])
    bound = Name(at, _TARGET) if not isinstance(target, Name) else target
    value = Call(at, "value", [], bound)
    inside = _let(at, name, value, wrapped(call.arguments[1]))
    there = Call(at, "hasValue", [], bound)
    chosen = Call(at, "_?_:_", [there, inside, Call(at, "optional.none", [])])
    return chosen if bound is target else _let(at, _TARGET, target, chosen)


def _sort_by(call: Call) -> Node:
    assert call.target is not None
    at, name = call.position, _name(call.arguments[0])
    again = Call(at, "map", [Name(at, name), call.arguments[1]], Name(at, "@__sortBy_input__"))
    keys = _mapped(again)
    items = Name(at, "@__sortBy_input__")
    ordered = Call(at, "@sortByAssociatedKeys", [keys], items)
    return _let(at, "@__sortBy_input__", call.target, ordered)


_MACROS: Final[dict[tuple[str, int], Callable[[Call], Node]]] = {
    **{("all", count): _all for count in (2, 3)},
    **{("exists", count): _exists for count in (2, 3)},
    ("exists_one", 2): _exists_one,
    ("existsOne", 3): _exists_one,
    **{("map", count): _mapped for count in (2, 3)},
    ("filter", 2): _filter,
    **{("transformList", count): _mapped for count in (3, 4)},
    **{("transformMap", count): _transform_map for count in (3, 4)},
    **{("transformMapEntry", count): _transform_entry for count in (3, 4)},
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
    ("sortBy", 2): _sort_by,
}
