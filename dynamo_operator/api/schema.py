"""What a kind's class says about its CRD beyond the types: bounds, rules, columns.

Reading never enforces these: the API server has, and an object that an older schema admitted must
still decode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator


class Schema:
    """Annotation of a field: its description and OpenAPI keywords, as the CRD spells them.

    Example:
        >>> Schema("Tokens of a prompt.", minimum=1).keywords
        {'minimum': 1}
    """

    __slots__ = ("description", "keywords", "rules")

    def __init__(self, description: str = "", *rules: Rule, **keywords: Any) -> None:
        self.description = description
        self.rules = rules
        self.keywords = keywords


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule; `message` says what would be accepted. `field` is relative, e.g. `.spec`."""

    rule: str
    message: str
    field: str = ""


IMMUTABLE_SPEC = Rule("dyn(self).spec == dyn(oldSelf).spec", "spec is immutable", ".spec")
"""Rule of a kind whose `spec` is required. It stands on the root, which is always there; `dyn`,
because a rule may not name a field of any content."""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`; `wide` shows it only with `-o wide`."""

    name: str
    type: str
    json_path: str
    description: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Presentation:
    """What a CRD says of a kind as a whole."""

    description: str
    short_name: str
    columns: tuple[PrinterColumn, ...]
    categories: tuple[str, ...] = ("dynamo",)
    rules: tuple[Rule, ...] = ()


def canonical_number(value: Any) -> Any:
    """Return integral floats as integers, as the API server stores them; anything else as it is."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")


def columns(*listed: PrinterColumn) -> tuple[PrinterColumn, ...]:
    """Return the columns, Age, and the wide ones."""
    narrow = (column for column in listed if not column.wide)
    return (*narrow, _AGE, *(column for column in listed if column.wide))


def reason_column(name: str) -> PrinterColumn:
    """Return the wide column that shows a condition's reason."""
    path = f'.status.conditions[?(@.type=="{name}")].reason'
    return PrinterColumn("Reason", "string", path, wide=True)


def condition_column(name: str) -> PrinterColumn:
    """Return the column that shows a condition's status."""
    return PrinterColumn(str(name), "string", f'.status.conditions[?(@.type=="{name}")].status')


def _number_of(unit: str = "") -> BeforeValidator:
    def check(value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be a number{unit}, not {value!r}")
        canonical: int | float = canonical_number(value)
        return canonical

    return BeforeValidator(check)


def _integer(value: Any) -> int:
    number = canonical_number(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"must be an integer, not {value!r}")
    return number


Integer = Annotated[int, BeforeValidator(_integer)]
"""An integer; 20.0 is 20, while "20" and true are refused."""

Number = Annotated[int | float, _number_of()]
"""A number whose integral values are integers; "20" and true are refused."""

Milliseconds = Annotated[int | float, _number_of(" of milliseconds")]
"""A `Number` that says its unit when it is given another."""

POSITIVE: dict[str, Any] = {"minimum": 0, "exclusiveMinimum": True}
"""Keywords of a number above zero."""

COUNT: dict[str, Any] = {"minimum": 1, "maximum": 2**31 - 1}
"""Keywords of an integer of at least one."""

Quantity = Annotated[
    int | str,
    Schema(
        "A number, or a text such as 500m or 4Gi.",
        maxLength=64,
        pattern=r"^\+?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][-+]?[0-9]+))?$",
    ),
]
"""A Kubernetes quantity that is not negative."""
