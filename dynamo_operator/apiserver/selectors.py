"""Label and field selectors: their syntax, and what they match."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.object_metadata import qualified_name, validate_labels

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")


class Operator(StrEnum):
    """How a requirement compares."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = "gt"
    LESS = "lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label or field."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the condition holds."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        try:
            number, bound = int(value), int(next(iter(self.values)))
        except ValueError:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound


Selector = tuple[Requirement, ...]


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether all requirements hold."""
    return all(requirement.matches(labels) for requirement in selector)


def parse_label_selector(text: str) -> Selector:
    """Parse equality and set based requirements joined by commas.

    Raises:
        StatusError: 400, with what was found where.
    """
    return _LabelParser(text).parse()


def parse_field_selector(text: str) -> Selector:
    """Parse `path=value`, `path==value` and `path!=value` joined by commas.

    Raises:
        StatusError: 400.
    """
    requirements = []
    for term in _split_terms(text):
        for symbol, operator in (
            ("!=", Operator.NOT_IN),
            ("==", Operator.IN),
            ("=", Operator.IN),
        ):
            path, found, value = term.partition(symbol)
            if found:
                if re.search(r"(?<!\\)(\\\\)*\\$", value):
                    raise status.bad_request("invalid field selector: invalid escape sequence: \\")
                requirements.append(Requirement(path, operator, frozenset({_unescape(value)})))
                break
        else:
            raise status.bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    return tuple(requirements)


def _split_terms(text: str) -> list[str]:
    terms = re.split(r"(?<!\\),", text)
    return [term for term in terms if term]


def _unescape(value: str) -> str:
    return re.sub(r"\\([\\,=])", r"\1", value)


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._position = 0

    def parse(self) -> Selector:
        requirements: list[Requirement] = []
        if not self._tokens:
            return ()
        while True:
            requirements.append(self._checked(self._requirement()))
            token = self._next()
            if token is None:
                return tuple(requirements)
            if token != ",":
                raise status.bad_request(f"found '{token}', expected: ',' or 'end of string'")
            if self._peek() is None:
                raise status.bad_request("found '', expected: identifier after ','")

    def _checked(self, requirement: Requirement) -> Requirement:
        if problems := qualified_name(requirement.key):
            shown = f"{json.dumps(requirement.key)}: {'; '.join(problems)}"
            raise self._error(f"<nil>: Invalid value: {shown}")
        for value in sorted(requirement.values):
            for error in validate_labels({"a": value}, f"values[0][{requirement.key}]"):
                raise self._error(str(error))
        return requirement

    def _requirement(self) -> Requirement:
        token = self._next()
        if token == "!":
            return Requirement(self._word("identifier"), Operator.DOES_NOT_EXIST)
        if token is None or not _is_word(token):
            # This one comes before there is a requirement that could not be parsed.
            raise status.bad_request(
                f"found '{token or ''}', expected: !, identifier, or 'end of string'"
            )
        return self._comparison(token)

    def _comparison(self, key: str) -> Requirement:
        operator = self._peek()
        if operator is None or operator == ",":
            return Requirement(key, Operator.EXISTS)
        self._next()
        match operator:
            case "=" | "==":
                return Requirement(key, Operator.IN, frozenset({self._value()}))
            case "!=":
                return Requirement(key, Operator.NOT_IN, frozenset({self._value()}))
            case "in":
                return Requirement(key, Operator.IN, self._values())
            case "notin":
                return Requirement(key, Operator.NOT_IN, self._values())
            case ">":
                return Requirement(key, Operator.GREATER, frozenset({self._number(key)}))
            case "<":
                return Requirement(key, Operator.LESS, frozenset({self._number(key)}))
        raise self._error(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _value(self) -> str:
        token = self._peek()
        if token is None or token == ",":
            return ""
        return self._word("identifier")

    def _values(self) -> frozenset[str]:
        opening = self._next()
        if opening != "(":
            raise self._error(f"found '{opening or ''}' expected: '('")
        values: set[str] = set()
        while True:
            token = self._next()
            if token is None:
                raise self._error("found '', expected: ',', ')' or identifier")
            if token == ")":
                return frozenset(values or {""})
            if token == ",":
                values.add("")
                continue
            values.add(token)
            after = self._next()
            if after == ")":
                return frozenset(values)
            if after != ",":
                raise self._error(f"found '{after or ''}', expected: ',' or ')'")

    def _number(self, key: str) -> str:
        token = self._word("number")
        if not re.fullmatch(r"-?\d+", token):
            raise self._error(
                f'values[0]: Invalid value: "{token}": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return token

    def _word(self, expected: str) -> str:
        token = self._next()
        if token is None or not _is_word(token):
            raise self._error(f"found '{token or ''}', expected: {expected}")
        return token

    def _peek(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _next(self) -> str | None:
        token = self._peek()
        self._position += 1
        return token

    def _error(self, detail: str) -> status.StatusError:
        return status.bad_request(f"unable to parse requirement: {detail}")


def _is_word(token: str) -> bool:
    return token not in {"=", "==", "!=", "!", ",", "(", ")", "<", ">"}
