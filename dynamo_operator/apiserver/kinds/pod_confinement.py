"""This module checks what confines a Pod's containers: profiles, masks, and that they agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.apiserver.kinds.pod_defaults import containers_of
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    forbidden,
    invalid,
    required,
    supported,
)
from dynamo_operator.apiserver.resources import Object

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_POD_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL: Final = "localhost/"
_NAMESPACED: Final = {
    "hostNetwork": ("net.",),
    "hostIPC": ("kernel.msg", "kernel.sem", "kernel.shm", "fs.mqueue."),
}
"""Sysctls that belong to a namespace which the field shares with the host."""
_DEFAULTS: Final = ("runtime/default", "docker/default")


def validate_context(context: Mapping[str, Any], path: str, *, host_users: bool = True) -> Errors:
    """Check the security context of a Pod or a container."""
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(field)
        if value is not None and not 0 <= value <= 2**31 - 1:
            yield invalid(f"{path}.{field}", value, "must be between 0 and 2147483647, inclusive")
    proc_mount = context.get("procMount", "Default")
    yield from supported(f"{path}.procMount", proc_mount, _PROC_MOUNTS)
    if host_users and proc_mount == "Unmasked":
        detail = "`hostUsers` must be false to use `Unmasked`"
        yield invalid(f"{path}.procMount", proc_mount, detail)
    yield from _profile_errors(context, "seccompProfile", "seccomp", path)
    if context.get("allowPrivilegeEscalation") is False:
        added = (context.get("capabilities") or {}).get("add") or ()
        for is_set, other in (
            (context.get("privileged"), "`privileged` to true"),
            ("CAP_SYS_ADMIN" in added, "`capabilities.Add` CAP_SYS_ADMIN"),
        ):
            if is_set:
                detail = f"cannot set `allowPrivilegeEscalation` to false and {other}"
                yield invalid(path, context, detail)
    yield from _profile_errors(context, "appArmorProfile", "AppArmor", path)


def validate_sharing(spec: Object, path: str) -> Errors:
    """Check that what a Pod shares with its host fits together."""
    if spec.get("hostNetwork"):
        yield from _host_port_errors(spec, path)
    if spec.get("hostUsers") is False:
        for field, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(field):
                yield forbidden(f"{path}.{shown}", "when `hostUsers` is false")
    for position, sysctl in enumerate((spec.get("securityContext") or {}).get("sysctls") or ()):
        name = sysctl.get("name", "")
        for field, prefixes in _NAMESPACED.items():
            if spec.get(field) and name.startswith(prefixes):
                detail = f"may not be specified when '{field}' is true"
                where = f"{path}.securityContext.sysctls[{position}].name"
                yield invalid(where, name, detail)


def _host_port_errors(spec: Object, path: str) -> Errors:
    for position, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            number = port.get("hostPort")
            if number and number != port.get("containerPort"):
                detail = "must match `containerPort` when `hostNetwork` is true"
                where = f"{path}.containers[{position}].ports[{place}].hostPort"
                yield invalid(where, number, detail)


def validate_annotations(pod: Object, path: str) -> Errors:
    """Check the annotations that named profiles before there were fields for them."""
    annotations, spec = _annotations(pod), pod.get("spec") or {}
    names = {container.get("name") for _, container in containers_of(spec)}
    for key, value in annotations.items():
        if key.startswith(_APP_ARMOR):
            name = key.removeprefix(_APP_ARMOR)
            if name not in names:
                yield invalid(f"{path}[{key}]", name, "container not found")
            if value and not _is_profile(value, _DEFAULTS[:1]):
                yield invalid(f"{path}[{key}]", value, f'invalid AppArmor profile name: "{value}"')
        elif (key == _POD_SECCOMP or key.startswith(_CONTAINER_SECCOMP)) and not _is_profile(
            value, _DEFAULTS
        ):
            yield invalid(f"{path}.{key}", value, "must be a valid seccomp profile")


def validate_seccomp_agreement(pod: Object, path: str) -> Errors:
    """Check that annotations and fields do not name different seccomp profiles."""
    annotations, spec = _annotations(pod), pod.get("spec") or {}
    holders = [(_POD_SECCOMP, path, spec)]
    holders += [
        (_CONTAINER_SECCOMP + container.get("name", ""), f"{path}.{below}", container)
        for below, container in containers_of(spec)
    ]
    for key, where, holder in holders:
        profile = _profile(holder, "seccompProfile")
        if profile and key in annotations:
            place = f"{where}.securityContext.seccompProfile"
            yield from _disagreement(annotations[key], profile, _DEFAULTS, place, "seccomp")


def validate_app_armor_agreement(pod: Object, path: str) -> Errors:
    """Check that annotations and fields do not name different AppArmor profiles."""
    annotations, spec = _annotations(pod), pod.get("spec") or {}
    for below, container in containers_of(spec):
        key = _APP_ARMOR + container.get("name", "")
        profile = _profile(container, "appArmorProfile") or _profile(spec, "appArmorProfile")
        if profile and key in annotations:
            place = f"{path}.{below}.securityContext.appArmorProfile"
            yield from _disagreement(annotations[key], profile, _DEFAULTS[:1], place, "apparmor")


def take_app_armor_annotations(pod: Object) -> None:
    """Give containers of a new Pod the fields for what its annotations say."""
    annotations, spec = _annotations(pod), pod.get("spec") or {}
    of_pod = _profile(spec, "appArmorProfile")
    for _, container in containers_of(spec):
        value = annotations.get(_APP_ARMOR + container.get("name", ""))
        if value is None or _profile(container, "appArmorProfile"):
            continue
        for named in _named_profile(value):
            if named != of_pod:
                container.setdefault("securityContext", {})["appArmorProfile"] = named


def _named_profile(annotation: str) -> Iterator[dict[str, str]]:
    if annotation == "unconfined":
        yield {"type": "Unconfined"}
    elif annotation == "runtime/default":
        yield {"type": "RuntimeDefault"}
    elif annotation.startswith(_LOCAL) and annotation != _LOCAL:
        yield {"type": "Localhost", "localhostProfile": annotation.removeprefix(_LOCAL)}


def _profile_errors(context: Mapping[str, Any], field: str, what: str, path: str) -> Errors:
    profile = context.get(field)
    if profile is None:
        return
    kind, local, where = profile.get("type"), profile.get("localhostProfile"), f"{path}.{field}"
    if not kind:
        yield required(f"{where}.type", f"type is required when {field} is set")
    else:
        yield from supported(f"{where}.type", kind, _PROFILES)
    if kind == "Localhost" and not local:
        yield required(f"{where}.localhostProfile", f"must be set when {what} type is Localhost")
    elif kind != "Localhost" and local is not None:
        detail = f"can only be set when {what} type is Localhost"
        yield invalid(f"{where}.localhostProfile", local, detail)


def _disagreement(
    annotation: str, profile: Mapping[str, Any], defaults: tuple[str, ...], path: str, what: str
) -> Errors:
    kind = profile.get("type")
    agrees = {
        "Unconfined": annotation == "unconfined",
        "RuntimeDefault": annotation in defaults,
        "Localhost": annotation.startswith(_LOCAL),
    }
    if not agrees.get(str(kind), True):
        yield forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    elif kind == "Localhost" and annotation != f"{_LOCAL}{profile.get('localhostProfile')}":
        detail = f"{what} profile in annotation and field must match"
        yield forbidden(f"{path}.localhostProfile", detail)


def _is_profile(value: str, defaults: tuple[str, ...]) -> bool:
    return value in (*defaults, "unconfined") or value.startswith(_LOCAL)


def _profile(holder: Mapping[str, Any], field: str) -> Any:
    return (holder.get("securityContext") or {}).get(field)


def _annotations(pod: Object) -> Mapping[str, str]:
    annotations: Mapping[str, str] = (pod.get("metadata") or {}).get("annotations") or {}
    return annotations
