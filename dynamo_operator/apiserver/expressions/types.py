"""The types of expressions, and which can stand in whose place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its `kind`, the `name` by which it is shown, and the types it is made of.

    Kinds are the names of the basic types, `list`, `map`, `type`, `opaque` (also `optional_type`),
    `object`, `param` (a type to be found out), `dyn` and `error`. `fields` are an object's.
    """

    kind: str
    name: str
    arguments: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = field(default=None, compare=False, hash=False)

    def __str__(self) -> str:
        if self.kind == "null_type":
            return "null"
        if not self.arguments:
            return self.name
        return f"{self.name}({', '.join(map(str, self.arguments))})"

    @property
    def is_optional(self) -> bool:
        """Whether its values may be absent."""
        return self.name == "optional_type"


def _basic(name: str, shown: str = "") -> Type:
    return Type(name, shown or name)


DYN: Final = _basic("dyn")
ERROR: Final = _basic("error", "!error!")
BOOL, INT, UINT, DOUBLE = _basic("bool"), _basic("int"), _basic("uint"), _basic("double")
STRING, BYTES, NULL = _basic("string"), _basic("bytes"), _basic("null_type")
TIMESTAMP, DURATION, TYPE = _basic("timestamp"), _basic("duration"), _basic("type")
QUANTITY, SEMVER = Type("object", "kubernetes.Quantity"), Type("object", "kubernetes.Semver")
URL, FORMAT = Type("object", "kubernetes.URL"), Type("object", "kubernetes.NamedFormat")
IP, CIDR = Type("opaque", "net.IP"), Type("opaque", "net.CIDR")
_AUTHORIZATION: Final = "kubernetes.authorization"
AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION = (
    Type("object", f"{_AUTHORIZATION}.{name}")
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
_NULLABLE: Final = frozenset({"opaque", "object", "duration", "timestamp"})
_NAMED: Final = {
    **{t.name: t for t in (DYN, BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TYPE)},
    **{t.name: t for t in (TIMESTAMP, DURATION)},
    "Quantity": QUANTITY,
    "Semver": SEMVER,
    "URL": URL,
    "Format": FORMAT,
    "IP": IP,
    "CIDR": CIDR,
    "Authorizer": AUTHORIZER,
    "PathCheck": PATH_CHECK,
    "GroupCheck": GROUP_CHECK,
    "ResourceCheck": RESOURCE_CHECK,
    "Decision": DECISION,
}

Substitutions = dict[Type, Type]


def list_of(item: Type) -> Type:
    """Return the type of lists."""
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps."""
    return Type("map", "map", (key, value))


def optional(value: Type) -> Type:
    """Return the type of what may be absent."""
    return Type("opaque", "optional_type", (value,))


def type_of_type(named: Type) -> Type:
    """Return the type of a type's name."""
    return Type("type", "type", (named,))


def parse_type(text: str) -> Type:
    """Read a type as declarations write it: `map(string, list(A))`; capitals are parameters."""
    text = text.strip()
    name, opening, rest = text.partition("(")
    if not opening:
        return _NAMED.get(name) or Type("param", name)
    parts = [parse_type(part) for part in split(rest[:-1])]
    if name == "optional":
        return optional(parts[0])
    return Type(name, name, tuple(parts))


def split(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]] if text.strip() else []


def unwrapped(one: Type) -> tuple[Type, bool]:
    """Return what an optional may hold, and whether it is an optional."""
    return (one.arguments[0], True) if one.is_optional else (one, False)


class Unifier:
    """Finds out type parameters as types are put in their place."""

    def __init__(self) -> None:
        self._found: Substitutions = {}
        self._made = 0

    def new(self) -> Type:
        """Return a type to be found out."""
        self._made += 1
        return Type("param", f"_var{self._made - 1}")

    def assignable(self, ones: Sequence[Type], others: Sequence[Type]) -> bool:
        """Whether each can stand in the other's place; if so what follows is remembered."""
        found = dict(self._found)
        if not _all_fit(found, ones, others):
            return False
        self._found = found
        return True

    def substituted(self, one: Type, *, to_dyn: bool = False) -> Type:
        """Return the type with what has been found out; what has not may be dynamic."""
        if one in self._found:
            return self.substituted(self._found[one], to_dyn=to_dyn)
        if one.kind == "param":
            return DYN if to_dyn else one
        if not one.arguments:
            return one
        parts = (self.substituted(part, to_dyn=to_dyn) for part in one.arguments)
        return Type(one.kind, one.name, tuple(parts))

    def fresh(self, types: Iterable[Type]) -> list[Type]:
        """Return declared types with parameters of their own."""
        made: Substitutions = {}
        return [self._freshened(one, made) for one in types]

    def _freshened(self, one: Type, made: Substitutions) -> Type:
        if one.kind == "param":
            return made.setdefault(one, self.new()) if one not in made else made[one]
        if not one.arguments:
            return one
        return Type(one.kind, one.name, tuple(self._freshened(p, made) for p in one.arguments))


def _all_fit(found: Substitutions, ones: Sequence[Type], others: Sequence[Type]) -> bool:
    if len(ones) != len(others):
        return False
    return all(_fits(found, one, other) for one, other in zip(ones, others, strict=True))


def _fits(found: Substitutions, one: Type, other: Type) -> bool:
    if other.kind == "param":
        valid, known = _substitutes(found, one, other)
        if valid or known:
            return valid
    if one.kind == "param":
        return _substitutes(found, other, one)[0]
    if {one.kind, other.kind} & {"dyn", "error"}:
        return True
    if one.kind == "null_type":
        return other.kind in _NULLABLE or other.kind == "null_type"
    if other.kind == "null_type":
        return one.kind in _NULLABLE
    if one.kind == other.kind == "type":
        return True
    return (
        one.kind == other.kind
        and one.name == other.name
        and _all_fit(found, one.arguments, other.arguments)
    )


def _substitutes(found: Substitutions, one: Type, param: Type) -> tuple[bool, bool]:
    """Whether a type can stand for a parameter, and whether the parameter was known before."""
    if one == param:
        return True, True
    known = found.get(param)
    if known is not None:
        if one == known:
            return True, True
        if _fits(found, one, known):
            general = most_general(one, known)
            if _is_free(found, param, general):
                found[param] = general
            return True, True
        return False, True
    if _is_free(found, param, one):
        found[param] = one
        return True, False
    return False, False


def most_general(one: Type, other: Type) -> Type:
    """Return the less specific of two types that fit."""
    return one if _is_less_specific(one, other) else other


def _is_less_specific(one: Type, other: Type) -> bool:
    if one.kind in ("dyn", "param"):
        return True
    if other.kind in ("dyn", "param") or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if len(one.arguments) != len(other.arguments) or one.name != other.name:
        return False
    return all(map(_is_less_specific, one.arguments, other.arguments))


def _is_free(found: Substitutions, param: Type, within: Type) -> bool:
    if param == within:
        return False
    if within.kind == "param":
        return within not in found or _is_free(found, param, found[within])
    return all(_is_free(found, param, part) for part in within.arguments)
