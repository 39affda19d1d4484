"""This module says what a built-in kind must tell about itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dynamo_operator.apiserver.resources import Column, Object
from dynamo_operator.apiserver.status import OMITTED, FieldError, FieldErrorKind

Errors = Iterator[FieldError]
Default = Callable[[Object], None]
Validate = Callable[[Object], Errors]
ValidateChange = Callable[[Object, Object], Errors]

_NO_SELECTABLE: Final[Mapping[str, str]] = {}


def nothing(obj: Object) -> None:
    """Default nothing."""


def _accept(obj: Object) -> Errors:
    """Find nothing wrong."""
    return iter(())


def _accept_change(new: Object, old: Object) -> Errors:
    """Find nothing wrong."""
    return iter(())


def _carry_nothing(new: Object, old: Object) -> None:
    """Keep nothing from the old object."""


@dataclass(frozen=True, slots=True)
class Part:
    """A field of the spec that a subresource writes, and nothing else.

    Args:
        field: its name.
        validate_update: of a change of it.
    """

    field: str
    validate_update: ValidateChange


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRules:
    """What is particular to one built-in kind. Functions that default change their argument.

    Args:
        schema: OpenAPI of the object without apiVersion, kind and metadata.
        has_status: whether status is written through a subresource only.
        status_on_create: whether a new object may bring its status.
        kept_by_status: fields of metadata that the status subresource does not write.
        default_status: defaulting of what the status subresource writes.
        has_generation: whether the kind counts generations.
        generation_fields: the dotted paths of the fields a change of which counts.
        unknown: unknown fields inside what the schema leaves free.
        created: what the server sets on a new object before defaulting.
        default: defaulting of new and changed objects.
        carry: what a changed object keeps of the old one when it leaves it out.
        validate: of a new object, and of the new state of a changed one.
        validate_new: of a new object only.
        validate_update: of a change of the main resource.
        validate_status: of a change through the status subresource.
        parts: subresources that write a part of the spec which plain updates may not.
        warn: texts for Warning headers.
        warn_new: more of them, about a new object.
        warn_at_once: those about a new object that are told even if it is refused.
        columns: columns after Name; () for Name and Age only.
        selectable: field selector to path of plain fields, beside metadata's.
    """

    schema: Mapping[str, Any]
    has_status: bool = False
    status_on_create: bool = False
    kept_by_status: tuple[str, ...] = ()
    default_status: Default = nothing
    has_generation: bool = False
    generation_fields: tuple[str, ...] = ("spec",)
    unknown: Callable[[Object], Iterable[str]] = field(default=lambda obj: ())
    created: Default = nothing
    default: Default = nothing
    carry: Callable[[Object, Object], None] = _carry_nothing
    validate: Validate = _accept
    validate_new: Validate = _accept
    validate_update: ValidateChange = _accept_change
    validate_status: ValidateChange = _accept_change
    parts: Mapping[str, Part] = field(default_factory=dict)
    warn: Callable[[Object], list[str]] = field(default=lambda obj: [])
    warn_new: Callable[[Object], list[str]] = field(default=lambda obj: [])
    warn_at_once: Callable[[Object], list[str]] = field(default=lambda obj: [])
    columns: Sequence[Column] = ()
    selectable: Mapping[str, str] = field(default_factory=lambda: _NO_SELECTABLE)


Kinds = Mapping[tuple[str, str], KindRules]


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """An unacceptable value."""
    return FieldError(path, FieldErrorKind.INVALID, detail, value)


def problems(path: str, value: Any, details: Iterable[str]) -> Errors:
    """One error for each problem with a value."""
    return (invalid(path, value, detail) for detail in details)


def required(path: str, detail: str = "") -> FieldError:
    """A value that is absent or empty."""
    return FieldError(path, FieldErrorKind.REQUIRED, detail)


def forbidden(path: str, detail: str) -> FieldError:
    """A value that may not be there, or not change."""
    return FieldError(path, FieldErrorKind.FORBIDDEN, detail)


def duplicate(path: str, value: Any) -> FieldError:
    """A value that must be unique and is not."""
    return FieldError(path, FieldErrorKind.DUPLICATE, "", value)


def not_found(path: str, value: Any) -> FieldError:
    """A name that names nothing."""
    return FieldError(path, FieldErrorKind.NOT_FOUND, "", value)


def too_long(path: str, most: int, value: Any = OMITTED) -> FieldError:
    """A text of too many bytes."""
    return FieldError(path, FieldErrorKind.TOO_LONG, f"may not be more than {most} bytes", value)


def supported(path: str, value: Any, allowed: Sequence[str]) -> Errors:
    """An error unless the value is one of those allowed."""
    if value not in allowed:
        names = ", ".join(json.dumps(one) for one in sorted(allowed))
        yield FieldError(path, FieldErrorKind.NOT_SUPPORTED, f"supported values: {names}", value)


def at_least(path: str, value: Any, least: int) -> Errors:
    """An error when a number is given and too small."""
    if isinstance(value, int) and value < least:
        yield invalid(path, value, f"must be greater than or equal to {least}")


def immutable(path: str, new: Any, old: Any) -> Errors:
    """An error when a value changed that must not."""
    if new != old:
        yield invalid(path, new, "field is immutable")
