"""This module checks the types in a rule, before the rule is ever evaluated.

It refuses only what the API server's own checker refuses: where it does not know a function, or
cannot read the source, it lets everything pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dynamo_operator.apiserver.cel_source import (
    ExpressionError,
    Token,
    escape,
    is_type_name,
)
from dynamo_operator.apiserver.cel_syntax import (
    Call,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Select,
    UnreadableError,
    parse,
)
from dynamo_operator.apiserver.schema import Schema


@dataclass(frozen=True, slots=True)
class Type:
    """A CEL type; `fields` are those of an object, `arguments` of a list, map or optional."""

    name: str
    arguments: tuple[Type, ...] = ()
    fields: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        return f"{self.name}({', '.join(map(str, self.arguments))})"


DYN: Final = Type("dyn")
UNKNOWN: Final = Type("unknown")
"""Of what this module cannot tell; fits everything."""
BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null_type")
TIMESTAMP, DURATION = Type("timestamp"), Type("duration")
_TYPE: Final = Type("type")
_METADATA: Final = Type("object", fields=(("name", STRING), ("generateName", STRING)))
_NUMBERS: Final = (INT, UINT, DOUBLE)
_ORDERED: Final = (*_NUMBERS, BOOL, STRING, BYTES, TIMESTAMP, DURATION)
_NULLABLE: Final = frozenset({"object", "optional", "null_type"})
_FORMATS: Final = {
    "byte": BYTES,
    "date": TIMESTAMP,
    "date-time": TIMESTAMP,
    "duration": DURATION,
}
_SCALARS: Final = {"integer": INT, "number": DOUBLE, "boolean": BOOL}
_MOMENT_PARTS: Final = (
    *("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
_TEXT_METHODS: Final = frozenset({"contains", "startsWith", "endsWith", "matches"})
_QUANTIFIERS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
_BINDING_MACROS: Final = frozenset(
    {"optMap", "optFlatMap", "bind", "transformList", "transformMap", "transformMapEntry"}
)
_SUMS: Final = {
    **{(each, each): each for each in (*_NUMBERS, STRING, BYTES, DURATION)},
    (TIMESTAMP, DURATION): TIMESTAMP,
    (DURATION, TIMESTAMP): TIMESTAMP,
}
_DIFFERENCES: Final = {
    **{(each, each): each for each in (*_NUMBERS, DURATION)},
    (TIMESTAMP, DURATION): TIMESTAMP,
    (TIMESTAMP, TIMESTAMP): DURATION,
}
_ARITHMETIC: Final = {
    "_+_": _SUMS,
    "_-_": _DIFFERENCES,
    "_*_": {(each, each): each for each in _NUMBERS},
    "_/_": {(each, each): each for each in _NUMBERS},
    "_%_": {(each, each): each for each in (INT, UINT)},
}


_Rule = Callable[[str, tuple[Type, ...]], Type]


def check(tokens: Sequence[Token], variables: Mapping[str, Type]) -> Type:
    """Return the type of an expression.

    Raises:
        ExpressionError: it names an undefined field, or no overload takes what it is given.
    """
    try:
        node = parse(tokens)
    except UnreadableError:
        return UNKNOWN
    return _Checker(dict(variables)).type_of(node)


def type_of_schema(schema: Schema) -> Type | None:
    """Return how a rule sees values of a schema; None where it cannot name them at all."""
    if schema.int_or_string:
        return DYN
    if schema.type == "object":
        if schema.additional is not None:
            values = type_of_schema(schema.additional)
            return Type("map", (STRING, values)) if values else None
        return Type("object", fields=tuple(_fields(schema).items()))
    if schema.type == "array":
        items = type_of_schema(schema.items) if schema.items is not None else None
        return Type("list", (items,)) if items else None
    if schema.type == "string":
        return _FORMATS.get(schema.source.get("format", ""), STRING)
    return _SCALARS.get(schema.type)


def _fields(schema: Schema) -> dict[str, Type]:
    fields = {}
    for name, child in schema.properties.items():
        known = type_of_schema(child)
        if known is not None:
            fields[escape(name)] = known
    if schema.names_objects:
        fields |= {"apiVersion": STRING, "kind": STRING}
        fields["metadata"] = _METADATA
    return fields


class _Checker:
    def __init__(self, variables: dict[str, Type]) -> None:
        self._variables = variables

    def type_of(self, node: Node) -> Type:
        match node:
            case Literal(name):
                return Type(name)
            case Name(name):
                return self._variables.get(name, _TYPE if is_type_name(name) else UNKNOWN)
            case Select(operand, name, optional):
                return self._selected(self.type_of(operand), name, optional=optional)
            case Index(operand, key, optional):
                return self._indexed(self.type_of(operand), self.type_of(key), optional=optional)
            case ListOf(items):
                return Type("list", (self._common([self.type_of(item) for item in items]),))
            case MapOf(entries):
                keys = self._common([self.type_of(key) for key, _ in entries])
                return Type("map", (keys, self._common([self.type_of(v) for _, v in entries])))
            case Call():
                return self._called(node)

    def _common(self, types: list[Type]) -> Type:
        """Return the type of literals that must all have one."""
        for each in types[1:]:
            if not fits(each, types[0]):
                raise ExpressionError(f"expected type '{types[0]}' but found '{each}'")
        return types[0] if types else UNKNOWN

    def _selected(self, operand: Type, name: str, *, optional: bool) -> Type:
        wrapped = optional or operand.name == "optional"
        if operand.name == "optional":
            operand = operand.arguments[0]
        if operand in (DYN, UNKNOWN):
            found = operand
        elif operand.name == "map":
            found = operand.arguments[1]
        elif operand.name == "object":
            fields = dict(operand.fields)
            if name not in fields:
                raise ExpressionError(f"undefined field '{name}'")
            found = fields[name]
        else:
            raise ExpressionError(f"type '{operand}' does not support field selection")
        return Type("optional", (found,)) if wrapped else found

    def _indexed(self, operand: Type, key: Type, *, optional: bool) -> Type:
        wrapped = optional or operand.name == "optional"
        inner = operand.arguments[0] if operand.name == "optional" else operand
        if inner in (DYN, UNKNOWN):
            found = inner
        elif inner.name == "list" and fits(key, INT):
            found = inner.arguments[0]
        elif inner.name == "map" and fits(key, inner.arguments[0]):
            found = inner.arguments[1]
        else:
            raise _no_overload("_[_]", operand, key)
        return Type("optional", (found,)) if wrapped else found

    def _called(self, call: Call) -> Type:
        if call.function == "has":
            return self._has(call)
        if call.target is not None and call.function in _QUANTIFIERS | {"map", "filter"}:
            return self._comprehension(call.target, call)
        target = () if call.target is None else (self.type_of(call.target),)
        if call.function in _BINDING_MACROS or self._is_namespace(call.target):
            return UNKNOWN
        if call.function == "format":
            return STRING  # the one place where a list may mix types
        types = (*target, *(self.type_of(each) for each in call.arguments))
        if call.function in _ARITHMETIC and UNKNOWN not in types:
            return _arithmetic(call.function, types)
        rule = _METHODS.get(call.function) if target else _FUNCTIONS.get(call.function)
        return rule(call.function, types) if rule else UNKNOWN

    def _is_namespace(self, target: Node | None) -> bool:
        """Whether a dot belongs to the function's name, as in `sets.contains`."""
        return isinstance(target, Name) and target.name not in self._variables

    def _has(self, call: Call) -> Type:
        for argument in call.arguments:
            self.type_of(argument)
        return BOOL

    def _comprehension(self, target: Node, call: Call) -> Type:
        over = self.type_of(target)
        variable, *body = call.arguments
        if over in (DYN, UNKNOWN):
            item = over
        elif over.name in ("list", "map"):
            item = over.arguments[0]
        else:
            raise ExpressionError(
                f"expression of type '{over}' cannot be range of a comprehension"
                " (must be list, map, or dynamic)"
            )
        if not isinstance(variable, Name) or len(body) != 1:
            return UNKNOWN  # with two variables, or a filter of its own
        inside = _Checker({**self._variables, variable.name: item}).type_of(body[0])
        if call.function == "map":
            return Type("list", (inside,))
        if not fits(inside, BOOL):
            raise ExpressionError(f"expected type 'bool' but found '{inside}'")
        return BOOL if call.function in _QUANTIFIERS else Type("list", (item,))


def fits(one: Type, other: Type) -> bool:
    """Whether values of both types can stand in the same place."""
    if one in (DYN, UNKNOWN) or other in (DYN, UNKNOWN):
        return True
    if NULL in (one, other):
        return {one.name, other.name} <= _NULLABLE
    if one.name != other.name or len(one.arguments) != len(other.arguments):
        return False
    return all(fits(a, b) for a, b in zip(one.arguments, other.arguments, strict=True))


def _no_overload(function: str, *types: Type) -> ExpressionError:
    taken = ", ".join(map(str, types))
    return ExpressionError(f"found no matching overload for '{function}' applied to '({taken})'")


def _arithmetic(function: str, types: tuple[Type, ...]) -> Type:
    left, right = types
    if function == "_+_" and left.name == right.name == "list" and fits(left, right):
        return left
    possible = {
        result
        for (a, b), result in _ARITHMETIC[function].items()
        if fits(left, a) and fits(right, b)
    }
    if not possible and not (DYN in types and {t.name for t in types} <= {"dyn", "list"}):
        raise _no_overload(function, left, right)
    return possible.pop() if len(possible) == 1 else DYN


def _equal(function: str, types: tuple[Type, ...]) -> Type:
    if not fits(*types):
        raise _no_overload(function, *types)
    return BOOL


def _compared(function: str, types: tuple[Type, ...]) -> Type:
    def is_one_of(each: Type, kinds: Sequence[Type]) -> bool:
        return any(fits(each, kind) for kind in kinds)

    numbers = all(is_one_of(each, _NUMBERS) for each in types)
    if not numbers and not (fits(*types) and all(is_one_of(each, _ORDERED) for each in types)):
        raise _no_overload(function, *types)
    return BOOL


def _logical(function: str, types: tuple[Type, ...]) -> Type:
    for each in types:
        if not fits(each, BOOL):
            if function in ("_&&_", "_||_"):
                raise ExpressionError(f"expected type 'bool' but found '{each}'")
            raise _no_overload(function, *types)
    return BOOL


def _negated(function: str, types: tuple[Type, ...]) -> Type:
    if not (fits(types[0], INT) or fits(types[0], DOUBLE)):
        raise _no_overload(function, *types)
    return types[0]


def _chosen(function: str, types: tuple[Type, ...]) -> Type:
    condition, first, second = types
    if not fits(condition, BOOL) or not fits(first, second):
        raise _no_overload(function, *types)
    return second if first in (DYN, UNKNOWN, NULL) else first


def _contained(function: str, types: tuple[Type, ...]) -> Type:
    item, container = types
    if container in (DYN, UNKNOWN):
        return BOOL
    if container.name not in ("list", "map") or not fits(item, container.arguments[0]):
        raise _no_overload(function, *types)
    return BOOL


def _size(function: str, types: tuple[Type, ...]) -> Type:
    sized = ("string", "bytes", "list", "map", "dyn", "unknown")
    if len(types) != 1 or types[0].name not in sized:
        raise _no_overload(function, *types)
    return INT


def _text_method(function: str, types: tuple[Type, ...]) -> Type:
    if len(types) != 2 or not all(fits(each, STRING) for each in types):
        raise _no_overload(function, *types)
    return BOOL


def _converted(result: Type) -> Callable[[str, tuple[Type, ...]], Type]:
    def rule(function: str, types: tuple[Type, ...]) -> Type:
        if len(types) != 1 or types[0].name in ("list", "map", "object", "null_type"):
            raise _no_overload(function, *types)
        return result

    return rule


def _optional(function: str, types: tuple[Type, ...]) -> Type:
    """`hasValue`, `value` and `orValue` of an optional."""
    optional, *other = types
    if optional in (DYN, UNKNOWN):
        return optional
    if optional.name != "optional" or len(other) != (function == "orValue"):
        raise _no_overload(function, *types)
    if other and not fits(optional.arguments[0], other[0]):
        raise _no_overload(function, *types)
    return BOOL if function == "hasValue" else optional.arguments[0]


def _signature(result: Type, *expected: Type, optional: int = 0) -> _Rule:
    """A rule of what is taken; the last `optional` parameters may be left out."""

    def rule(function: str, types: tuple[Type, ...]) -> Type:
        fewest = len(expected) - optional
        fitting = all(fits(a, b) for a, b in zip(types, expected, strict=False))
        if not (fewest <= len(types) <= len(expected) and fitting):
            raise _no_overload(function, *types)
        return result

    return rule


_FUNCTIONS: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(("_==_", "_!=_"), _equal),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("_&&_", "_||_", "!_"), _logical),
    "-_": _negated,
    "_?_:_": _chosen,
    "_in_": _contained,
    "size": _size,
    "matches": _text_method,
    "dyn": lambda _function, _types: DYN,
    "type": lambda _function, _types: _TYPE,
    "quantity": _signature(Type("kubernetes.Quantity"), STRING),
    "url": _signature(Type("kubernetes.URL"), STRING),
    "int": _converted(INT),
    "uint": _converted(UINT),
    "double": _converted(DOUBLE),
    "string": _converted(STRING),
    "timestamp": _converted(TIMESTAMP),
    "duration": _converted(DURATION),
}
_METHODS: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(_TEXT_METHODS, _text_method),
    **dict.fromkeys(("orValue", "value", "hasValue"), _optional),
    **dict.fromkeys(_MOMENT_PARTS, lambda _function, _types: INT),
    "size": _size,
    "charAt": _signature(STRING, STRING, INT),
    "lowerAscii": _signature(STRING, STRING),
    "upperAscii": _signature(STRING, STRING),
    "trim": _signature(STRING, STRING),
    "replace": _signature(STRING, STRING, STRING, STRING, INT, optional=1),
    "split": _signature(Type("list", (STRING,)), STRING, STRING, INT, optional=1),
    "substring": _signature(STRING, STRING, INT, INT, optional=1),
}
