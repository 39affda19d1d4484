"""CEL about requests: what narrows webhooks and policies down, and what policies demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from dynamo_operator.apiserver.admission_requests import AdmissionRequest
from dynamo_operator.apiserver.expressions.program import Program
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.expressions.types import BOOL, DYN, STRING, Type

_REQUEST: Final[Mapping[str, Type]] = {name: DYN for name in ("object", "oldObject", "request")}
_REMEMBERED: Final = 1000


class ConditionError(ExpressionError):
    """A condition cannot be evaluated; says which."""


def request_variables(request: AdmissionRequest) -> dict[str, Any]:
    """Return what expressions see of a request."""
    review = request.to_review()
    about = {name: v for name, v in review.items() if name not in ("object", "oldObject")}
    return {"object": request.new, "oldObject": request.old, "request": about}


@lru_cache(maxsize=_REMEMBERED)
def compiled_condition(source: str) -> Program:
    """Compile an expression about a request that is true or false.

    Raises:
        ExpressionError: it is none.
    """
    return _program(source, _REQUEST, BOOL)


@dataclass(frozen=True, slots=True)
class PolicyCompiler:
    """Compiles the expressions of a policy, which may name what the policy declares.

    Each method raises ExpressionError for what is no expression of that type.
    """

    has_params: bool
    has_variables: bool

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> PolicyCompiler:
        """Return the compiler for a policy."""
        return cls(spec.get("paramKind") is not None, bool(spec.get("variables")))

    def validation(self, source: str) -> Program:
        """Compile what a policy demands: true or false."""
        return _compiled(source, self._names, BOOL)

    def text(self, source: str) -> Program:
        """Compile what a policy says."""
        return _compiled(source, self._names, STRING)

    def variable(self, source: str) -> Program:
        """Compile a value of any type."""
        return _compiled(source, self._names, None)

    @property
    def _names(self) -> frozenset[str]:
        names = {*_REQUEST, "namespaceObject"}
        if self.has_params:
            names.add("params")
        if self.has_variables:
            names.add("variables")
        return frozenset(names)


def conditions_hold(conditions: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]) -> bool:
    """Whether all `matchConditions` hold; one that does not settles it whatever others do.

    Raises:
        ConditionError: none is false, and one cannot be evaluated.
    """
    failure: ConditionError | None = None
    for condition in conditions:
        source = condition["expression"]
        try:
            if compiled_condition(source).evaluate(variables) is not True:
                return False
        except ExpressionError as error:
            text = f"expression '{source}' resulted in error: {error}"
            failure = failure or ConditionError(text)
    if failure is not None:
        raise failure
    return True


@lru_cache(maxsize=_REMEMBERED)
def _compiled(source: str, names: frozenset[str], result: Type | None) -> Program:
    return _program(source, dict.fromkeys(names, DYN), result)


def _program(source: str, variables: Mapping[str, Type], result: Type | None) -> Program:
    program = Program(source, variables)
    if result is not None and program.type != result:
        raise ExpressionError(f"must evaluate to {result} but got {program.type}")
    return program
