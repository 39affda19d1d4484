"""Finds the types of an expression, and everything wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dynamo_operator.apiserver.expressions.declarations import Functions, Overload
from dynamo_operator.apiserver.expressions.syntax import (
    Call,
    Comprehension,
    Entry,
    ListOf,
    Literal,
    MapOf,
    Message,
    Name,
    Node,
    Select,
)
from dynamo_operator.apiserver.expressions.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    Unifier,
    list_of,
    map_of,
    most_general,
    optional,
    type_of_type,
    unwrapped,
)
from dynamo_operator.apiserver.expressions.values import Unsigned

_LITERALS: Final[Mapping[type, Type]] = {
    type(None): NULL,
    bool: BOOL,
    int: INT,
    Unsigned: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
}
TYPE_NAMES: Final[Mapping[str, Type]] = {
    **{t.name: t for t in (BOOL, BYTES, DOUBLE, INT, STRING, UINT, NULL)},
    "null_type": NULL,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "type": TYPE,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "optional_type": optional(DYN),
}
"""What names of types stand for, where an expression names one."""

Messages = Callable[[str], Type | None]
"""Returns the type of messages of a name that an expression makes, None where there is none."""


def no_messages(name: str) -> Type | None:
    """Return None: no messages can be made."""
    return None


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may name."""

    variables: Mapping[str, Type]
    functions: Functions
    messages: Messages = field(default=no_messages)


class Checker:
    """Checks one tree.

    Attributes:
        faults: positions and what is wrong there.
    """

    def __init__(self, environment: Environment) -> None:
        self._functions = environment.functions
        self._messages = environment.messages
        self._scopes: list[Mapping[str, Type]] = [environment.variables]
        self._unifier = Unifier()
        self._nodes: list[Node] = []
        self.faults: list[tuple[int, str]] = []

    def check(self, node: Node) -> Type:
        """Return the type of a whole tree, whose nodes get theirs."""
        self._check(node)
        for each in self._nodes:
            each.type = self._unifier.substituted(each.type, to_dyn=True)
        return node.type

    def _check(self, node: Node) -> Type:
        node.type = self._type_of(node)
        self._nodes.append(node)
        return node.type

    def _type_of(self, node: Node) -> Type:
        match node:
            case Literal(value=value):
                return _LITERALS[type(value)]
            case Name(name=name):
                return self._named(node, name)
            case Select():
                return self._selected(node)
            case Call():
                return self._called(node)
            case ListOf():
                return self._list(node)
            case MapOf(entries=entries):
                return self._map(entries)
            case Message():
                return self._message(node)
            case Comprehension():
                return self._fold(node)
        raise TypeError(node)

    def _fault(self, node: Node | Entry, words: str) -> Type:
        self.faults.append((node.position, words))
        return ERROR

    def _lookup(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        named = TYPE_NAMES.get(name)
        return type_of_type(named) if named is not None else None

    def _named(self, node: Node, name: str) -> Type:
        found = self._lookup(name)
        if found is None:
            return self._fault(node, f"undeclared reference to '{name}' (in container '')")
        return found

    def _selected(self, node: Select) -> Type:
        qualified = qualified_name(node)
        if qualified and not node.tests:
            found = self._lookup(qualified)
            if found is not None:
                node.qualified = qualified
                return found
        result = self._field(node, node.operand, node.field_name, is_optional=False)
        return BOOL if node.tests else self._unifier.substituted(result)

    def _field(self, node: Node, operand: Node, name: str, *, is_optional: bool) -> Type:
        held, was_optional = unwrapped(self._unifier.substituted(self._check(operand)))
        result = DYN
        if held.kind == "map":
            result = held.arguments[1]
        elif held.kind == "object":
            fields = held.fields or {}
            if name in fields:
                result = fields[name]
            elif name == "namespace" and f"__{name}__" in fields:
                result = fields[f"__{name}__"]
            elif held.fields is not None or held.name.startswith("kubernetes."):
                result = self._fault(node, f"undefined field '{name}'")
        elif held.kind == "param":
            self._unifier.assignable([DYN], [held])
        elif held.kind not in ("dyn", "error"):
            self._fault(node, f"type '{held}' does not support field selection")
        return optional(result) if is_optional or was_optional else result

    def _called(self, node: Call) -> Type:
        if node.function == "_?._":
            operand, key = node.arguments
            assert isinstance(key, Literal)
            key.type = STRING
            result = self._field(node, operand, str(key.value), is_optional=True)
            return self._unifier.substituted(result)
        for argument in node.arguments:
            self._check(argument)
        if node.target is not None:
            prefix = qualified_name(node.target)
            full = f"{prefix}.{node.function}" if prefix else ""
            if full in self._functions:
                node.function, node.target = full, None
            else:
                self._check(node.target)
        overloads = self._functions.get(node.function)
        if overloads is None:
            words = f"undeclared reference to '{node.function}' (in container '')"
            return self._fault(node, words)
        return self._resolved(node, overloads)

    def _resolved(self, node: Call, overloads: tuple[Overload, ...]) -> Type:
        given = [node.target] if node.target is not None else []
        types = [each.type for each in (*given, *node.arguments)]
        if node.function in ("_&&_", "_||_"):
            node.overloads = overloads
            return self._logical(node)
        found, result = [], None
        for overload in overloads:
            if overload.member != (node.target is not None):
                continue
            *taken, gives = self._unifier.fresh([*overload.parameters, overload.result])
            if not self._unifier.assignable(types, taken):
                continue
            found.append(overload)
            one = self._unifier.substituted(gives)
            if result is None:
                result = one
            elif result.kind != "dyn" and one != result:
                result = DYN
        if result is None:
            return self._no_overload(node, types)
        node.overloads = tuple(found)
        return result

    def _logical(self, node: Call) -> Type:
        wrong = [each for each in node.arguments if not self._is(each, BOOL)]
        for each in wrong:
            self._fault(each, f"expected type 'bool' but found '{each.type}'")
        return ERROR if wrong else BOOL

    def _no_overload(self, node: Call, types: list[Type]) -> Type:
        shown = [str(self._unifier.substituted(each, to_dyn=True)) for each in types]
        if node.target is not None:
            signature = f"{shown[0]}.({', '.join(shown[1:])})"
        else:
            signature = f"({', '.join(shown)})"
        words = f"found no matching overload for '{node.function}' applied to '{signature}'"
        return self._fault(node, words)

    def _is(self, node: Node, wanted: Type) -> bool:
        return self._unifier.assignable([node.type], [wanted])

    def _joined(self, before: Type | None, now: Type) -> Type:
        """The type of a literal's elements so far: any, where they differ."""
        if before is None:
            return now
        fits = self._unifier.assignable([before], [now])
        return most_general(before, now) if fits else DYN

    def _element(self, node: Node, *, is_optional: bool) -> Type:
        found = self._check(node)
        if not is_optional:
            return found
        held, was_optional = unwrapped(found)
        if not was_optional and found.kind not in ("dyn", "error"):
            self._fault(node, f"expected type 'optional_type({found})' but found '{found}'")
        return held

    def _list(self, node: ListOf) -> Type:
        joined: Type | None = None
        for at, item in enumerate(node.items):
            found = self._element(item, is_optional=at in node.optional)
            joined = self._joined(joined, found)
        return list_of(joined or self._unifier.new())

    def _map(self, entries: list[Entry]) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in entries:
            keys = self._joined(keys, self._check(entry.key))
            found = self._element(entry.value, is_optional=entry.optional)
            values = self._joined(values, found)
        return map_of(keys or self._unifier.new(), values or self._unifier.new())

    def _message(self, node: Message) -> Type:
        result = self._messages(node.name)
        if result is None:
            words = f"undeclared reference to '{node.name}' (in container '')"
            result = self._fault(node, words)
        fields = result.fields if result.kind == "object" else None
        for entry in node.entries:
            given = self._element(entry.value, is_optional=entry.optional)
            if fields is None:
                continue
            wanted = fields.get(entry.key)
            if wanted is None:
                self._fault(entry, f"undefined field '{entry.key}'")
            elif not self._unifier.assignable([wanted], [given]):
                words = f"expected type of field '{entry.key}' is '{wanted}' but provided type is "
                self._fault(entry, f"{words}'{given}'")
        return result

    def _fold(self, node: Comprehension) -> Type:
        over = self._unifier.substituted(self._check(node.over))
        start = self._check(node.start)
        one, two = self._variables(node, over)
        self._scopes += [{node.accumulator: start}, {node.variable: one, node.value: two}]
        self._check(node.condition)
        self._require(node.condition, BOOL)
        self._check(node.step)
        self._require(node.step, start)
        self._scopes.pop()
        result = self._check(node.result)
        self._scopes.pop()
        return self._unifier.substituted(result)

    def _variables(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        if over.kind == "list":
            return (INT, over.arguments[0]) if node.value else (over.arguments[0], DYN)
        if over.kind == "map":
            return over.arguments[0], over.arguments[1]
        if over.kind in ("dyn", "error", "param"):
            self._unifier.assignable([DYN], [over])
            return DYN, DYN
        words = f"expression of type '{over}' cannot be range of a comprehension"
        self._fault(node.over, f"{words} (must be list, map, or dynamic)")
        return ERROR, ERROR

    def _require(self, node: Node, wanted: Type) -> None:
        if not self._unifier.assignable([wanted], [node.type]):
            self._fault(node, f"expected type '{wanted}' but found '{node.type}'")


def qualified_name(node: Node) -> str:
    """Return `a.b` for names that dots join, otherwise nothing."""
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Select) and not node.tests and (before := qualified_name(node.operand)):
        return f"{before}.{node.field_name}"
    return ""


def children(node: Node) -> list[Any]:
    """Return the nodes directly below."""
    match node:
        case Select(operand=operand):
            return [operand]
        case Call(arguments=arguments, target=target):
            return [*([target] if target is not None else []), *arguments]
        case ListOf(items=items):
            return list(items)
        case MapOf(entries=entries):
            return [each for entry in entries for each in (entry.key, entry.value)]
        case Message(entries=entries):
            return [entry.value for entry in entries]
        case Comprehension():
            return [node.over, node.start, node.condition, node.step, node.result]
    return []
