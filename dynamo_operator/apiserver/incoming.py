"""What a client sends as an object: decoded, placed, named, and checked against its path."""

from __future__ import annotations

from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.formats import parse_date_time
from dynamo_operator.apiserver.object_metadata import decode_metadata, without_repeated
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

_GENERATE_NAME_TRIES = 8
_GENERATE_NAME_PREFIX = 58
_KEPT_AS = {
    ("", "nodes"): "minions",
    ("", "replicationcontrollers"): "controllers",
    ("", "services"): "services/specs",
}
"""Where a real server keeps objects, if not under their plural."""


def decode(call: Call, obj: Object, *, patched: bool = False, reports: bool = True) -> Object:
    """Return the body as an object of this kind, the types of its metadata checked.

    Args:
        call: the request.
        obj: what was sent, or what a patch made of the stored object.
        patched: whether the latter, which has apiVersion and kind of its own.
        reports: whether unknown and repeated fields are reported.

    Raises:
        StatusError: 400.
    """
    resource = call.resource
    if not resource.custom and not patched:
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    if not obj.get("kind"):
        raise call.unrecognized("Object 'Kind' is missing in the body of the request")
    api_version = obj.get("apiVersion") or ""
    if not resource.custom:
        _check_identity(call, str(api_version), str(obj["kind"]))
    if api_version != resource.api_version:
        raise status.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if obj["kind"] != resource.kind:
        error = FieldError("kind", FieldErrorKind.INVALID, f"must be {resource.kind}", obj["kind"])
        metadata = obj.get("metadata")
        name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
        raise status.invalid(resource.group, str(obj["kind"]), name, [error])
    try:
        decoded, unknown = decode_metadata(obj)
    except status.StatusError as error:
        raise call.undecodable(resource.kind, resource.version, error.message) from None
    _check_moments(call, decoded["metadata"])
    if reports and call.field_validation != "Ignore":
        paths = list(dict.fromkeys([*unknown, *resource.strategy.unknown_fields(obj)]))
        call.report(sorted(paths) if resource.custom else paths, patched=patched)
    return decoded


def _check_identity(call: Call, api_version: str, kind: str) -> None:
    """Refuse a body of another kind or version than the built-in resource's.

    Raises:
        StatusError: 400.
    """
    if (api_version, kind) == (call.resource.api_version, call.resource.kind):
        return
    if kind == call.resource.kind and api_version == call.resource.storage_api_version:
        raise status.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({call.resource.api_version})"
        )
    if api_version.count("/") > 1:
        raise call.unrecognized(f"unexpected GroupVersion string: {api_version}")
    version = api_version.rpartition("/")[2]
    raise call.undecodable(kind, version, "it is of another kind or version")


def _check_moments(call: Call, metadata: Object) -> None:
    for field in ("creationTimestamp", "deletionTimestamp"):
        moment = metadata.get(field)
        if moment and not _is_moment(moment):
            detail = f'parsing time "{moment}" as "2006-01-02T15:04:05Z07:00"'
            raise call.undecodable(call.resource.kind, call.resource.version, detail)


def _is_moment(text: str) -> bool:
    try:
        parse_date_time(text)
    except ValueError:
        return False
    return True


def placed(call: Call, obj: Object) -> Object:
    """Return the object within the namespace of the path.

    Raises:
        StatusError: 400 when it names another.
    """
    if not call.resource.namespaced:
        return with_metadata(obj, namespace=None)
    check_namespace(call, obj)
    return with_metadata(obj, namespace=call.namespace)


def check_namespace(call: Call, obj: Object) -> None:
    """Require the object to be in the namespace of the path, or to say nothing of it.

    Raises:
        StatusError: 400.
    """
    given = obj["metadata"].get("namespace", "")
    if call.resource.namespaced and given and given != call.namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def with_owners_once(call: Call, obj: Object, *, admitted: bool = False) -> Object:
    """Return the object without repeated owner references, of which it warns.

    Args:
        call: the request.
        obj: what was sent, or what admission made of it.
        admitted: whether the latter.
    """
    owners, repeated = without_repeated(obj["metadata"].get("ownerReferences") or ())
    if not repeated:
        return obj
    when = " after mutating admission happens" if admitted else ""
    call.warnings.append(
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner "
        "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
        f"requests; duplicate UID(s) observed: {', '.join(repeated)}"
    )
    return with_metadata(obj, ownerReferences=owners)


def check_name(call: Call, obj: Object) -> None:
    """Require the object to have the name of the path.

    Raises:
        StatusError: 400.
    """
    name = obj["metadata"].get("name", "")
    if not name:
        raise status.bad_request(
            f"the name of the object ({call.info.name} based on URL) was undeterminable: name must "
            "be provided"
        )
    if name != call.info.name:
        raise status.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )


def check_uid_precondition(call: Call, new: Object, old: Object) -> None:
    """Refuse an update that is meant for another incarnation.

    Raises:
        StatusError: 409.
    """
    wanted, found = new["metadata"].get("uid"), old["metadata"]["uid"]
    if wanted and wanted != found:
        detail = f"UID in precondition: {wanted}, UID in object meta: {found}"
        raise storage_conflict(call, f"Precondition failed: {detail}")


def storage_conflict(call: Call, detail: str) -> status.StatusError:
    """Return the 409 of what the store refuses, which a real server tells with its key."""
    resource = call.resource
    where = f"Code: 4, Key: {_storage_path(call)}, ResourceVersion: 0"
    text = f"StorageError: invalid object, {where}, AdditionalErrorMsg: {detail}"
    return status.conflict(resource.group, resource.plural, call.info.name, text)


def _storage_path(call: Call) -> str:
    group, plural = call.resource.group, call.resource.plural
    kept = f"{group}/{plural}" if call.resource.custom else _KEPT_AS.get((group, plural), plural)
    return "/".join(filter(None, ("/registry", kept, call.namespace, call.info.name)))


def check_version(call: Call, new: Object, old: Object, *, requires_version: bool) -> None:
    """Refuse an update that is based on an old version.

    Raises:
        StatusError: 409, or 422 where a version is required and missing.
    """
    resource, name = call.resource, call.info.name
    version = new["metadata"].get("resourceVersion")
    if not version or version == "0":
        if requires_version:
            error = FieldError(
                "metadata.resourceVersion",
                FieldErrorKind.INVALID,
                "must be specified for an update",
                0,
            )
            raise status.invalid(resource.group, resource.plural, name, [error])
    elif not version.isdigit():
        detail = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise status.StatusError(500, "", detail)
    elif version != old["metadata"]["resourceVersion"]:
        raise status.stale_object(resource.group, resource.plural, name)


def named(call: Call, obj: Object) -> Object:
    """Return the object with its name, generated where that is asked for."""
    metadata = obj["metadata"]
    prefix = metadata.get("generateName", "")
    if metadata.get("name") or not prefix:
        return obj
    world, key = call.world, call.resource.storage_key
    name = ""
    for _ in range(_GENERATE_NAME_TRIES):
        name = prefix[:_GENERATE_NAME_PREFIX] + world.name_suffix()
        if world.storage.get(key, call.namespace, name) is None:
            break
    return with_metadata(obj, name=name)


def with_metadata(obj: Object, **fields: Any) -> Object:
    """Return a copy with metadata fields set, or dropped where None."""
    metadata = {**obj["metadata"], **fields}
    return {**obj, "metadata": {k: v for k, v in metadata.items() if v is not None}}
