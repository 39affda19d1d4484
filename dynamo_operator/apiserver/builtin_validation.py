"""This module is the strategy of built-in kinds: it runs what `kinds` says about each."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from dynamo_operator.apiserver import paths
from dynamo_operator.apiserver.builtin_schemas import builtin_schema, kind_rules
from dynamo_operator.apiserver.kinds.rules import nothing
from dynamo_operator.apiserver.kinds.zero_values import filled, zero_value
from dynamo_operator.apiserver.quantities import NoQuantityError
from dynamo_operator.apiserver.resources import Column, Object
from dynamo_operator.apiserver.schema import (
    Schema,
    apply_defaults,
    drop_empty,
    drop_nulls,
    prune,
    unknown_fields,
)
from dynamo_operator.apiserver.schema_validation import Validator
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind, StatusError, bad_request
from dynamo_operator.apiserver.value_checks import same


class BuiltinStrategy:
    """What one built-in kind says about its objects; compiled when the first of them comes."""

    def __init__(self, group: str, kind: str) -> None:
        self._name = (group, kind)
        self._rules = rules = kind_rules(group, kind)
        self.zero_value: Mapping[str, Any] = zero_value(group, kind)
        self.completes_new = rules.has_status or rules.created is not nothing
        self.columns: Sequence[Column] = rules.columns
        self.has_generation = rules.has_generation

    @property
    def schema(self) -> Schema | None:
        """The schema of whole objects."""
        return self._root

    @cached_property
    def _root(self) -> Schema:
        return builtin_schema(*self._name)

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self._root)

    def unknown_fields(self, obj: Object) -> list[str]:
        """Return the paths that pruning drops."""
        plain, free = unknown_fields(obj, self._root), list(self._rules.unknown(obj))
        return sorted([*plain, *free], key=_position_in(obj)) if free else plain

    def decoded(self, obj: Object) -> Object:
        """Prune and default what a client sent.

        Raises:
            StatusError: 400 for a field of the wrong type.
        """
        result = self._decoded(obj)
        self._default(result)
        return result

    def prepare_create(self, obj: Object) -> Object:
        """Prune and default, and set what the server sets on a new object.

        Raises:
            StatusError: 400 for a field of the wrong type.
        """
        if self._rules.has_status and not self._rules.status_on_create:
            obj = {name: value for name, value in obj.items() if name != "status"}
        result = self._decoded(obj)
        if self._rules.has_status:
            result.setdefault("status", {})
        self._default(result)
        self._rules.created(result)
        return self._with_zero_values(result)

    def nulls_written(self, obj: Object) -> list[FieldError]:
        """Return nothing: null means absent."""
        return []

    def prepare_update(self, new: Object, old: Object, subresource: str) -> Object:
        """Prune and default, and keep what this subresource does not write.

        Raises:
            StatusError: 400 for a field of the wrong type.
        """
        if subresource in self._rules.parts:
            new = _with_part(new, old, self._rules.parts[subresource].field)
        result = self._decoded(new)
        if subresource == "status":
            kept = {k: v for k, v in old.items() if k not in ("metadata", "status")}
            metadata = {f: old["metadata"].get(f) for f in self._rules.kept_by_status}
            metadata = {
                k: v for k, v in {**result["metadata"], **metadata}.items() if v is not None
            }
            kept |= {"metadata": metadata, "status": result.get("status") or {}}
            written: Object = prune(kept, self._root)
            self._rules.default_status(written)
            return self._with_zero_values(written)
        if self._rules.has_status:
            result["status"] = prune(old.get("status") or {}, self._root.child("status"))
        if not subresource:
            self._rules.carry(result, old)
        self._default(result)
        return self._with_zero_values(result)

    def validate_create(self, obj: Object, found: Sequence[FieldError] = ()) -> list[FieldError]:
        """Return what is wrong with a new object."""
        return [*self._rules.validate(obj), *self._rules.validate_new(obj)]

    def validate_update(
        self, new: Object, old: Object, subresource: str, found: Sequence[FieldError] = ()
    ) -> list[FieldError]:
        """Return what is wrong with a change."""
        if subresource == "status":
            return list(self._rules.validate_status(new, old))
        errors = list(self._rules.validate(new))
        if errors:  # a stored object may be older than a rule
            already = set(map(str, self._rules.validate(old)))
            errors = [error for error in errors if str(error) not in already]
        if subresource in self._rules.parts:
            return errors + list(self._rules.parts[subresource].validate_update(new, old))
        return errors + list(self._rules.validate_update(new, old))

    def as_read(self, obj: Object) -> Object:
        """Return the object defaulted once more: what the server set may have defaults."""
        result = copy.deepcopy(obj)
        self._default(result)
        return result

    def warnings_at_once(self, obj: Object) -> list[str]:
        """Return texts for Warning headers about a new object, told even if it is refused."""
        return self._rules.warn_at_once(obj)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Return texts for Warning headers."""
        return [*(self._rules.warn_new(obj) if old is None else ()), *self._rules.warn(obj)]

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields that field selectors of this kind may name."""
        return {
            path: _text(paths.lookup(obj, tuple(path.split("."))), default)
            for path, default in self._rules.selectable.items()
        }

    def bumps_generation(self, new: Object, old: Object) -> bool:
        """Whether a field changed that counts."""
        return any(
            not same(_at(new, field), _at(old, field)) for field in self._rules.generation_fields
        )

    def _default(self, obj: Object) -> None:
        try:
            self._rules.default(obj)
        except NoQuantityError as error:
            raise _undecodable(obj, str(error)) from None

    def _with_zero_values(self, obj: Object) -> Object:
        return filled(obj, self.zero_value)  # type: ignore[no-any-return]

    def _decoded(self, obj: Object) -> Object:
        result: Object = prune(obj, self._root)
        drop_nulls(result, self._root, nullable_too=True)
        if self._name[0] != "apiextensions.k8s.io":  # kept as JSON, where nothing is not empty
            drop_empty(result, self._root)
        for error in self._validator.validate(result):
            if error.value == "" and error.detail.endswith('of type byte: ""'):
                continue  # of typed fields, none is no wrong one
            if error.kind is FieldErrorKind.TYPE_INVALID or "must be of type" in error.detail:
                raise _undecodable(result, error.detail)
        apply_defaults(result, self._root)
        return result


def builtin_strategy(group: str, kind: str) -> BuiltinStrategy:
    """Return the strategy of a built-in kind; an unknown one is taken as free of form."""
    return BuiltinStrategy(group, kind)


def _with_part(new: Object, old: Object, field: str) -> Object:
    part = (new.get("spec") or {}).get(field)
    return {**old, "spec": {**old["spec"], field: part}}


def _at(obj: Object, path: str) -> Any:
    return paths.lookup(obj, tuple(path.split("."))) or None


def _undecodable(obj: Object, detail: str) -> StatusError:
    kind, version = obj.get("kind"), str(obj.get("apiVersion", "")).rpartition("/")[2]
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {detail}')


def _text(value: Any, default: str) -> str:
    if value is None:
        return default
    return value if isinstance(value, str) else json.dumps(value)


def _position_in(obj: Object) -> Callable[[str], tuple[int, ...]]:
    """The key that sorts paths in the order of the document, to the second step."""

    def key(path: str) -> tuple[int, ...]:
        first, _, rest = path.partition(".")
        second = rest.partition(".")[0].partition("[")[0]
        inside = obj.get(first)
        names = list(inside) if isinstance(inside, dict) else []
        return (list(obj).index(first), names.index(second) if second in names else 0)

    return key
