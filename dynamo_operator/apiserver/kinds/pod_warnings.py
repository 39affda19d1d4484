"""This module warns about parts of Pods that are no longer acted on, or not as one may think."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.apiserver.go_texts import go_text
from dynamo_operator.apiserver.kinds.pod_defaults import containers_of
from dynamo_operator.apiserver.object_metadata import dns_label
from dynamo_operator.apiserver.quantities import parse_quantity
from dynamo_operator.apiserver.resources import Object

_POD_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_CONTAINER_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_APP_ARMOR_TYPES: Final = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}
_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_VOLUMES: Final = {
    "photonPersistentDisk": "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "scaleIO: deprecated in v1.16, non-functional in v1.22+",
    "flocker": "flocker: deprecated in v1.22, non-functional in v1.25+",
    "storageos": "storageOS: deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "quobyte: deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "glusterfs: deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "cephfs: deprecated in v1.28, non-functional in v1.31+",
    "rbd": "rbd: deprecated in v1.28, non-functional in v1.31+",
}
_BYTES: Final = ("memory", "ephemeral-storage")
_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"


def pod_warnings(pod: Object) -> list[str]:
    """Return what to warn about in a Pod."""
    return list(_warnings(pod, ""))


def workload_warnings(workload: Object) -> list[str]:
    """Return what to warn about in the Pod template of a workload."""
    return list(_warnings(workload["spec"].get("template") or {}, "spec.template."))


def cron_job_warnings(cron_job: Object) -> list[str]:
    """Return what to warn about in the Pod template of a CronJob."""
    template = cron_job["spec"]["jobTemplate"]["spec"].get("template") or {}
    return list(_warnings(template, "spec.jobTemplate.spec.template."))


def name_warnings(workload: Object) -> list[str]:
    """Return what to warn about in the name of a new Pod, or of what makes Pods."""
    problems = dns_label(workload["metadata"]["name"])
    if not problems:
        return []
    where = "the Pod's hostname" if workload["kind"] == "Pod" else "Pod names and hostnames"
    return [
        f"metadata.name: this is used in {where}, which can result in surprising behavior; a DNS "
        f"label is recommended: {go_text(problems)}"
    ]


def _warnings(pod: Object, below: str) -> Iterator[str]:
    spec, path = pod.get("spec") or {}, f"{below}spec"
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("labelSelector") is None:
            yield f"{path}.topologySpreadConstraints[{index}].labelSelector: {_NO_SELECTOR}"
    for key, text in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{below}metadata.annotations[{key}]: {text}"
    for position, volume in enumerate(spec.get("volumes") or ()):
        for source, text in _VOLUMES.items():
            if source in volume:
                yield f"{path}.volumes[{position}].{text}"
    yield from _repeated(spec.get("hostAliases") or (), "ip", f"{path}.hostAliases")
    yield from _repeated(spec.get("imagePullSecrets") or (), "name", f"{path}.imagePullSecrets")
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _fractions(spec.get("overhead") or {}, f"{path}.overhead")
    yield from _seccomp(_POD_SECCOMP, annotations, spec, below)
    for inside, container in containers_of(spec):
        where = f"{path}.{inside}"
        yield from _of_container(container, where, annotations, spec, below)
    yield from _ports(spec, path)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}.terminationGracePeriodSeconds: {text}"
    yield from _affinity_warnings(spec.get("affinity") or {}, f"{path}.affinity")


def _of_container(
    container: Mapping[str, Any],
    where: str,
    annotations: Mapping[str, str],
    spec: Mapping[str, Any],
    below: str,
) -> Iterator[str]:
    name = container.get("name", "")
    yield from _seccomp(_CONTAINER_SECCOMP + name, annotations, container, below)
    key = _CONTAINER_APP_ARMOR + name
    is_alone = below and key in annotations and not _app_armor(container)
    if is_alone and _app_armor(spec) != _app_armor_profile(annotations[key]):
        yield _app_armor_warning(below, key)
    for amount in _BYTES:
        for side in ("limits", "requests"):
            given = (container.get("resources") or {}).get(side) or {}
            if amount in given:
                yield from _fractions({amount: given[amount]}, f"{where}.resources.{side}")
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value") or ""
        hides = variable.get("valueFrom") or value == f"$({name})" or f"$({name})" not in value
        if name in seen and hides:
            text = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{where}.env[{index}]: {text}"
        seen.add(name)


def app_armor_warnings(pod: Object) -> list[str]:
    """Return what to warn about in a new Pod that names its profiles in annotations only."""
    annotations = pod["metadata"].get("annotations") or {}
    told = []
    for _, container in containers_of(pod["spec"]):
        key = _CONTAINER_APP_ARMOR + container.get("name", "")
        # By now the container has the field of its annotation.
        taken = _app_armor(container)
        if key in annotations and taken in (None, _app_armor_profile(annotations[key])):
            told.append(_app_armor_warning("", key))
    return told


def _app_armor(holder: Mapping[str, Any]) -> Any:
    return (holder.get("securityContext") or {}).get("appArmorProfile")


def _app_armor_warning(below: str, key: str) -> str:
    words = 'deprecated since v1.30; use the "appArmorProfile" field instead'
    return f"{below}metadata.annotations[{key}]: {words}"


def _app_armor_profile(annotation: str) -> dict[str, str]:
    if annotation in _APP_ARMOR_TYPES:
        return {"type": _APP_ARMOR_TYPES[annotation]}
    return {"type": "Localhost", "localhostProfile": annotation.removeprefix("localhost/")}


def _seccomp(
    key: str, annotations: Mapping[str, str], holder: Mapping[str, Any], below: str
) -> Iterator[str]:
    if key in annotations and not (holder.get("securityContext") or {}).get("seccompProfile"):
        words = 'non-functional in v1.27+; use the "seccompProfile" field instead'
        yield f"{below}metadata.annotations[{key}]: {words}"


def _repeated(items: Any, field: str, path: str) -> Iterator[str]:
    seen = set()
    for index, item in enumerate(items):
        value = item.get(field, "")
        if value in seen:
            yield f'{path}[{index}].{field}: duplicate {field} "{value}"'
        seen.add(value)


def _fractions(amounts: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in _BYTES:
        if name in amounts and parse_quantity(str(amounts[name])).denominator != 1:
            text = f'fractional byte value "{amounts[name]}" is invalid, must be an integer'
            yield f"{path}[{name}]: {text}"


def _ports(spec: Object, path: str) -> Iterator[str]:
    ports = [
        (f"{path}.{position}.ports[{index}]", port)
        for position, container in containers_of(spec)
        for index, port in enumerate(container.get("ports") or ())
    ]
    for number, (where, port) in enumerate(ports):
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{where}: hostIP set without hostPort: {_go_port(port)}"
        for other_where, other in ports[:number]:
            if text := _clash(port, other):
                yield f"{where}: {text} port definition with {other_where}"
    first: dict[str, str] = {}
    for where, port in ports:
        name = port.get("name")
        if name and name in first:
            used = f"services and probes that select ports by name will use {first[name]}"
            yield f'{where}: duplicate port name "{name}" with {first[name]}, {used}'
        elif name:
            first[name] = where


def _clash(port: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return how a port is in the way of an earlier one; "" where it is not."""
    if any(port.get(field) != other.get(field) for field in ("containerPort", "protocol")):
        return ""
    mine, theirs = port.get("hostPort") or 0, other.get("hostPort") or 0
    my_ip, their_ip = port.get("hostIP") or "", other.get("hostIP") or ""
    if (mine, my_ip) == (theirs, their_ip):
        return "duplicate"
    if not mine or not theirs:
        return "overlapping"
    return "dangerously ambiguous" if mine == theirs and bool(my_ip) != bool(their_ip) else ""


def _go_port(port: Mapping[str, Any]) -> str:
    fields = (("Name", "name"), ("HostPort", "hostPort"), ("ContainerPort", "containerPort"))
    numbers = [f"{go}:{port.get(field, 0 if go != 'Name' else '')}" for go, field in fields]
    return f"{{{' '.join(numbers)} Protocol:{port.get('protocol', '')} HostIP:{port['hostIP']}}}"


def _affinity_warnings(affinity: Mapping[str, Any], path: str) -> Iterator[str]:
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        when = "requiredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(rules.get(when) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{side}.{when}[{index}].labelSelector: {_NO_SELECTOR}"
        when = "preferredDuringSchedulingIgnoredDuringExecution"
        for index, weighted in enumerate(rules.get(when) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                where = f"{path}.{side}.{when}[{index}].podAffinityTerm.labelSelector"
                yield f"{where}: {_NO_SELECTOR}"
