"""Functions as they are declared: what each overload takes, gives and does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dynamo_operator.apiserver.expressions.types import Type, parse_type, split
from dynamo_operator.apiserver.expressions.values import name_of

_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "timestamp": frozenset({"google.protobuf.Timestamp"}),
    "duration": frozenset({"google.protobuf.Duration"}),
    "type": frozenset({"type"}),
}


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One way of calling a function.

    Args:
        function: its name.
        member: its first parameter stands before a dot.
        parameters: the types of what it takes, the target first.
        result: the type of what it gives.
        do: what it does; raises ExpressionError.
        key: what its cost goes by: the function's name and the types it takes.
    """

    function: str
    member: bool
    parameters: tuple[Type, ...]
    result: Type
    do: Callable[..., Any]
    key: str

    def takes(self, values: list[Any]) -> bool:
        """Whether it can be called with these values, whose types were not known before."""
        return len(values) == len(self.parameters) and all(map(_is, values, self.parameters))

    def takes_first(self, value: Any) -> bool:
        """Whether its first parameter can be that."""
        return _is(value, self.parameters[0])


def _is(value: Any, declared: Type) -> bool:
    if declared.kind in ("dyn", "param"):
        return True
    name = name_of(value)
    if declared.kind in _KINDS:
        return name in _KINDS[declared.kind]
    return name == declared.name


Functions = Mapping[str, tuple[Overload, ...]]


def declared(*tables: Iterable[tuple[str, Callable[..., Any]]]) -> Functions:
    """Return the functions of tables: signatures, and what each does.

    A signature is such as `size(string) -> int`; two colons stand between a method's target and
    its name, as in `string::find(string) -> string`.
    """
    functions: dict[str, list[Overload]] = {}
    for table in tables:
        for signature, do in table:
            overload = _overload(signature, do)
            functions.setdefault(overload.function, []).append(overload)
    return {name: tuple(overloads) for name, overloads in functions.items()}


def _overload(signature: str, do: Callable[..., Any]) -> Overload:
    call, _, result = signature.rpartition(" -> ")
    head, taken = _parted(call)
    target, dot, name = head.rpartition("::")
    texts = [*([target] if dot else []), *split(taken)]
    parameters = tuple(parse_type(text) for text in texts)
    key = f"{name}({', '.join(text.strip() for text in texts)})"
    return Overload(name, bool(dot), parameters, parse_type(result), do, key)


def _parted(call: str) -> tuple[str, str]:
    """The part before the parameters' parentheses, and what is in them."""
    depth = 0
    for position in range(len(call) - 1, -1, -1):
        depth += (call[position] == ")") - (call[position] == "(")
        if depth == 0:
            return call[:position], call[position + 1 : -1]
    raise ValueError(f"{call!r}: no parentheses")
