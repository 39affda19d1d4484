"""The effective input value by value, each with the layer that it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dynamo_operator.aisimulate.lowering import Lowered, lower
from dynamo_operator.aisimulate.overrides import PROTECTED_KEYS, LoweringError, Origin, OriginKind
from dynamo_operator.aisimulate.violations import at
from dynamo_operator.api.planner_contract import OUTPUT_ADAPTER
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun, SearchSpec
from dynamo_operator.cli.errors import USAGE, CliError

FOR_EACH_RUN: Final = "(set for each Run)"
"""In place of a value that only the operator knows, and only once there is a Run."""

_DEFAULT: Final = "default"
_DISCOVERED: Final = "discovered"
_HARDWARE: Final = "spec.hardware.gpu."


@dataclass(frozen=True, slots=True)
class ExplainedValue:
    """One value of the effective input.

    Args:
        path: where it is.
        value: the value; FOR_EACH_RUN when it is not known yet.
        origin: its layer.
        field: the field of the spec that says so, or "".
        filled: "default" or "discovered" when nobody typed the field; "" else.
    """

    path: tuple[str, ...]
    value: Any
    origin: OriginKind
    field: str = ""
    filled: str = ""

    @property
    def told(self) -> str:
        """Origin, field and how it was filled, as people read it."""
        where = f", {self.field}" if self.field else ""
        return f"{self.origin}{where}{f' ({self.filled})' if self.filled else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; without `value` when that is not known yet."""
        known = {} if self.value == FOR_EACH_RUN else {"value": self.value}
        told = {"origin": str(self.origin), "field": self.field, "filled": self.filled}
        return {"path": list(self.path), **known, **{k: v for k, v in told.items() if v}}


@dataclass(frozen=True, slots=True)
class EffectiveInput:
    """A document and where each of its values comes from."""

    document: dict[str, Any]
    values: tuple[ExplainedValue, ...]


def explain_spec(spec: SearchSpec, *, written: Mapping[str, Any] | None = None) -> EffectiveInput:
    """Return the effective input of a completed spec that has no Run yet.

    Args:
        spec: as admission completed it.
        written: the spec as it was typed, which tells defaults apart; None: that is not known.

    Raises:
        CliError: it cannot be lowered.
    """
    lowered = _lowered(spec)
    values = [*_explained(lowered.document, lowered, written)]
    values += [
        ExplainedValue((OUTPUT_ADAPTER, key), FOR_EACH_RUN, OriginKind.OPERATOR)
        for key in PROTECTED_KEYS
        if at(lowered.document, OUTPUT_ADAPTER, key) is None
    ]
    return EffectiveInput(lowered.document, tuple(values))


def explain_run(run: DynamoGraphDeploymentRun) -> EffectiveInput:
    """Return the effective input of a Run: what its Job reads.

    Raises:
        CliError: the operator has not lowered it yet, and it cannot be lowered here.
    """
    document = run.status.aisimulate.input if run.status.aisimulate else None
    if document is None:
        return explain_spec(run.spec)
    return EffectiveInput(document, tuple(_explained(document, _lowered(run.spec), None)))


def _lowered(spec: SearchSpec) -> Lowered:
    try:
        return lower(spec)
    except LoweringError as error:
        raise CliError(str(error), exit_code=USAGE) from None


def _explained(
    document: Mapping[str, Any], lowered: Lowered, written: Mapping[str, Any] | None
) -> Iterator[ExplainedValue]:
    for path, value in _leaves(document, ()):
        origin = _origin(path, lowered)
        filled = ""
        if origin.kind is OriginKind.TYPED and written is not None:
            filled = _filled(origin.field, written)
        yield ExplainedValue(path, value, origin.kind, origin.field, filled)


def _origin(path: tuple[str, ...], lowered: Lowered) -> Origin:
    if path[0] == OUTPUT_ADAPTER and path[-1] in PROTECTED_KEYS and path[-1] != "max_candidates":
        return Origin(OriginKind.OPERATOR)
    return lowered.origin_of(path) or Origin(OriginKind.OPERATOR)


def _filled(field: str, written: Mapping[str, Any]) -> str:
    _, *keys = field.split(".")
    if at(written, *keys) is not None:
        return ""
    return _DISCOVERED if field.startswith(_HARDWARE) else _DEFAULT


def _leaves(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    for key, value in node.items():
        here = (*path, key)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, here)
        else:
            yield here, value
