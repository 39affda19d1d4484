"""An expression from its source to its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dynamo_operator.apiserver.expressions.authorization import AUTHORIZATION
from dynamo_operator.apiserver.expressions.checker import (
    Checker,
    Environment,
    Messages,
    children,
    no_messages,
)
from dynamo_operator.apiserver.expressions.costs import Estimator, Range, SizeOf
from dynamo_operator.apiserver.expressions.declarations import Functions, declared
from dynamo_operator.apiserver.expressions.evaluation import Frame, Meter, compiled
from dynamo_operator.apiserver.expressions.kubernetes import KUBERNETES, PATCHING
from dynamo_operator.apiserver.expressions.literals import instantiation_fault, literal_faults
from dynamo_operator.apiserver.expressions.parser import parse
from dynamo_operator.apiserver.expressions.standard import FUNCTIONS, OPERATORS
from dynamo_operator.apiserver.expressions.syntax import (
    ExpressionError,
    Name,
    Node,
    SyntaxFault,
    location,
)
from dynamo_operator.apiserver.expressions.texts import LISTS, TEXTS
from dynamo_operator.apiserver.expressions.types import Type

CALL_LIMIT: Final = 1_000_000
"""What evaluating one expression may cost."""
_LIBRARY: Final = (OPERATORS, FUNCTIONS, TEXTS, LISTS, KUBERNETES, AUTHORIZATION)
LIBRARY: Final[Functions] = declared(*_LIBRARY)
"""The functions that every expression may call."""
PATCH_LIBRARY: Final[Functions] = declared(*_LIBRARY, PATCHING)
"""With those that only expressions which make patches may call."""


class CompilationError(ExpressionError):
    """Source that cannot be compiled.

    The text is `ERROR: <input>:LINE:COLUMN: what is wrong`, then the line and a mark below it.
    """

    def __init__(self, source: str, faults: Sequence[tuple[int, str]]) -> None:
        told = []
        for position, words in sorted(faults, key=lambda fault: fault[0]):
            line, column = location(source, position)
            shown = source.split("\n")[line - 1]
            mark = "." * (column - 1) + "^"
            told.append(f"ERROR: <input>:{line}:{column}: {words}\n | {shown}\n | {mark}")
        super().__init__("\n".join(told))


class Program:
    """A compiled expression.

    Args:
        source: the text.
        variables: what it may name, and their types.
        functions: what it may call.
        messages: the types of the messages that it may make.

    Attributes:
        type: of its value.
        instantiation_fault: what keeps it from being evaluated at all; mostly nothing.

    Raises:
        CompilationError: it is no expression, or its types do not fit.
    """

    def __init__(
        self,
        source: str,
        variables: Mapping[str, Type],
        functions: Functions = LIBRARY,
        messages: Messages = no_messages,
    ) -> None:
        self.source = source
        try:
            self._tree = parse(source)
        except SyntaxFault as fault:
            raise CompilationError(source, [(fault.position, fault.message)]) from None
        checker = Checker(Environment(variables, functions, messages))
        self.type = checker.check(self._tree)
        faults = checker.faults or list(literal_faults(self._tree))
        if faults:
            raise CompilationError(source, faults)
        self.instantiation_fault = instantiation_fault(self._tree)
        self._evaluate: Callable[[Frame], Any] = compiled(self._tree)
        self.names = frozenset(_names(self._tree))

    def evaluate(self, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> Any:
        """Return the value.

        Args:
            variables: their values; a function is called when its value is asked for.
            limit: what it may cost.

        Raises:
            ExpressionError: evaluation fails, e.g. for an absent key.
        """
        return self.metered(variables, Meter(limit))

    def metered(self, variables: Mapping[str, Any], meter: Meter) -> Any:
        """Return the value, its cost added to the meter; raises as `evaluate` does."""
        return self._evaluate(Frame(dict(variables), meter))

    def cost(self, size_of: SizeOf) -> Range:
        """Return what evaluating can cost, given how large variables are."""
        return Estimator(size_of).cost(self._tree)


def _names(node: Node) -> set[str]:
    found = {node.name} if isinstance(node, Name) else set()
    for child in children(node):
        found |= _names(child)
    return found
