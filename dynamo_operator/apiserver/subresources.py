"""Subresources that are more than a part of the object: scale, binding, token."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dynamo_operator.apiserver import patches, status, transient_kinds
from dynamo_operator.apiserver.admission_webhooks import PartAdmission
from dynamo_operator.apiserver.calls import Call, rfc3339
from dynamo_operator.apiserver.evictions import created_status
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.reads import find
from dynamo_operator.apiserver.remote import after_commit
from dynamo_operator.apiserver.representation import served_value
from dynamo_operator.apiserver.resources import Object, ScalePaths
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.tokens import BoundObject, TokenIssuer
from dynamo_operator.apiserver.writes import JSON_PATCH, MERGE_PATCH, Writes, finished

_MIN_TOKEN_SECONDS = 600
_DEFAULT_TOKEN_SECONDS = 3600
_MAX_TOKEN_SECONDS = 1 << 32
_BINDING = ("v1", "Binding")
_SCALE = ("autoscaling/v1", "Scale")
_TOKEN_REQUEST = ("authentication.k8s.io/v1", "TokenRequest")
_BOUND_KINDS = {"Pod": "pods", "Secret": "secrets"}


def get_scale(call: Call) -> Response:
    """Answer the scale of an object."""
    return call.answer_value(200, scale_of(call, served_value(call.resource, find(call))))


def scale_of(call: Call, obj: Object) -> Object:
    """Return an object's autoscaling/v1 Scale."""
    scale = _scale_paths(call)
    metadata = obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _at(obj, scale.spec_replicas)
    scale_status: dict[str, Any] = {"replicas": _at(obj, scale.status_replicas) or 0}
    selector = _at(obj, scale.label_selector) if scale.label_selector else None
    if isinstance(selector, dict):
        selector = _selector_text(selector)
    if selector:
        scale_status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: metadata[k] for k in shown if k in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": scale_status,
    }


def write_scale(call: Call, writes: Writes, admission: PartAdmission) -> Response:
    """Answer an update or a patch of the scale."""
    paths = _scale_paths(call)
    body = call.parse_body()

    def scaled(old: Object) -> Object:
        scale = scale_of(call, old)
        match call.info.verb, call.content_type:
            case "update", _:
                scale = body
            case "patch", content_type if content_type == JSON_PATCH:
                scale = patches.json_patch(scale, body)
            case "patch", content_type if content_type == MERGE_PATCH:
                scale = patches.merge_patch(scale, body)
            case _:
                raise status.unsupported_media_type((JSON_PATCH, MERGE_PATCH))
        scale = transient_kinds.decode("Scale", scale)
        scale = admission.admitted(call, _SCALE, scale, scale_of(call, old))
        replicas = scale.get("spec", {}).get("replicas", 0)
        if replicas < 0:
            error = FieldError(
                "spec.replicas",
                FieldErrorKind.INVALID,
                "must be greater than or equal to 0",
                replicas,
            )
            raise status.invalid("autoscaling", "Scale", call.info.name, [error])
        version = scale["metadata"].get("resourceVersion")
        changed = _with(old, paths.spec_replicas, replicas)
        return {**changed, "metadata": {**old["metadata"], "resourceVersion": version}}

    outcome = writes.update_object(call, scaled)
    return after_commit(
        lambda: call.answer_value(200, scale_of(call, served_value(call.resource, outcome.stored)))
    )


def bind(call: Call, admission: PartAdmission) -> Response:
    """Answer the binding of a Pod to a node."""
    body = admission.admitted(call, _BINDING, transient_kinds.decode("Binding", call.body()))
    target = body.get("target", {}).get("name", "")
    if not target:
        error = FieldError("target.name", FieldErrorKind.REQUIRED)
        raise status.invalid("", "Binding", call.info.name, [error])
    name = call.info.name or body["metadata"].get("name", "")
    storage, key = call.world.storage, ("", "pods")
    stored = storage.get(key, call.namespace, name)
    if stored is None:
        raise status.not_found("", "pods", name)
    pod = stored.value
    call.object_uid = pod["metadata"]["uid"]
    problem = ""
    if pod["metadata"].get("deletionTimestamp"):
        problem = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        problem = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    if problem:
        raise status.conflict("", "pods/binding", name, problem)
    if not call.dry_run:
        storage.put(key, _bound(pod, target, rfc3339(call.world.now())))
    return call.answer_value(201, created_status())


def finalize_namespace(call: Call) -> Response:
    """Answer the change of a namespace's finalizers; without any a deleted namespace goes."""
    body = transient_kinds.decode("Namespace", call.body())
    namespace = find(call).value
    call.object_uid = namespace["metadata"]["uid"]
    version = body["metadata"].get("resourceVersion")
    if version and version != namespace["metadata"]["resourceVersion"]:
        raise status.stale_object("", "namespaces", call.info.name)
    finalizers = body.get("spec", {}).get("finalizers", [])
    changed = {**namespace, "spec": {**namespace.get("spec", {}), "finalizers": finalizers}}
    if not call.dry_run and changed != namespace:
        storage, key = call.world.storage, call.resource.storage_key
        if finished(changed):
            storage.remove(key, namespace)
        else:
            changed = storage.put(key, changed).value
    return call.answer_value(200, changed)


def request_token(call: Call, tokens: TokenIssuer, admission: PartAdmission) -> Response:
    """Answer a TokenRequest with a token of the ServiceAccount."""
    account = find(call)
    call.object_uid = account.value["metadata"]["uid"]
    body = transient_kinds.decode("TokenRequest", call.body())
    body = admission.admitted(call, _TOKEN_REQUEST, body)
    spec = body.get("spec", {})
    named = body.get("metadata", {}).get("name")
    if named and named != account.name:
        text = "must match the service account name if specified"
        error = FieldError("metadata.name", FieldErrorKind.INVALID, text, named)
        raise status.invalid("authentication.k8s.io", "TokenRequest", account.name, [error])
    seconds = spec.get("expirationSeconds", _DEFAULT_TOKEN_SECONDS)
    problem = ""
    if seconds < _MIN_TOKEN_SECONDS:
        problem = "may not specify a duration less than 10 minutes"
    elif seconds > _MAX_TOKEN_SECONDS:
        problem = "may not specify a duration larger than 2^32 seconds"
    if problem:
        error = FieldError("spec.expirationSeconds", FieldErrorKind.INVALID, problem, seconds)
        raise status.invalid("authentication.k8s.io", "TokenRequest", "", [error])
    bound = _bound_object(call, spec.get("boundObjectRef"))
    audiences = spec.get("audiences", [])
    token = tokens.issue(account, audiences=audiences, seconds=seconds, bound_to=bound)
    expires = rfc3339(call.world.now() + timedelta(seconds=seconds))
    answer = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "creationTimestamp": call.world.timestamp(),
        },
        "spec": {**spec, "audiences": audiences or [tokens.issuer], "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": expires},
    }
    return call.answer_value(201, answer)


def _bound_object(call: Call, reference: Mapping[str, Any] | None) -> BoundObject | None:
    if reference is None:
        return None
    kind, name = reference.get("kind", ""), reference.get("name", "")
    plural = _BOUND_KINDS.get(kind)
    if plural is None:
        version = reference.get("apiVersion", "")
        group_version = version if "/" in version or not version else f"/{version}"
        raise status.bad_request(
            f"cannot bind token to object of type {group_version or '/'}, Kind={kind}"
        )
    stored = call.world.storage.get(("", plural), call.namespace, name)
    if stored is None:
        raise status.not_found("", plural, name)
    uid = stored.value["metadata"]["uid"]
    if reference.get("uid") and reference["uid"] != uid:
        raise status.conflict(
            "",
            kind,
            name,
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in "
            f"record. The object might have been deleted and then recreated",
        )
    account = stored.value.get("spec", {}).get("serviceAccountName")
    if kind == "Pod" and account != call.info.name:
        raise status.bad_request(
            f"cannot bind token for serviceaccount {call.info.name!r} to pod running with "
            "different serviceaccount name."
        )
    return BoundObject(kind, name, uid)


def _bound(pod: Object, node: str, now: str) -> Object:
    conditions = [
        c
        for c in (pod.get("status") or {}).get("conditions") or ()
        if c.get("type") != "PodScheduled"
    ]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    return {
        **pod,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**(pod.get("status") or {}), "conditions": [*conditions, scheduled]},
    }


def _scale_paths(call: Call) -> ScalePaths:
    if call.resource.scale is None:
        raise status.no_such_path()
    return call.resource.scale


def _at(obj: Any, path: str) -> Any:
    for field in path.strip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(field)
    return obj


def _with(obj: Object, path: str, value: Any) -> Object:
    field, _, rest = path.strip(".").partition(".")
    if not rest:
        return {**obj, field: value}
    return {**obj, field: _with(obj.get(field) or {}, rest, value)}


def _selector_text(selector: Mapping[str, Any]) -> str:
    """Return a LabelSelector, or a ReplicationController's labels, as the text of a selector."""
    if all(isinstance(value, str) for value in selector.values()):
        selector = {"matchLabels": selector}
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        match expression.get("operator"):
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case _:
                terms.append(f"!{key}")
    return ",".join(sorted(terms))
