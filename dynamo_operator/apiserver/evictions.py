"""Answers evictions: deletions that PodDisruptionBudgets can refuse.

Source: Kubernetes' registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from typing import Any

from dynamo_operator.apiserver import deletion, status, transient_kinds
from dynamo_operator.apiserver.admission_webhooks import PartAdmission
from dynamo_operator.apiserver.calls import Call, rfc3339
from dynamo_operator.apiserver.kinds.pod_validation import selector_matches
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.reads import find
from dynamo_operator.apiserver.resources import Object

_EVICTION = ("policy/v1", "Eviction")
_BUDGETS = ("policy", "poddisruptionbudgets")
_MOST_DISRUPTED = 2000
_REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(call: Call, admission: PartAdmission) -> Response:
    """Answer the eviction of a Pod."""
    sent = {"metadata": {"name": call.info.name}}
    body = transient_kinds.decode(call, "Eviction", call.body() if call.request.body else sent)
    check_part_name(call, body)
    pod = find(call).value
    call.object_uid = pod["metadata"]["uid"]
    if body.get("deleteOptions", {}).get("dryRun"):
        call.query = call.query.with_values("dryRun", body["deleteOptions"]["dryRun"])
    body = admission.admitted(call, _EVICTION, body)
    options = deletion.checked_options(call, body.get("deleteOptions", {}))
    deletion.check_preconditions(call.resource, pod, options)
    budgets = [] if _is_no_disruption(pod) else _budgets_of(call, pod)
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does"
        raise status.StatusError(500, "", f"{text} not support.")
    for budget in budgets:
        if not _may_go_for_its_health(budget, pod):
            granted = _granted(call, budget, pod["metadata"]["name"])
            if not call.dry_run:
                call.world.storage.put(_BUDGETS, granted)
    if not call.dry_run:
        _mark(call, pod)
    deletion.delete_stored(call, find(call), options)
    return call.answer_value(201, created_status())


def check_part_name(call: Call, part: Object) -> None:
    """Require what is sent to a Pod's subresource to name the Pod, or nothing.

    Raises:
        StatusError: 400.
    """
    name = part["metadata"].get("name")
    if name and name != call.info.name:
        raise status.bad_request(f"name in URL does not match name in {part['kind']} object")


def created_status() -> dict[str, Any]:
    """Return the Status that answers what made no object."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _is_no_disruption(pod: Object) -> bool:
    """Whether the Pod does not run yet, or no more: no budget is asked then."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Pending", "Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]


def _budgets_of(call: Call, pod: Object) -> list[Object]:
    labels = pod["metadata"].get("labels") or {}
    stored = call.world.storage.objects(_BUDGETS, call.namespace)
    selectors = [(budget.value, budget.value["spec"].get("selector")) for budget in stored]
    return [budget for budget, s in selectors if s is not None and selector_matches(s, labels)]


def _may_go_for_its_health(budget: Object, pod: Object) -> bool:
    """Whether the Pod is not ready, and may go for that without counting."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    said = budget.get("status") or {}
    desired = said.get("desiredHealthy", 0)
    return bool(said.get("currentHealthy", 0) >= desired > 0)


def _granted(call: Call, budget: Object, pod_name: str) -> Object:
    """Return the budget with one disruption less.

    Raises:
        StatusError: 429 when it allows none now, 403 when its status cannot be right.
    """
    name, said = budget["metadata"]["name"], budget.get("status") or {}
    if said.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        cause = f"The disruption budget {name} is still being processed by the server."
        raise _refused(cause, retry_after_seconds=10)
    allowed = said.get("disruptionsAllowed", 0)
    if allowed < 0 or len(said.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        why = "pdb disruptions allowed is negative"
        if allowed >= 0:
            why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise status.forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        raise _refused(_why_none(name, said))
    now = rfc3339(call.world.now())
    changed = {**said, "disruptionsAllowed": allowed - 1}
    changed["disruptedPods"] = {**(said.get("disruptedPods") or {}), pod_name: now}
    if allowed == 1:
        changed["conditions"] = _exhausted(said, now)
    return {**budget, "status": changed}


def _why_none(name: str, said: Object) -> str:
    needed, healthy = said.get("desiredHealthy", 0), said.get("currentHealthy", 0)
    known = [c for c in said.get("conditions") or () if c["type"] == "DisruptionAllowed"]
    failure = known[0] if known and known[0]["status"] == "False" else {}
    if failure.get("reason") == "SyncFailed" and failure.get("message"):
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it "
            f"failed sync: {failure['message']}"
        )
    if healthy <= needed:
        return (
            f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        )
    detail = f" ({failure['reason']}): {failure['message']}" if failure.get("message") else ""
    return f"The disruption budget {name} does not allow evicting pods currently{detail}"


def _refused(cause: str, *, retry_after_seconds: int | None = None) -> status.StatusError:
    causes = [{"reason": "DisruptionBudget", "message": cause}]
    return status.StatusError(
        429,
        "TooManyRequests",
        _REFUSAL,
        details={"causes": causes},
        retry_after_seconds=retry_after_seconds,
    )


def _exhausted(said: Object, now: str) -> list[dict[str, Any]]:
    conditions = [dict(c) for c in said.get("conditions") or ()]
    condition = next((c for c in conditions if c["type"] == "DisruptionAllowed"), None)
    if condition is None:
        conditions.append(condition := {"type": "DisruptionAllowed"})
    if condition.get("status") != "False":
        condition["lastTransitionTime"] = now
    condition |= {"status": "False", "reason": "InsufficientPods", "message": ""}
    condition["observedGeneration"] = said.get("observedGeneration", 0)
    return conditions


def _mark(call: Call, pod: Object) -> None:
    """Say in the Pod's status why it goes."""
    said = pod.get("status") or {}
    kept = [c for c in said.get("conditions") or () if c["type"] != "DisruptionTarget"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(call.world.now()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    changed = {**pod, "status": {**said, "conditions": [*kept, condition]}}
    call.world.storage.put(call.resource.storage_key, changed)
