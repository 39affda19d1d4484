"""Reads a spec as it was written, before any schema has seen it."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from dynamo_operator.admission.denials import Denial
from dynamo_operator.aisimulate.overrides import DEEPEST, OVERRIDES_FIELD, is_too_deep
from dynamo_operator.aisimulate.violations import dotted, shown
from dynamo_operator.api.v1beta2 import SearchSpec

_DEEPEST: Final = DEEPEST + len(OVERRIDES_FIELD.split("."))


def read_spec(raw: Any) -> SearchSpec:
    """Return the spec that plain JSON holds.

    Raises:
        Denial: values have the wrong type; every one of them is named. Or it is nested too deep
            for anything that is to be done with it.
    """
    if is_too_deep(raw, _DEEPEST):
        raise Denial("spec", f"is nested deeper than {_DEEPEST} levels")
    try:
        return SearchSpec.model_validate(raw)
    except ValidationError as error:
        faults = [_fault(each["loc"], each["type"], each) for each in error.errors()]
        first, *rest = faults
        reason = first[1] + "".join(f"; {field}: {why}" for field, why in rest)
        raise Denial(first[0], reason) from None


def _fault(location: tuple[int | str, ...], kind: str, error: Any) -> tuple[str, str]:
    field = dotted(("spec", *location))
    if kind == "missing":
        return field, "is missing"
    if kind == "value_error":
        return field, str(error["ctx"]["error"])
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return field, f"must be an object, not {shown(error['input'])}"
    return field, f"{error['msg'][0].lower()}{error['msg'][1:]}, not {shown(error['input'])}"
