"""This module holds the RBAC kinds."""

from __future__ import annotations

from typing import Any, Final

from dynamo_operator.apiserver.kinds import columns
from dynamo_operator.apiserver.kinds.openapi import (
    LABEL_SELECTOR,
    STRING,
    array,
    atomic,
    kind,
    record,
)
from dynamo_operator.apiserver.kinds.pod_validation import label_selector_errors
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    KindRules,
    Kinds,
    forbidden,
    invalid,
    problems,
    required,
    supported,
)
from dynamo_operator.apiserver.object_metadata import dns_subdomain, path_segment
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

_GROUP: Final = "rbac.authorization.k8s.io"
_RULES: Final = array(
    record(
        verbs=array(STRING),
        apiGroups=array(STRING),
        resources=array(STRING),
        resourceNames=array(STRING),
        nonResourceURLs=array(STRING),
    )
)
_BINDING: Final = kind(
    subjects=array(atomic(record(kind=STRING, apiGroup=STRING, name=STRING, namespace=STRING))),
    roleRef=atomic(record(apiGroup=STRING, kind=STRING, name=STRING)),
)
ROLE: Final = kind(rules=_RULES)
CLUSTER_ROLE: Final = kind(
    rules=_RULES, aggregationRule=record(clusterRoleSelectors=array(LABEL_SELECTOR))
)


def _validate_role(role: Object) -> Errors:
    return _rule_errors(role, namespaced=True)


def _validate_cluster_role(role: Object) -> Errors:
    yield from _rule_errors(role, namespaced=False)
    yield from _aggregation_errors(role)


def _rule_errors(role: Object, *, namespaced: bool) -> Errors:
    for position, rule in enumerate(role.get("rules") or ()):
        path = f"rules[{position}]"
        urls = rule.get("nonResourceURLs") or ()
        if urls:
            if namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                yield invalid(f"{path}.nonResourceURLs", list(urls), detail)
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(f"{path}.nonResourceURLs", list(urls), detail)
            yield from _verb_errors(rule, path)
            continue
        if not rule.get("apiGroups"):
            detail = "resource rules must supply at least one api group"
            yield required(f"{path}.apiGroups", detail)
        if not rule.get("resources"):
            detail = "resource rules must supply at least one resource"
            yield required(f"{path}.resources", detail)
        yield from _verb_errors(rule, path)


def _verb_errors(rule: Object, path: str) -> Errors:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs")


def _default_role(role: Object) -> None:
    role["rules"] = role.get("rules") or None


def _aggregation_errors(role: Object) -> Errors:
    rule, path = role.get("aggregationRule"), "aggregationRule.clusterRoleSelectors"
    if rule is None:
        return
    if not rule.get("clusterRoleSelectors"):
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required(path, detail)
    for position, selector in enumerate(rule.get("clusterRoleSelectors") or ()):
        yield from label_selector_errors(selector, f"{path}[{position}]")


def _default_binding(binding: Object) -> None:
    role = binding.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = _GROUP
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = _GROUP


def _validate_role_binding(binding: Object) -> Errors:
    return _binding_errors(binding, ("Role", "ClusterRole"), namespaced=True)


def _validate_cluster_role_binding(binding: Object) -> Errors:
    return _binding_errors(binding, ("ClusterRole",), namespaced=False)


def _binding_errors(binding: Object, kinds: tuple[str, ...], *, namespaced: bool) -> Errors:
    role = binding.get("roleRef") or {}
    yield from supported("roleRef.apiGroup", role.get("apiGroup"), (_GROUP,))
    yield from _one_of("roleRef.kind", role.get("kind") or "", kinds)
    name = role.get("name") or ""
    if not name:
        yield required("roleRef.name")
    else:
        yield from problems("roleRef.name", name, path_segment(name))
    for position, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_errors(subject, f"subjects[{position}]", namespaced=namespaced)


def _one_of(path: str, value: str, accepted: tuple[str, ...]) -> Errors:
    """What is none of these, which are told in this order."""
    if value not in accepted:
        names = ", ".join(f'"{name}"' for name in accepted)
        detail = f"supported values: {names}"
        yield FieldError(path, FieldErrorKind.NOT_SUPPORTED, detail, value)


def _subject_errors(subject: dict[str, Any], path: str, *, namespaced: bool) -> Errors:
    name = subject.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    who = subject.get("kind") or ""
    yield from _one_of(f"{path}.kind", who, ("ServiceAccount", "User", "Group"))
    if who == "ServiceAccount":
        if name:
            yield from problems(f"{path}.name", name, dns_subdomain(name))
        if subject.get("apiGroup"):
            yield from supported(f"{path}.apiGroup", subject["apiGroup"], ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif who in ("User", "Group"):
        yield from supported(f"{path}.apiGroup", subject.get("apiGroup"), (_GROUP,))
        if subject.get("namespace"):
            yield forbidden(f"{path}.namespace", f"{who} subjects have no namespace")


def _validate_binding_update(new: Object, old: Object) -> Errors:
    if new.get("roleRef") != old.get("roleRef"):
        ref = new.get("roleRef") or {}
        shown = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
        told = {name: ref.get(field, "") for name, field in shown.items()}
        yield invalid("roleRef", told, "field is immutable")


KINDS: Final[Kinds] = {
    (_GROUP, "Role"): KindRules(
        schema=ROLE, default=_default_role, validate=_validate_role, columns=columns.ROLE
    ),
    (_GROUP, "ClusterRole"): KindRules(
        schema=CLUSTER_ROLE,
        default=_default_role,
        validate=_validate_cluster_role,
        columns=columns.ROLE,
    ),
    (_GROUP, "RoleBinding"): KindRules(
        schema=_BINDING,
        default=_default_binding,
        validate=_validate_role_binding,
        validate_update=_validate_binding_update,
        columns=columns.ROLE_BINDING,
    ),
    (_GROUP, "ClusterRoleBinding"): KindRules(
        schema=_BINDING,
        default=_default_binding,
        validate=_validate_cluster_role_binding,
        validate_update=_validate_binding_update,
        columns=columns.ROLE_BINDING,
    ),
}
