"""This module checks objects against structural schemas, in the API server's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from dynamo_operator.apiserver import paths
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.value_checks import (
    TYPE_TESTS,
    enum_check,
    map_key,
    out_of_width,
    same,
    type_error,
    value_checks,
)

_ABSENT: Final = object()
_NULL: Final = "\0"
_WIDTHS: Final = ("int32", "int64")


class Validator:
    """A schema compiled to checks. Immutable; safe to share."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._checks = list(value_checks(schema.source, schema))
        self._properties = {name: Validator(child) for name, child in schema.properties.items()}
        self._additional = Validator(schema.additional) if schema.additional else None
        self._items = Validator(schema.items) if schema.items else None
        self._type_test = TYPE_TESTS.get(schema.type)

    def validate(self, value: Any, path: str = "") -> Iterator[FieldError]:
        """Yield everything wrong with `value`, in document order."""
        own = self._own_errors(value, path)
        if own is None:
            return
        yield from own
        for child, validator, where, _ in self._children(value, None, path):
            yield from validator.validate(child, where)

    def validate_change(self, new: Any, old: Any, path: str = "") -> Iterator[FieldError]:
        """Yield what is wrong with `new` outside the parts that `old` already had.

        An unchanged part that today's schema refuses does not block an update; items of map lists
        are compared by key, those of other lists only as a whole.
        """
        if same(new, old):
            return
        own = self._own_errors(new, path)
        if own is None:
            return
        yield from own
        for child, validator, where, before in self._children(new, old, path):
            if before is _ABSENT:
                yield from validator.validate(child, where)
            else:
                yield from validator.validate_change(child, before, where)

    def _own_errors(self, value: Any, path: str) -> list[FieldError] | None:
        """What is wrong with the value alone; None where nothing below it can be looked at."""
        if value is None and self._schema.nullable:
            return self._enum_errors(value, path) or None
        if not self._right_type(value):
            return [*self._type_errors(value, path), *self._enum_errors(value, path)]
        return [error for check in self._checks for error in check(value, path)]

    def _enum_errors(self, value: Any, path: str) -> list[FieldError]:
        """What enums say of a value, which they look at whatever its type."""
        allowed = self._schema.source.get("enum")
        if not allowed:
            return []
        looked_at = value if value is not None else _NULL  # which no enum has, whatever it lists
        return [replace(e, value=value) for e in enum_check(allowed)(looked_at, path)]

    def _type_errors(self, value: Any, path: str) -> list[FieldError]:
        form = self._schema.source.get("format", "")
        if self._schema.type != "integer":
            return [type_error(path, self._schema.type or "integer,string", value)]
        if isinstance(value, (bool, dict)) and form in _WIDTHS:
            where = f"{path} in body must be of type {form}: "
            return [FieldError(path, FieldErrorKind.TYPE_INVALID, f'{where}""', "")]
        if not isinstance(value, float):
            return [type_error(path, "integer", value)]
        own = type_error(path, "integer", value)
        if form in _WIDTHS:
            words = f'{path} in body must be of type {form}: "float64"'
            own = FieldError(path, FieldErrorKind.TYPE_INVALID, words, "float64")
        return [own, out_of_width(path, form if form in _WIDTHS else "")]

    def _right_type(self, value: Any) -> bool:
        if self._schema.int_or_string:
            return isinstance(value, str) or TYPE_TESTS["integer"](value)
        return self._type_test is None or self._type_test(value)

    def _children(
        self, value: Any, old: Any, path: str
    ) -> Iterable[tuple[Any, Validator, str, Any]]:
        if isinstance(value, dict):
            before = old if isinstance(old, dict) and not self._schema.atomic_map else {}
            for name, child in value.items():
                if name in self._properties:
                    yield (
                        child,
                        self._properties[name],
                        paths.join(path, name),
                        before.get(name, _ABSENT),
                    )
                elif self._additional is not None:
                    yield child, self._additional, paths.join(path, name), before.get(name, _ABSENT)
        elif isinstance(value, list) and self._items is not None:
            old_items = old if isinstance(old, list) else []
            matched = _by_key(old_items, self._schema)
            for position, item in enumerate(value):
                yield item, self._items, paths.index(path, position), matched(item)


def _by_key(old_items: list[Any], schema: Schema) -> Callable[[Any], Any]:
    if schema.list_type != "map":
        return lambda item: _ABSENT
    table = {map_key(item, schema.list_keys, schema.items): item for item in old_items}
    return lambda item: table.get(map_key(item, schema.list_keys, schema.items), _ABSENT)
