"""Who may see a page: the API server is asked whose token it is, and what that user may."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import structlog

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.codec import decode_json
from dynamo_operator.runtime.client.errors import ClientError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.http_server import Handler
from dynamo_operator.runtime.permissions import Permission
from informers.clock import Clock, SystemClock

TOKEN_SECONDS: Final = 60.0
ALLOWED_SECONDS: Final = 300.0
DENIED_SECONDS: Final = 30.0

ACCESS_REVIEW_PERMISSIONS: Final = (
    Permission("authentication.k8s.io", ("tokenreviews",), ("create",), cluster_wide=True),
    Permission("authorization.k8s.io", ("subjectaccessreviews",), ("create",), cluster_wide=True),
)
"""What whoever asks for reviews has to be granted."""

_MOST_ANSWERS: Final = 1024
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}

_log = structlog.get_logger(__name__)


class AccessReviews:
    """Guards pages by the cluster's own authentication and authorization.

    A caller needs a bearer token of the cluster, and the right to the path: a ClusterRole with
    `nonResourceURLs: [/metrics]` and `verbs: [get]`. Whose a token is is remembered for a minute,
    that somebody may for five, that somebody may not for half of one.

    Args:
        client: asks; needs ACCESS_REVIEW_PERMISSIONS.
        clock: measures how long answers are remembered.

    Example:
        >>> def serve_metrics(manager: Manager, certificate: TlsCertificate) -> None:
        ...     server = HttpServer(":8443", certificate=certificate)
        ...     reviews = AccessReviews(manager.unfenced_client)
        ...     server.route("GET", "/metrics", reviews.guard(manager.metrics.answer))
        ...     manager.add(server)
    """

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self._client = client
        self._users = _Remembered(clock or SystemClock())
        self._rights = _Remembered(clock or SystemClock())

    def guard(self, handler: Handler) -> Handler:
        """Return a handler that answers 401 and 403 to whoever may not have the page."""

        async def guarded(request: HttpRequest) -> HttpResponse:
            try:
                user = await self._user(request)
                if user is None:
                    return HttpResponse(401, _TEXT, b"a bearer token of the cluster is needed\n")
                if not await self._may(user, request):
                    text = f"{user.get('username')} may not {request.method} {request.path}\n"
                    return HttpResponse(403, _TEXT, text.encode())
            except ClientError as error:
                _log.warning("access not reviewed", path=request.path, error=str(error))
                return HttpResponse(500, _TEXT, b"the API server could not be asked\n")
            return await handler(request)

        return guarded

    async def _user(self, request: HttpRequest) -> Mapping[str, Any] | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return None
        key = hashlib.sha256(token.encode()).hexdigest()
        user: Mapping[str, Any] | None
        if (known := self._users.find(key)) is not None:
            (user,) = known
            return user
        status = await self._review(
            _TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        user = status.get("user") if status.get("authenticated") is True else None
        self._users.put(key, user, TOKEN_SECONDS)
        return user

    async def _may(self, user: Mapping[str, Any], request: HttpRequest) -> bool:
        spec = {
            "user": user.get("username"),
            "uid": user.get("uid"),
            "groups": user.get("groups"),
            "extra": user.get("extra"),
            "nonResourceAttributes": {"path": request.path, "verb": request.method.lower()},
        }
        spec = {name: value for name, value in spec.items() if value}
        key = json.dumps(spec, sort_keys=True)
        if (known := self._rights.find(key)) is not None:
            return bool(known[0])
        status = await self._review(
            _ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec
        )
        allowed = status.get("allowed") is True
        self._rights.put(key, allowed, ALLOWED_SECONDS if allowed else DENIED_SECONDS)
        return allowed

    async def _review(
        self, path: str, api_version: str, kind: str, spec: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        body = {"apiVersion": api_version, "kind": kind, "spec": spec}
        response = await self._client.request("POST", path, body=json.dumps(body).encode())
        answer = decode_json(response.body)
        status = answer.get("status") if isinstance(answer, dict) else None
        return status if isinstance(status, dict) else {}


class _Remembered:
    """Answers that are good for a while; the oldest make room."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[str, tuple[float, Any]] = OrderedDict()

    def find(self, key: str) -> tuple[Any] | None:
        """Return the answer, in a tuple of its own for it may be None."""
        found = self._answers.get(key)
        if found is None or found[0] <= self._clock.monotonic():
            return None
        return (found[1],)

    def put(self, key: str, answer: Any, seconds: float) -> None:
        self._answers[key] = (self._clock.monotonic() + seconds, answer)
        self._answers.move_to_end(key)
        while len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)
