"""This module fills in what the API server fills in for Pods and Pod templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.apiserver.quantities import canonical_quantity, is_quantity, parse_quantity
from dynamo_operator.apiserver.resources import Object

_CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_DEFAULT_MODE: Final = 0o644
_TOKEN_SECONDS: Final = 3600
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def containers_of(spec: Object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (path below the spec, container) of every kind of container."""
    for name in _CONTAINER_LISTS:
        for position, container in enumerate(spec.get(name) or ()):
            yield f"{name}[{position}]", container


_VOLUME_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "azureDisk": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    },
    "iscsi": {"iscsiInterface": "default"},
    "projected": {"sources": None},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def default_pod_spec(spec: Object) -> None:
    """Fill in a Pod spec or a template's spec."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for _, container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    if spec.get("overhead"):
        spec["overhead"] = {k: canonical_quantity(v) for k, v in spec["overhead"].items()}


def default_pod(pod: Object) -> None:
    """Fill in a Pod."""
    spec = pod.setdefault("spec", {})
    for _, container in containers_of(spec):
        _requests_from_limits(container)
    spec.setdefault("enableServiceLinks", True)
    default_pod_spec(spec)
    if spec.get("hostNetwork"):
        _default_host_ports(spec)


def created_pod(pod: Object) -> None:
    """Set what the server sets on a new Pod."""
    spec = pod.setdefault("spec", {})
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}


def qos_class(spec: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort."""
    resources = [c.get("resources") or {} for _, c in containers_of(spec)]
    if not any(r.get("limits") or r.get("requests") for r in resources):
        return "BestEffort"
    return "Guaranteed" if all(_is_guaranteed(r) for r in resources) else "Burstable"


def pull_policy(image: str) -> str:
    """Return the pull policy of an image reference that has none."""
    reference, digest, _ = image.partition("@")
    tag = reference.rpartition("/")[2].partition(":")[2]
    return "Always" if not digest and tag in ("", "latest") else "IfNotPresent"


def _default_host_ports(spec: Object) -> None:
    for _, container in containers_of(spec):
        for port in container.get("ports") or ():
            if "containerPort" in port:
                port.setdefault("hostPort", port["containerPort"])


def _default_container(container: dict[str, Any]) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image") or ""))
    for amounts in ("limits", "requests"):
        if container["resources"].get(amounts):
            container["resources"][amounts] = {
                name: canonical_quantity(v) for name, v in container["resources"][amounts].items()
            }
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        _default_field_ref((variable.get("valueFrom") or {}).get("fieldRef"))
        reference = (variable.get("valueFrom") or {}).get("resourceFieldRef")
        if reference:
            reference["divisor"] = canonical_quantity(reference.get("divisor", "0"))
    for name in _PROBES:
        if container.get(name):
            _default_probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        _default_http(handler)


def _default_probe(probe: dict[str, Any]) -> None:
    _default_http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(field):
            probe[field] = value


def _default_http(handler: Any) -> None:
    if isinstance(handler, dict) and handler.get("httpGet"):
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _default_field_ref(reference: dict[str, Any] | None) -> None:
    if reference:
        reference.setdefault("apiVersion", "v1")


def _default_volume(volume: dict[str, Any]) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    if (volume.get("emptyDir") or {}).get("sizeLimit") is not None:
        volume["emptyDir"]["sizeLimit"] = canonical_quantity(volume["emptyDir"]["sizeLimit"])
    for name, defaults in _VOLUME_DEFAULTS.items():
        if volume.get(name) is not None:
            volume[name] = {**defaults, **volume[name]}
    if volume.get("image") is not None:
        reference = volume["image"].get("reference") or ""
        volume["image"].setdefault("pullPolicy", pull_policy(reference))
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(name) is not None:
            volume[name].setdefault("defaultMode", _DEFAULT_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    for source in _sources(volume):
        token = source.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", _TOKEN_SECONDS)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _default_field_ref(item.get("fieldRef"))


def _sources(volume: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (volume.get("projected") or {}).get("sources") or ()
    yield {"downwardAPI": volume.get("downwardAPI")}


def _requests_from_limits(container: dict[str, Any]) -> None:
    resources = container.get("resources") or {}
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _is_guaranteed(resources: dict[str, Any]) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        name in limits and _amount(requests.get(name, limits[name])) == _amount(limits[name])
        for name in ("cpu", "memory")
    )


def _amount(value: Any) -> Any:
    return parse_quantity(str(value)) if is_quantity(str(value)) else value
