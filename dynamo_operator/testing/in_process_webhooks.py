"""Webhooks that an embedded API server calls in the same event loop."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import parse_qsl, urlsplit

from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.webhook_client import WebhookClient
from dynamo_operator.runtime.client.http import HttpRequest
from dynamo_operator.runtime.webhooks.configuration import UrlEndpoint
from dynamo_operator.runtime.webhooks.server import Webhooks

_DOMAIN = "webhooks.in-process"


class InProcessWebhooks:
    """Calls webhook servers that are in this loop without a socket, and others over TLS.

    Args:
        elsewhere: for those that were not added here; None: there are no others.
    """

    def __init__(self, elsewhere: WebhookClient | None = None) -> None:
        self._elsewhere = elsewhere
        self._servers: dict[str, Webhooks] = {}

    def add(self, webhooks: Webhooks) -> UrlEndpoint:
        """Return where they are called from now on; they need not listen."""
        host = f"{len(self._servers)}.{_DOMAIN}"
        self._servers[host] = webhooks
        return UrlEndpoint(f"https://{host}")

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        ca_bundle: bytes,
        server_name: str,
        timeout_seconds: float,
    ) -> Response:
        """Return the answer; see `WebhookClient.post`."""
        parts = urlsplit(url)
        webhooks = self._servers.get(parts.hostname or "")
        if webhooks is None:
            if self._elsewhere is None:
                raise ConnectionError(f"{url}: nobody serves it")
            return await self._elsewhere.post(
                url,
                body,
                ca_bundle=ca_bundle,
                server_name=server_name,
                timeout_seconds=timeout_seconds,
            )
        headers = {"content-type": "application/json"}
        request = HttpRequest("POST", parts.path, parse_qsl(parts.query), headers, body)
        async with asyncio.timeout(timeout_seconds):
            await asyncio.sleep(0)  # a server that is elsewhere lets others go first
            answer = await webhooks.answer(request)
        return Response(answer.status, answer.headers, answer.body)


class NoCertificate:
    """For webhooks that are called in process only, and therefore serve no TLS."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.pem = b""

    def observe(self, observer: object) -> None:
        """Note nothing."""

    async def prepare(self) -> None:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("webhooks without a certificate cannot listen: give them one")

    async def keep_fresh(self) -> None:
        """Do nothing."""
