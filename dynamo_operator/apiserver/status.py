"""Errors as the API server words them: field errors, and the Status that answers a request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

OMITTED: Final = object()
"""A field error's `value` when the message shall not show one."""


class FieldErrorKind(StrEnum):
    """What is wrong with a field; the value is the `reason` of a Status cause."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


_KIND_WORDS: Final = {
    FieldErrorKind.NOT_FOUND: "Not found",
    FieldErrorKind.REQUIRED: "Required value",
    FieldErrorKind.DUPLICATE: "Duplicate value",
    FieldErrorKind.INVALID: "Invalid value",
    FieldErrorKind.NOT_SUPPORTED: "Unsupported value",
    FieldErrorKind.FORBIDDEN: "Forbidden",
    FieldErrorKind.TOO_LONG: "Too long",
    FieldErrorKind.TOO_MANY: "Too many",
    FieldErrorKind.TYPE_INVALID: "Invalid value",
    FieldErrorKind.INTERNAL: "Internal error",
}
_WITHOUT_VALUE: Final = frozenset(
    {
        FieldErrorKind.REQUIRED,
        FieldErrorKind.FORBIDDEN,
        FieldErrorKind.TOO_LONG,
        FieldErrorKind.INTERNAL,
    }
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field.

    Args:
        path: like `spec.containers[0].name`; "<nil>" for the whole object.
        kind: what is wrong.
        detail: why, in words; may be empty.
        value: the offending value, or OMITTED.
    """

    path: str
    kind: FieldErrorKind
    detail: str = ""
    value: Any = OMITTED

    @property
    def body(self) -> str:
        """The text without the path, as in a cause's message."""
        text = _KIND_WORDS[self.kind]
        if self.kind not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {_shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, (dict, list)):  # which Go makes safe for HTML
        for character in "<>&":
            text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class StatusError(Exception):
    """A refusal; `to_status()` is the body of the answer."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self._shows_details = details is not None
        self.metadata = dict(metadata or {})
        self.retry_after_seconds = retry_after_seconds
        if retry_after_seconds is not None:
            self.details["retryAfterSeconds"] = retry_after_seconds

    def to_status(self) -> dict[str, Any]:
        """Return the Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details or self._shows_details:
            status["details"] = self.details
        return {**status, "code": self.code}


class StrictDecodingError(StatusError):
    """The 400 of a body that strict decoding objects to; `detail` says to what."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        self.detail = f"strict decoding error: {', '.join(problems)}"
        super().__init__(400, "BadRequest", f"{what}: {self.detail}")


def success_status(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Status that answers a completed deletion."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": dict(details),
    }


def bad_request(message: str) -> StatusError:
    """Return 400 BadRequest."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Return 401 Unauthorized."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, detail: str) -> StatusError:
    """Return 403 Forbidden for one object (`name` may be empty)."""
    what = _qualified(plural, group)
    message = (
        f'{what} "{name}" is forbidden: {detail}' if name else f"{what} is forbidden: {detail}"
    )
    return StatusError(403, "Forbidden", message, details=_details(group, plural, name))


def not_found(group: str, plural: str, name: str) -> StatusError:
    """Return 404 NotFound for one object."""
    message = f'{_qualified(plural, group)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(group, plural, name))


def no_such_path() -> StatusError:
    """Return 404 NotFound for a path that nothing serves."""
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, details={})


def method_not_allowed(group: str, plural: str, verb: str) -> StatusError:
    """Return 405 MethodNotAllowed."""
    message = "the server does not allow this method on the requested resource"
    if verb:
        message = (
            f"{verb} is not supported on resources of kind {json.dumps(_qualified(plural, group))}"
        )
    return StatusError(405, "MethodNotAllowed", message, details=_details(group, plural, ""))


def not_acceptable(offered: Sequence[str]) -> StatusError:
    """Return 406 NotAcceptable naming what is offered."""
    return StatusError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: {', '.join(offered)}",
    )


def unsupported_media_type(offered: Sequence[str]) -> StatusError:
    """Return 415 UnsupportedMediaType naming what is taken."""
    return StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(offered),
    )


_UNROUTABLE: Final = {
    406: ("NotAcceptable", "406: Not Acceptable\n\nAvailable representations: "),
    415: ("UnsupportedMediaType", "415: Unsupported Media Type"),
}


def unroutable(code: int, offered: Sequence[str] = ()) -> StatusError:
    """Return the 406 or 415 of the router of built-in resources, which comes before any handler."""
    reason, text = _UNROUTABLE[code]
    return StatusError(code, reason, text + ", ".join(offered), details={})


def already_exists(group: str, plural: str, name: str, *, going: bool = False) -> StatusError:
    """Return 409 AlreadyExists; `going` is whether the object is being deleted."""
    message = f'{_qualified(plural, group)} "{name}" already exists'
    if going:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, details=_details(group, plural, name))


def conflict(group: str, plural: str, name: str, detail: str) -> StatusError:
    """Return 409 Conflict."""
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {detail}'
    return StatusError(409, "Conflict", message, details=_details(group, plural, name))


def stale_object(group: str, plural: str, name: str) -> StatusError:
    """Return the 409 for a write based on an old resource version."""
    return conflict(
        group,
        plural,
        name,
        "the object has been modified; please apply your changes to the latest version "
        "and try again",
    )


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> StatusError:
    """Return the 409 of a server-side apply; `conflicts` are (manager in words, field path)."""
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        message = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    else:
        lines: list[str] = []
        for manager in sorted({manager for manager, _ in conflicts}):
            lines.append(f"conflicts with {manager}:")
            lines.extend(f"- {path}" for name, path in conflicts if name == manager)
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in conflicts
    ]
    return StatusError(409, "Conflict", message, details={"causes": causes})


def expired(message: str, *, metadata: Mapping[str, Any] | None = None) -> StatusError:
    """Return 410 Expired."""
    return StatusError(410, "Expired", message, metadata=metadata)


def too_old_resource_version(wanted: int, oldest: int) -> StatusError:
    """Return the 410 of a watch that starts before the history does."""
    return expired(f"too old resource version: {wanted} ({oldest})")


def too_large_resource_version(wanted: int, current: int) -> StatusError:
    """Return the 504 for a version that does not exist yet."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ]
        },
        retry_after_seconds=1,
    )


def request_too_large(limit: int) -> StatusError:
    """Return 413 RequestEntityTooLarge."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    """Return 422 Invalid with one cause for each field error."""
    listed = list({str(error): error for error in errors}.values())
    texts = [str(error) for error in listed]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{_qualified(kind, group)} "{name}" is invalid: {joined}'
    causes = [
        {"reason": str(error.kind), "message": error.body, "field": error.path} for error in listed
    ]
    return StatusError(
        422, "Invalid", message, details={**_details(group, kind, name), "causes": causes}
    )


def too_many_requests(message: str, *, retry_after_seconds: int) -> StatusError:
    """Return 429 TooManyRequests."""
    return StatusError(429, "TooManyRequests", message, retry_after_seconds=retry_after_seconds)


def internal_error(message: str) -> StatusError:
    """Return 500 InternalError."""
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def not_implemented(what: str) -> StatusError:
    """Return 501: the embedded server lacks this, and says so."""
    return StatusError(501, "NotImplemented", f"the embedded API server does not implement {what}")


def service_unavailable(message: str) -> StatusError:
    """Return 503 ServiceUnavailable."""
    return StatusError(503, "ServiceUnavailable", message)


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def _details(group: str, plural: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}
