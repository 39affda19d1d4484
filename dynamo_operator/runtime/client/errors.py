"""Errors of the client.

ClientError
├── ApiError                    the API server answered with an error Status
│   ├── BadRequestError         400
│   ├── UnauthorizedError       401
│   ├── ForbiddenError          403
│   ├── NotFoundError           404
│   ├── MethodNotAllowedError   405
│   ├── AlreadyExistsError      409, reason AlreadyExists
│   ├── ConflictError           409 otherwise
│   ├── GoneError               410, reason Gone or Expired
│   ├── RequestTooLargeError    413
│   ├── InvalidError            422
│   ├── TooManyRequestsError    429
│   └── ServerError             5xx
│       └── ServerTimeoutError  504, or reason Timeout or ServerTimeout
├── TransportError              no answer: refused, reset, TLS, name resolution, or no JSON
│   └── DeadlineExceededError   no answer in time
├── UnknownOutcomeError         a write was sent, its answer lost: applied or not, nobody knows
├── NotLeadingError             a write of leader-bound work was not sent: others may lead
├── DecodeError                 an object does not fit the model that it was asked as
└── ConfigError                 kubeconfig or credentials are wrong; names file and entry
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """Root of the client's errors."""


class ApiError(ClientError):
    """The API server refused; `str()` is one line: what was asked, status, message.

    Args:
        code: HTTP status.
        reason: the Status object's reason, e.g. `NotFound`, or "".
        message: the Status object's message, or the first line of a body that is no Status.
        details: the Status object's details.
        retry_after_seconds: from the Retry-After header or `details.retryAfterSeconds`.
        request: what was asked, e.g. `GET /api/v1/namespaces/default/pods/a`.
    """

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
        request: str = "",
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after_seconds = retry_after_seconds
        self.request = request
        what = f"{request}: " if request else ""
        status = f"{code} {reason}" if reason else str(code)
        super().__init__(f"{what}{status}: {' '.join(message.split())}")


class BadRequestError(ApiError):
    """400: the request itself is malformed."""


class UnauthorizedError(ApiError):
    """401, also after the credentials were refreshed once."""


class ForbiddenError(ApiError):
    """403: RBAC, quota, an admission decision, or a namespace that is being deleted."""


class NotFoundError(ApiError):
    """404: no such object, or no such resource."""


class MethodNotAllowedError(ApiError):
    """405: the resource does not support that verb."""


class AlreadyExistsError(ApiError):
    """409 on create: an object of that name exists."""


class ConflictError(ApiError):
    """409: a precondition failed, or server-side apply found another field owner."""


class GoneError(ApiError):
    """410: that resource version is compacted away."""


class RequestTooLargeError(ApiError):
    """413: the object exceeds what the server takes."""


class InvalidError(ApiError):
    """422: the object breaks its schema or a rule; `details["causes"]` lists the fields."""


class TooManyRequestsError(ApiError):
    """429, also after the client's own retries."""


class ServerError(ApiError):
    """5xx."""


class ServerTimeoutError(ServerError):
    """504: the server gave up; a write may have been applied."""


class TransportError(ClientError):
    """No usable answer from the server.

    Args:
        message: one line for people.
        sent: whether the server may have received the request; False only when it surely has not.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class DeadlineExceededError(TransportError):
    """The call's deadline passed."""


class UnknownOutcomeError(ClientError):
    """A write was sent but no answer came: it may have been applied. Read before deciding."""


class NotLeadingError(ClientError):
    """A write of leader-bound work was not sent, because this process does not lead (any more)."""


class DecodeError(ClientError):
    """An object does not fit the model that it was asked as; names type, key and field."""


class ConfigError(ClientError):
    """A kubeconfig or its credentials cannot be used; one line naming file and entry."""
