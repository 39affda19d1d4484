"""Answers that no server gave, and streams made of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from dynamo_operator.runtime.client.http import HttpResponse
from dynamo_operator.simulation.plans import Fail

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


class WholeAnswer:
    """An answer that was there as a whole, as a stream."""

    def __init__(self, answer: HttpResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield it."""
        yield self._body

    async def read(self) -> bytes:
        """Return it."""
        return self._body


def refused(deed: Fail, message: str = "a fault was injected") -> HttpResponse:
    """Return the answer of a server that refuses."""
    headers = {"content-type": "application/json"}
    if deed.retry_after:
        headers["retry-after"] = deed.retry_after
    return HttpResponse(deed.code, headers, status(deed.code, deed.reason, message))


def status(code: int, reason: str = "", message: str = "a fault was injected") -> bytes:
    """Return a Status, as the server's own errors are."""
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": reason or _REASONS.get(code, ""),
            "message": message,
            "code": code,
        }
    ).encode()


def error_line(code: int) -> bytes:
    """Return an ERROR event of a watch."""
    return b'{"type":"ERROR","object":' + status(code) + b"}\n"
