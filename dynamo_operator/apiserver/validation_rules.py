"""The rules of custom resources (x-kubernetes-validations): compiled, costed and evaluated.

A rule is compiled with its definition; one that cannot be evaluated refuses the definition. On an
update an unchanged value does not have to satisfy a plain rule (ratcheting); a rule that reads
oldSelf (a transition rule) applies only where the old value can be told: below properties, map
values and map lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dynamo_operator.apiserver import paths
from dynamo_operator.apiserver.expressions.costs import MOST
from dynamo_operator.apiserver.expressions.evaluation import CostExceededError, Meter
from dynamo_operator.apiserver.expressions.program import CALL_LIMIT, Program
from dynamo_operator.apiserver.expressions.schema_types import Declared, declared, escape, seen
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.expressions.types import BOOL, STRING, Type, optional
from dynamo_operator.apiserver.expressions.values import NONE, Optional
from dynamo_operator.apiserver.field_paths import field_path
from dynamo_operator.apiserver.rule_values import aligned
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import OMITTED, FieldError, FieldErrorKind
from dynamo_operator.apiserver.value_checks import map_key, same

ABSENT: Final = object()
"""No old value to compare with."""
BUDGET: Final = 10_000_000
"""What evaluating all rules of one object may cost."""
RULE_LIMIT: Final = 10_000_000
"""What one rule of a definition may cost by its estimate, as often as its value can be there."""
_LONGEST_MESSAGE: Final = 5 * 1024
_EXHAUSTED: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)


def cost_words(what: str, cost: int, limit: int) -> str:
    """Return what is said of an estimate above its limit."""
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What keeps a rule from being used, with the path inside the schema."""

    path: str
    kind: FieldErrorKind
    detail: str
    value: Any = OMITTED


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled entry of x-kubernetes-validations."""

    source: Mapping[str, Any]
    program: Program
    message: Program | None
    kind: FieldErrorKind
    field: str

    @property
    def is_transition(self) -> bool:
        """Whether the rule compares with the old value."""
        return "oldSelf" in self.program.names

    @property
    def optional_old_self(self) -> bool:
        """Whether there need be no old value."""
        return bool(self.source.get("optionalOldSelf"))

    @property
    def shown(self) -> str:
        """The rule as errors name it."""
        return str(self.source.get("message") or self.source["rule"]).strip()


class _OutOfBudgetError(Exception):
    """No further rules are evaluated."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


class Check:
    """One evaluation of the rules of an object.

    Attributes:
        ratcheted: broken rules that an update may leave broken.
    """

    def __init__(self) -> None:
        self.budget = BUDGET
        self.ratcheted: list[FieldError] = []

    def evaluate(self, program: Program, variables: Mapping[str, Any]) -> Any:
        """Evaluate within the budget; raises ExpressionError."""
        meter = Meter(CALL_LIMIT)
        try:
            return program.metered(variables, meter)
        finally:
            self.budget -= meter.spent


class RuleSet:
    """All rules of a schema, compiled.

    Args:
        schema: of the values.
        path: inside the definition's schema.
        correlated: whether the old value can be told.
        forbidden: the part of the schema in which it cannot.
        seen_as: the type of the values, where a rule further up has made it.
        often: how often a value can be there; None: as often as a request has room for.

    Attributes:
        faults: of rules that cannot be used.
        total: the estimated cost of all.
        expensive: the most expensive ones: cost and path.
    """

    def __init__(
        self,
        schema: Schema,
        path: str = "",
        *,
        forbidden: str | None = None,
        seen_as: Declared | None = None,
        often: int | None = 1,
    ) -> None:
        self._schema = schema
        self._rules: list[Rule] = []
        self.faults: list[Fault] = []
        self.total = 0
        self.expensive: list[tuple[int, str]] = []
        sources = schema.source.get("x-kubernetes-validations") or ()
        if sources and seen_as is None:
            seen_as = declared(schema)
        for position, source in enumerate(sources):
            where = f"{paths.join(path, 'x-kubernetes-validations')}[{position}]"
            self._compile(source, where, seen_as, often, forbidden)
        below = _times(often, _occurrences(schema))
        self._properties = {
            name: rules
            for name, child in schema.properties.items()
            if (
                rules := self._child(
                    child,
                    paths.join(path, f"properties[{name}]"),
                    forbidden,
                    _field(seen_as, name),
                    below,
                )
            )
        }
        item = seen_as.item if seen_as else None
        where = paths.join(path, "additionalProperties")
        self._additional = self._child(schema.additional, where, forbidden, item, below)
        in_list = forbidden if schema.list_type == "map" else path
        where = paths.join(path, "items")
        self._items = self._child(schema.items, where, in_list, item, below)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to evaluate here or below."""
        return not (self._rules or self._properties or self._additional or self._items)

    def validate(
        self, value: Any, old: Any = ABSENT, check: Check | None = None
    ) -> Iterator[FieldError]:
        """Yield the rules that a new object, or the change from `old`, breaks."""
        try:
            yield from self.each_broken(check or Check(), value, old, "")
        except _OutOfBudgetError as end:
            yield end.error

    def _child(
        self,
        schema: Schema | None,
        path: str,
        forbidden: str | None,
        seen_as: Declared | None,
        often: int | None,
    ) -> RuleSet | None:
        if schema is None:
            return None
        rules = RuleSet(schema, path, forbidden=forbidden, seen_as=seen_as, often=often)
        self.faults += rules.faults
        self.total = min(self.total + rules.total, MOST)
        self.expensive += rules.expensive
        return None if rules.is_empty else rules

    def _compile(
        self,
        source: Mapping[str, Any],
        path: str,
        seen_as: Declared | None,
        often: int | None,
        forbidden: str | None,
    ) -> None:
        if seen_as is None:
            words = "internal error: failed to construct type information for "
            words += "x-kubernetes-validations rules: unable to convert structural schema to CEL "
            whole = path.rpartition("[")[0]
            self.faults.append(Fault(whole, FieldErrorKind.INTERNAL, f"{words}declarations"))
            return
        variables = _variables(source, seen_as.type)
        where, told = f"{path}.rule", _told(source)
        try:
            program = Program(source["rule"], variables)
        except ExpressionError as error:
            words = f"compilation failed: {error}"
            self.faults.append(Fault(where, FieldErrorKind.INVALID, words, told))
            self._refuse_optional(source, path)
            return
        if program.type != BOOL:
            words = "cel expression must evaluate to a bool"
            self.faults.append(Fault(where, FieldErrorKind.INVALID, words, told))
            self._refuse_optional(source, path)
            return
        if program.instantiation_fault:
            words = f"program instantiation failed: {program.instantiation_fault}"
            self.faults.append(Fault(where, FieldErrorKind.INVALID, words, told))
            return
        times = seen_as.most_often if often is None else often
        self._count(min(program.cost(seen_as.size_of).most * times, MOST), where, "rule")
        message = self._message(source, path, variables, seen_as)
        rule = Rule(source, program, message, _kind(source), field_path(source, self._schema))
        if rule.is_transition and forbidden is not None:
            words = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            fault = Fault(
                where, FieldErrorKind.INVALID, words + f"{{path}}{forbidden}", source["rule"]
            )
            self.faults.append(fault)
        elif not rule.is_transition:
            self._refuse_optional(source, path)
        self._rules.append(rule)

    def _refuse_optional(self, source: Mapping[str, Any], path: str) -> None:
        given = source.get("optionalOldSelf")
        if given is not None:
            words = "may not be set if oldSelf is not used in rule"
            where = f"{path}.optionalOldSelf"
            self.faults.append(Fault(where, FieldErrorKind.INVALID, words, given))

    def _count(self, cost: int, path: str, what: str) -> None:
        if cost > RULE_LIMIT:
            words = cost_words(f"estimated {what} cost", cost, RULE_LIMIT)
            self.faults.append(Fault(path, FieldErrorKind.FORBIDDEN, words))
        self.total = min(self.total + cost, MOST)
        self.expensive.append((cost, path))

    def _message(
        self,
        source: Mapping[str, Any],
        path: str,
        variables: Mapping[str, Type],
        seen_as: Declared,
    ) -> Program | None:
        text = source.get("messageExpression")
        if not text:
            return None
        where, told = f"{path}.messageExpression", _told(source)
        try:
            program = Program(text, variables)
        except ExpressionError as error:
            words = f"messageExpression compilation failed: {error}"
            self.faults.append(Fault(where, FieldErrorKind.INVALID, words, told))
            return None
        if program.type != STRING:
            words = "messageExpression must evaluate to a string"
            self.faults.append(Fault(where, FieldErrorKind.INVALID, words, told))
            return None
        self._count(program.cost(seen_as.size_of).most, where, "messageExpression")
        return program

    def each_broken(self, check: Check, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        """Yield what `validate` does, of values at a path; raises where the budget is spent."""
        if value is None:
            return
        if self._rules:
            yield from self._check_rules(check, value, old, path)
        for child, rules, before, where in self._children(value, old, path):
            yield from rules.each_broken(check, child, before, where)

    def _check_rules(self, check: Check, value: Any, old: Any, path: str) -> Iterator[FieldError]:
        known = old is not ABSENT and old is not None
        unchanged = known and same(value, old)
        me = seen(value, self._schema)
        before = seen(aligned(old, value, self._schema), self._schema) if known else None
        for rule in self._rules:
            if check.budget <= 0:
                raise _OutOfBudgetError(self._fault(path, _EXHAUSTED))
            variables = {"self": me}
            if rule.is_transition:
                if rule.optional_old_self:
                    variables["oldSelf"] = Optional(True, before) if known else NONE
                elif known:
                    variables["oldSelf"] = before
                else:
                    continue
            error = self._broken(check, rule, variables, value, path)
            if error is None:
                continue
            if unchanged and not rule.is_transition:
                check.ratcheted.append(error)
            else:
                yield error

    def _broken(
        self, check: Check, rule: Rule, variables: Mapping[str, Any], value: Any, path: str
    ) -> FieldError | None:
        """What is wrong with `self` among the variables."""
        try:
            holds = check.evaluate(rule.program, variables)
        except CostExceededError as error:
            words = f"'{error}': no further validation rules will be run due to call cost exceeds "
            raise _OutOfBudgetError(
                self._fault(path, f"{words}limit for rule: {rule.shown}")
            ) from None
        except ExpressionError as error:
            return self._fault(path, _failure(error, rule))
        if check.budget < 0:
            raise _OutOfBudgetError(self._fault(path, _EXHAUSTED))
        if holds is True:
            return None
        shown = OMITTED if self._schema.type in ("object", "array") else value
        where = paths.shown((path + rule.field).lstrip("."))
        return FieldError(where, rule.kind, self._words(check, rule, variables, path), shown)

    def _fault(self, path: str, words: str) -> FieldError:
        shown = self._schema.type
        return FieldError(paths.shown(path), FieldErrorKind.INVALID, words, shown)

    def _words(self, check: Check, rule: Rule, variables: Mapping[str, Any], path: str) -> str:
        if rule.message is not None:
            try:
                text = check.evaluate(rule.message, variables)
            except CostExceededError:
                words = (
                    "no further validation rules will be run due to call cost exceeds limit for "
                )
                words += f"messageExpression: {_quoted(rule.source['messageExpression'])}"
                raise _OutOfBudgetError(self._fault(path, words)) from None
            except ExpressionError:
                text = ""
            if isinstance(text, str) and is_message(text.strip()):
                return text.strip()
        if rule.kind is FieldErrorKind.DUPLICATE:
            return ""
        given = rule.source.get("message")
        return str(given).strip() if given else f"failed rule: {rule.shown}"

    def _children(self, value: Any, old: Any, path: str) -> Iterator[tuple[Any, RuleSet, Any, str]]:
        if isinstance(value, dict):
            olds = old if isinstance(old, dict) else {}
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
                before = olds_by_key.get(identity, ABSENT)
                yield item, self._items, before, paths.index(path, position)


def is_message(text: str) -> bool:
    """Whether an expression's text can be a message: one line, neither empty nor too long."""
    return bool(text) and "\n" not in text and "\r" not in text and len(text) <= _LONGEST_MESSAGE


def _failure(error: ExpressionError, rule: Rule) -> str:
    if str(error).startswith("no such overload"):
        words = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {words} for rule: {rule.shown}"
    return f"{error} evaluating rule: {rule.shown}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _variables(source: Mapping[str, Any], me: Type) -> Mapping[str, Type]:
    old = optional(me) if source.get("optionalOldSelf") else me
    return {"self": me, "oldSelf": old}


def _kind(source: Mapping[str, Any]) -> FieldErrorKind:
    return FieldErrorKind(source.get("reason") or FieldErrorKind.INVALID)


def _told(source: Mapping[str, Any]) -> dict[str, Any]:
    """A rule as errors about it show it."""
    return {
        "Rule": source.get("rule", ""),
        "Message": source.get("message", ""),
        "MessageExpression": source.get("messageExpression", ""),
        "Reason": source.get("reason"),
        "FieldPath": source.get("fieldPath", ""),
        "OptionalOldSelf": source.get("optionalOldSelf"),
    }


def _field(seen_as: Declared | None, name: str) -> Declared | None:
    return seen_as.fields.get(escape(name)) if seen_as else None


def _occurrences(schema: Schema) -> int | None:
    """How often what is below can be in one value; None: there is no bound."""
    source = schema.source
    if schema.type == "object" and (schema.additional is not None or schema.any_additional):
        most = source.get("maxProperties")
    elif schema.type == "array":
        most = source.get("maxItems")
    else:
        return 1
    return None if most is None else max(most, 0)


def _times(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one * other, MOST)
