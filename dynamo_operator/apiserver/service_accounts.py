"""Admission: the ServiceAccount of a Pod, and the token it finds in its containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.resources import Object

TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607


class ServiceAccountAdmission:
    """Names the account of a new Pod, requires it to exist, and mounts its token."""

    def admit(self, call: Call, new: Object, old: Object | None) -> Object:
        """Complete a new Pod."""
        if old is not None or (call.resource.group, call.resource.kind) != ("", "Pod"):
            return new
        spec = dict(new.get("spec") or {})
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        account = call.world.storage.get(("", "serviceaccounts"), call.namespace, name)
        if account is None:
            raise status.forbidden(
                "",
                "pods",
                new["metadata"].get("name", ""),
                f"error looking up service account {call.namespace}/{name}: serviceaccount "
                f'"{name}" not found',
            )
        spec |= {"serviceAccountName": name, "serviceAccount": name}
        if not spec.get("imagePullSecrets") and account.value.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account.value["imagePullSecrets"]
        mounts = spec.get("automountServiceAccountToken")
        if mounts is None:
            mounts = account.value.get("automountServiceAccountToken", True)
        if mounts:
            spec = _with_token(spec, f"kube-api-access-{call.world.name_suffix()}")
        return {**new, "spec": spec}


def _with_token(spec: dict[str, Any], volume: str) -> dict[str, Any]:
    used = False
    for field in ("initContainers", "containers"):
        containers = []
        for container in spec.get(field) or ():
            mounts = container.get("volumeMounts") or []
            if TOKEN_DIRECTORY not in _paths(mounts):
                used = True
                mount = {"name": volume, "readOnly": True, "mountPath": TOKEN_DIRECTORY}
                container = {**container, "volumeMounts": [*mounts, mount]}
            containers.append(container)
        if containers:
            spec = {**spec, field: containers}
    if used:
        spec = {**spec, "volumes": [*(spec.get("volumes") or ()), _token_volume(volume)]}
    return spec


def _token_volume(name: str) -> dict[str, Any]:
    token = {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}}
    authority = {
        "configMap": {
            "name": "kube-root-ca.crt",
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
    }
    namespace = {
        "downwardAPI": {
            "items": [
                {
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }
            ]
        }
    }
    sources = [token, authority, namespace]
    return {"name": name, "projected": {"defaultMode": 0o644, "sources": sources}}


def _paths(mounts: Iterable[dict[str, Any]]) -> set[str]:
    return {mount.get("mountPath", "").rstrip("/") for mount in mounts}
