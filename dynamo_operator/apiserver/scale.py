"""The scale subresource: a workload's replicas as an autoscaling/v1 Scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dynamo_operator.apiserver import apply, managed_fields, patch_bodies, status, transient_kinds
from dynamo_operator.apiserver.admission_webhooks import PartAdmission
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.field_sets import Path
from dynamo_operator.apiserver.incoming import check_name, check_uid_precondition
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.reads import find
from dynamo_operator.apiserver.remote import after_commit
from dynamo_operator.apiserver.representation import served_value
from dynamo_operator.apiserver.resources import Object, ScalePaths
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.writes import Writes, writer_of

_SCALE: Final = ("autoscaling/v1", "Scale")
_REPLICAS: Final[Path] = ("f:spec", "f:replicas")


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
    changed = _change(call)

    def scaled(old: Object) -> Object:
        before = _managed_scale(scale_of(call, old), old, paths)
        after = changed(before)
        check_name(call, after)
        check_uid_precondition(call, after, old)
        managers = after["metadata"].get("managedFields")
        after = admission.admitted(call, _SCALE, after, scale_of(call, old))
        replicas = after.get("spec", {}).get("replicas", 0)
        if replicas < 0:
            error = FieldError(
                "spec.replicas",
                FieldErrorKind.INVALID,
                "must be greater than or equal to 0",
                replicas,
            )
            raise status.invalid("autoscaling", "Scale", call.info.name, [error])
        new = _with(old, paths.spec_replicas, replicas)
        metadata = {**old["metadata"], "resourceVersion": after["metadata"].get("resourceVersion")}
        return _with_managers({**new, "metadata": metadata}, managers, paths)

    outcome = writes.update_object(call, scaled, applied=True)
    return after_commit(
        lambda: call.answer_value(200, scale_of(call, served_value(call.resource, outcome.stored)))
    )


def _change(call: Call) -> patch_bodies.Transform:
    """Return what makes the new Scale, with its managers, of the present one."""
    schema, writer = transient_kinds.schema_of("Scale"), writer_of(call)
    if call.content_type == patch_bodies.APPLY_PATCH and call.info.verb == "patch":
        configuration = patch_bodies.applied_configuration(call)
        configuration = {"apiVersion": _SCALE[0], "kind": _SCALE[1], **configuration}
        force = call.query.flag("force")

        def applied(old: Object) -> Object:
            new = apply.apply(old, configuration, schema, writer, force=force)
            patch_bodies.report_repeated(call)
            return transient_kinds.decode(call, "Scale", new)

        return applied
    if call.info.verb == "update":
        body = transient_kinds.decode(call, "Scale", call.object_body())
        return lambda old: apply.record_update(old, body, schema, writer)
    transform = patch_bodies.patch_transform(call, schema, strategic=not call.resource.custom)

    def patched(old: Object) -> Object:
        new = patch_bodies.patched(
            call,
            transform(old),
            lambda scale: transient_kinds.decode(call, "Scale", scale, patched=True),
        )
        return apply.record_update(old, new, schema, writer)

    return patched


def _managed_scale(scale: Object, obj: Object, paths: ScalePaths) -> Object:
    """Return the Scale with those of the object's managers who own its replicas."""
    owners = [
        replace(entry, api_version=_SCALE[0], fields=frozenset({_REPLICAS}))
        for entry in managed_fields.read(obj).values()
        if _path(paths) in entry.fields
    ]
    return managed_fields.write(scale, {entry.id: entry for entry in owners})


def _with_managers(obj: Object, managers: Any, paths: ScalePaths) -> Object:
    """Return the object with its replicas owned by the managers of its Scale."""
    path = _path(paths)
    owners = managed_fields.read({"metadata": {"managedFields": managers}})
    kept: managed_fields.Managed = {}
    for key, entry in managed_fields.read(obj).items():
        # Of updates the real server compares apiVersions, which differ: it takes the replicas away
        # and gives them back in an entry of their own, which the object's next write forgets.
        is_known = entry.operation == "Apply" and owners.pop(key, None) is not None
        if path in entry.fields and not is_known:
            entry = replace(entry, fields=entry.fields - {path})
        kept[key] = entry
    for owner in owners.values():
        kept[owner.id] = replace(
            owner, api_version=obj["apiVersion"], fields=frozenset({path}), time=None
        )
    return managed_fields.write(obj, kept)


def _path(paths: ScalePaths) -> Path:
    return tuple(f"f:{name}" for name in paths.spec_replicas.strip(".").split("."))


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
