"""Reads source into a tree, macros expanded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dynamo_operator.apiserver.expressions.macros import expanded
from dynamo_operator.apiserver.expressions.syntax import (
    RESERVED,
    Call,
    Entry,
    ListOf,
    Literal,
    MapOf,
    Message,
    Name,
    Node,
    Select,
    SyntaxFault,
    Token,
    tokenize,
)
from dynamo_operator.apiserver.expressions.values import Unsigned

_LEVELS: Final = (
    ("||",),
    ("&&",),
    ("==", "!=", "<", "<=", ">", ">=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_STARTS: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, "
    "STRING, BYTES, IDENTIFIER}"
)
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_DEEPEST: Final = 250


def parse(source: str) -> Node:
    """Return the tree.

    Raises:
        SyntaxFault: it is no expression.
    """
    parser = _Parser(tokenize(source))
    node = parser.expression()
    token = parser.token
    if token.kind != "end":
        words = f"Syntax error: mismatched input '{token.text}' expecting <EOF>"
        if token.kind not in ("mark",):
            words = f"Syntax error: extraneous input '{token.text}' expecting <EOF>"
        raise SyntaxFault(words, token.position)
    return node


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._at]

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SyntaxFault("expression recursion limit exceeded: 250", self.token.position)
        condition = self._binary(0)
        if (mark := self._accept("?")) is not None:
            first = self._binary(0)
            self._expect(":")
            condition = Call(mark.position, "_?_:_", [condition, first, self.expression()])
        self._depth -= 1
        return condition

    def _take(self) -> Token:
        token = self.token
        self._at += token.kind != "end"
        return token

    def _accept(self, *texts: str) -> Token | None:
        token = self.token
        return self._take() if token.kind in ("mark", "name") and token.text in texts else None

    def _expect(self, text: str) -> Token:
        token = self._accept(text)
        if token is None:
            found = self.token
            if text in ")]}" and found.kind == "end":
                words = f"Syntax error: missing '{text}' at '<EOF>'"
            else:
                words = f"Syntax error: mismatched input '{found.text}' expecting '{text}'"
            raise SyntaxFault(words, found.position)
        return token

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        node = self._binary(level + 1)
        if level < 2:
            return self._logical(level, node)
        while (mark := self._accept(*_LEVELS[level])) is not None:
            name = "@in" if mark.text == "in" else f"_{mark.text}_"
            node = Call(mark.position, name, [node, self._binary(level + 1)])
        return node

    def _logical(self, level: int, first: Node) -> Node:
        """A chain of && or ||, as a balanced tree."""
        terms, marks = [first], []
        while (mark := self._accept(*_LEVELS[level])) is not None:
            marks.append(mark)
            terms.append(self._binary(level + 1))
        return self._balanced(f"_{_LEVELS[level][0]}_", terms, marks) if marks else first

    def _balanced(self, name: str, terms: list[Node], marks: list[Token]) -> Node:
        if len(terms) == 1:
            return terms[0]
        middle = len(marks) // 2
        left = self._balanced(name, terms[: middle + 1], marks[:middle])
        right = self._balanced(name, terms[middle + 1 :], marks[middle + 1 :])
        return Call(marks[middle].position, name, [left, right])

    def _unary(self) -> Node:
        marks: list[Token] = []
        while (mark := self._accept("!", "-")) is not None:
            if marks and mark.text != marks[-1].text:
                raise SyntaxFault(_unexpected(mark), mark.position)
            marks.append(mark)
        if not marks:
            return self._member(self._primary())
        if marks[-1].text == "-" and self.token.kind == "number":
            number = _number(Token("number", f"-{self.token.text}", marks[-1].position))
            self._take()
            node, marks = self._member(number), marks[:-1]
        else:
            node = self._member(self._primary())
        if len(marks) % 2 == 0:
            return node
        return Call(marks[0].position, f"{marks[0].text}_", [node])

    def _member(self, node: Node) -> Node:
        while (mark := self._accept(".", "[")) is not None:
            optional = self._accept("?") is not None
            if mark.text == "[":
                name = "_[?_]" if optional else "_[_]"
                node = Call(mark.position, name, [node, self.expression()])
                self._expect("]")
                continue
            field = self._take()
            if field.kind == "quoted":
                field = Token("name", field.text[1:-1], field.position)
            elif field.kind != "name" or field.text in ("in", *_WORDS):
                words = f"Syntax error: no viable alternative at input '{mark.text}'"
                if field.kind != "end":
                    words = f"Syntax error: no viable alternative at input '.{field.text}'"
                raise SyntaxFault(words, field.position)
            if optional:
                key = Literal(field.position, field.text)
                node = Call(mark.position, "_?._", [node, key])
            elif (opening := self._accept("(")) is not None:
                call = Call(opening.position, field.text, self._until(")"), node)
                node = expanded(call) or call
            elif self.token.text == "{" and self.token.kind == "mark" and _dotted(node):
                node = self._message(f"{_dotted(node)}.{field.text}")
            else:
                node = Select(mark.position, node, field.text)
        return node

    def _primary(self) -> Node:
        if self._accept("("):
            node = self.expression()
            self._expect(")")
            return node
        if (mark := self._accept("[")) is not None:
            return self._list(mark)
        if (mark := self._accept("{")) is not None:
            return MapOf(mark.position, self._entries(self.expression))
        self._accept(".")  # a name from the outermost scope: there is only one here
        token = self._take()
        if token.kind == "string":
            return Literal(token.position, _text(token))
        if token.kind == "number":
            return _number(token)
        if token.kind != "name" or token.text == "in":
            raise SyntaxFault(_unexpected(token), token.position)
        if token.text in _WORDS:
            return Literal(token.position, _WORDS[token.text])
        if token.text in RESERVED:
            raise SyntaxFault(f"reserved identifier: {token.text}", token.position)
        if (opening := self._accept("(")) is not None:
            call = Call(opening.position, token.text, self._until(")"))
            return expanded(call) or call
        if self.token.text == "{" and self.token.kind == "mark":
            return self._message(token.text)
        return Name(token.position, token.text)

    def _message(self, name: str) -> Node:
        mark = self._expect("{")
        return Message(mark.position, name, self._entries(self._field))

    def _field(self) -> str:
        token = self._take()
        if token.kind not in ("name", "quoted"):
            words = f"Syntax error: mismatched input '{token.text}' expecting "
            raise SyntaxFault(words + "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}", token.position)
        return token.text.strip("`")

    def _entries(self, read_key: Callable[[], Any]) -> list[Entry]:
        entries: list[Entry] = []
        while not self._accept("}"):
            optional = self._accept("?") is not None
            key = read_key()
            colon = self._expect(":")
            entries.append(Entry(colon.position, key, self.expression(), optional))
            if not self._accept(","):
                self._expect("}")
                break
        return entries

    def _list(self, mark: Token) -> Node:
        items: list[Node] = []
        optional = set()
        while not self._accept("]"):
            if self._accept("?"):
                optional.add(len(items))
            items.append(self.expression())
            if not self._accept(","):
                self._expect("]")
                break
        return ListOf(mark.position, items, frozenset(optional))

    def _until(self, closing: str) -> list[Node]:
        nodes: list[Node] = []
        if self._accept(closing):
            return nodes
        while True:
            nodes.append(self.expression())
            if not self._accept(","):
                self._expect(closing)
                return nodes


def _unexpected(token: Token) -> str:
    if token.kind == "end":
        return f"Syntax error: mismatched input '<EOF>' expecting {_STARTS}"
    return f"Syntax error: extraneous input '{token.text}' expecting {_STARTS}"


def _dotted(node: Node) -> str:
    """The qualified name that a node is, or nothing."""
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Select) and not node.tests and (before := _dotted(node.operand)):
        return f"{before}.{node.field_name}"
    return ""


def _number(token: Token) -> Literal:
    text = token.text.lower()
    is_double = ("." in text or "e" in text) and "0x" not in text
    if is_double:
        return Literal(token.position, float(text))
    unsigned = text.endswith("u")
    value = int(text.rstrip("u"), 16 if "0x" in text else 10)
    if unsigned:
        if value >= 2**64:
            raise SyntaxFault("invalid uint literal", token.position)
        return Literal(token.position, Unsigned(value))
    if not -(2**63) <= value < 2**63:
        raise SyntaxFault("invalid int literal", token.position)
    return Literal(token.position, value)


def _text(token: Token) -> str | bytes:
    quote = min(position for position in map(token.text.find, ("'", '"')) if position >= 0)
    prefix, body = token.text[:quote].lower(), token.text[quote:]
    width = 3 if body[:3] in ("'''", '"""') else 1
    body = body[width:-width].replace("\r\n", "\n").replace("\r", "\n")
    is_bytes = "b" in prefix
    if "r" in prefix or "\\" not in body:
        return body.encode() if is_bytes else body
    try:
        return _unescaped_bytes(body) if is_bytes else "".join(map(str, _pieces(body)))
    except (ValueError, IndexError, KeyError):
        raise SyntaxFault("invalid string literal", token.position) from None


def _unescaped_bytes(body: str) -> bytes:
    pieces = _pieces(body, as_bytes=True)
    return b"".join(bytes([each]) if isinstance(each, int) else each.encode() for each in pieces)


def _pieces(body: str, *, as_bytes: bool = False) -> list[str | int]:
    """The characters of a text, each escape as what it stands for: in bytes, a number."""
    pieces: list[str | int] = []
    at = 0
    while at < len(body):
        if body[at] != "\\":
            pieces.append(body[at])
            at += 1
            continue
        letter = body[at + 1]
        widths = {"x": 2, "X": 2, "u": 4, "U": 8}
        if letter in widths:
            width = widths[letter]
            code = int(body[at + 2 : at + 2 + width], 16)
            at += 2 + width
        elif letter in "0123":
            code = int(body[at + 1 : at + 4], 8)
            at += 4
        else:
            pieces.append(_ESCAPES[letter])
            at += 2
            continue
        pieces.append(code if as_bytes and letter not in "uU" else chr(code))
    return pieces
