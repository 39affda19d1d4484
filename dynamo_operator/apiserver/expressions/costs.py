"""Estimates what an expression can cost at most, from its types and the bounds of its variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from dynamo_operator.apiserver.expressions.charges import CHECK, REGEX, TRAVERSAL
from dynamo_operator.apiserver.expressions.declarations import Overload
from dynamo_operator.apiserver.expressions.syntax import (
    RESULT,
    Call,
    Comprehension,
    ListOf,
    Literal,
    MapOf,
    Message,
    Name,
    Node,
    Select,
)
from dynamo_operator.apiserver.expressions.types import Type

MOST: Final = 2**64 - 1
_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_LONGEST_FORMAT: Final = 128
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """From the least to the most: a size or a cost."""

    least: int
    most: int

    def __add__(self, other: Range) -> Range:
        return Range(_bounded(self.least + other.least), _bounded(self.most + other.most))

    def __mul__(self, other: Range) -> Range:
        return Range(_bounded(self.least * other.least), _bounded(self.most * other.most))

    def __or__(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))

    def times(self, factor: float) -> Range:
        """Return it with each bound times a factor, rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))


def _bounded(value: int) -> int:
    return min(value, MOST)


def _scaled(value: int, factor: float) -> int:
    if value == MOST and factor >= 1:
        return MOST
    product = value * factor
    return MOST if product == inf or product >= 2**64 else ceil(product)


def fixed(value: int) -> Range:
    """Return a range of one value."""
    return Range(value, value)


UNKNOWN: Final = Range(0, MOST)
_NOTHING, _ONE = fixed(0), fixed(1)
SizeOf = Callable[[Path], Range | None]
"""Returns the size of what is at a path: a variable's name, then fields, @items and @values."""


@dataclass(frozen=True, slots=True)
class _Local:
    """What is known of a comprehension's variable."""

    path: Path
    size: Range | None
    entries: tuple[Range, Range] | None = None


class Estimator:
    """Estimates the cost of one checked tree.

    Args:
        size_of: knows how large variables are.
    """

    def __init__(self, size_of: SizeOf) -> None:
        self._size_of = size_of
        self._paths: dict[Node, Path] = {}
        self._sizes: dict[Node, Range] = {}
        self._entries: dict[Node, tuple[Range, Range]] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        """Return what evaluating the node costs."""
        match node:
            case Name(name=name):
                local = self._local(name)
                self._paths[node] = local.path if local else (name,)
                return _ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListOf(items=items):
                return self._list(node, items)
            case MapOf():
                return self._map(node)
            case Message(entries=entries):
                return self._sum([entry.value for entry in entries]) + fixed(40)
            case Comprehension():
                return self._let(node) if self._is_let(node) else self._fold(node)
        return _NOTHING

    def _sum(self, nodes: Sequence[Node]) -> Range:
        total = _NOTHING
        for node in nodes:
            total += self.cost(node)
        return total

    def _local(self, name: str) -> _Local | None:
        known = self._locals.get(name)
        return known[-1] if known else None

    def _path(self, node: Node) -> Path:
        if isinstance(node, Name) and (local := self._local(node.name)):
            return local.path
        return self._paths.get(node, ())

    def _select(self, node: Select) -> Range:
        total = self.cost(node.operand)
        if node.tests:
            return total
        if node.operand.type.kind in ("map", "object", "param"):
            total += _ONE
        self._paths[node] = (*self._path(node.operand), node.field_name)
        return total

    def _list(self, node: Node, items: Sequence[Node]) -> Range:
        total = _NOTHING
        size = Range(0 if not items else MOST, 0)
        for item in items:
            total += self.cost(item)
            size |= self.size(item)
        self._entries[node] = (_ONE, size)
        return total + fixed(10)

    def _map(self, node: MapOf) -> Range:
        total = _NOTHING
        least = MOST if node.entries else 0
        keys = values = Range(least, 0)
        for entry in node.entries:
            total += self.cost(entry.key) + self.cost(entry.value)
            keys |= self.size(entry.key)
            values |= self.size(entry.value)
        self._entries[node] = (keys, values)
        return total + fixed(30)

    def _is_let(self, node: Comprehension) -> bool:
        return isinstance(node.over, ListOf) and not node.over.items and node.accumulator != RESULT

    def _let(self, node: Comprehension) -> Range:
        total = self.cost(node.over) + self.cost(node.start)
        self._push(node.accumulator, node.start)
        total += self.cost(node.result)
        self._locals[node.accumulator].pop()
        self._copy(node, node.result)
        return total

    def _push(self, name: str, value: Node) -> None:
        path, size = self._path(value), self._known(value)
        known = _Local(path, size, self._entry_sizes(value))
        self._locals.setdefault(name, []).append(known)

    def _copy(self, target: Node, source: Node) -> None:
        if (size := self._known(source)) is not None:
            self._sizes[target] = size
        if (entries := self._entry_sizes(source)) is not None:
            self._entries[target] = entries

    def _fold(self, node: Comprehension) -> Range:
        total = self.cost(node.over) + self.cost(node.start)
        self._push(node.accumulator, node.start)
        bound = self._bind(node)
        turn = self.cost(node.condition) + self.cost(node.step)
        for name in bound:
            self._locals[name].pop()
        total += self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self.size(node.over)
        total += count * turn
        if isinstance(node.start, Literal):
            self._sizes[node] = self._known(node.start) or _ONE
        else:
            self._sizes[node] = count
            if (entries := self._entry_sizes(node.step)) is not None:
                self._entries[node] = entries
        return total

    def _bind(self, node: Comprehension) -> list[str]:
        """Make a comprehension's variables known, and return their names."""
        path, entries = self._path(node.over), self._entry_sizes(node.over)
        is_list = node.over.type.kind == "list"
        keys, values = entries or (None, None)
        items = _Local((*path, "@items") if path else (), values)
        if node.value:
            key = _Local((), _ONE) if is_list else _Local((*path, "@keys") if path else (), keys)
            value = items if is_list else _Local((*path, "@values") if path else (), values)
            named = {node.variable: key, node.value: value}
        elif is_list:
            named = {node.variable: items}
        else:
            named = {node.variable: _Local((*path, "@keys") if path else (), keys)}
        for name, local in named.items():
            self._locals.setdefault(name, []).append(local)
        return list(named)

    def size(self, node: Node) -> Range:
        """Return how large a node's value is."""
        return self._known(node) or UNKNOWN

    def _known(self, node: Node) -> Range | None:
        if node in self._sizes:
            return self._sizes[node]
        match node:
            case Literal(value=value):
                return fixed(len(value)) if isinstance(value, (str, bytes)) else _ONE
            case ListOf(items=items):
                return fixed(len(items))
            case MapOf(entries=entries):
                return fixed(len(entries))
        path = self._path(node)
        if path and not path[0].startswith("@") and (found := self._size_of(path)) is not None:
            self._sizes[node] = found
            return found
        if _is_scalar(node.type):
            return _ONE
        local = self._local(node.name) if isinstance(node, Name) else None
        return local.size if local else None

    def _entry_sizes(self, node: Node) -> tuple[Range, Range] | None:
        if node in self._entries:
            return self._entries[node]
        local = self._local(node.name) if isinstance(node, Name) else None
        return local.entries if local else None

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            total = self.cost(node.arguments[0]) + _ONE
            self._copy(node, node.arguments[0])
            return total
        costs = [self.cost(each) for each in node.arguments]
        before = self.cost(node.target) if node.target is not None else _NOTHING
        own: Range | None = None
        for overload in node.overloads:
            cost = self._overload(node, overload, costs)
            own = cost if own is None else own | cost
        if node.function == "_[_]":
            self._index(node)
        return before + (own or _NOTHING)

    def _index(self, node: Call) -> None:
        container = node.arguments[0]
        entries, path = self._entry_sizes(container), self._path(container)
        if entries is not None:
            self._sizes[node] = entries[1]
        if path:
            where = "@items" if container.type.kind == "list" else "@values"
            self._paths[node] = (*path, where)

    def _overload(self, node: Call, overload: Overload, costs: Sequence[Range]) -> Range:
        arguments = _NOTHING
        for cost in costs:
            arguments += cost
        match node.function:
            case "_||_" | "_&&_":
                return Range(costs[0].least, (costs[0] + costs[1]).most)
            case "_?_:_":
                return self._choice(node, costs)
        given = [*([node.target] if node.target is not None else []), *node.arguments]
        rule = _RULES.get(node.function)
        return (rule(self, node, overload, given) if rule else _ONE) + arguments

    def _choice(self, node: Call, costs: Sequence[Range]) -> Range:
        _, first, second = node.arguments
        self._sizes[node] = self.size(first) | self.size(second)
        one, other = self._entry_sizes(first), self._entry_sizes(second)
        if one and other:
            self._entries[node] = (one[0] | other[0], one[1] | other[1])
        elif one or other:
            self._entries[node] = one or other or (UNKNOWN, UNKNOWN)
        return costs[0] + (costs[1] | costs[2])

    # How functions cost: each gets the estimator, the call, an overload of it and what it is given.

    def traversed(self, node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For each character of the first."""
        size = self.size(given[0])
        if node.function in _KEEP_SIZE:
            self._sizes[node] = size
        return size.times(TRAVERSAL)

    def traversed_twice(self, node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """Twice for each character of the first."""
        size = self.size(given[0])
        if node.function == "split":
            most = size.most
            if len(given) > 2 and isinstance(limit := given[2], Literal):
                most = limit.value if limit.value >= 0 else MOST
            self._sizes[node] = Range(0, most)
        elif node.function == "replace":
            self._sizes[node] = _replaced(size, self.size(given[1]), self.size(given[2]))
        return size.times(2 * TRAVERSAL)

    def second(self, _node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For each character of the second."""
        return self.size(given[1]).times(TRAVERSAL)

    def items(self, _node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For each item of the second, if it is a list."""
        return self.size(given[1]) if _overload.parameters[1].kind == "list" else _ONE

    def pattern(self, node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For each character, and each of the pattern."""
        size = self.size(given[0])
        if node.function != "matches":
            self._sizes[node] = Range(0, size.most)
        return (size + _ONE).times(TRAVERSAL) * self.size(given[1]).times(REGEX)

    def part(self, _node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For each character of both."""
        one, other = (self.size(each).times(TRAVERSAL) for each in given)
        return one * other

    def compared(self, node: Call, overload: Overload, given: Sequence[Node]) -> Range:
        """For each character of the smaller."""
        if node.function not in ("_==_", "_!=_") and overload.parameters[0].kind not in _TEXTS:
            return _ONE
        names = {each.type.name for each in given}
        if node.function == "_==_" and len(names) == 1 and names & _CONSTANT_EQUALITY:
            return _ONE
        smallest = min(self.size(each).most for each in given)
        return Range(1 if smallest > 0 else 0, smallest).times(TRAVERSAL)

    def added(self, node: Call, overload: Overload, given: Sequence[Node]) -> Range:
        """For each character of both; lists are not looked at."""
        kind = overload.parameters[0].kind
        if kind not in ("string", "bytes", "list"):
            return _ONE
        size = self.size(given[0]) + self.size(given[1])
        self._sizes[node] = size
        one, other = map(self._entry_sizes, given)
        if one and other:
            self._entries[node] = (one[0] | other[0], one[1] | other[1])
        elif one or other:
            self._entries[node] = one or other or (UNKNOWN, UNKNOWN)
        return _ONE if kind == "list" else size.times(TRAVERSAL)

    def looked_through(self, node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For each item, and each character of the items."""
        each = _ONE
        item = self._item(given[0])
        if item is None:
            whole = self.size(given[0])
            return whole if node.function == "includes" else whole.times(TRAVERSAL)
        kind, size = item
        if kind in ("string", "bytes"):
            each += size.times(TRAVERSAL)
        return self.size(given[0]) * each

    def joined(self, node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For each character of the result."""
        count, size = self.size(given[0]), _NOTHING
        if (item := self._item(given[0])) is not None:
            size = count * item[1]
        if len(given) > 1:
            between = Range(max(count.least - 1, 0), max(count.most - 1, 0))
            size += self.size(given[1]) * between
        self._sizes[node] = size
        return size.times(TRAVERSAL)

    def _item(self, node: Node) -> tuple[str, Range] | None:
        if not node.type.arguments:
            return None
        path = self._path(node)
        found = self._size_of((*path, "@items")) if path and path[0] != RESULT else None
        return node.type.arguments[0].kind, found or UNKNOWN

    def selector(self, _node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For what a selector may have in it."""
        length = self.size(given[1])
        return fixed(10) + length.times(TRAVERSAL) + length.times(0.5).times(50)

    def format(self, _node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For the longest pattern that a format has."""
        return self.size(given[1]).times(TRAVERSAL).times(_LONGEST_FORMAT * REGEX)

    def sets(self, node: Call, _overload: Overload, given: Sequence[Node]) -> Range:
        """For each pair of items; twice for what asks both ways."""
        factor = 2 if node.function == "sets.equivalent" else 1
        return (self.size(given[0]) * self.size(given[1])).times(factor) + _ONE

    def listed(self, node: Call, overload: Overload, given: Sequence[Node]) -> Range:
        """For each item of the list that is made."""
        size, factor = self.size(given[0]), 1.0
        match node.function:
            case "slice":
                start, end = _constant(given[1], 0), _constant(given[2], size.most)
                size = fixed(max(end - start, 0))
            case "lists.range":
                size = fixed(_constant(given[0], MOST))
            case "flatten":
                factor = float(_constant(given[1], MOST)) if len(given) > 1 else 1.0
            case "distinct":
                size, factor = size * size, 2.0
            case "sort" | "@sortByAssociatedKeys":
                keys = given[-1]
                size = self.size(keys) * self.size(keys)
                kind = overload.parameters[-1].arguments[0].kind
                factor = 2.0 + TRAVERSAL if kind in _TEXTS else 2.0
        self._sizes[node] = size
        return size.times(factor) + fixed(11)

    def within(self, node: Call, overload: Overload, given: Sequence[Node]) -> Range:
        """For the addresses that are compared."""
        sizes = Range(4, 16)
        cost = (sizes + sizes).times(TRAVERSAL)
        if node.function == "containsCIDR":
            cost += sizes.times(TRAVERSAL) + _ONE
        if overload.parameters[1].kind == "string":
            cost += self.size(given[1]).times(TRAVERSAL)
        return cost

    def sized(self, node: Call, overload: Overload, given: Sequence[Node]) -> Range:
        """For each character of what becomes text or bytes."""
        if overload.parameters[0].kind not in _TEXTS or overload.result == overload.parameters[0]:
            if overload.parameters[0].name == "net.CIDR" or node.function != "ip":
                return _ONE
            return self.size(given[0]).times(TRAVERSAL)
        size = self.size(given[0])
        if node.function == "bytes":
            self._sizes[node] = Range(size.least, _bounded(size.most * 4))
        elif node.function == "string":
            self._sizes[node] = Range(size.least // 4, size.most)
        return size.times(TRAVERSAL)


_TEXTS: Final = frozenset({"string", "bytes"})
_KEEP_SIZE: Final = frozenset(
    {"url", "jsonpatch.escapeKey", "lowerAscii", "upperAscii", "substring", "trim"}
)
_CONSTANT_EQUALITY: Final = frozenset(
    {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}
)
_Rule = Callable[[Estimator, Call, Overload, Sequence[Node]], Range]
_RULES: Final[dict[str, _Rule]] = {
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), Estimator.compared),
    **dict.fromkeys(("startsWith", "endsWith"), Estimator.second),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR"),
        Estimator.traversed,
    ),
    **dict.fromkeys(
        ("quantity", "isQuantity", "semver", "isSemver", "format", "strings.quote"),
        Estimator.traversed,
    ),
    "jsonpatch.escapeKey": Estimator.traversed,
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), Estimator.traversed_twice),
    **dict.fromkeys(("matches", "find", "findAll"), Estimator.pattern),
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"),
        Estimator.looked_through,
    ),
    **dict.fromkeys(("fieldSelector", "labelSelector"), Estimator.selector),
    **dict.fromkeys(("containsIP", "containsCIDR"), Estimator.within),
    **dict.fromkeys(("bytes", "string", "ip"), Estimator.sized),
    **dict.fromkeys(("sets.contains", "sets.intersects", "sets.equivalent"), Estimator.sets),
    **dict.fromkeys(("slice", "lists.range", "flatten", "distinct", "reverse"), Estimator.listed),
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), Estimator.listed),
    "_+_": Estimator.added,
    "@in": Estimator.items,
    "check": lambda *_: fixed(CHECK),
    "contains": Estimator.part,
    "join": Estimator.joined,
    "validate": Estimator.format,
}


def _constant(node: Node, otherwise: int) -> int:
    """The number that a node is, if it is a constant that is not negative."""
    if isinstance(node, Literal) and isinstance(node.value, int) and node.value >= 0:
        return int(node.value)
    return otherwise


def _is_scalar(one: Type) -> bool:
    return one.kind in _SCALARS or (one.is_optional and _is_scalar(one.arguments[0]))


def _replaced(size: Range, old: Range, new: Range) -> Range:
    """The size of a text in which one part may be replaced by another."""
    if old.least == 0:
        most = _bounded(_bounded(size.most + 1) * new.most + size.most)
    elif new.most <= old.least:
        most = size.most
    else:
        most = _bounded(ceil(size.most / old.least) * new.most)
    if old.most == 0:
        least = _bounded(size.least + 1) * new.least + size.least
    elif old.most <= new.least:
        least = size.least
    else:
        least = ceil(size.least / old.most) * new.least
    return Range(_bounded(least), most)
