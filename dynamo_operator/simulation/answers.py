"""Answers that no server gave."""

from __future__ import annotations

from dynamo_operator.runtime.client.http import HttpResponse
from dynamo_operator.simulation.plans import Fail
from dynamo_operator.testing.faults import Answer

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def refused(deed: Fail, message: str = "a fault was injected") -> HttpResponse:
    """Return the answer of a server that refuses."""
    headers = {"content-type": "application/json"}
    if deed.retry_after:
        headers["retry-after"] = deed.retry_after
    answer = Answer(deed.code, deed.reason or _REASONS.get(deed.code, ""), message)
    return HttpResponse(deed.code, headers, answer.body())


def error_line(code: int) -> bytes:
    """Return an ERROR event of a watch."""
    return b'{"type":"ERROR","object":' + Answer(code, _REASONS[code]).body() + b"}\n"
