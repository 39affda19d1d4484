"""This module is the strategy of custom resources: everything their CRD's version declares."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from dynamo_operator.apiserver import paths
from dynamo_operator.apiserver.json_paths import JsonPath
from dynamo_operator.apiserver.object_metadata import (
    dns1035_label,
    qualified_name,
    validate_labels,
)
from dynamo_operator.apiserver.resources import Column, Object
from dynamo_operator.apiserver.schema import (
    Schema,
    apply_defaults,
    drop_nulls,
    for_each_embedded,
    prune,
    unknown_fields,
)
from dynamo_operator.apiserver.schema_validation import Validator
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.tables import age_since
from dynamo_operator.apiserver.validation_rules import Check, RuleSet
from dynamo_operator.apiserver.value_checks import same

_BLOCKING: Final = frozenset(
    {
        FieldErrorKind.NOT_SUPPORTED,
        FieldErrorKind.REQUIRED,
        FieldErrorKind.TOO_LONG,
        FieldErrorKind.TOO_MANY,
        FieldErrorKind.TYPE_INVALID,
    }
)
"""Errors after which rules are not evaluated: their values may not be what rules expect."""

_UNCHECKED_RULES: Final = FieldError(
    "<nil>",
    FieldErrorKind.INVALID,
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
    None,
)


class CustomResourceStrategy:
    """What one version of a CustomResourceDefinition says about its objects.

    Args:
        schema: of the whole object.
        has_status: whether the status is a subresource.
        columns: of Tables.
        selectable: JSON paths by which field selectors may select.
        rules: of the schema, where they are compiled already.
    """

    has_generation = True
    zero_value: Mapping[str, Any] = {}
    completes_new = False

    def __init__(
        self,
        schema: Schema,
        *,
        has_status: bool,
        columns: Sequence[Column] = (),
        selectable: Sequence[str] = (),
        rules: RuleSet | None = None,
    ) -> None:
        self.schema: Schema | None = schema
        self.columns = columns
        self.rules = rules if rules is not None else RuleSet(schema)
        self._root = schema
        self._validator = Validator(schema)
        self._has_status = has_status
        self._selectable = {path.lstrip("."): JsonPath(path) for path in selectable}

    def unknown_fields(self, obj: Object) -> list[str]:
        """Return the paths that pruning drops."""
        return unknown_fields(obj, self._root)

    def decoded(self, obj: Object) -> Object:
        """Prune and default what a client sent."""
        return self._prepared(obj)

    def prepare_create(self, obj: Object) -> Object:
        """Prune and default; a status is written through its own subresource only."""
        if self._has_status:
            obj = {name: value for name, value in obj.items() if name != "status"}
        return self._prepared(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> Object:
        """Prune and default, and keep what this subresource does not write."""
        if subresource == "status":
            kept = {name: value for name, value in old.items() if name != "status"}
            written = {"status": new["status"]} if "status" in new else {}
            new = {**kept, **written, "metadata": _status_metadata(new, old)}
        elif self._has_status and not subresource:
            new = _with(new, status=old.get("status"))
        return self._prepared(new)

    def nulls_written(self, obj: Object) -> list[FieldError]:
        """Return what refuses the nulls of an object as webhooks left it.

        A client's are dropped when it is read. What a webhook patches is only defaulted.
        """
        kept: Object = prune(obj, self._root)
        drop_nulls(kept, self._root, only_defaulted=True)
        others = list(self._validator.validate(self._prepared(obj)))
        return [error for error in self._validator.validate(kept) if error not in others]

    def validate_create(self, obj: Object, found: Sequence[FieldError] = ()) -> list[FieldError]:
        """Return what schema and rules refuse."""
        errors = [
            *filter(_is_own, self._validator.validate(obj)),
            *embedded_errors(obj, self._root),
        ]
        if _blocks([*found, *errors]):
            return errors if self.rules.is_empty else [*errors, _UNCHECKED_RULES]
        return errors + list(self.rules.validate(obj))

    def validate_update(
        self, new: Object, old: Object, subresource: str, found: Sequence[FieldError] = ()
    ) -> list[FieldError]:
        """Return what schema and rules refuse, unchanged parts excepted."""
        errors = [*filter(_is_own, self._validator.validate_change(new, old))]
        if subresource == "status":  # whose schema is looked at alone
            errors = [
                dataclasses.replace(e, detail=e.detail.removeprefix("status.")) for e in errors
            ]
        already = set(embedded_errors(old, self._root))
        errors += [e for e in embedded_errors(new, self._root) if e not in already]
        if _blocks([*found, *errors]):
            return errors if self.rules.is_empty else [*errors, _UNCHECKED_RULES]
        return errors + list(self.rules.validate(new, old))

    def as_read(self, obj: Object) -> Object:
        """Return the object."""
        return obj

    def warnings_at_once(self, obj: Object) -> list[str]:
        """Return none."""
        return []

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Return the rules that the object breaks where it was as it is."""
        if old is None or self.rules.is_empty:
            return []
        check = Check()
        for _ in self.rules.validate(obj, old, check):
            pass
        return [str(error) for error in check.ratcheted]

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the CRD's selectable fields."""
        return {name: _selector_text(path.first(obj)) for name, path in self._selectable.items()}

    def bumps_generation(self, new: Object, old: Object) -> bool:
        """Whether anything but metadata, and status where it is a subresource, changed."""
        ignored = {"metadata", "status"} if self._has_status else {"metadata"}
        before, after = ({k: v for k, v in o.items() if k not in ignored} for o in (old, new))
        return not same(before, after)

    def _prepared(self, obj: Object) -> Object:
        result: Object = prune(obj, self._root)
        drop_nulls(result, self._root)
        apply_defaults(result, self._root)
        return result


def printer_column(definition: Mapping[str, Any]) -> Column:
    """Return the Table column of an `additionalPrinterColumns` entry."""
    path, kind = JsonPath(definition["jsonPath"]), definition["type"]

    def cell(obj: Object, now: datetime) -> Any:
        return _cell(path.find(obj), kind, now)

    return Column(
        name=definition["name"],
        type=kind,
        cell=cell,
        description=definition.get("description")
        or f"Custom resource definition column (in JSONPath format): {definition['jsonPath']}",
        format=definition.get("format", ""),
        priority=definition.get("priority", 0),
    )


def _cell(found: list[Any], kind: str, now: datetime) -> Any:
    if not found or found[0] is None:
        return None
    value = found[0]
    if kind == "date":
        return age_since(value, now) if isinstance(value, str) else "<invalid>"
    if kind == "string":
        return " ".join(_cell_text(one) for one in found)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" else float(value)


def _cell_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _selector_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _without_status(error: FieldError) -> FieldError:
    """Return the error with the field's name as it is inside the status."""
    detail = error.detail.removeprefix("status.").replace(" in status.", " in ")
    return dataclasses.replace(error, detail=detail)


def _is_own(error: FieldError) -> bool:
    """Whether a repeated item is one that the schema forbids: those of metadata are anybody's."""
    return error.kind is not FieldErrorKind.DUPLICATE or not error.path.startswith("metadata.")


def _blocks(errors: list[FieldError]) -> bool:
    return any(error.kind in _BLOCKING for error in errors)


def _with(obj: Object, **fields: Any) -> Object:
    """A copy with these fields, those that are None left out."""
    return {name: v for name, v in {**obj, **fields}.items() if v is not None}


def _status_metadata(new: Object, old: Object) -> dict[str, Any]:
    """Metadata after a status write: its version and managers, nothing else of it."""
    kept = {
        name: value
        for name, value in new["metadata"].items()
        if name in ("managedFields", "resourceVersion")
    }
    return {**{k: v for k, v in old["metadata"].items() if k != "managedFields"}, **kept}


def embedded_errors(obj: Object, schema: Schema) -> list[FieldError]:
    """Return what keeps the embedded resources of an object from being objects."""
    errors: list[FieldError] = []

    def visit(path: str, embedded: dict[str, Any]) -> None:
        errors.extend(_embedded_error(path, embedded))

    for_each_embedded(obj, schema, visit)
    return errors


def _embedded_error(path: str, embedded: dict[str, Any]) -> list[FieldError]:
    errors = [
        FieldError(paths.join(path, name), FieldErrorKind.REQUIRED)
        for name in ("apiVersion", "kind")
        if not embedded.get(name)
    ]
    metadata = embedded.get("metadata")
    if isinstance(metadata, dict):
        errors += _embedded_metadata(f"{path}.metadata", metadata)
    kind = embedded.get("kind")
    if isinstance(kind, str) and kind:
        words = "may have mixed case, but should otherwise match: "
        problems = [f"{words}{problem}" for problem in dns1035_label(kind.lower())]
        errors += _invalid(f"{path}.kind", kind, problems)
    version = embedded.get("apiVersion")
    if isinstance(version, str) and version.count("/") > 1:
        problem = f"unexpected GroupVersion string: {version}"
        errors += _invalid(f"{path}.apiVersion", version, [problem])
    return errors


def _embedded_metadata(path: str, metadata: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    labels = metadata.get("labels") or {}
    if isinstance(labels, dict) and all(isinstance(v, str) for v in labels.values()):
        errors += validate_labels(labels, f"{path}.labels")
    for key in metadata.get("annotations") or ():
        errors += _invalid(f"{path}.annotations", key, qualified_name(key.lower()))
    for finalizer in metadata.get("finalizers") or ():
        errors += _invalid(f"{path}.finalizers", finalizer, qualified_name(str(finalizer)))
    return errors


def _invalid(path: str, value: Any, problems: Sequence[str]) -> list[FieldError]:
    return [FieldError(path, FieldErrorKind.INVALID, problem, value) for problem in problems]
