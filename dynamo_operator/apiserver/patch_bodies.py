"""What the body of a PATCH asks for, by its content type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dynamo_operator.apiserver import patches, status, strategic_merge
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.codec import Parsed, parse_json, parse_yaml, with_whole_numbers
from dynamo_operator.apiserver.go_texts import go_text
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_OPERATION_FIELDS = frozenset({"op", "path", "from", "value"})

Transform = Callable[[Object], Object]


def patch_transform(call: Call, schema: Schema | None, *, strategic: bool) -> Transform:
    """Return what makes the new object of the present one; for all but APPLY_PATCH.

    Args:
        call: the request.
        schema: of the objects.
        strategic: whether strategic merge patches are taken.

    Raises:
        StatusError: 400, 415 or 422; the transform: 422.
    """
    if call.query.optional_flag("force") is not None:
        error = FieldError(
            "force", FieldErrorKind.FORBIDDEN, "may not be specified for non-apply patch"
        )
        raise status.invalid("meta.k8s.io", "PatchOptions", "", [error])
    body, repeated = _parsed(call)
    is_json_patch = call.content_type == JSON_PATCH
    if is_json_patch and isinstance(body, list):
        repeated = [f"json patch {text}" for text in [*repeated, *_unknown_in(body)]]
    call.repeated = repeated
    match call.content_type:
        case t if t == JSON_PATCH:
            return lambda old: _as_object(patches.json_patch(old, body))
        case t if t == MERGE_PATCH:
            if isinstance(body, list):
                raise status.bad_request("error decoding patch: a merge patch is an object")
            if not isinstance(body, dict):
                raise status.bad_request("Invalid JSON Patch")
            return lambda old: _as_object(patches.merge_patch(old, body))
        case t if t == STRATEGIC_MERGE_PATCH and strategic:
            return lambda old: _as_object(strategic_merge.strategic_merge_patch(old, body, schema))
    offered = [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH]
    if not strategic:
        offered.remove(STRATEGIC_MERGE_PATCH)
    if not call.resource.custom:
        raise status.unroutable(415)
    raise status.unsupported_media_type(offered)


def patched(call: Call, changed: Object, decode: Callable[[Object], Object]) -> Object:
    """Return what a patch made of an object, decoded.

    Raises:
        StatusError: 422 where it cannot be decoded any more.
    """
    try:
        decoded = decode(changed)
        if not call.resource.custom and call.info.subresource != "scale":
            call.resource.strategy.decoded(decoded)
        return decoded
    except status.StatusError as error:
        if error.code != 400:
            raise
        detail = error.detail if isinstance(error, status.StrictDecodingError) else error.message
        shown = to_json(changed).decode()
        if call.content_type == STRATEGIC_MERGE_PATCH:
            shown = go_text(parse_json(call.request.body).value)
        problem = FieldError("patch", FieldErrorKind.INVALID, detail, shown)
        raise status.invalid("", "", "", [problem]) from None


def applied_configuration(call: Call) -> Object:
    """Return the configuration that a server-side apply sends.

    Raises:
        StatusError: 400, or 422 where nobody is named as its manager.
    """
    if not call.query.text("fieldManager"):
        error = FieldError("fieldManager", FieldErrorKind.REQUIRED, "is required for apply patch")
        raise status.invalid("meta.k8s.io", "PatchOptions", "", [error])
    configuration, call.repeated = parse_yaml(call.request.body)
    configuration = {} if configuration is None else configuration
    if not isinstance(configuration, dict):
        raise status.bad_request("error decoding patch: the configuration is not an object")
    return with_whole_numbers(configuration)  # type: ignore[no-any-return]


def report_repeated(call: Call) -> None:
    """Refuse or warn about keys that an applied configuration repeats, as fieldValidation says.

    Raises:
        StatusError: 400 under Strict.
    """
    if call.repeated and call.field_validation == "Strict":
        lines = "\n  ".join(["yaml: unmarshal errors:", *call.repeated])
        raise status.bad_request(
            f"error strict decoding patch: error converting YAML to JSON: {lines}"
        )
    if call.field_validation == "Warn":
        call.warnings += call.repeated


def _parsed(call: Call) -> Parsed:
    try:
        return parse_json(call.request.body)
    except status.StatusError as error:
        if call.content_type == STRATEGIC_MERGE_PATCH:
            raise
        raise status.bad_request("invalid JSON patch") from error


def _unknown_in(operations: list[Any]) -> Iterator[str]:
    for index, operation in enumerate(operations):
        for name in operation if isinstance(operation, dict) else ():
            if name not in _OPERATION_FIELDS:
                yield f'unknown field "[{index}].{name}"'


def _as_object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise patches.patch_rejected("the patched value is not an object")
    return value
