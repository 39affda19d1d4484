"""The tree of an expression, and the tokens that it is read from.

Positions are offsets into the source at which errors about a node are reported: an operator's own
sign, a selection's dot, a call's opening parenthesis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from dynamo_operator.apiserver.expressions.types import Type

RESULT: Final = "@result"
"""The accumulator of comprehensions that macros make."""

RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
"""Words that cannot be identifiers, beside those that mean something: true, false, null, in."""

_TOKEN: Final = re.compile(
    r"""(?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<number>0x[0-9a-fA-F]+[uU]?|\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+"""
    r"""|\.\d+(?:[eE][+-]?\d+)?|\d+[uU]?)"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)"""
    r"""|(?P<space>\s+|//[^\n]*)"""
    r"""|(?P<mark>&&|\|\||[=!<>]=|[-+*/%<>!?:.,(){}\[\]])|(?P<bad>.)""",
    re.DOTALL,
)


class ExpressionError(ValueError):
    """An expression that cannot be compiled or evaluated; the text says why."""


class SyntaxFault(ExpressionError):
    """Source that is no expression.

    Args:
        message: what is wrong.
        position: where, as an offset.
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of source; `kind` is string, number, name, quoted, mark or end."""

    kind: str
    text: str
    position: int


@dataclass(eq=False, slots=True)
class Node:
    """Any part of an expression; the checker fills in `type` and `overloads`."""

    position: int
    type: Type = field(init=False)
    overloads: tuple[Any, ...] = field(init=False, default=())


@dataclass(eq=False, slots=True)
class Literal(Node):
    """A constant: None, bool, int, Unsigned, float, str or bytes."""

    value: Any


@dataclass(eq=False, slots=True)
class Name(Node):
    """A variable, or the name of a type."""

    name: str


@dataclass(eq=False, slots=True)
class Select(Node):
    """`operand.field`, or `has(operand.field)`.

    The checker fills in `qualified` where the whole is the name of one variable.
    """

    operand: Node
    field_name: str
    tests: bool = False
    qualified: str = ""


@dataclass(eq=False, slots=True)
class Call(Node):
    """A function, a method of `target`, or an operator such as `_+_`."""

    function: str
    arguments: list[Node]
    target: Node | None = None


@dataclass(eq=False, slots=True)
class ListOf(Node):
    """`[a, ?b]`; `optional` are the indexes of those with a question mark."""

    items: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class Entry:
    """One `key: value` of a map, or of a message where the key is a field's name."""

    position: int
    key: Any
    value: Node
    optional: bool = False


@dataclass(eq=False, slots=True)
class MapOf(Node):
    """`{a: b, ?c: d}`."""

    entries: list[Entry]


@dataclass(eq=False, slots=True)
class Message(Node):
    """`Name{field: value}`."""

    name: str
    entries: list[Entry]


@dataclass(eq=False, slots=True)
class Comprehension(Node):
    """A fold over a list or map, which every macro with a variable becomes.

    `value` is the second variable, of the two that some macros have.
    """

    over: Node
    variable: str
    value: str
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


def tokenize(source: str) -> list[Token]:
    """Split source into tokens; the last one has the kind `end`.

    Raises:
        SyntaxFault: a character that no expression has.
    """
    tokens = []
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or "bad"
        if kind == "bad":
            text = source[match.start() : match.start() + 2]
            raise SyntaxFault(f"Syntax error: token recognition error at: '{text}'", match.start())
        if kind != "space":
            tokens.append(Token(kind, match.group(), match.start()))
    return [*tokens, Token("end", "<EOF>", len(source))]


def location(source: str, position: int) -> tuple[int, int]:
    """Return line and column, both from 1, of an offset."""
    before = source[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
