"""Which requests an admission webhook or policy is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dynamo_operator.apiserver.admission_requests import AdmissionRequest
from dynamo_operator.apiserver.kinds.pod_validation import selector_matches
from dynamo_operator.apiserver.resources import Object, Resource

_CONFIGURATIONS = frozenset(
    {
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    }
)
"""Of admission itself: nothing can lock its own key away."""


def is_exempt(request: AdmissionRequest) -> bool:
    """Whether admission by configuration never concerns the request."""
    resource = request.resource
    # A change of the scale is judged as that of a Scale, not of the whole object.
    is_judged_as_part = request.call.info.subresource == "scale" and request.part is None
    return is_judged_as_part or (
        resource.group == "admissionregistration.k8s.io" and resource.plural in _CONFIGURATIONS
    )


def matched(
    request: AdmissionRequest,
    rules: Sequence[Mapping[str, Any]],
    *,
    match_policy: str,
    namespace_selector: Mapping[str, Any],
    object_selector: Mapping[str, Any],
) -> AdmissionRequest | None:
    """Return the request in the version in which it matches, or None.

    Raises:
        Unanswered: converting it to that version takes a webhook.
    """
    if not _namespace_matches(request, namespace_selector):
        return None
    if not _object_matches(request, object_selector):
        return None
    for resource in _candidates(request, match_policy):
        if any(rule_matches(rule, request, resource) for rule in rules):
            return request.converted(resource)
    return None


def rule_matches(rule: Mapping[str, Any], request: AdmissionRequest, resource: Resource) -> bool:
    """Whether a rule names the request as one of that resource."""
    subresource = request.call.info.subresource
    return (
        _names(rule.get("operations"), request.operation)
        and _names(rule.get("apiGroups"), resource.group)
        and _names(rule.get("apiVersions"), resource.version)
        and rule.get("scope", "*") in ("*", "Namespaced" if resource.namespaced else "Cluster")
        and any(
            _resource_matches(pattern, resource.plural, subresource)
            for pattern in rule.get("resources") or ()
        )
        and (not rule.get("resourceNames") or request.name in rule["resourceNames"])
    )


def _candidates(request: AdmissionRequest, match_policy: str) -> Iterator[Resource]:
    yield request.resource
    if match_policy == "Exact":
        return
    for resource in request.call.world.registry:
        same = resource.storage_key == request.resource.storage_key
        if same and resource is not request.resource:
            yield resource


def _names(patterns: Sequence[str] | None, value: str) -> bool:
    return "*" in (patterns or ()) or value in (patterns or ())


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    wanted, _, wanted_subresource = pattern.partition("/")
    if wanted not in ("*", plural):
        return False
    if "/" not in pattern:
        return not subresource
    return wanted_subresource in ("*", subresource)


def _namespace_matches(request: AdmissionRequest, selector: Mapping[str, Any]) -> bool:
    if _selects_all(selector):
        return True
    if (request.resource.group, request.resource.plural) == ("", "namespaces"):
        return selector_matches(selector, _labels(request.new or request.old))
    if not request.resource.namespaced:
        return True
    stored = request.call.world.storage.get(("", "namespaces"), "", request.namespace)
    return selector_matches(selector, _labels(stored.value if stored else None))


def _object_matches(request: AdmissionRequest, selector: Mapping[str, Any]) -> bool:
    if _selects_all(selector):
        return True
    return any(
        obj is not None and selector_matches(selector, _labels(obj))
        for obj in (request.new, request.old)
    )


def _selects_all(selector: Mapping[str, Any]) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def _labels(obj: Object | None) -> Mapping[str, str]:
    return (obj or {}).get("metadata", {}).get("labels") or {}
