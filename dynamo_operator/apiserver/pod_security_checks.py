"""This module holds the checks of the Pod Security Standards, for each version of them.

The levels are cumulative. A check of the restricted level may stand in for one of the baseline
that it makes stricter, so that a Pod is not told the same twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Final

from dynamo_operator.apiserver.kinds.pod_defaults import containers_of


class Level(IntEnum):
    """How much a policy forbids; more is greater."""

    PRIVILEGED = 0
    BASELINE = 1
    RESTRICTED = 2


@dataclass(frozen=True, slots=True)
class Violation:
    """What a Pod does that a level forbids: in general, and in this Pod."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


@dataclass(frozen=True, slots=True)
class PodView:
    """A Pod or a Pod template, as the checks see it."""

    annotations: Mapping[str, str]
    spec: dict[str, Any]

    @property
    def containers(self) -> list[dict[str, Any]]:
        """The containers of every kind."""
        return [container for _, container in containers_of(self.spec)]

    @property
    def is_windows(self) -> bool:
        """Whether it says that it is for Windows, where some fields may not be set."""
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """Whether it runs in a user namespace."""
        return self.spec.get("hostUsers") is False

    def naming(self, is_bad: Callable[[dict[str, Any]], object]) -> list[str]:
        """Return the names of the containers that are bad."""
        return [c.get("name", "") for c in self.containers if is_bad(c)]

    def setters(self, is_bad: Callable[[Mapping[str, Any]], object]) -> str:
        """Say who has a bad security context: the Pod, containers, or both; "" for nobody."""
        found = ["pod"] if is_bad(_context(self.spec)) else []
        names = self.naming(lambda container: is_bad(_context(container)))
        if names:
            found.append(_named("container", names))
        return " and ".join(found)


Check = Callable[[PodView], Violation | None]

_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SYSCTLS: Final[Mapping[int, tuple[str, ...]]] = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    37: ("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
}
"""The safe sysctls by the minor version that added them."""
_PROFILES: Final = frozenset({"RuntimeDefault", "Localhost"})
_APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_ANNOTATION: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_ANNOTATION: Final = "container.seccomp.security.alpha.kubernetes.io/"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")


def violations(level: Level, minor: int, pod: PodView) -> list[Violation]:
    """Return what of a Pod the level forbids, in the order in which a server tells it.

    Args:
        level: the level to hold it to.
        minor: the minor version of Kubernetes whose definition of the level counts.
        pod: the Pod or Pod template.
    """
    return [found for check in _checks_of(level, minor) if (found := check(pod)) is not None]


@cache
def _checks_of(level: Level, minor: int) -> tuple[Check, ...]:
    active = {name: rule for name, rule in _RULES.items() if rule.level <= level and rule.at(minor)}
    replaced = {rule.replaces for rule in active.values()}
    in_order = sorted(active.items(), key=lambda item: (item[1].level, item[0]))
    found = [rule.at(minor) for name, rule in in_order if name not in replaced]
    return tuple(check for check in found if check is not None)


def _context(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    context: Mapping[str, Any] = holder.get("securityContext") or {}
    return context


def _plural(word: str, things: Iterable[object]) -> str:
    return word if len(list(things)) == 1 else f"{word}s"


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _named(word: str, names: list[str]) -> str:
    return f"{_plural(word, names)} {_quoted(names)}"


def _annotation(key: str, value: str) -> str:
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _app_armor(pod: PodView) -> Violation | None:
    values = set()

    def is_bad(context: Mapping[str, Any]) -> bool:
        profile = context.get("appArmorProfile")
        if profile is None or profile.get("type", "") in _PROFILES:
            return False
        values.add(profile.get("type", ""))
        return True

    annotations = sorted(
        _annotation(key, value)
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR_ANNOTATION)
        and not (value in ("", "runtime/default") or value.startswith("localhost/"))
    )
    setters = [text for text in [pod.setters(is_bad)] if text]
    if annotations:
        setters.append(_plural("annotation", annotations))
    if not setters:
        return None
    told = [*sorted(values), *annotations]
    return Violation(
        _plural("forbidden AppArmor profile", told),
        f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(told)}",
    )


def _baseline_capabilities(pod: PodView) -> Violation | None:
    names, added = _adding(pod, _CAPABILITIES)
    if not names:
        return None
    return Violation("non-default capabilities", _must_not_add(names, added))


def _restricted_capabilities(pod: PodView) -> Violation | None:
    keeping = pod.naming(lambda container: "ALL" not in (_capabilities(container, "drop")))
    names, added = _adding(pod, {"NET_BIND_SERVICE"})
    details = []
    if keeping:
        must = 'must set securityContext.capabilities.drop=["ALL"]'
        details.append(f"{_named('container', keeping)} {must}")
    if names:
        details.append(_must_not_add(names, added))
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _capabilities(container: Mapping[str, Any], change: str) -> list[str]:
    return (_context(container).get("capabilities") or {}).get(change) or []


def _adding(pod: PodView, allowed: Iterable[str]) -> tuple[list[str], set[str]]:
    def beyond(container: Mapping[str, Any]) -> set[str]:
        return set(_capabilities(container, "add")) - set(allowed)

    return pod.naming(beyond), set().union(*map(beyond, pod.containers))


def _must_not_add(names: list[str], added: set[str]) -> str:
    return (
        f"{_named('container', names)} must not include {_quoted(sorted(added))}"
        " in securityContext.capabilities.add"
    )


def _host_namespaces(pod: PodView) -> Violation | None:
    shared = [f for f in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(f)]
    if not shared:
        return None
    return Violation("host namespaces", ", ".join(f"{field}=true" for field in shared))


def _host_path_volumes(pod: PodView) -> Violation | None:
    names = [volume["name"] for volume in pod.spec.get("volumes") or () if "hostPath" in volume]
    return Violation("hostPath volumes", _named("volume", names)) if names else None


def _host_ports(pod: PodView) -> Violation | None:
    def host_ports(container: Mapping[str, Any]) -> set[str]:
        return {str(p["hostPort"]) for p in container.get("ports") or () if p.get("hostPort")}

    names = pod.naming(host_ports)
    if not names:
        return None
    ports: set[str] = set().union(*map(host_ports, pod.containers))
    use = "uses" if len(names) == 1 else "use"
    told = f"{_plural('hostPort', ports)} {', '.join(sorted(ports))}"
    return Violation("hostPort", f"{_named('container', names)} {use} {told}")


def _hosts_of_handlers(pod: PodView) -> Violation | None:
    names = sorted(set(pod.naming(_handler_hosts)))
    if not names:
        return None
    hosts: set[str] = set().union(*map(_handler_hosts, pod.containers))
    use = "uses" if len(names) == 1 else "use"
    told = f"{_plural('probe or lifecycle host', hosts)} {_quoted(sorted(hosts))}"
    return Violation("probe or lifecycle host", f"{_named('container', names)} {use} {told}")


def _handler_hosts(container: Mapping[str, Any]) -> set[str]:
    hooks = container.get("lifecycle") or {}
    handlers = [*map(container.get, _PROBES), *map(hooks.get, _HOOKS)]
    return {
        action["host"]
        for handler in handlers
        for action in ((handler or {}).get("httpGet"), (handler or {}).get("tcpSocket"))
        if action and action.get("host")
    }


def _privileged(pod: PodView) -> Violation | None:
    names = pod.naming(lambda container: _context(container).get("privileged"))
    if not names:
        return None
    must = "must not set securityContext.privileged=true"
    return Violation("privileged", f"{_named('container', names)} {must}")


def _proc_mount(pod: PodView) -> Violation | None:
    values = set()

    def is_bad(container: Mapping[str, Any]) -> bool:
        value = _context(container).get("procMount", "Default")
        if value == "Default":
            return False
        values.add(value)
        return True

    names = pod.naming(is_bad)
    if not names:
        return None
    must = f"must not set securityContext.procMount to {_quoted(sorted(values))}"
    return Violation("procMount", f"{_named('container', names)} {must}")


def _selinux(types: frozenset[str]) -> Check:
    def check(pod: PodView) -> Violation | None:
        bad_types, bad_fields = set(), set()

        def is_bad(context: Mapping[str, Any]) -> bool:
            options = context.get("seLinuxOptions") or {}
            fields = {field for field in ("user", "role") if options.get(field)}
            bad = {options.get("type", "")} - types
            bad_types.update(bad)
            bad_fields.update(fields)
            return bool(bad or fields)

        setters = pod.setters(is_bad)
        if not setters:
            return None
        told = [_named("type", sorted(bad_types))] if bad_types else []
        told += [f"{field} may not be set" for field in ("user", "role") if field in bad_fields]
        detail = f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(told)}"
        return Violation("seLinuxOptions", detail)

    return check


def _seccomp_annotations(pod: PodView) -> Violation | None:
    keys = {_SECCOMP_CONTAINER_ANNOTATION + c.get("name", "") for c in pod.containers}
    bad = sorted(
        _annotation(key, pod.annotations[key])
        for key in {_SECCOMP_ANNOTATION, *keys} & set(pod.annotations)
        if pod.annotations[key] not in ("runtime/default", "docker/default")
        and not pod.annotations[key].startswith("localhost/")
    )
    if not bad:
        return None
    told = f"forbidden {_plural('annotation', bad)} {', '.join(bad)}"
    return Violation("seccompProfile", told)


def _baseline_seccomp(pod: PodView) -> Violation | None:
    values = set()

    def is_bad(context: Mapping[str, Any]) -> bool:
        profile = context.get("seccompProfile")
        if profile is None or profile.get("type", "") in _PROFILES:
            return False
        values.add(profile.get("type", ""))
        return True

    setters = pod.setters(is_bad)
    if not setters:
        return None
    must = f"must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
    return Violation("seccompProfile", f"{setters} {must}")


def _restricted_seccomp(pod: PodView) -> Violation | None:
    explicit = _baseline_seccomp(pod)
    if explicit or _context(pod.spec).get("seccompProfile") is not None:
        return explicit
    names = pod.naming(lambda container: _context(container).get("seccompProfile") is None)
    if not names:
        return None
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_named('container', names)} {must}")


def _sysctls(minor: int) -> Check:
    allowed = {name for since, names in _SYSCTLS.items() if since <= minor for name in names}

    def check(pod: PodView) -> Violation | None:
        set_here = [sysctl["name"] for sysctl in _context(pod.spec).get("sysctls") or ()]
        bad = [name for name in set_here if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def _windows_host_process(pod: PodView) -> Violation | None:
    setters = pod.setters(lambda c: (c.get("windowsOptions") or {}).get("hostProcess"))
    if not setters:
        return None
    must = "must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", f"{setters} {must}")


def _privilege_escalation(pod: PodView) -> Violation | None:
    names = pod.naming(lambda c: _context(c).get("allowPrivilegeEscalation") is not False)
    if not names:
        return None
    must = "must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", f"{_named('container', names)} {must}")


def _restricted_volumes(pod: PodView) -> Violation | None:
    sources = {
        volume["name"]: [source for source in volume if source != "name"]
        for volume in pod.spec.get("volumes") or ()
    }
    bad = {name: of for name, of in sources.items() if not _VOLUMES.intersection(of)}
    if not bad:
        return None
    types = sorted({source for of in bad.values() for source in of[:1] or ["unknown"]})
    use = "uses" if len(bad) == 1 else "use"
    told = f"{_named('volume', list(bad))} {use} {_named('restricted volume type', types)}"
    return Violation("restricted volume types", told)


def _run_as_non_root(pod: PodView) -> Violation | None:
    reason = "runAsNonRoot != true"
    setters = pod.setters(lambda context: context.get("runAsNonRoot") is False)
    if setters:
        return Violation(reason, f"{setters} must not set securityContext.runAsNonRoot=false")
    if _context(pod.spec).get("runAsNonRoot"):
        return None
    names = pod.naming(lambda container: _context(container).get("runAsNonRoot") is None)
    if not names:
        return None
    must = "must set securityContext.runAsNonRoot=true"
    return Violation(reason, f"pod or {_named('container', names)} {must}")


def _run_as_user(pod: PodView) -> Violation | None:
    setters = pod.setters(lambda context: context.get("runAsUser") == 0)
    return Violation("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _unless_windows(check: Check) -> Check:
    return lambda pod: None if pod.is_windows else check(pod)


def _unless_own_users(check: Check) -> Check:
    return lambda pod: None if pod.has_own_users else check(pod)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A check by the minor version that introduced each form of it."""

    level: Level
    forms: Mapping[int, Check]
    replaces: str = ""

    def at(self, minor: int) -> Check | None:
        """Return the form that counts in a version, None before there was any."""
        since = max((first for first in self.forms if first <= minor), default=None)
        return None if since is None else self.forms[since]


_RULES: Final[Mapping[str, _Rule]] = {
    "appArmorProfile": _Rule(Level.BASELINE, {0: _app_armor}),
    "capabilities_baseline": _Rule(Level.BASELINE, {0: _baseline_capabilities}),
    "hostNamespaces": _Rule(Level.BASELINE, {0: _host_namespaces}),
    "hostPathVolumes": _Rule(Level.BASELINE, {0: _host_path_volumes}),
    "hostPorts": _Rule(Level.BASELINE, {0: _host_ports}),
    "hostProbesAndHostLifecycle": _Rule(Level.BASELINE, {34: _hosts_of_handlers}),
    "privileged": _Rule(Level.BASELINE, {0: _privileged}),
    "procMount": _Rule(Level.BASELINE, {0: _proc_mount, 35: _unless_own_users(_proc_mount)}),
    "seLinuxOptions": _Rule(
        Level.BASELINE,
        {0: _selinux(_SELINUX_TYPES), 31: _selinux(_SELINUX_TYPES | {"container_engine_t"})},
    ),
    "seccompProfile_baseline": _Rule(
        Level.BASELINE, {0: _seccomp_annotations, 19: _baseline_seccomp}
    ),
    "sysctls": _Rule(Level.BASELINE, {minor: _sysctls(minor) for minor in _SYSCTLS}),
    "windowsHostProcess": _Rule(Level.BASELINE, {0: _windows_host_process}),
    "allowPrivilegeEscalation": _Rule(
        Level.RESTRICTED, {8: _privilege_escalation, 25: _unless_windows(_privilege_escalation)}
    ),
    "capabilities_restricted": _Rule(
        Level.RESTRICTED,
        {22: _restricted_capabilities, 25: _unless_windows(_restricted_capabilities)},
        replaces="capabilities_baseline",
    ),
    "procMount_restricted": _Rule(Level.RESTRICTED, {35: _proc_mount}, replaces="procMount"),
    "restrictedVolumes": _Rule(
        Level.RESTRICTED, {0: _restricted_volumes}, replaces="hostPathVolumes"
    ),
    "runAsNonRoot": _Rule(
        Level.RESTRICTED, {0: _run_as_non_root, 35: _unless_own_users(_run_as_non_root)}
    ),
    "runAsUser": _Rule(Level.RESTRICTED, {23: _run_as_user, 35: _unless_own_users(_run_as_user)}),
    "seccompProfile_restricted": _Rule(
        Level.RESTRICTED,
        {19: _restricted_seccomp, 25: _unless_windows(_restricted_seccomp)},
        replaces="seccompProfile_baseline",
    ),
}
