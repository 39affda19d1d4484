"""Pod Security admission: a namespace's labels say what its Pods may do."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.pod_security_checks import Level, PodView, Violation, violations
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

_PREFIX: Final = "pod-security.kubernetes.io/"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)")
_LATEST: Final = "latest"
_NEWEST_MINOR: Final = 37  # of the definitions that the checks know
_LEVELS: Final = {level.name.lower(): level for level in Level}
_WRITING_PODS: Final = frozenset({"", "ephemeralcontainers", "resize"})
_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}
"""Where the objects that make Pods hold their template."""


@dataclass(frozen=True, slots=True)
class Standard:
    """A level in the definition of one version."""

    level: Level = Level.PRIVILEGED
    version: str = _LATEST

    def __str__(self) -> str:
        return f"{self.level.name.lower()}:{self.version}"

    def violated_by(self, pod: PodView) -> list[Violation]:
        """Return what of a Pod it forbids."""
        minor = _NEWEST_MINOR
        if self.version != _LATEST:
            minor = min(minor, int(self.version.removeprefix("v1.")))
        return violations(self.level, minor, pod)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a namespace holds its Pods to: by refusal, in the audit log, and by warning."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()
    errors: tuple[FieldError, ...] = ()

    @classmethod
    def of(cls, namespace: Object) -> Policy:
        """Read a namespace's labels; a level that is none enforces the strictest."""
        labels = namespace["metadata"].get("labels") or {}
        errors: list[FieldError] = []
        enforce = _standard(labels, "enforce", Level.RESTRICTED, errors)
        audit = _standard(labels, "audit", Level.PRIVILEGED, errors)
        warn = _standard(labels, "warn", Level.PRIVILEGED, errors)
        is_enforced = labels.get(f"{_PREFIX}enforce") in _LEVELS
        if is_enforced and f"{_PREFIX}warn" not in labels and enforce.level > warn.level:
            has_version = f"{_PREFIX}warn-version" in labels
            warn = replace(warn, level=enforce.level) if has_version else enforce
        return cls(enforce, audit, warn, tuple(errors))


class PodSecurity:
    """Holds Pods, Pod templates and namespaces to the namespaces' policies."""

    def validate(self, call: Call, new: Object, old: Object | None) -> None:
        """Refuse a Pod that its namespace's policy forbids; warn about what would make one.

        Raises:
            StatusError: 403 for such a Pod, 422 for labels that are no policy.
        """
        address, subresource = (call.resource.group, call.resource.plural), call.info.subresource
        if address == ("", "namespaces") and not subresource:
            _check_namespace(call, new, old)
        elif address == ("", "pods") and subresource in _WRITING_PODS:
            _check_pod(call, new, old)
        elif address in _TEMPLATES and not subresource:
            _check_template(call, new, _TEMPLATES[address])


def _check_namespace(call: Call, new: Object, old: Object | None) -> None:
    policy, before = Policy.of(new), Policy.of(old) if old is not None else None
    name = new["metadata"]["name"]
    if policy.errors and (before is None or before.errors != policy.errors):
        raise status.invalid("", "Namespace", name, policy.errors)
    if before is None or not _is_stricter(policy.enforce, before.enforce):
        return
    pods_of: dict[str, list[str]] = defaultdict(list)
    for stored in call.world.storage.objects(("", "pods"), name):
        found = policy.enforce.violated_by(_view(stored.value))
        if found:
            pods_of[", ".join(v.reason for v in found)].append(stored.name)
    if pods_of:
        call.warnings.append(
            f'existing pods in namespace "{name}" violate the new PodSecurity enforce level '
            f'"{policy.enforce}"'
        )
        call.warnings += sorted(f"{_some_of(pods)}: {told}" for told, pods in pods_of.items())


def _is_stricter(new: Standard, old: Standard) -> bool:
    """Whether Pods that the old standard let in may violate the new one."""
    return new.level > old.level or (new.version != old.version and new.level > Level.PRIVILEGED)


def _some_of(pods: list[str]) -> str:
    others = len(pods) - 1
    if not others:
        return pods[0]
    return f"{min(pods)} (and {others} other {'pod' if others == 1 else 'pods'})"


def _check_pod(call: Call, new: Object, old: Object | None) -> None:
    policy = _policy_here(call)
    standards = (policy.enforce, policy.audit, policy.warn)
    if not policy.errors and all(s.level is Level.PRIVILEGED for s in standards):
        _annotate(call, "enforce-policy", str(Standard()))
        return
    if old is not None and _images(new) == _images(old):
        return
    _annotate(call, "enforce-policy", str(policy.enforce))
    pod = _view(new)
    _note(call, policy, pod)
    found = policy.enforce.violated_by(pod)
    if found:
        text = f'violates PodSecurity "{policy.enforce}": {_told(found)}'
        raise status.forbidden("", "pods", new["metadata"].get("name", ""), text)
    _warn(call, policy, pod)


def _check_template(call: Call, new: Object, path: tuple[str, ...]) -> None:
    policy = _policy_here(call)
    if not policy.errors and policy.warn.level == policy.audit.level == Level.PRIVILEGED:
        return
    template: Any = new
    for field in path:
        template = template.get(field) or {}
    if template:
        pod = _view(template)
        _note(call, policy, pod)
        _warn(call, policy, pod)


def _policy_here(call: Call) -> Policy:
    namespace = call.world.storage.get(("", "namespaces"), "", call.namespace)
    return Policy() if namespace is None else Policy.of(namespace.value)


def _images(pod: Object) -> list[list[tuple[str, str]]]:
    """Return what of a Pod must change for it to be judged anew."""
    fields = ("containers", "initContainers", "ephemeralContainers")
    return [
        [(c.get("name", ""), c.get("image", "")) for c in pod["spec"].get(field) or ()]
        for field in fields
    ]


def _note(call: Call, policy: Policy, pod: PodView) -> None:
    if policy.errors:
        errors = [str(error) for error in policy.errors]
        told = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        _annotate(call, "error", f"Failed to parse policy: {told}")
    found = policy.audit.violated_by(pod)
    if found:
        text = f'would violate PodSecurity "{policy.audit}": {_told(found)}'
        _annotate(call, "audit-violations", text)


def _warn(call: Call, policy: Policy, pod: PodView) -> None:
    found = policy.warn.violated_by(pod)
    if found:
        call.warnings.append(f'would violate PodSecurity "{policy.warn}": {_told(found)}')


def _annotate(call: Call, key: str, value: str) -> None:
    call.annotations[_PREFIX + key] = value


def _told(found: list[Violation]) -> str:
    return ", ".join(map(str, found))


def _view(holder: Object) -> PodView:
    metadata = holder.get("metadata") or {}
    return PodView(metadata.get("annotations") or {}, holder.get("spec") or {})


def _standard(
    labels: Mapping[str, str], mode: str, fallback: Level, errors: list[FieldError]
) -> Standard:
    standard = Standard()
    level, version = labels.get(f"{_PREFIX}{mode}"), labels.get(f"{_PREFIX}{mode}-version")
    if level is not None:
        standard = replace(standard, level=_LEVELS.get(level, fallback))
        if level not in _LEVELS:
            detail = f"must be one of {', '.join(_LEVELS)}"
            errors.append(_bad_label(mode, level, detail))
    if version is not None:
        if version == _LATEST or _VERSION.fullmatch(version):
            standard = replace(standard, version=version)
        else:
            errors.append(_bad_label(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
    return standard


def _bad_label(label: str, value: str, detail: str) -> FieldError:
    path = f"metadata.labels[{_PREFIX}{label}]"
    return FieldError(path, FieldErrorKind.INVALID, detail, value)
