"""Answers bindings: a scheduler's word on the node that a Pod runs on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynamo_operator.apiserver import status, transient_kinds
from dynamo_operator.apiserver.admission_webhooks import PartAdmission
from dynamo_operator.apiserver.calls import Call, rfc3339
from dynamo_operator.apiserver.evictions import check_part_name, created_status
from dynamo_operator.apiserver.incoming import check_uid_precondition
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.object_metadata import dns_subdomain
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

_BINDING = ("v1", "Binding")


def bind(call: Call, admission: PartAdmission) -> Response:
    """Answer the binding of a Pod to a node."""
    body = transient_kinds.decode(call, "Binding", call.body())
    if call.info.name:
        check_part_name(call, body)
    body = admission.admitted(call, _BINDING, body)
    for error in _errors(body):  # which the real server does not tell as a refusal
        raise status.StatusError(500, "", str(error))
    name = call.info.name or body["metadata"].get("name", "")
    storage, key = call.world.storage, ("", "pods")
    stored = storage.get(key, call.namespace, name)
    if stored is None:
        raise status.not_found("", "pods", name)
    pod = stored.value
    call.object_uid = pod["metadata"]["uid"]
    check_uid_precondition(call, body, pod)
    problem = ""
    if pod["metadata"].get("deletionTimestamp"):
        problem = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        problem = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        problem = f"pod {name} has non-empty .spec.schedulingGates"
    if problem:
        raise status.conflict("", "pods/binding", name, problem)
    if not call.dry_run:
        storage.put(key, _bound(pod, body, rfc3339(call.world.now())))
    return call.answer_value(201, created_status())


def _errors(binding: Object) -> Iterator[FieldError]:
    target = binding.get("target") or {}
    kind, name = target.get("kind", ""), target.get("name", "")
    if kind not in ("", "Node"):
        detail = 'supported values: "Node", "<empty>"'
        yield FieldError("target.kind", FieldErrorKind.NOT_SUPPORTED, detail, kind)
    if not name:
        yield FieldError("target.name", FieldErrorKind.REQUIRED)
    for problem in dns_subdomain(name) if name else ():
        yield FieldError("target.name", FieldErrorKind.INVALID, problem, name)


def _bound(pod: Object, binding: Object, now: str) -> Object:
    """Return the Pod on its node, with the labels and annotations that its binding has."""
    metadata: dict[str, Any] = dict(pod["metadata"])
    for field in ("labels", "annotations"):
        if added := binding["metadata"].get(field):
            metadata[field] = {**(metadata.get(field) or {}), **added}
    said = pod.get("status") or {}
    conditions = [c for c in said.get("conditions") or () if c.get("type") != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": binding["target"]["name"]},
        "status": {**said, "conditions": [*conditions, scheduled]},
    }
