"""The rules of metadata that hold for every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.resources import Object, Resource
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_MAX_ANNOTATION_BYTES = 256 * 1024

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "resourceVersion": str,
    "selfLink": str,
    "generation": int,
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "deletionGracePeriodSeconds": int,
    "labels": dict,
    "annotations": dict,
    "ownerReferences": list,
    "finalizers": list,
    "managedFields": list,
}
_GO_TYPES = {
    str: "string",
    int: "int64",
    dict: "map[string]string",
    list: "[]",
}
_OWNER_FIELDS = frozenset({"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"})


def decode_metadata(obj: Object) -> tuple[Object, list[str]]:
    """Return `obj` with well-typed metadata, and the paths of unknown fields that were dropped.

    Raises:
        StatusError: 400 for a field of the wrong type.
    """
    metadata = obj.get("metadata")
    if metadata is None:
        return {**obj, "metadata": {}}, []
    if not isinstance(metadata, dict):
        raise _unmarshal(metadata, "metadata", "v1.ObjectMeta")
    kept: dict[str, Any] = {}
    unknown = []
    for field, value in metadata.items():
        expected = _TYPES.get(field)
        if expected is None:
            unknown.append(f"metadata.{field}")
        elif value is not None:
            if not isinstance(value, expected) or isinstance(value, bool):
                go = _GO_TYPES[expected] if isinstance(expected, type) else "string"
                raise _unmarshal(value, f"metadata.{field}", go)
            kept[field] = value
    for field in ("labels", "annotations"):
        kept.update(_string_map(kept, field))
    if "ownerReferences" in kept:
        kept["ownerReferences"] = [
            _owner(ref, i, unknown) for i, ref in enumerate(kept["ownerReferences"])
        ]
    for finalizer in kept.get("finalizers", ()):
        if not isinstance(finalizer, str):
            raise _unmarshal(finalizer, "metadata.finalizers", "string")
    # Empty means absent for every list and map of metadata.
    kept = {k: v for k, v in kept.items() if v not in ({}, [], "") or k == "managedFields"}
    return {**obj, "metadata": kept}, unknown


def validate_metadata(resource: Resource, metadata: Mapping[str, Any]) -> list[FieldError]:
    """Return what is wrong with the metadata of a new object."""
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    rule = name_rule(resource)
    errors: list[FieldError] = []
    if prefix:
        # The last dash counts for its letter before it: something will follow.
        masked = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        errors += _invalid("metadata.generateName", prefix, rule(masked))
    if not name:
        errors.append(
            FieldError("metadata.name", FieldErrorKind.REQUIRED, "name or generateName is required")
        )
    else:
        errors += _invalid("metadata.name", name, rule(name))
    return errors + _validate_rest(metadata)


def validate_metadata_update(
    new: Mapping[str, Any], old: Mapping[str, Any], resource: Resource
) -> list[FieldError]:
    """Return what is wrong with a change of metadata."""
    errors = [
        FieldError(
            f"metadata.{field}", FieldErrorKind.INVALID, "field is immutable", new.get(field)
        )
        for field in ("name", "namespace", "uid")
        if new.get(field) != old.get(field) and (field != "namespace" or resource.namespaced)
    ]
    if old.get("deletionTimestamp"):
        added = [f for f in new.get("finalizers", ()) if f not in old.get("finalizers", ())]
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            errors.append(
                FieldError(
                    "metadata.finalizers",
                    FieldErrorKind.FORBIDDEN,
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    return errors + _validate_rest(new)


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """Return what is wrong with labels."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += _invalid(path, key, qualified_name(key))
        errors += _invalid(path, value, label_value(value))
    return errors


def label_value(value: str) -> list[str]:
    """Return what keeps a text from being a label's value."""
    problems = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not re.fullmatch(_LABEL_VALUE, value):
        problems.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', "
            "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  "
            f"or 'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE}')"
        )
    return problems


def qualified_name(name: str) -> list[str]:
    """Return what is wrong with a label or annotation key."""
    prefix, slash, part = name.rpartition("/")
    problems = []
    if "/" in prefix:
        return [
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
            f"'123-abc', regex used for validation is '{_QUALIFIED}') with an optional DNS "
            "subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash:
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            long = len(prefix) > 253
            problems += ["prefix part must be no more than 253 bytes"] if long else []
            problems += [f"prefix part {problem}" for problem in dns_subdomain(prefix)[long:]]
    if not part:
        problems.append("name part must be non-empty")
    elif len(part) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_QUALIFIED, part):
        problems.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
            f"regex used for validation is '{_QUALIFIED}')"
        )
    return problems


def dns_subdomain(name: str) -> list[str]:
    """Return what keeps a name from being a DNS subdomain."""
    problems = ["must be no more than 253 characters"] if len(name) > 253 else []
    if not re.fullmatch(_SUBDOMAIN, name):
        problems.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character (e.g. "
            rf"'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )
    return problems


def dns_label(name: str) -> list[str]:
    """Return what keeps a name from being a DNS label."""
    problems = ["must be no more than 63 characters"] if len(name) > 63 else []
    if not re.fullmatch(_LABEL, name):
        if re.fullmatch(_SUBDOMAIN, name):
            return [*problems, "must not contain dots"]
        problems.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
            "'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
            f"'123-abc', regex used for validation is '{_LABEL}')"
        )
    return problems


def dns1035_label(name: str) -> list[str]:
    """Return what keeps a name from being a DNS-1035 label."""
    problems = ["must be no more than 63 bytes"] if len(name) > 63 else []
    if not re.fullmatch(_DNS1035, name):
        problems.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start "
            "with an alphabetic character, and end with an alphanumeric character (e.g. "
            f"'my-name',  or 'abc-123', regex used for validation is '{_DNS1035}')"
        )
    return problems


def path_segment(name: str) -> list[str]:
    """Return what keeps a name from being one segment of a path."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{c}'" for c in ("/", "%") if c in name]


def name_rule(resource: Resource) -> Callable[[str], list[str]]:
    """Return how names of a kind are validated."""
    if resource.group == "rbac.authorization.k8s.io":
        return path_segment
    if not resource.custom and resource.kind in {"Namespace", "Service"}:
        return dns_label
    return dns_subdomain


def without_repeated(owners: Sequence[Object]) -> tuple[list[Object], list[str]]:
    """Return each owner reference once, and the UIDs of those that were repeated."""
    kept: list[Object] = []
    repeated = []
    for owner in owners:
        if owner in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept.append(owner)
    return kept, repeated


def _validate_rest(metadata: Mapping[str, Any]) -> list[FieldError]:
    errors = validate_labels(metadata.get("labels", {}), "metadata.labels")
    annotations: Mapping[str, str] = metadata.get("annotations", {})
    for key in annotations:
        errors += _invalid("metadata.annotations", key, qualified_name(key.lower()))
    size = sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
    if size > _MAX_ANNOTATION_BYTES:
        errors.append(
            FieldError(
                "metadata.annotations",
                FieldErrorKind.TOO_LONG,
                f"may not be more than {_MAX_ANNOTATION_BYTES} bytes",
            )
        )
    errors += _validate_owners(metadata.get("ownerReferences", ()))
    return errors + _validate_finalizers(list(metadata.get("finalizers", ())))


def _validate_finalizers(finalizers: list[str]) -> list[FieldError]:
    """Return what is wrong with `metadata.finalizers`."""
    errors: list[FieldError] = []
    for index, finalizer in enumerate(finalizers):
        problems = qualified_name(finalizer)
        errors += _invalid("metadata.finalizers", finalizer, problems)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors += _invalid(f"metadata.finalizers[{index}]", finalizer, [detail])
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors += _invalid("metadata.finalizers", finalizers, [detail])
    return errors


def _validate_owners(owners: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers = []
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        version = owner.get("apiVersion", "")
        if not version:
            errors.append(
                FieldError(f"{path}.apiVersion", FieldErrorKind.REQUIRED, "must not be empty")
            )
        if version.count("/") > 1:
            detail = "must be <group>/<version> or <version>"
            errors += _invalid(f"{path}.apiVersion", version, [detail])
        errors += [
            FieldError(f"{path}.{field}", FieldErrorKind.REQUIRED, "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if version == "v1" and owner.get("kind") == "Event":
            errors += _invalid(
                path, dict(owner), ["/v1, Kind=Event is disallowed from being an owner"]
            )
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind', '')}/{owner.get('name', '')}")
    if len(controllers) > 1:
        errors += _invalid(
            "metadata.ownerReferences",
            owners,
            [
                "Only one reference can have Controller set to true. Found "
                f'"true" in references for {controllers[0]} and {controllers[1]}'
            ],
        )
    return errors


def _owner(reference: Any, index: int, unknown: list[str]) -> dict[str, Any]:
    path = f"metadata.ownerReferences[{index}]"
    if not isinstance(reference, dict):
        raise _unmarshal(reference, "metadata.ownerReferences", "v1.OwnerReference")
    kept = {}
    for field, value in reference.items():
        if field not in _OWNER_FIELDS:
            unknown.append(f"{path}.{field}")
        elif value is not None:
            wants_bool = field in {"controller", "blockOwnerDeletion"}
            if not isinstance(value, bool if wants_bool else str):
                raise _unmarshal(
                    value, f"metadata.ownerReferences.{field}", "bool" if wants_bool else "string"
                )
            kept[field] = value
    return kept


def _string_map(metadata: Mapping[str, Any], field: str) -> dict[str, dict[str, str]]:
    if field not in metadata:
        return {}
    result = {}
    for key, value in metadata[field].items():
        if value is None:
            value = ""
        if not isinstance(value, str):
            raise _unmarshal(value, f"metadata.{field}", "string")
        result[key] = value
    return {field: result}


def _unmarshal(value: Any, path: str, go_type: str) -> status.StatusError:
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}
    found = names.get(type(value), "object")
    return status.bad_request(
        f"json: cannot unmarshal {found} into Go struct field ObjectMeta.{path} of type {go_type}"
    )


def _invalid(path: str, value: Any, problems: list[str]) -> list[FieldError]:
    return [FieldError(path, FieldErrorKind.INVALID, problem, value) for problem in problems]
