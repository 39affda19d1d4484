"""This module compiles and evaluates x-kubernetes-validations.

A rule is compiled with its CRD; one that cannot be evaluated refuses the CRD. On an update an
unchanged value does not have to satisfy a plain rule (ratcheting); a rule that reads oldSelf
(a transition rule) applies only where the old value can be told: below properties, map values and
map lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import cel

from dynamo_operator.apiserver import cel_source, cel_types, paths
from dynamo_operator.apiserver.cel_functions import FUNCTIONS, NATIVE
from dynamo_operator.apiserver.cel_source import ExpressionError
from dynamo_operator.apiserver.cel_types import Type
from dynamo_operator.apiserver.cel_values import aligned, to_cel
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.value_checks import map_key, same

ABSENT: Final = object()
"""No old value to compare with."""
_REASONS: Final = (
    "FieldValueInvalid",
    "FieldValueForbidden",
    "FieldValueRequired",
    "FieldValueDuplicate",
)


class Expression:
    """A compiled CEL expression.

    Args:
        source: the text.
        variables: what it may name, and their types.
        result: the type that it must have; None for any.

    Raises:
        ExpressionError: it is not CEL, or names what does not exist.
    """

    def __init__(self, source: str, variables: Mapping[str, Type], result: Type | None) -> None:
        self.source = source
        tokens = cel_source.tokenize(source)
        try:
            self._program = cel.compile(cel_source.rewrite(source))
        except ValueError as error:
            raise ExpressionError(_first_line(str(error))) from None
        references = self._program.references()
        self.variables = frozenset(references["variables"])
        known = {*variables, *cel_source.bound_names(tokens)}
        _refuse_unknown_names(self.variables - known, references["functions"])
        called = set(references["functions"])
        self._functions = {n: f for n, f in FUNCTIONS.items() if n.rpartition(".")[2] in called}
        checked = cel_types.check(tokens, variables)
        if result is not None and checked not in (result, cel_types.UNKNOWN):
            raise ExpressionError(f"must evaluate to a {result}")

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Return the value.

        Raises:
            ExpressionError: evaluation fails, e.g. for an absent key.
        """
        context = cel.Context(dict(variables), self._functions)
        try:
            return self._program.execute(context)
        except KeyError as error:
            raise ExpressionError(f"no such key: {error.args[0]}") from None
        except (RuntimeError, TypeError, ValueError, ArithmeticError, IndexError) as error:
            raise ExpressionError(_first_line(str(error))) from None


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled entry of x-kubernetes-validations."""

    expression: Expression
    message: str = ""
    message_expression: Expression | None = None
    reason: FieldErrorKind = FieldErrorKind.INVALID
    field_path: str = ""
    optional_old_self: bool = False

    @classmethod
    def compile(cls, source: Mapping[str, Any], schema: Schema) -> Rule:
        """Compile a rule for values of `schema`; raises ExpressionError."""
        me = cel_types.type_of_schema(schema) or cel_types.DYN
        optional = bool(source.get("optionalOldSelf"))
        variables = {"self": me, "oldSelf": Type("optional", (me,)) if optional else me}
        text = source.get("messageExpression")
        reason = source.get("reason") or _REASONS[0]
        if reason not in _REASONS:
            raise ExpressionError(f"reason {reason!r} is not one of {', '.join(_REASONS)}")
        return cls(
            expression=Expression(source["rule"], variables, cel_types.BOOL),
            message=source.get("message", ""),
            message_expression=Expression(text, variables, cel_types.STRING) if text else None,
            reason=FieldErrorKind(reason),
            field_path=_field_path(source.get("fieldPath", "")),
            optional_old_self=optional,
        )

    @property
    def is_transition(self) -> bool:
        """Whether the rule compares with the old value."""
        return "oldSelf" in self.expression.variables

    def check(self, variables: Mapping[str, Any], schema: Schema, path: str) -> FieldError | None:
        """Return what is wrong with `self` among the variables."""
        shown = schema.type or "object"
        try:
            if self.expression.evaluate(variables) is True:
                return None
        except ExpressionError as error:
            detail = f"{error} evaluating rule: {self.message or self.expression.source}"
            return FieldError(paths.shown(path), FieldErrorKind.INVALID, detail, shown)
        where = paths.shown((path + self.field_path).lstrip("."))
        return FieldError(where, self.reason, self._words(variables), shown)

    def _words(self, variables: Mapping[str, Any]) -> str:
        if self.message_expression is not None:
            try:
                text = self.message_expression.evaluate(variables)
            except ExpressionError:
                text = None
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text.strip()
        return self.message.strip() or f"failed rule: {self.expression.source.strip()}"


class RuleSet:
    """All rules of a schema, compiled; `errors` says which could not be.

    Attributes:
        errors: (path in the schema, rule, text) of rules that cannot be evaluated.
    """

    def __init__(self, schema: Schema, path: str = "", *, correlated: bool = True) -> None:
        self._schema = schema
        self._rules: list[Rule] = []
        self.errors: list[tuple[str, str, str]] = []
        for position, source in enumerate(schema.source.get("x-kubernetes-validations") or ()):
            try:
                self._rules.append(_compiled(source, schema, correlated=correlated))
            except ExpressionError as error:
                where = f"{paths.join(path, 'x-kubernetes-validations')}[{position}].rule"
                self.errors.append((where, source.get("rule", ""), str(error)))
        below = correlated and not schema.atomic_map
        self._properties = {
            name: rules
            for name, child in schema.properties.items()
            if (rules := self._child(child, paths.join(path, f"properties[{name}]"), below))
        }
        where = paths.join(path, "additionalProperties")
        self._additional = self._child(schema.additional, where, below)
        below = correlated and schema.list_type == "map"
        self._items = self._child(schema.items, paths.join(path, "items"), below)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to evaluate here or below."""
        return not (self._rules or self._properties or self._additional or self._items)

    def validate(self, value: Any, old: Any = ABSENT, path: str = "") -> Iterator[FieldError]:
        """Yield the rules that a new object, or the change from `old`, breaks."""
        if value is None:
            return
        if self._rules:
            yield from self._check_rules(value, old, path)
        for child, rules, before, where in self._children(value, old, path):
            yield from rules.validate(child, before, where)

    def _child(self, schema: Schema | None, path: str, correlated: bool) -> RuleSet | None:
        if schema is None:
            return None
        rules = RuleSet(schema, path, correlated=correlated)
        self.errors += rules.errors
        return None if rules.is_empty else rules

    def _check_rules(self, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        known = old is not ABSENT and old is not None
        unchanged = known and same(value, old)
        me = to_cel(value, self._schema)
        before = to_cel(aligned(old, value, self._schema), self._schema) if known else None
        for rule in self._rules:
            variables = {"self": me}
            if not rule.is_transition:
                if unchanged:
                    continue
            elif rule.optional_old_self:
                optional = cel.OptionalValue
                variables["oldSelf"] = optional.of(before) if known else optional.none()
            elif known:
                variables["oldSelf"] = before
            else:
                continue
            error = rule.check(variables, self._schema, path)
            if error is not None:
                yield error

    def _children(self, value: Any, old: Any, path: str) -> Iterator[tuple[Any, RuleSet, Any, str]]:
        if isinstance(value, dict):
            olds = old if isinstance(old, dict) and not self._schema.atomic_map else {}
            for name, child in value.items():
                if name in self._properties:
                    rules, where = self._properties[name], paths.join(path, name)
                    yield child, rules, olds.get(name, ABSENT), where
                elif self._additional is not None and name not in self._schema.properties:
                    where = paths.key(path, name)
                    yield child, self._additional, olds.get(name, ABSENT), where
        elif isinstance(value, list) and self._items is not None:
            schema = self._schema
            olds_by_key = {}
            if schema.list_type == "map" and isinstance(old, list):
                olds_by_key = {map_key(i, schema.list_keys, schema.items): i for i in old}
            for position, item in enumerate(value):
                identity = map_key(item, schema.list_keys, schema.items)
                yield (
                    item,
                    self._items,
                    olds_by_key.get(identity, ABSENT),
                    paths.index(path, position),
                )


def _compiled(source: Mapping[str, Any], schema: Schema, *, correlated: bool) -> Rule:
    if not str(source.get("rule", "")).strip():
        raise ExpressionError("rule is not specified")
    rule = Rule.compile(source, schema)
    if rule.is_transition and not correlated:
        raise ExpressionError("oldSelf cannot be used on the uncorrelatable portion of the schema")
    return rule


def _refuse_unknown_names(variables: frozenset[str], functions: list[str]) -> None:
    namespaces = {name.partition(".")[0] for name in FUNCTIONS if "." in name} | {"optional"}
    known = NATIVE | {part for name in FUNCTIONS for part in (name, name.rpartition(".")[2])}
    for name in functions:
        if name.isidentifier() and name not in known:
            raise ExpressionError(f"undeclared reference to '{name}': no such function here")
    for name in sorted(variables - namespaces):
        if not cel_source.is_type_name(name):
            raise ExpressionError(f"undeclared reference to '{name}'")


def _first_line(text: str) -> str:
    """The telling line of the library's message."""
    called = re.search(r"Python function call failed: \w+: (.*?)\. Check function", text, re.DOTALL)
    if called:
        return called.group(1)
    problem = re.search(r"ERROR: <input>:\d+:\d+: (.*)", text)
    return problem.group(1) if problem else text.partition("\n")[0]


def _field_path(text: str) -> str:
    """A rule's JSON path (`.a.b`, `['a.b']`) as error paths are written."""
    return re.sub(r"\['((?:\\'|[^'])*)'\]", r".\1", text)
