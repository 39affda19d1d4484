"""Subresources that are more than a part of the object: finalize, token."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from dynamo_operator.apiserver import status, transient_kinds
from dynamo_operator.apiserver.admission_webhooks import PartAdmission
from dynamo_operator.apiserver.calls import Call, rfc3339
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.reads import find
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.tokens import BoundObject, TokenIssuer
from dynamo_operator.apiserver.writes import finished

_MIN_TOKEN_SECONDS = 600
_DEFAULT_TOKEN_SECONDS = 3600
_MAX_TOKEN_SECONDS = 1 << 32
_TOKEN_REQUEST = ("authentication.k8s.io/v1", "TokenRequest")
_BOUND_KINDS = {"Pod": "pods", "Secret": "secrets"}


def finalize_namespace(call: Call) -> Response:
    """Answer the change of a namespace's finalizers; without any a deleted namespace goes."""
    body = transient_kinds.decode(call, "Namespace", call.body())
    namespace = find(call).value
    call.object_uid = namespace["metadata"]["uid"]
    version = body["metadata"].get("resourceVersion")
    if version and version != namespace["metadata"]["resourceVersion"]:
        raise status.stale_object("", "namespaces", call.info.name)
    spec = {k: v for k, v in (namespace.get("spec") or {}).items() if k != "finalizers"}
    if finalizers := body.get("spec", {}).get("finalizers"):
        spec["finalizers"] = finalizers
    changed = {**namespace, "spec": spec}
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
    body = transient_kinds.decode(call, "TokenRequest", call.body())
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
