"""A relay's status: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dynamo_operator.api.conditions import Condition, ConditionType, ReadyReason
from dynamo_operator.api.labels import RELAY_REVISION_LABEL
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime.builtin_kinds import Deployment, Pod
from dynamo_operator.runtime.conditions import find_condition, set_condition
from reconcilers.pool_relay.manifests import REVISION_DIGITS, replicas_of

MESSAGE_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one condition says."""

    holds: bool
    reason: ReadyReason
    message: str = ""


def readiness(
    relay: DynamoPoolRelay, deployment: Deployment, pods: Sequence[Pod], revision: str
) -> Verdict:
    """Judge the relays behind the Service.

    A Deployment counts as available what the previous revision left, so Pods are counted instead:
    those of the current connection revision.
    """
    if replicas_of(relay) == 0:
        return Verdict(False, ReadyReason.SCALED_TO_ZERO, "no relays are asked for")
    seen = deployment.status.get("observedGeneration") or 0
    if seen < deployment.generation:
        message = "the Deployment's change was not taken up yet"
        return Verdict(False, ReadyReason.ROLLING_OUT, message)
    current = [pod for pod in pods if _is_of(pod, revision)]
    available = [pod for pod in current if is_available(pod)]
    if available:
        wanted = replicas_of(relay)
        return Verdict(True, ReadyReason.READY, f"{min(len(available), wanted)} of {wanted} serve")
    problem = _problem(deployment, current)
    old = any(is_available(pod) for pod in pods)
    reason = ReadyReason.ROLLING_OUT if old else ReadyReason.NO_AVAILABLE_RELAY
    return Verdict(False, reason, problem or "no relay of the current revision is available yet")


def is_available(pod: Pod) -> bool:
    """Whether a relay serves: Ready, and not about to go."""
    return not pod.is_deleting and _condition(pod.status, "Ready").get("status") == "True"


def judged(
    relay: DynamoPoolRelay,
    fields: Mapping[str, Any],
    *,
    ready: Verdict,
    published: Verdict,
    now: datetime,
) -> dict[str, Any]:
    """Return the whole status of the relay's generation.

    Args:
        relay: as read.
        fields: what is not a condition; absent fields are absent.
        ready: the Ready condition.
        published: the Published condition.
        now: time of conditions whose status flips.
    """
    conditions: list[Condition] = []
    for kind, verdict in ((ConditionType.READY, ready), (ConditionType.PUBLISHED, published)):
        previous = find_condition(relay.status.conditions, kind)
        kept = [previous] if previous is not None else []
        condition = Condition(
            type=kind,
            status="True" if verdict.holds else "False",
            reason=verdict.reason,
            message=verdict.message[:MESSAGE_LIMIT],
            observed_generation=relay.generation,
        )
        set_condition(kept, condition, now=now)
        conditions += kept
    return {
        **fields,
        "observedGeneration": relay.generation,
        "conditions": [each.to_dict() for each in conditions],
    }


def counts(deployment: Deployment | None) -> dict[str, int]:
    """Return how many relays there are, as the Deployment tells."""
    status = deployment.status if deployment is not None else {}
    return {
        "replicas": status.get("replicas") or 0,
        "readyReplicas": status.get("readyReplicas") or 0,
    }


def _is_of(pod: Pod, revision: str) -> bool:
    return pod.labels.get(RELAY_REVISION_LABEL) == revision[:REVISION_DIGITS]


def _problem(deployment: Deployment, pods: Sequence[Pod]) -> str:
    """Say what keeps the relays from serving, "" where nothing is known."""
    failure = _condition(deployment.status, "ReplicaFailure")
    if failure.get("status") == "True":
        return str(failure.get("message", ""))
    for pod in pods:
        scheduled = _condition(pod.status, "PodScheduled")
        if scheduled.get("status") == "False":
            return f"Pod {pod.key.name}: {scheduled.get('message', 'is not scheduled')}"
        for container in pod.status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                words = (waiting["reason"], waiting.get("message", ""))
                return f"Pod {pod.key.name}: {': '.join(filter(None, words))}"
    return ""


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return next((c for c in conditions if c.get("type") == kind), {})
