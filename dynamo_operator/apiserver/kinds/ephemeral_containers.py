"""This module checks the containers that join a running Pod for debugging."""

from __future__ import annotations

from typing import Final

from dynamo_operator.apiserver.go_texts import go_text
from dynamo_operator.apiserver.kinds.rules import Errors, forbidden, not_found
from dynamo_operator.apiserver.resources import Object

_PATH: Final = "spec.ephemeralContainers"
_NOT_FOR_THEM: Final = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


def validate_ephemeral_containers(pod: Object) -> Errors:
    """Check what is particular to a Pod's ephemeral containers."""
    spec = pod.get("spec") or {}
    others = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
    }
    for position, container in enumerate(spec.get("ephemeralContainers") or ()):
        path = f"{_PATH}[{position}]"
        target = container.get("targetContainerName")
        if target and target not in others:
            yield not_found(f"{path}.targetContainerName", target)
        for field in _NOT_FOR_THEM:
            if container.get(field):
                yield forbidden(f"{path}.{field}", "cannot be set for an Ephemeral Container")


def validate_none_at_first(pod: Object) -> Errors:
    """Refuse a new Pod that brings its own."""
    if (pod.get("spec") or {}).get("ephemeralContainers"):
        yield forbidden(_PATH, "cannot be set on create")


def validate_ephemeral_change(new: Object, old: Object) -> Errors:
    """Check that containers were only added."""
    now = {c.get("name"): c for c in new["spec"].get("ephemeralContainers") or ()}
    for before in old["spec"].get("ephemeralContainers") or ():
        name = before.get("name")
        if name not in now:
            yield forbidden(_PATH, f'existing ephemeral containers "{name}" may not be removed\n')
        elif now[name] != before:
            change = f"from {go_text(before)} to {go_text(now[name])}"
            detail = f'existing ephemeral containers "{name}" may not be changed\n{change}'
            yield forbidden(_PATH, detail)
