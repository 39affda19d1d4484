"""This module parses CEL source into a tree, for the type checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dynamo_operator.apiserver.cel_source import Token


class UnreadableError(ValueError):
    """Source that this parser does not know; the CEL library may still."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of a named type."""

    type: str


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or a type."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `operand.?field`."""

    operand: Node
    field: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[key]`, or `operand[?key]`."""

    operand: Node
    key: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function, a method of `target`, or an operator written `_+_`."""

    function: str
    arguments: tuple[Node, ...]
    target: Node | None = None


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """`{a: b}`, keys and values."""

    entries: tuple[tuple[Node, Node], ...]


Node: TypeAlias = Literal | Name | Select | Index | Call | ListOf | MapOf

_BINARY: Final = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_WORDS: Final = {"true": "bool", "false": "bool", "null": "null_type"}


def parse(tokens: Sequence[Token]) -> Node:
    """Return the tree.

    Raises:
        UnreadableError: this is not CEL, or a part of it that is not known here.
    """
    parser = _Parser(tokens)
    node = parser.expression()
    if parser.text:
        raise UnreadableError(f"unexpected {parser.text!r}")
    return node


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def text(self) -> str:
        """The token to come, "" at the end; text in quotes is no mark."""
        token = self._token
        return "" if token is None or token.kind == "string" else token.text

    def expression(self) -> Node:
        condition = self._binary(0)
        if not self._accept("?"):
            return condition
        first = self.expression()
        self._expect(":")
        return Call("_?_:_", (condition, first, self.expression()))

    @property
    def _token(self) -> Token | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _take(self) -> Token:
        token = self._token
        if token is None:
            raise UnreadableError("unexpected end")
        self._position += 1
        return token

    def _accept(self, *texts: str) -> str:
        if self.text and self.text in texts:
            return self._take().text
        return ""

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise UnreadableError(f"{text!r} expected, not {self.text!r}")

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        node = self._binary(level + 1)
        while operator := self._accept(*_BINARY[level]):
            node = Call(f"_{operator}_", (node, self._binary(level + 1)))
        return node

    def _unary(self) -> Node:
        if operator := self._accept("!", "-"):
            return Call(f"{operator}_", (self._unary(),))
        return self._member(self._primary())

    def _member(self, node: Node) -> Node:
        while mark := self._accept(".", ".?", "[", "[?"):
            if mark in ("[", "[?"):
                node = Index(node, self.expression(), optional=mark == "[?")
                self._expect("]")
                continue
            field = self._take()
            if field.kind != "name":
                raise UnreadableError(f"a field expected, not {field.text!r}")
            if mark == "." and self._accept("("):
                node = Call(field.text, self._until(")"), node)
            else:
                node = Select(node, field.text, optional=mark == ".?")
        return node

    def _primary(self) -> Node:
        if self._accept("("):
            node = self.expression()
            self._expect(")")
            return node
        if self._accept("["):
            return ListOf(self._until("]"))
        if self._accept("{"):
            return self._map()
        token = self._take()
        if token.kind == "string":
            prefix = token.text.lower().partition('"')[0].partition("'")[0]
            return Literal("bytes" if "b" in prefix else "string")
        if token.kind == "number":
            return Literal(_number_type(token.text))
        if token.kind != "name":
            raise UnreadableError(f"unexpected {token.text!r}")
        if token.text in _WORDS:
            return Literal(_WORDS[token.text])
        if self._accept("("):
            return Call(token.text, self._until(")"))
        return Name(token.text)

    def _map(self) -> Node:
        entries: list[tuple[Node, Node]] = []
        while not self._accept("}"):
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._accept(","):
                self._expect("}")
                break
        return MapOf(tuple(entries))

    def _until(self, closing: str) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while not self._accept(closing):
            nodes.append(self.expression())
            if not self._accept(","):
                self._expect(closing)
                break
        return tuple(nodes)


def _number_type(text: str) -> str:
    lowered = text.lower()
    if lowered.startswith("0x"):
        return "uint" if lowered.endswith("u") else "int"
    if "." in lowered or "e" in lowered:
        return "double"
    return "uint" if lowered.endswith("u") else "int"
