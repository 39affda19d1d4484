"""What a node's silence means for it and its Pods: conditions, taints, the end of Pods. Pure.

Source: Kubernetes' controllers of node lifecycle and taint eviction (pkg/controller/nodelifecycle,
pkg/controller/tainteviction), without their zones and rate limits: a cluster here has few nodes. As
there, no Pod goes while no node at all is ready: then it is more likely the control plane that is
cut off.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any, Final

from dynamo_operator.local_cluster.node_fit import tolerates
from dynamo_operator.local_cluster.pod_status import timestamp
from dynamo_operator.runtime.builtin_kinds import Node, Pod

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

_WRITTEN_BY_KUBELETS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_OURS = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE})


def readiness(node: Node) -> str:
    """Return the status of a Node's condition Ready: True, False or Unknown; "" without one."""
    for condition in node.status.get("conditions") or ():
        if condition["type"] == "Ready":
            return str(condition["status"])
    return ""


def silent_conditions(node: Node, now: datetime) -> list[dict[str, Any]]:
    """Return the conditions of a Node that was not heard of for too long."""
    conditions: list[dict[str, Any]] = deepcopy(node.status.get("conditions") or [])
    known = {condition["type"]: condition for condition in conditions}
    for type_ in _WRITTEN_BY_KUBELETS:
        condition = known.get(type_)
        if condition is None:
            conditions.append(
                {
                    "type": type_,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": node.metadata.creation_timestamp,
                    "lastTransitionTime": timestamp(now),
                }
            )
        elif condition["status"] != "Unknown":
            condition |= {
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": timestamp(now),
            }
    return conditions


def wanted_taints(node: Node, now: datetime, *, may_evict: bool) -> list[dict[str, Any]]:
    """Return a Node's taints: those of others, and those that its conditions call for.

    Args:
        node: the Node.
        now: when a new taint is added.
        may_evict: whether some node of the cluster is ready.
    """
    present: list[dict[str, Any]] = list(node.spec.get("taints") or ())
    wanted: list[tuple[str, str]] = []
    key = {"False": NOT_READY, "Unknown": UNREACHABLE}.get(readiness(node))
    if key:
        wanted += [(key, "NoSchedule"), *([(key, "NoExecute")] if may_evict else [])]
    if node.spec.get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    if not readiness(node):
        # As it was registered: it has not yet said how it is.
        wanted += [(t["key"], t["effect"]) for t in present if t["key"] == NOT_READY]
    known = {(taint["key"], taint["effect"]) for taint in present}
    kept = [t for t in present if t["key"] not in _OURS or (t["key"], t["effect"]) in wanted]
    return kept + [
        {"key": key, "effect": effect, "timeAdded": timestamp(now)}
        for key, effect in wanted
        if (key, effect) not in known
    ]


def evicting_taints(node: Node) -> list[Mapping[str, Any]]:
    """Return the taints that end Pods which do not tolerate them."""
    return [t for t in node.spec.get("taints") or () if t.get("effect") == "NoExecute"]


def seconds_left(
    pod: Pod, node: Node, since: Mapping[str, datetime], now: datetime
) -> float | None:
    """Return how long a Pod may stay on its node; None for as long as it likes.

    Args:
        pod: the Pod.
        node: its node.
        since: by the key of each NoExecute taint, when it was added or first seen.
        now: the time.
    """
    ends: list[float] = []
    for taint in evicting_taints(node):
        matching = [t for t in pod.spec.get("tolerations") or () if tolerates(t, taint)]
        if not matching:
            return 0.0
        limits = [t["tolerationSeconds"] for t in matching if "tolerationSeconds" in t]
        if limits:
            end = since[taint["key"]] + timedelta(seconds=max(min(limits), 0))
            ends.append(max((end - now).total_seconds(), 0.0))
    return min(ends, default=None)
