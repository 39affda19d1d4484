"""Kubeconfigs for the users of a server whose authority is ours."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dynamo_operator.apiserver.codec import to_yaml
from dynamo_operator.certificates import Certificate


def client_kubeconfig(
    url: str,
    ca_certificate: bytes,
    certificate: Certificate,
    *,
    user: str,
    namespace: str,
    cluster: str = "embedded",
) -> dict[str, Any]:
    """Return a kubeconfig with one cluster and one user, who has a client certificate."""
    credentials = {
        "client-certificate-data": _base64(certificate.certificate),
        "client-key-data": _base64(certificate.key),
    }
    server = {"server": url, "certificate-authority-data": _base64(ca_certificate)}
    context = {"cluster": cluster, "user": user, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": server}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": cluster, "context": context}],
        "current-context": cluster,
    }


def acting_as(kubeconfig: Mapping[str, Any], user: str, groups: Sequence[str]) -> dict[str, Any]:
    """Return a kubeconfig whose only user acts on behalf of another."""
    (own,) = kubeconfig["users"]
    acting = {**own, "user": {**own["user"], "as": user, "as-groups": list(groups)}}
    return {**kubeconfig, "users": [acting]}


def write_private(path: Path, kubeconfig: Mapping[str, Any]) -> None:
    """Write a kubeconfig that only its owner can read."""
    path.touch(mode=0o600)
    path.write_bytes(to_yaml(kubeconfig))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
