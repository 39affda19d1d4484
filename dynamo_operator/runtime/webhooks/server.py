"""The webhook server: reviews in, verdicts out, over TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import structlog

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.defects import DEFECTS
from dynamo_operator.runtime.http_server import HttpServer
from dynamo_operator.runtime.metrics import Metrics, WebhookMetrics
from dynamo_operator.runtime.serving_certificate import TlsCertificate
from dynamo_operator.runtime.webhooks.admission import (
    Admission,
    DeniedError,
    Handler,
    MalformedReviewError,
    Review,
    Verdict,
)
from dynamo_operator.runtime.webhooks.conversion import (
    ConversionError,
    ConversionReview,
    Conversions,
    Converter,
)
from dynamo_operator.runtime.webhooks.webhook import Webhook

DEFAULT_ADDRESS: Final = ":9443"
CONVERT_PATH: Final = "/convert"

_ADMISSION_SECONDS: Final = 10.0
_CONVERSION_SECONDS: Final = 30.0
_LARGEST_CONVERSION: Final = 64 * 1024 * 1024  # a list may be converted at once
_DIAL_SECONDS: Final = 10.0
_REPLY_SECONDS: Final = 0.5
_SHUTDOWN_SECONDS: Final = 25.0

_CANCELLED_INSIDE: Final = "the handler was cancelled, although nobody asked for it"

_log = structlog.get_logger(__name__)


class WebhookServerError(RuntimeError):
    """The server does not serve; says why."""


class Webhooks:
    """Serves webhooks; give it to a Manager, or use it as `async with` by itself.

    In a manager it listens before the caches fill, so that a conversion that they need is there.
    Its calls are counted under controller-runtime's names, and it adds a readiness check: the
    server answers with a certificate that is valid now.

    Args:
        webhooks: what judges which kinds.
        conversions: how kinds with several versions are converted, all at /convert.
        handlers: what else answers reviews, by path.
        address: `host:port` or `:port`.
        certificate: what to serve with: a ServingCertificate on disk, or a SecretCertificate.

    Raises:
        ValueError: two of them have one path.
    """

    needs_leadership = False
    name = "webhooks"

    def __init__(
        self,
        webhooks: Sequence[Webhook[Any]] = (),
        *,
        certificate: TlsCertificate,
        conversions: Sequence[Converter] = (),
        handlers: Mapping[str, Handler] | None = None,
        address: str = DEFAULT_ADDRESS,
    ) -> None:
        self.webhooks: tuple[Webhook[Any], ...] = tuple(webhooks)
        self.address = address
        self._certificate = certificate
        self._server = HttpServer(
            address, certificate=certificate, shutdown_seconds=_SHUTDOWN_SECONDS
        )
        self._conversions = Conversions(conversions)
        self._metrics: WebhookMetrics | None = None
        self._paths: list[str] = []
        self.has_conversions: bool = bool(conversions)
        for webhook in self.webhooks:
            if webhook.defaults:
                self._add(webhook.mutate_path, webhook.mutate, webhook.timeout_seconds)
            if webhook.validated_operations:
                self._add(webhook.validate_path, webhook.validate, webhook.timeout_seconds)
        for path, handler in (handlers or {}).items():
            self._add(path, handler, _ADMISSION_SECONDS)
        if conversions:
            self._route(CONVERT_PATH, self._convert, largest_body=_LARGEST_CONVERSION)

    def count_in(self, metrics: Metrics) -> None:
        """Count calls there; a manager does this."""
        self._metrics = metrics.webhooks()
        for path in self._paths:
            self._metrics.add(path)
        self._certificate.observe(self._metrics.certificate_read)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a request that came some other way than over a socket, e.g. in a test."""
        return await self._server.handle(request)

    async def check(self) -> None:
        """Dial the server as a client would: a readiness check.

        Raises:
            WebhookServerError: it does not listen, or serves a certificate that is not valid now.
        """
        if not self._server.is_listening:
            raise WebhookServerError("webhooks: not serving yet")
        trust = await asyncio.to_thread(_trusting, self._certificate.pem)
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                _, writer = await asyncio.open_connection(
                    self._server.dial_host, self._server.port, ssl=trust
                )
                writer.close()
                with suppress(OSError):  # a server that wants client certificates ends it first
                    await writer.wait_closed()
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            raise WebhookServerError(f"webhooks: {error or 'no answer'}") from error

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        _log.info("webhooks served", port=self.port)
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._server.__aexit__(error_type, error, traceback)

    async def run(self) -> None:
        """Serve until cancelled, and keep the certificate fresh."""
        await self._server.run()

    def _add(self, path: str, handler: Handler, limit_seconds: float) -> None:
        async def judge(request: HttpRequest) -> HttpResponse:
            review = Review.parse(request.body or b"")
            verdict = await self._verdict(path, handler, review.admission, request, limit_seconds)
            return _json(review.answer(verdict))

        self._route(path, judge)

    def _route(
        self,
        path: str,
        judge: Callable[[HttpRequest], Awaitable[HttpResponse]],
        *,
        largest_body: int | None = None,
    ) -> None:
        async def answer(request: HttpRequest) -> HttpResponse:
            if self._metrics is None:
                return await _refusing_malformed(judge, request)
            with self._metrics.call(path) as call:
                response = await _refusing_malformed(judge, request)
                call.code = response.status
                return response

        self._paths.append(path)
        self._server.route("POST", path, answer, largest_body=largest_body)

    async def _verdict(
        self,
        path: str,
        handler: Handler,
        admission: Admission,
        request: HttpRequest,
        limit_seconds: float,
    ) -> Verdict:
        limit = _limit(request, limit_seconds)
        deadline = asyncio.timeout(limit)
        try:
            async with deadline:
                return await handler(admission)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The handler's own business, e.g. it awaited a task that somebody cancelled.
            return Verdict.deny(_CANCELLED_INSIDE, code=500, reason="InternalError")
        except DEFECTS as error:
            if self._metrics is not None:
                self._metrics.panics.inc()
            _log.error("webhook failed", path=path, uid=admission.uid, exc_info=error)
            text = f"panic: {type(error).__name__}: {error} [recovered]"
            return Verdict.deny(text, code=500, reason="InternalError")
        except Exception as error:  # noqa: BLE001 - whatever a handler raises denies the request
            if deadline.expired():
                text = f"no verdict in {limit:g} s"
                _log.warning("webhook took too long", path=path, uid=admission.uid)
                return Verdict.deny(text, code=504, reason="Timeout")
            verdict = Verdict.of_error(error)
            if not isinstance(error, DeniedError):
                _log.warning("webhook denied by an error", path=path, error=verdict.message)
            return verdict

    async def _convert(self, request: HttpRequest) -> HttpResponse:
        review = ConversionReview.parse(request.body or b"")
        try:
            converted = self._conversions.convert(review)
        except ConversionError as error:
            return _json(review.failure(str(error)))
        except Exception as error:  # noqa: BLE001 - a converter's own failure; the review says so
            if self._metrics is not None:
                self._metrics.conversion_panics.inc()
            _log.error("conversion failed", uid=review.uid, exc_info=error)
            return _json(review.failure("the conversion failed by a defect; its log says more"))
        return _json(review.answer(converted))


async def _refusing_malformed(
    judge: Callable[[HttpRequest], Awaitable[HttpResponse]], request: HttpRequest
) -> HttpResponse:
    """Answer what is no review with 400; there is no uid to answer it with."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        return _refusal(f"content type {content_type!r}: must be application/json")
    try:
        return await judge(request)
    except MalformedReviewError as error:
        return _refusal(str(error))


def _limit(request: HttpRequest, limit_seconds: float) -> float:
    """Return our time limit, or a little less than the caller's, who should still hear of it."""
    number = dict(request.query).get("timeout", "").removesuffix("s")
    if number.replace(".", "", 1).isdecimal() and float(number) > 0:
        asked = float(number)
        return min(limit_seconds, asked - min(_REPLY_SECONDS, asked / 10))
    return limit_seconds


def _json(body: bytes) -> HttpResponse:
    return HttpResponse(200, {"content-type": "application/json"}, body)


def _refusal(message: str) -> HttpResponse:
    return HttpResponse(400, {"content-type": "text/plain; charset=utf-8"}, f"{message}\n".encode())


def _trusting(pem: bytes) -> ssl.SSLContext:
    """Return a context that takes exactly these certificates, while they are valid."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=pem.decode("ascii", errors="replace"))
    return context
