"""Turns a checked tree into functions, and evaluates it within a limit of cost.

Errors are raised as ExpressionError; only && and ||, whose other side may settle them, and
`exists` and `all`, which are made of these, hold one back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dynamo_operator.apiserver.expressions.charges import charge_of
from dynamo_operator.apiserver.expressions.declarations import Overload
from dynamo_operator.apiserver.expressions.standard import (
    indexed_list,
    indexed_map,
    is_present,
    optional_field,
)
from dynamo_operator.apiserver.expressions.syntax import (
    Call,
    Comprehension,
    ExpressionError,
    ListOf,
    Literal,
    MapOf,
    Message,
    Name,
    Node,
    Select,
)
from dynamo_operator.apiserver.expressions.values import (
    Made,
    Optional,
    TypeValue,
    name_of,
)

Compiled = Callable[["Frame"], Any]
_LIST_COST, _MAP_COST, _MESSAGE_COST = 10, 30, 40


class CostExceededError(ExpressionError):
    """An evaluation costs more than it may."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Meter:
    """Counts what an evaluation costs, up to a limit."""

    __slots__ = ("limit", "spent")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0

    def charge(self, cost: int) -> None:
        """Add to the cost.

        Raises:
            CostExceededError: it is above the limit.
        """
        self.spent += cost
        if self.spent > self.limit:
            raise CostExceededError


class Frame:
    """The variables of one scope, and the meter of the evaluation."""

    __slots__ = ("meter", "variables")

    def __init__(self, variables: dict[str, Any], meter: Meter) -> None:
        self.variables = variables
        self.meter = meter


def compiled(node: Node) -> Compiled:
    """Return a function that evaluates a checked tree."""
    match node:
        case Literal(value=value):
            return lambda _: value
        case Name():
            return _name(node)
        case Select():
            return _select(node)
        case Call():
            return _call(node)
        case ListOf():
            return _list(node)
        case MapOf():
            return _map(node)
        case Message():
            return _message(node)
        case Comprehension():
            return _fold(node)
    raise TypeError(node)


_TYPE_NAMES: Final = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}


def _name(node: Name) -> Compiled:
    name = node.name
    as_type = TypeValue(_TYPE_NAMES.get(name, name))

    def look_up(frame: Frame) -> Any:
        frame.meter.charge(1)
        variables = frame.variables
        if name in variables:
            value = variables[name]
            return value() if callable(value) else value
        if node.type.kind == "type":
            return as_type
        raise ExpressionError(f"no such attribute(s): {name}")

    return look_up


def _select(node: Select) -> Compiled:
    if node.qualified:
        whole = Name(node.position, node.qualified)
        whole.type = node.type
        return _name(whole)
    operand, name, tests = compiled(node.operand), node.field_name, node.tests

    def select(frame: Frame) -> Any:
        held = operand(frame)
        if isinstance(held, Optional):
            found = optional_field(held, name)
            return found.is_present if tests else found
        if isinstance(held, Made):
            held = held.fields
        if name == "namespace" and isinstance(held, dict) and name not in held:
            return read(held, "__namespace__", frame)
        return read(held, name, frame)

    def read(held: Any, name: str, frame: Frame) -> Any:
        if tests:
            return is_present(held, name)
        frame.meter.charge(1)
        if isinstance(held, dict):
            if name in held:
                value = held[name]
                return value() if callable(value) else value
            raise ExpressionError(f"no such key: {node.field_name}")
        if held is None:
            raise ExpressionError(f"no such key: {name}")
        raise ExpressionError(f"no such overload: {name_of(held)}.{name}")

    return select


def _call(node: Call) -> Compiled:
    special = _SPECIAL.get(node.function)
    if special is not None:
        return special(node)
    given = [node.target] if node.target is not None else []
    parts = [compiled(each) for each in (*given, *node.arguments)]
    types = [each.type for each in (*given, *node.arguments)]
    sure = len(node.overloads) == 1 and all(each.kind not in ("dyn", "param") for each in types)
    overloads, function = node.overloads, node.function
    charge = charge_of(function)

    def call(frame: Frame) -> Any:
        values = [part(frame) for part in parts]
        overload = overloads[0] if sure else _chosen(function, overloads, values)
        result = overload.do(*values)
        frame.meter.charge(charge(values, result))
        return result

    return call


def _chosen(function: str, overloads: tuple[Overload, ...], values: list[Any]) -> Overload:
    for overload in overloads:
        if overload.takes(values):
            return overload
    known = values and any(o.parameters and o.takes_first(values[0]) for o in overloads)
    if function.startswith("_") and known:
        raise ExpressionError("no such overload")
    raise ExpressionError(f"no such overload: {function}")


def _choice(node: Call) -> Compiled:
    condition, first, second = (compiled(each) for each in node.arguments)

    def choose(frame: Frame) -> Any:
        holds = condition(frame)
        if not isinstance(holds, bool):
            raise ExpressionError("no such overload")
        return first(frame) if holds else second(frame)

    return choose


def _logical(settled: bool) -> Callable[[Call], Compiled]:
    """&& and ||: either side may settle it, whatever is wrong with the other."""

    def logical(node: Call) -> Compiled:
        first, second = (compiled(each) for each in node.arguments)

        def decide(frame: Frame) -> bool:
            failure: ExpressionError | None = None
            for side in (first, second):
                try:
                    value: Any = side(frame)
                except CostExceededError:
                    raise
                except ExpressionError as error:
                    failure = failure or error
                    continue
                if value is settled:
                    return bool(settled)
                if not isinstance(value, bool):
                    failure = failure or ExpressionError("no such overload")
            if failure is not None:
                raise failure
            return not settled

        return decide

    return logical


def _unsure(node: Call) -> Compiled:
    """Whether a condition is true or cannot be told yet."""
    inner = compiled(node.arguments[0])

    def test(frame: Frame) -> bool:
        frame.meter.charge(1)
        try:
            return bool(inner(frame) is not False)
        except CostExceededError:
            raise
        except ExpressionError:
            return True

    return test


def _index(node: Call) -> Compiled:
    operand, key = (compiled(each) for each in node.arguments)

    def index(frame: Frame) -> Any:
        held, wanted = operand(frame), key(frame)
        frame.meter.charge(1)
        if isinstance(held, list):
            return indexed_list(held, wanted)
        if isinstance(held, dict):
            return indexed_map(held, wanted)
        if isinstance(held, Optional):
            return optional_field(held, wanted)
        raise ExpressionError("no such overload")

    return index


def _optional(node: Call) -> Compiled:
    """`a.?b` and `a[?b]`."""
    operand, key = (compiled(each) for each in node.arguments)

    def select(frame: Frame) -> Optional:
        held, wanted = operand(frame), key(frame)
        frame.meter.charge(1)
        return optional_field(held, wanted)

    return select


def _list(node: ListOf) -> Compiled:
    parts = [(compiled(item), at in node.optional) for at, item in enumerate(node.items)]

    def make(frame: Frame) -> list[Any]:
        items = []
        for part, is_optional in parts:
            value = part(frame)
            if not is_optional:
                items.append(value)
            elif value.is_present:
                items.append(value.held)
        frame.meter.charge(_LIST_COST)
        return items

    return make


def _map(node: MapOf) -> Compiled:
    parts = [(compiled(e.key), compiled(e.value), e.optional) for e in node.entries]

    def make(frame: Frame) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        for key, part, is_optional in parts:
            name, value = key(frame), part(frame)
            if is_optional:
                if not value.is_present:
                    continue
                value = value.held
            if name in entries:
                raise ExpressionError(f"Failed with repeated key: {name}")
            entries[name] = value
        frame.meter.charge(_MAP_COST)
        return entries

    return make


def _message(node: Message) -> Compiled:
    parts = [(e.key, compiled(e.value), e.optional) for e in node.entries]

    def make(frame: Frame) -> Made:
        fields = {}
        for name, part, is_optional in parts:
            value = part(frame)
            if is_optional:
                if not value.is_present:
                    continue
                value = value.held
            fields[name] = value
        frame.meter.charge(_MESSAGE_COST)
        return Made(node.name, fields)

    return make


class _Held:
    """An error that a fold goes on with."""

    __slots__ = ("error",)

    def __init__(self, error: ExpressionError) -> None:
        self.error = error

    def __call__(self) -> Any:
        raise self.error


def _fold(node: Comprehension) -> Compiled:
    over, start = compiled(node.over), compiled(node.start)
    condition, step, result = map(compiled, (node.condition, node.step, node.result))
    one, two, accumulator = node.variable, node.value, node.accumulator

    def fold(frame: Frame) -> Any:
        items = over(frame)
        if not isinstance(items, (list, dict)):
            raise ExpressionError(f"got '{name_of(items)}', expected iterable type")
        variables = dict(frame.variables)
        variables[accumulator] = start(frame)
        inner = Frame(variables, frame.meter)
        pairs = enumerate(items) if isinstance(items, list) else items.items()
        for key, value in pairs:
            if condition(inner) is not True:
                break
            if two:
                variables[one], variables[two] = key, value
            else:
                variables[one] = value if isinstance(items, list) else key
            try:
                variables[accumulator] = step(inner)
            except CostExceededError:
                raise
            except ExpressionError as error:
                variables[accumulator] = _Held(error)
        return result(inner)

    return fold


_SPECIAL: Final[Mapping[str, Callable[[Call], Compiled]]] = {
    "_?_:_": _choice,
    "_&&_": _logical(False),
    "_||_": _logical(True),
    "@not_strictly_false": _unsure,
    "_[_]": _index,
    "_[?_]": _optional,
    "_?._": _optional,
}
