"""Refusals of the API server as typed errors, whatever the body of the answer is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    MethodNotAllowedError,
    NotFoundError,
    RequestTooLargeError,
    ServerError,
    ServerTimeoutError,
    TooManyRequestsError,
    UnauthorizedError,
)

if TYPE_CHECKING:
    from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse

LONGEST_RETRY_AFTER_SECONDS = 300.0

_LONGEST_MESSAGE = 1000
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    409: ConflictError,
    410: GoneError,
    413: RequestTooLargeError,
    422: InvalidError,
    429: TooManyRequestsError,
    504: ServerTimeoutError,
}
_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Timeout": ServerTimeoutError,
    "ServerTimeout": ServerTimeoutError,
}


def error_of_response(request: HttpRequest, response: HttpResponse, *, now: datetime) -> ApiError:
    """Return the error that an answer with a status outside 2xx means."""
    status = codec.decode_status(response.body)
    retry_after = parse_retry_after(response.headers.get("retry-after"), now=now)
    if status is None:
        message = _first_line(response.body) or "no message"
        location = response.headers.get("location")
        if 300 <= response.status < 400 and location:
            message = "the server redirects, which an API server does not: check the server's URL"
        return error_of_status(
            response.status, message=message, retry_after_seconds=retry_after, request=str(request)
        )
    if retry_after is None:
        retry_after = _capped(status.details.get("retryAfterSeconds"))
    return error_of_status(
        response.status,
        reason=status.reason,
        message=status.message,
        details=status.details,
        retry_after_seconds=retry_after,
        request=str(request),
    )


def error_of_status(
    code: int,
    *,
    reason: str = "",
    message: str = "",
    details: Mapping[str, Any] | None = None,
    retry_after_seconds: float | None = None,
    request: str = "",
) -> ApiError:
    """Return the error of the class that code and reason stand for."""
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code)
    if kind is None:
        kind = ServerError if code >= 500 else ApiError
    return kind(
        code,
        reason,
        message,
        details=details,
        retry_after_seconds=retry_after_seconds,
        request=request,
    )


def is_expired(error: ApiError) -> bool:
    """Whether the error says that a resource version is compacted away or not reached yet."""
    if isinstance(error, GoneError) or error.reason in ("Expired", "Gone"):
        return True
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in _causes(error))


def refuses_uid(error: ApiError) -> bool:
    """Whether the error says that the object in place has another uid than the one given."""
    return any(cause.get("field") == "metadata.uid" for cause in _causes(error))


def _causes(error: ApiError) -> list[Mapping[str, Any]]:
    causes = error.details.get("causes")
    return [c for c in causes if isinstance(c, Mapping)] if isinstance(causes, list) else []


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, at most five minutes.

    Both forms are understood, a number and a date; anything else counts as no header.
    """
    if value is None:
        return None
    seconds = _capped(value.strip())
    if seconds is not None:
        return seconds
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return min(LONGEST_RETRY_AFTER_SECONDS, max(0.0, (date - now).total_seconds()))


def warnings_in(header: str) -> list[str]:
    """Return the texts of a Warning header, one or more values of code 299; others are not ours."""
    return [text.replace('\\"', '"').replace("\\\\", "\\") for text in _WARNING.findall(header)]


def _capped(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(LONGEST_RETRY_AFTER_SECONDS, seconds)


def _first_line(body: bytes) -> str:
    text = body[: 4 * _LONGEST_MESSAGE].decode("utf-8", errors="replace").strip()
    return text.splitlines()[0][:_LONGEST_MESSAGE].strip() if text else ""
