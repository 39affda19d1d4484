"""Whether a Pod fits on a node, and why not, in the scheduler's words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from dynamo_operator.local_cluster.quantities import parse_quantity
from dynamo_operator.runtime.builtin_kinds import Node, Pod

Requests = Mapping[str, Decimal]

_HARD_EFFECTS = ("NoSchedule", "NoExecute")


def pod_requests(pod: Pod) -> dict[str, Decimal]:
    """What a Pod needs: its containers together, or one init container if that needs more."""
    spec = pod.spec
    total: Counter[str] = Counter()
    most: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or ():
        requests = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            total.update(requests)
        for name, value in requests.items():
            most[name] = max(most.get(name, Decimal(0)), value)
    for container in spec.get("containers") or ():
        total.update(_container_requests(container))
    sums = {name: Decimal(value) for name, value in total.items()}
    needs = {
        name: max(sums.get(name, Decimal(0)), most.get(name, Decimal(0))) for name in {*sums, *most}
    }
    return {**needs, "pods": Decimal(1)}


def _container_requests(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(value) for name, value in wanted.items()}


def unfit_reasons(pod: Pod, node: Node, used: Iterable[Requests]) -> list[str]:
    """Return why a Pod cannot run on a node; empty when it can.

    Args:
        pod: the Pod.
        node: the node.
        used: requests of the Pods that are there.
    """
    if not _is_ready(node):
        return ["node(s) were not ready"]
    if node.spec.get("unschedulable") and not _tolerates_unschedulable(pod):
        return ["node(s) were unschedulable"]
    if not _selects(pod, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if (taint := _untolerated(pod, node)) is not None:
        return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
    return _lacking(pod, node, used)


def _lacking(pod: Pod, node: Node, used: Iterable[Requests]) -> list[str]:
    capacity = node.status.get("allocatable") or node.status.get("capacity") or {}
    free = {name: parse_quantity(value) for name, value in capacity.items()}
    for requests in used:
        for name, value in requests.items():
            free[name] = free.get(name, Decimal(0)) - value
    lacking = sorted(
        name
        for name, value in pod_requests(pod).items()
        if value > 0 and value > free.get(name, Decimal(0))
    )
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in lacking]


def explain(reasons: Sequence[Sequence[str]]) -> str:
    """Say why a Pod fits on none of the nodes, given the reasons of each."""
    if not reasons:
        return "no nodes available to schedule pods"
    counts = Counter(reason for node in reasons for reason in node)
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f"0/{len(reasons)} nodes are available: {listed}."


def _is_ready(node: Node) -> bool:
    conditions = node.status.get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _tolerates_unschedulable(pod: Pod) -> bool:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return any(tolerates(t, taint) for t in pod.spec.get("tolerations") or ())


def _untolerated(pod: Pod, node: Node) -> Mapping[str, Any] | None:
    tolerations = pod.spec.get("tolerations") or ()
    for taint in node.spec.get("taints") or ():
        hard = taint.get("effect") in _HARD_EFFECTS
        if hard and not any(tolerates(toleration, taint) for toleration in tolerations):
            found: Mapping[str, Any] = taint
            return found
    return None


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a Pod with that toleration may be on a node with that taint."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key", "")
    if key and key != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(key) and toleration.get("value", "") == taint.get("value", "")


def _selects(pod: Pod, node: Node) -> bool:
    wanted: Mapping[str, str] = pod.spec.get("nodeSelector") or {}
    if any(node.labels.get(name) != value for name, value in wanted.items()):
        return False
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    terms = required.get("nodeSelectorTerms") or ()
    return any(_matches_term(term, node) for term in terms)


def _matches_term(term: Mapping[str, Any], node: Node) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.key.name}
    return all(_matches(e, node.labels) for e in expressions) and all(
        _matches(e, names) for e in fields
    )


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: Sequence[str] = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator if value is not None and value.isdigit():
            bound = int(values[0])
            return int(value) > bound if operator == "Gt" else int(value) < bound
    return False
