"""Checks CustomResourceDefinitions, in the words and the order of the API server.

The server validates a version of its own, in which what all versions have in common stands beside
them: errors about it have paths such as `spec.validation.openAPIV3Schema`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dynamo_operator.apiserver.crd_schemas import validation_errors, warnings
from dynamo_operator.apiserver.field_paths import selectable_path
from dynamo_operator.apiserver.formats import is_known_format
from dynamo_operator.apiserver.object_metadata import dns1035_label, dns_subdomain
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.webhook_client import client_config_errors

Errors = Iterator[FieldError]
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    *("byte", "date", "date-time", "double", "float", "int32", "int64", "password"),
)
_MAX_SELECTABLE: Final = 8
_LONGEST_WARNING: Final = 256
_APPROVAL: Final = "api-approved.kubernetes.io"
_WHERE_APPROVED: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_SHARED: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
"""What versions have alike stands beside them."""


def validate_crd(crd: Object, old: Object | None = None) -> list[FieldError]:
    """Return everything that keeps the CRD, new or changed, from being accepted."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    errors = [] if old is not None else list(_name_errors(crd["metadata"], spec, names))
    errors += _spec_errors(spec, (old or {}).get("spec") or {})
    if old is not None:
        errors += _immutable_errors(crd, old)
    errors += _stored_version_errors(crd, is_new=old is None)
    if old is None:
        errors += _approval_errors(crd["metadata"], spec)
    if spec.get("preserveUnknownFields") and not _preserved(old):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        detail += "spec.versions[*].schema instead"
        errors.append(_invalid("spec.preserveUnknownFields", True, detail))
    return errors


def crd_warnings(crd: Object, old: Object | None = None) -> list[str]:
    """Return what the server says about formats and sets in the schemas of a CRD it accepts."""
    formats, sets = _told(crd)
    known = _told(old) if old is not None else ([], [])
    new = [form for form in formats if form not in known[0]]
    told = [f'unrecognized format "{form}"' for form in new]
    return told + [words for words in sets if words not in known[1]]


def _told(crd: Object) -> tuple[list[str], list[str]]:
    formats: list[str] = []
    sets: set[str] = set()
    versions = (crd.get("spec") or {}).get("versions") or ()
    for version in versions[:1] if _in_common(versions, "schema") else versions:
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema:
            told = warnings(schema, is_known_format)
            formats += told[0]
            sets |= set(told[1])
    return formats, sorted(sets)


def _preserved(old: Object | None) -> bool:
    return bool(old and old["spec"].get("preserveUnknownFields"))


def _spec_errors(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Errors:
    yield from _group_errors(spec)
    yield from _enumerated("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    versions = spec.get("versions") or []
    for position, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            where = f"spec.versions[{position}].schema.openAPIV3Schema"
            yield FieldError(where, FieldErrorKind.REQUIRED)
    yield from _versions_errors(spec.get("versions"), old.get("versions") or [])
    yield from _names_errors(spec.get("names") or {})
    shared = {name: versions[0].get(name) for name in _SHARED if _in_common(versions, name)}
    yield from _part_errors(shared, "spec", versions, old.get("versions") or [])
    yield from _conversion_errors(spec.get("conversion") or {})


def _in_common(versions: Sequence[Mapping[str, Any]], name: str) -> bool:
    first = versions[0].get(name) if versions else None
    return bool(first) and all(version.get(name) == first for version in versions)


def _versions_errors(
    given: Sequence[Mapping[str, Any]] | None, old: Sequence[Mapping[str, Any]]
) -> Errors:
    versions = given or []
    names = [version.get("name", "") for version in versions]
    for position, version in enumerate(versions):
        path = f"spec.versions[{position}]"
        for problem in dns1035_label(names[position]):
            yield _invalid(f"{path}.name", names[position], problem)
        for problem in _deprecation_problems(version):
            yield _invalid(f"{path}.deprecationWarning", version["deprecationWarning"], problem)
        own = {name: version.get(name) for name in _SHARED if not _in_common(versions, name)}
        yield from _part_errors(own, path, [version], old)
    if len(set(names)) != len(names):
        detail = "must contain unique version names"
        yield _invalid("spec.versions", _shown(versions), detail)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield _invalid("spec.versions", given and _shown(versions), detail)
    for problem in dns1035_label(names[0]) if names and names[0] else ():
        yield _invalid("spec.version", names[0], problem)


def _shown(versions: Sequence[Mapping[str, Any]]) -> Any:
    """Versions as the server's own version of the definition has them."""
    fields = {
        "Schema": "schema",
        "Subresources": "subresources",
        "AdditionalPrinterColumns": "additionalPrinterColumns",
        "SelectableFields": "selectableFields",
    }
    return [
        {
            "Name": version.get("name", ""),
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
            **{
                shown: None if _in_common(versions, name) else version.get(name)
                for shown, name in fields.items()
            },
        }
        for version in versions
    ]


def _deprecation_problems(version: Mapping[str, Any]) -> Iterator[str]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield "can only be set for deprecated versions"
        return
    if len(text.encode()) > _LONGEST_WARNING:
        yield f"must be <= {_LONGEST_WARNING} characters long"
    if not text:
        yield "must not be an empty string"
    for position, character in enumerate(text):
        if unicodedata.category(character)[0] in "CZ" and character != " ":
            detail = (
                "must only contain printable UTF-8 characters; non-printable character found at"
            )
            yield f"{detail} index {len(text[:position].encode())}"
            break


def _part_errors(
    part: Mapping[str, Any],
    path: str,
    versions: Sequence[Mapping[str, Any]],
    old: Sequence[Mapping[str, Any]],
) -> Errors:
    """What is wrong with what a version, or all of them, say of objects."""
    schema = (part.get("schema") or {}).get("openAPIV3Schema")
    where = f"{path}.validation" if path == "spec" else f"{path}.schema"
    has_status = any("status" in (version.get("subresources") or {}) for version in versions)
    if schema is not None:
        before = {version.get("name"): version.get("schema") for version in old}
        known = before.get(versions[0].get("name")) or {}
        yield from validation_errors(
            schema,
            f"{where}.openAPIV3Schema",
            has_status=has_status,
            old=known.get("openAPIV3Schema"),
        )
    yield from _scale_errors(part.get("subresources") or {}, f"{path}.subresources.scale")
    for position, column in enumerate(part.get("additionalPrinterColumns") or ()):
        yield from _column_errors(column, f"{path}.additionalPrinterColumns[{position}]")
    fields = part.get("selectableFields") or ()
    first: Mapping[str, Any] = versions[0] if versions else {}
    whole = schema or (first.get("schema") or {}).get("openAPIV3Schema")
    if fields and whole:
        yield from _selectable_errors(fields, Schema.compile(whole), f"{path}.selectableFields")


def _name_errors(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], names: Mapping[str, Any]
) -> Errors:
    expected = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if metadata.get("name") != expected:
        detail = 'must be spec.names.plural+"."+spec.group'
        yield _invalid("metadata.name", metadata.get("name"), detail)


def _group_errors(spec: Mapping[str, Any]) -> Errors:
    group = spec.get("group") or ""
    problems = dns_subdomain(group)
    if not group:
        yield FieldError("spec.group", FieldErrorKind.REQUIRED)
    elif problems:
        yield _invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield _invalid("spec.group", group, "should be a domain with at least one dot")


def _approval_errors(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Errors:
    group = spec.get("group") or ""
    protected = group.endswith((".k8s.io", ".kubernetes.io"))
    if not protected and group not in ("k8s.io", "kubernetes.io"):
        return
    path = f"metadata.annotations[{_APPROVAL}]"
    given = (metadata.get("annotations") or {}).get(_APPROVAL)
    needed = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not given:
        yield FieldError(path, FieldErrorKind.REQUIRED, f"{needed}, {_WHERE_APPROVED}")
    elif not given.startswith(("unapproved", "https://", "http://")):
        detail = f'{needed} with either a URL or a reason starting with "unapproved"'
        yield _invalid(path, given, f"{detail}, {_WHERE_APPROVED}")


def _names_errors(names: Mapping[str, Any]) -> Errors:
    fields = ("plural", "singular", "kind", "listKind")
    for field in fields:
        if not names.get(field):
            yield FieldError(f"spec.names.{field}", FieldErrorKind.REQUIRED)
    for field in fields:
        name = names.get(field) or ""
        mixed = field in ("kind", "listKind")
        problems = dns1035_label(name.lower() if mixed else name) if name else []
        if problems:
            words = "may have mixed case, but should otherwise match: " if mixed else ""
            yield _invalid(f"spec.names.{field}", name, words + ",".join(problems))
    yield from _labels("shortNames", names)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield _invalid("spec.names.listKind", names["listKind"], detail)
    yield from _labels("categories", names)


def _labels(field: str, names: Mapping[str, Any]) -> Errors:
    for position, name in enumerate(names.get(field) or ()):
        if problems := dns1035_label(name):
            yield _invalid(f"spec.names.{field}[{position}]", name, ",".join(problems))


def _enumerated(path: str, value: Any, accepted: Sequence[str]) -> Errors:
    if not value:
        yield FieldError(path, FieldErrorKind.REQUIRED)
    elif value not in accepted:
        names = ", ".join(f'"{name}"' for name in accepted)
        detail = f"supported values: {names}"
        yield FieldError(path, FieldErrorKind.NOT_SUPPORTED, detail, value)


def _column_errors(column: Mapping[str, Any], path: str) -> Errors:
    if not column.get("name"):
        yield FieldError(f"{path}.name", FieldErrorKind.REQUIRED)
    kind, form = column.get("type"), column.get("format")
    detail = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield FieldError(f"{path}.type", FieldErrorKind.REQUIRED, detail)
    elif kind not in _COLUMN_TYPES:
        yield _invalid(f"{path}.type", kind, detail)
    if form and form not in _COLUMN_FORMATS:
        yield _invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    yield from _json_path_errors(column.get("jsonPath") or "", f"{path}.JSONPath")


def _json_path_errors(text: str, path: str, start: str = "", under: str = "") -> Errors:
    if not text:
        yield FieldError(path, FieldErrorKind.REQUIRED)
    elif not text.startswith("."):
        yield _invalid(path, text, "must be a simple json path starting with .")
    elif not text.startswith(tuple(start.split("|"))):
        yield _invalid(path, text, f"should be a json path under {under}")


def _scale_errors(subresources: Mapping[str, Any], path: str) -> Errors:
    scale = subresources.get("scale")
    if scale is None:
        return
    rules = (
        ("specReplicasPath", ".spec.", ".spec"),
        ("statusReplicasPath", ".status.", ".status"),
        ("labelSelectorPath", ".spec.|.status.", "either .spec or .status"),
    )
    for field, start, under in rules:
        text = scale.get(field) or ""
        if text or field != "labelSelectorPath":
            yield from _json_path_errors(text, f"{path}.{field}", start, under)


def _selectable_errors(fields: Sequence[Mapping[str, Any]], schema: Schema, path: str) -> Errors:
    seen = set()
    for position, field in enumerate(fields):
        where, text = f"{path}[{position}].jsonPath", field.get("jsonPath") or ""
        if not text:
            yield FieldError(where, FieldErrorKind.REQUIRED)
            continue
        try:
            names, found = selectable_path(text, schema)
        except ValueError as error:
            yield _invalid(where, text, f"is an invalid path: {error}")
            continue
        if names[0] == "metadata":
            yield _invalid(where, text, "must not point to fields in metadata")
        if found.type not in ("string", "integer", "boolean"):
            detail = "must point to a field of type string, boolean or integer. Enum string fields "
            yield _invalid(where, text, f"{detail}and strings with formats are allowed.")
        if names in seen:
            yield FieldError(where, FieldErrorKind.DUPLICATE, "", text)
        seen.add(names)
    if len(seen) > _MAX_SELECTABLE:
        detail = f"must have at most {_MAX_SELECTABLE} items"
        yield FieldError(path, FieldErrorKind.TOO_MANY, detail, len(seen))


def _conversion_errors(conversion: Mapping[str, Any]) -> Errors:
    strategy = conversion.get("strategy")
    yield from _enumerated("spec.conversion.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook")
    config_path = "spec.conversion.webhookClientConfig"
    versions_path = "spec.conversion.conversionReviewVersions"
    config = (webhook or {}).get("clientConfig")
    versions = (webhook or {}).get("conversionReviewVersions")
    if strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield FieldError(config_path, FieldErrorKind.FORBIDDEN, detail)
        if versions:
            yield FieldError(versions_path, FieldErrorKind.FORBIDDEN, detail)
        return
    if config is None:
        detail = "required when strategy is set to Webhook"
        yield FieldError(config_path, FieldErrorKind.REQUIRED, detail)
    else:
        yield from client_config_errors(config, config_path)
    yield from _review_version_errors(versions or [], versions_path)


def _review_version_errors(versions: Sequence[str], path: str) -> Errors:
    if not versions:
        yield FieldError(path, FieldErrorKind.REQUIRED)
        return
    for position, version in enumerate(versions):
        if version in versions[:position]:
            yield _invalid(f"{path}[{position}]", version, "duplicate version")
            continue
        for problem in dns1035_label(version):
            yield _invalid(f"{path}[{position}]", version, problem)
    if not set(versions) & {"v1", "v1beta1"}:
        yield _invalid(path, list(versions), "must include at least one of v1, v1beta1")


def _immutable_errors(new: Object, old: Object) -> Errors:
    conditions = (old.get("status") or {}).get("conditions") or ()
    established = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
    fixed = [("group",), ("names", "plural")]
    if established:
        fixed = [("scope",), ("names", "kind"), *fixed]
    for where in fixed:
        before, after = _at(old["spec"], where), _at(new["spec"], where)
        if before != after:
            yield _invalid(f"spec.{'.'.join(where)}", after, "field is immutable")


def _stored_version_errors(crd: Object, *, is_new: bool) -> Errors:
    versions = (crd.get("spec") or {}).get("versions") or ()
    storing = [version.get("name") for version in versions if version.get("storage")]
    stored = (crd.get("status") or {}).get("storedVersions") or ()
    if is_new:
        stored = storing[:1]
    path = "status.storedVersions"
    if not stored:
        yield _invalid(path, None, "must have at least one stored version")
        return
    for name in storing:
        if name not in stored:
            yield _invalid(path, list(stored), f"must have the storage version {name}")
    names = {version.get("name") for version in versions}
    for position, name in enumerate(stored):
        if name not in names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
            )
            detail += "remain in spec.versions until a storage migration ensures no data remains "
            detail += f"persisted in {name} and removes {name} from status.storedVersions"
            yield _invalid(f"{path}[{position}]", name, detail)


def _at(value: Any, names: Sequence[str]) -> Any:
    for name in names:
        value = (value or {}).get(name)
    return value


def _invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.INVALID, detail, value)
