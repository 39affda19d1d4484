"""Which Secrets of a namespace hold credentials for the registries of given images. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from dynamo_operator.images import ImageReference
from dynamo_operator.runtime.builtin_kinds import Secret

DOCKER_CONFIG_TYPE: Final = "kubernetes.io/dockerconfigjson"
"""The type of Secrets that are looked at, as `kubectl create secret docker-registry` makes them."""

_DOCKER_CONFIG_KEY: Final = ".dockerconfigjson"
_DOCKER_HUB: Final = "docker.io"
_NAMES_OF_DOCKER_HUB: Final = ("index.docker.io", "registry-1.docker.io")


def matching_secrets(secrets: Iterable[Secret], images: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the Secrets that are for the host of one of the images' registries.

    Args:
        secrets: of one namespace; what is no Docker configuration is passed over.
        images: references, e.g. `nvcr.io/nvidia/planner:1.6.0`.
    """
    hosts = {registry_host(image) for image in images}
    return tuple(
        sorted(
            secret.key.name
            for secret in secrets
            if any(_is_for(pattern, host) for pattern in _hosts_of(secret) for host in hosts)
        )
    )


def registry_host(image: str) -> str:
    """Return the host, with its port, of the registry that an image is pulled from.

    Raises:
        ValueError: it names no image.
    """
    first, slash, _ = ImageReference.parse(image).registry_path.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return _canonical(first) if is_host else _DOCKER_HUB


def _hosts_of(secret: Secret) -> Iterator[str]:
    """Yield the hosts that a Docker configuration names, `*` standing for a part of a name."""
    if secret.type != DOCKER_CONFIG_TYPE:
        return
    try:
        text = base64.b64decode(secret.data.get(_DOCKER_CONFIG_KEY, ""), validate=True)
        entries = json.loads(text)["auths"]
        names = [str(name) for name in entries]
    except (ValueError, LookupError, TypeError, RecursionError):
        return  # nobody can pull with it; what is in it is not for a log
    for name in names:
        yield _canonical(name.partition("://")[2] or name)


def _canonical(name: str) -> str:
    host = name.partition("/")[0].lower()
    return _DOCKER_HUB if host in _NAMES_OF_DOCKER_HUB else host


def _is_for(pattern: str, host: str) -> bool:
    """Compare part by part, as the kubelet does: `*.example.com` is not for `a.b.example.com`."""
    patterns, parts = pattern.split("."), host.split(".")
    return len(patterns) == len(parts) and all(map(fnmatchcase, parts, patterns))
