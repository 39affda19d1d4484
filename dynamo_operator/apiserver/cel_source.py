"""This module reads CEL source: rewrites what the CEL library lacks, and finds mistakes early.

Optional selection (`a.?b`, `a[?b]`) becomes function calls, `size` counts characters, and every
name is looked up, so that an expression that could never be evaluated is refused with its CRD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

OPTIONAL_FIELD: Final = "optionalField"
OPTIONAL_INDEX: Final = "optionalIndex"
SIZE: Final = "sizeOf"

_TOKEN: Final = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>\d[\w.]*)|(?P<space>\s+|//[^\n]*)"""
    r"""|(?P<mark>\.\?|\[\?|&&|\|\||[=!<>]=|.)""",
    re.DOTALL,
)
_RESERVED_WORDS: Final = (
    "true false null in as break const continue else for function if import let loop package "
    "namespace return void while var"
)
_RESERVED: Final = frozenset(_RESERVED_WORDS.split())
_ESCAPES: Final = {".": "__dot__", "-": "__dash__", "/": "__slash__"}
_MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_TYPE_NAMES: Final = "int uint double bool string bytes list map null_type type timestamp duration"
_TYPES: Final = frozenset(_TYPE_NAMES.split())


class ExpressionError(ValueError):
    """An expression that cannot be evaluated; the text says why."""


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of source; `kind` is string, name, number, or mark."""

    kind: str
    text: str


def escape(name: str) -> str:
    """Return the identifier by which an expression names a property."""
    if name in _RESERVED:
        return f"__{name}__"
    text = name.replace("__", "__underscores__")
    for character, escaped in _ESCAPES.items():
        text = text.replace(character, escaped)
    return text


def tokenize(source: str) -> list[Token]:
    """Split source into tokens, comments and white space left out."""
    return [
        Token(match.lastgroup or "mark", match.group())
        for match in _TOKEN.finditer(source)
        if match.lastgroup != "space"
    ]


def rewrite(source: str) -> str:
    """Return source for the CEL library with the same meaning."""
    return _render(tokenize(source))


def bound_names(tokens: Sequence[Token]) -> Set[str]:
    """Return the variables that comprehensions bind."""
    names = set()
    for position in range(len(tokens) - 4):
        dot, macro, opening, name, comma = (t.text for t in tokens[position : position + 5])
        if (dot, opening, comma) == (".", "(", ",") and macro in _MACROS:
            names.add(name)
    return names


def is_type_name(name: str) -> bool:
    """Whether the name denotes a CEL type."""
    return name in _TYPES


def _render(tokens: Sequence[Token]) -> str:
    return " ".join(_pieces(tokens))


def _pieces(tokens: Sequence[Token]) -> Iterator[str]:
    position, chained = 0, False
    while position < len(tokens):
        token = tokens[position]
        following = tokens[position + 1].text if position + 1 < len(tokens) else ""
        call_follows = position + 2 < len(tokens) and tokens[position + 2].text == "("
        if token.text == ".?" or (chained and token.text == "." and not call_follows):
            yield f".{OPTIONAL_FIELD}({json.dumps(following)})"
            position, chained = position + 2, True
        elif token.text == "[?" or (chained and token.text == "["):
            end = _closing(tokens, position)
            yield f".{OPTIONAL_INDEX}({_render(tokens[position + 1 : end])})"
            position, chained = end + 1, True
        else:
            yield SIZE if token.text == "size" and following == "(" else token.text
            position, chained = position + 1, False


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for position in range(opening, len(tokens)):
        if tokens[position].text in ("[", "[?"):
            depth += 1
        elif tokens[position].text == "]":
            depth -= 1
            if depth == 0:
                return position
    raise ExpressionError("a bracket is not closed")
