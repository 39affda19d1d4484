"""This module defaults and checks CustomResourceDefinitions, and says what they serve."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from dynamo_operator.apiserver.cel import RuleSet
from dynamo_operator.apiserver.crd_schemas import schema_errors, unknown_keywords
from dynamo_operator.apiserver.custom_resources import CustomResourceStrategy, printer_column
from dynamo_operator.apiserver.json_paths import JsonPath, simple_fields
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.object_metadata import dns1035_label, dns_subdomain
from dynamo_operator.apiserver.resources import Object, Resource, ScalePaths
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.webhook_client import client_config_errors

_COLUMN_TYPES: Final = ("integer", "number", "string", "boolean", "date")
_MAX_SELECTABLE: Final = 8
_APPROVAL: Final = "api-approved.kubernetes.io"


def with_defaults(crd: Object) -> Object:
    """Return the CRD with what the server fills in."""
    spec = dict(crd.get("spec") or {})
    names = dict(spec.get("names") or {})
    kind = names.get("kind")
    if isinstance(kind, str) and kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    if names:
        spec["names"] = names
    spec.setdefault("conversion", {"strategy": "None"})
    return {**crd, "spec": spec}


def unknown_fields(crd: Object) -> Iterator[str]:
    """Yield the paths of unknown keywords in the schemas; other fields are typed."""
    spec = crd.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for position, version in enumerate(versions if isinstance(versions, list) else ()):
        path = f"spec.versions[{position}].schema.openAPIV3Schema"
        schema = version.get("schema") if isinstance(version, dict) else None
        if isinstance(schema, dict):
            yield from unknown_keywords(schema.get("openAPIV3Schema"), path)


def with_accepted_names(crd: Object, now: datetime) -> Object:
    """Return the CRD with the status that the naming and establishing controllers write."""
    status = crd.get("status") or {}
    stored = list(status.get("storedVersions") or ())
    storage = [v["name"] for v in crd["spec"]["versions"] if v.get("storage")]
    conditions = _conditions(
        status.get("conditions") or (),
        now,
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    return {
        **crd,
        "status": {
            **status,
            "conditions": conditions,
            "acceptedNames": dict(crd["spec"]["names"]),
            "storedVersions": [*stored, *(name for name in storage if name not in stored)],
        },
    }


def served_resources(crd: Object) -> list[Resource]:
    """Return one resource for each served version, most preferred first."""
    spec = crd["spec"]
    versions = sorted(spec["versions"], key=lambda v: version_priority(v["name"]))
    served = [version for version in versions if version.get("served")]
    return [_resource(spec, v, preferred=position == 0) for position, v in enumerate(served)]


def version_priority(name: str) -> tuple[int, int, int, str]:
    """Return the sort key that puts v2 before v1 before v1beta1 before v1alpha1 before others."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", name)
    if match is None:
        return (3, 0, 0, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[match.group(2)]
    return (stage, -int(match.group(1)), -int(match.group(3) or 0), name)


def validate_crd(crd: Object) -> list[FieldError]:
    """Return everything that keeps the CRD from being accepted."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    return [
        *_name_errors(crd["metadata"], spec, names),
        *_group_errors(crd["metadata"], spec),
        *_names_errors(names),
        *_scope_errors(spec),
        *_version_errors(spec.get("versions") or []),
        *_conversion_errors(spec.get("conversion") or {}),
    ]


def validate_crd_update(new: Object, old: Object) -> list[FieldError]:
    """Return what keeps a change from being accepted; what was there before is not judged again."""
    errors = validate_crd(new)
    if errors:
        already = set(map(str, validate_crd(old)))
        errors = [error for error in errors if str(error) not in already]
    for where in (("group",), ("scope",), ("names", "plural"), ("names", "kind")):
        before, after = _at(old["spec"], where), _at(new["spec"], where)
        if before != after:
            path = f"spec.{'.'.join(where)}"
            errors.append(FieldError(path, FieldErrorKind.INVALID, "field is immutable", after))
    return errors + list(_stored_version_errors(new))


def _resource(spec: Mapping[str, Any], version: Mapping[str, Any], *, preferred: bool) -> Resource:
    names, subresources = spec["names"], version.get("subresources") or {}
    scale = subresources.get("scale")
    schema, rules = _compiled(to_json(version["schema"]["openAPIV3Schema"]))
    strategy = CustomResourceStrategy(
        schema,
        rules=rules,
        has_status="status" in subresources,
        columns=[printer_column(c) for c in version.get("additionalPrinterColumns") or ()],
        selectable=[field["jsonPath"] for field in version.get("selectableFields") or ()],
    )
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        strategy=strategy,
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        subresources=frozenset(subresources),
        scale=_scale_paths(scale) if scale else None,
        storage_api_version=f"{spec['group']}/{storage}",
        custom=True,
        deprecation_warning=_deprecation(spec, version),
        preferred=preferred,
    )


@lru_cache(maxsize=64)
def _compiled(data: bytes) -> tuple[Schema, RuleSet]:
    """Compile a schema, once for all servers of this process: nobody changes the result."""
    schema = Schema.compile(json.loads(data), root=True)
    return schema, RuleSet(schema)


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return str(version.get("deprecationWarning") or default)


def _scale_paths(scale: Mapping[str, Any]) -> ScalePaths:
    return ScalePaths(
        spec_replicas=scale["specReplicasPath"],
        status_replicas=scale["statusReplicasPath"],
        label_selector=scale.get("labelSelectorPath", ""),
    )


def _conditions(
    existing: Sequence[Mapping[str, Any]], now: datetime, *wanted: tuple[str, str, str]
) -> list[dict[str, Any]]:
    """Conditions that are True, their times kept where they were already."""
    result = {condition["type"]: dict(condition) for condition in existing}
    for kind, reason, message in wanted:
        before = result.get(kind)
        if before is None or before["status"] != "True":
            time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            result[kind] = {
                "type": kind,
                "status": "True",
                "lastTransitionTime": time,
                "reason": reason,
                "message": message,
            }
    return list(result.values())


def _name_errors(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], names: Mapping[str, Any]
) -> Iterator[FieldError]:
    expected = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if metadata.get("name") != expected:
        detail = 'must be spec.names.plural+"."+spec.group'
        yield FieldError("metadata.name", FieldErrorKind.INVALID, detail, metadata.get("name"))


def _group_errors(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FieldError]:
    group = spec.get("group") or ""
    if not group:
        yield FieldError("spec.group", FieldErrorKind.REQUIRED)
        return
    for problem in dns_subdomain(group):
        yield FieldError("spec.group", FieldErrorKind.INVALID, problem, group)
    if "." not in group:
        detail = "should be a domain with at least one dot"
        yield FieldError("spec.group", FieldErrorKind.INVALID, detail, group)
    protected = group.endswith((".k8s.io", ".kubernetes.io")) or group in (
        "k8s.io",
        "kubernetes.io",
    )
    if protected and not (metadata.get("annotations") or {}).get(_APPROVAL):
        path = f"metadata.annotations[{_APPROVAL}]"
        detail = "protected groups must have approval annotation"
        yield FieldError(path, FieldErrorKind.REQUIRED, detail)


def _names_errors(names: Mapping[str, Any]) -> Iterator[FieldError]:
    for field in ("plural", "singular", "kind", "listKind"):
        name = names.get(field) or ""
        path = f"spec.names.{field}"
        if not name:
            yield FieldError(path, FieldErrorKind.REQUIRED)
            continue
        mixed = field in ("kind", "listKind")
        for problem in dns1035_label(name.lower() if mixed else name):
            words = f"may have mixed case, but should otherwise match: {problem}"
            yield FieldError(path, FieldErrorKind.INVALID, words if mixed else problem, name)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield FieldError("spec.names.listKind", FieldErrorKind.INVALID, detail, names["listKind"])
    for field in ("shortNames", "categories"):
        for position, name in enumerate(names.get(field) or ()):
            for problem in dns1035_label(name):
                path = f"spec.names.{field}[{position}]"
                yield FieldError(path, FieldErrorKind.INVALID, problem, name)


def _scope_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    scope = spec.get("scope")
    if not scope:
        yield FieldError("spec.scope", FieldErrorKind.REQUIRED)
    elif scope not in ("Cluster", "Namespaced"):
        detail = 'supported values: "Cluster", "Namespaced"'
        yield FieldError("spec.scope", FieldErrorKind.NOT_SUPPORTED, detail, scope)


def _version_errors(versions: Sequence[Mapping[str, Any]]) -> Iterator[FieldError]:
    names = [version.get("name", "") for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield FieldError("spec.versions", FieldErrorKind.INVALID, detail, names)
    if len(set(names)) != len(names):
        detail = "must contain unique version names"
        yield FieldError("spec.versions", FieldErrorKind.INVALID, detail, names)
    for position, version in enumerate(versions):
        path = f"spec.versions[{position}]"
        for problem in dns1035_label(version.get("name", "")):
            yield FieldError(f"{path}.name", FieldErrorKind.INVALID, problem, version.get("name"))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        yield from schema_errors(schema, f"{path}.schema.openAPIV3Schema")
        yield from _column_errors(version, path)
        yield from _scale_errors(version, path)
        if isinstance(schema, Mapping):
            yield from _selectable_errors(version, schema, path)


def _column_errors(version: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{position}]"
        for field in ("name", "type", "jsonPath"):
            if not column.get(field):
                yield FieldError(f"{where}.{field}", FieldErrorKind.REQUIRED)
        kind, json_path = column.get("type"), column.get("jsonPath")
        if kind and kind not in _COLUMN_TYPES:
            detail = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield FieldError(f"{where}.type", FieldErrorKind.INVALID, detail, kind)
        if json_path:
            yield from _json_path_errors(json_path, f"{where}.jsonPath")


def _json_path_errors(text: str, path: str) -> Iterator[FieldError]:
    if not text.startswith("."):
        detail = "must be a simple json path starting with ."
        yield FieldError(path, FieldErrorKind.INVALID, detail, text)
        return
    try:
        JsonPath(text)
    except ValueError as error:
        yield FieldError(path, FieldErrorKind.INVALID, f"is an invalid jsonPath: {error}", text)


def _scale_errors(version: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if not scale:
        return
    rules = (
        ("specReplicasPath", (".spec.",), True),
        ("statusReplicasPath", (".status.",), True),
        ("labelSelectorPath", (".spec.", ".status."), False),
    )
    for field, starts, needed in rules:
        where, text = f"{path}.subresources.scale.{field}", scale.get(field) or ""
        if not text and needed:
            yield FieldError(where, FieldErrorKind.REQUIRED)
        elif text and (not text.startswith(starts) or simple_fields(text) is None):
            detail = f"should be a json path under {' or '.join(s.rstrip('.') for s in starts)}"
            yield FieldError(where, FieldErrorKind.INVALID, detail, text)


def _selectable_errors(
    version: Mapping[str, Any], schema: Mapping[str, Any], path: str
) -> Iterator[FieldError]:
    fields = version.get("selectableFields") or ()
    if len(fields) > _MAX_SELECTABLE:
        detail = f"must have at most {_MAX_SELECTABLE} items"
        yield FieldError(f"{path}.selectableFields", FieldErrorKind.TOO_MANY, detail, len(fields))
    for position, field in enumerate(fields):
        where, text = f"{path}.selectableFields[{position}].jsonPath", field.get("jsonPath") or ""
        names = simple_fields(text) if text.startswith(".") else None
        node: Any = schema
        for name in names or ():
            properties = node.get("properties") if isinstance(node, dict) else None
            node = properties.get(name) if isinstance(properties, dict) else None
        if not names or names[0] == "metadata" or not isinstance(node, dict):
            detail = "is an invalid path: does not refer to a valid field"
            yield FieldError(where, FieldErrorKind.INVALID, detail, text)
        elif node.get("type") not in ("string", "integer", "boolean"):
            detail = "must point to a field of type string, boolean or integer"
            yield FieldError(where, FieldErrorKind.INVALID, detail, text)


def _conversion_errors(conversion: Mapping[str, Any]) -> Iterator[FieldError]:
    strategy = conversion.get("strategy")
    if strategy not in ("None", "Webhook"):
        detail = 'supported values: "None", "Webhook"'
        yield FieldError("spec.conversion.strategy", FieldErrorKind.NOT_SUPPORTED, detail, strategy)
    webhook = conversion.get("webhook")
    # The paths are those of the first version of the API, which the server still validates.
    config_path = "spec.conversion.webhookClientConfig"
    versions_path = "spec.conversion.conversionReviewVersions"
    if strategy != "Webhook":
        if webhook is not None:
            detail = "should not be set when strategy is not set to Webhook"
            yield FieldError(config_path, FieldErrorKind.FORBIDDEN, detail)
            yield FieldError(versions_path, FieldErrorKind.FORBIDDEN, detail)
        return
    config = (webhook or {}).get("clientConfig")
    versions = (webhook or {}).get("conversionReviewVersions")
    if config is None:
        detail = "required when strategy is set to Webhook"
        yield FieldError(config_path, FieldErrorKind.REQUIRED, detail)
    else:
        yield from client_config_errors(config, config_path)
    if not versions:
        yield FieldError(versions_path, FieldErrorKind.REQUIRED)
    elif not set(versions) & {"v1", "v1beta1"}:
        detail = "must include at least one of v1, v1beta1"
        yield FieldError(versions_path, FieldErrorKind.INVALID, detail, versions)


def _stored_version_errors(crd: Object) -> Iterator[FieldError]:
    names = {version.get("name") for version in crd["spec"].get("versions") or ()}
    for position, stored in enumerate((crd.get("status") or {}).get("storedVersions") or ()):
        if stored not in names:
            path = f"status.storedVersions[{position}]"
            detail = "must appear in spec.versions"
            yield FieldError(path, FieldErrorKind.INVALID, detail, stored)


def _at(value: Any, names: Sequence[str]) -> Any:
    for name in names:
        value = (value or {}).get(name)
    return value
