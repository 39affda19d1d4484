"""Admission: what a new Pod gets that its author did not write, priority and tolerations."""

from __future__ import annotations

from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.resources import Object

_UNREACHABLE_SECONDS = 300
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_CLASSES = ("scheduling.k8s.io", "priorityclasses")
_SYSTEM_CLASSES: dict[str, Object] = {
    "system-cluster-critical": {"value": 2_000_000_000},
    "system-node-critical": {"value": 2_000_001_000},
}


class PodAdmission:
    """Resolves the priority class and tolerates nodes that are away for five minutes."""

    def admit(self, call: Call, new: Object, old: Object | None) -> Object:
        """Complete a new Pod.

        Raises:
            StatusError: 403 for a class that is not there, or a priority that is not its.
        """
        if old is not None or (call.resource.group, call.resource.kind) != ("", "Pod"):
            return new
        spec = dict(new.get("spec") or {})
        _set_priority(call, new, spec)
        spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
        return {**new, "spec": spec}


def _set_priority(call: Call, pod: Object, spec: dict[str, Any]) -> None:
    name = spec.get("priorityClassName") or ""
    found = _class_of(call, name) if name else _global_default(call)
    if name and found is None:
        raise _refused(call, pod, f"no PriorityClass with name {name} was found")
    value = int((found or {}).get("value") or 0)
    policy = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
    if found is not None and not name:
        spec["priorityClassName"] = found["metadata"]["name"]
    if spec.get("priority") is not None and spec["priority"] != value:
        raise _refused(
            call,
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        raise _refused(
            call,
            pod,
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec |= {"priority": value, "preemptionPolicy": policy}


def _class_of(call: Call, name: str) -> Object | None:
    stored = call.world.storage.get(_CLASSES, "", name)
    return stored.value if stored else _SYSTEM_CLASSES.get(name)


def _global_default(call: Call) -> Object | None:
    """Return the least of the classes that are for Pods without one."""
    classes = (stored.value for stored in call.world.storage.objects(_CLASSES, ""))
    defaults = [each for each in classes if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each.get("value") or 0), default=None)


def _refused(call: Call, pod: Object, detail: str) -> status.StatusError:
    return status.forbidden("", "pods", pod["metadata"].get("name", ""), detail)


def _tolerations(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    missing = [key for key in _TOLERATED if not any(_tolerates(one, key) for one in given)]
    return [
        *given,
        *(
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _UNREACHABLE_SECONDS,
            }
            for key in missing
        ),
    ]


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    if toleration.get("effect") not in (None, "", "NoExecute"):
        return False
    return toleration.get("key", "") in ("", key)
