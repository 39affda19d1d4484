"""HTTPS in front of an embedded API server, and its way to the nodes."""

from __future__ import annotations

import hashlib
import io
import ssl
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from dynamo_operator.apiserver.api_server import ApiServer
from dynamo_operator.apiserver.calls import MAX_BODY_BYTES
from dynamo_operator.apiserver.kubeconfig import client_kubeconfig, write_private
from dynamo_operator.apiserver.kubelet import KubeletAddress
from dynamo_operator.apiserver.messages import JSON_TYPE, ByteStream, Request, Response, UserInfo
from dynamo_operator.certificates import Certificate, CertificateAuthority

_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_SHUTDOWN_SECONDS = 5.0
_KUBELET_CONNECT_SECONDS = 10.0
_CHUNK_BYTES = 64 * 1024


class HttpsServer:
    """Serves an ApiServer over TLS. `async with` starts and stops it.

    Users authenticate by a client certificate of the server's own authority (common name is the
    user, organizations are the groups) or by a bearer token.

    Args:
        server: what answers.
        host: the address to listen on.
        port: 0 for a free one.
        directory: where the authority is kept between starts; None for a fresh one.
        clock: dates certificates; the server's own.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        directory: Path | None = None,
    ) -> None:
        self._server = server
        self._host = host
        self._port = port
        self._directory = directory
        self._stack = AsyncExitStack()
        self._authority: CertificateAuthority | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            now = self._server.clock.now()
            self._authority = (
                CertificateAuthority.load_or_create(self._directory, now)
                if self._directory
                else CertificateAuthority.create(now)
            )
            kubelets = HttpsKubeletClient(self._client_context())
            stack.push_async_callback(kubelets.close)
            self._server.kubelet = kubelets
            webhooks = HttpsWebhookClient()
            stack.push_async_callback(webhooks.close)
            self._server.webhooks.client = webhooks
            runner = web.ServerRunner(
                web.Server(self._serve, access_log=None, handler_cancellation=True),
                shutdown_timeout=_SHUTDOWN_SECONDS,
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, self._host, self._port, ssl_context=self._serving_context())
            await site.start()
            self._port = runner.addresses[0][1]
            # Open watches end first, so that the connections they hold can close.
            stack.callback(self._server.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.kubelet = None
        self._server.webhooks.client = None
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"https://{host}:{self._port}"

    @property
    def ca_certificate(self) -> bytes:
        """The PEM certificate that verifies the server, and that nodes verify it with."""
        return self._ca.pem

    def issue_certificate(
        self, common_name: str, *, organizations: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> Certificate:
        """Sign a certificate: for a server (a node's) when it names hosts, else for a user."""
        return self._ca.issue(
            common_name, self._server.clock.now(), organizations=organizations, hosts=hosts
        )

    def kubeconfig(
        self,
        *,
        user: str = "admin",
        groups: Sequence[str] = ("system:masters",),
        namespace: str = "default",
    ) -> dict[str, Any]:
        """Return a kubeconfig with a fresh client certificate."""
        certificate = self.issue_certificate(user, organizations=groups)
        return client_kubeconfig(
            self.url, self.ca_certificate, certificate, user=user, namespace=namespace
        )

    def write_kubeconfig(
        self,
        path: Path,
        *,
        user: str = "admin",
        groups: Sequence[str] = ("system:masters",),
        namespace: str = "default",
    ) -> None:
        """Write a kubeconfig that only its owner can read."""
        write_private(path, self.kubeconfig(user=user, groups=groups, namespace=namespace))

    @property
    def _ca(self) -> CertificateAuthority:
        if self._authority is None:
            raise RuntimeError("the server is not started: use `async with`")
        return self._authority

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._server.handle(
            Request(
                request.method,
                request.rel_url.path,
                list(request.rel_url.query.items()),
                {name.lower(): value for name, value in request.headers.items()},
                await _read_body(request),
                user=_certificate_user(request),
                source_address=request.remote or "",
            )
        )
        if isinstance(response.body, bytes):
            return web.Response(
                status=response.status, headers=dict(response.headers), body=response.body
            )
        return await _stream(request, response, response.body)

    def _serving_context(self) -> ssl.SSLContext:
        hosts = dict.fromkeys([self._host, "127.0.0.1", "::1", "localhost", *_SERVICE_NAMES])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self._ca.pem.decode())
        load_certificate(context, self.issue_certificate("kube-apiserver", hosts=list(hosts)))
        return context

    def _client_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self._ca.pem.decode())
        load_certificate(
            context,
            self.issue_certificate(
                "kube-apiserver-kubelet-client", organizations=["system:masters"]
            ),
        )
        return context


class HttpsKubeletClient:
    """Asks kubelets over TLS, with a client certificate of the server's authority."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, address: KubeletAddress, path: str, query: Sequence[tuple[str, str]]
    ) -> Response:
        """Return the kubelet's answer, its body as it comes."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._context, limit=0, force_close=True)
            self._session = aiohttp.ClientSession(connector=connector)
        host = f"[{address.host}]" if ":" in address.host else address.host
        timeout = aiohttp.ClientTimeout(total=None, connect=_KUBELET_CONNECT_SECONDS)
        try:
            answer = await self._session.get(
                f"https://{host}:{address.port}{path}", params=list(query), timeout=timeout
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(str(error) or "timed out") from None
        content_type = answer.headers.get("content-type", "text/plain")
        return Response(answer.status, {"content-type": content_type}, _ClientBody(answer))

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


class HttpsWebhookClient:
    """Posts to webhooks over TLS."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

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
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, force_close=True)
            )
        try:
            async with self._session.post(
                url,
                data=io.BytesIO(body),
                headers={"content-type": JSON_TYPE},
                ssl=self._context(ca_bundle),
                server_hostname=server_name or None,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
            ) as answer:
                return Response(answer.status, {}, await answer.read())
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error)) from None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(ca_bundle)
        if context is None:
            try:
                authorities = ca_bundle.decode("ascii", "replace") or None
                context = ssl.create_default_context(cadata=authorities)
            except ssl.SSLError as error:
                raise ConnectionError(f"unable to load root certificates: {error}") from None
            self._contexts[ca_bundle] = context
        return context


class _ClientBody:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    def __aiter__(self) -> _ClientBody:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._answer.content.readany()
        except aiohttp.ClientError:
            chunk = b""
        if not chunk:
            await self.aclose()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self._answer.close()


def load_certificate(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Give a TLS context its certificate; ssl takes them only from files."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate.certificate + certificate.key)
        context.load_cert_chain(path)


async def _read_body(request: web.BaseRequest) -> bytes:
    body = bytearray()
    # One chunk beyond the limit is enough for the answer to be 413.
    while len(body) <= MAX_BODY_BYTES:
        chunk = await request.content.read(_CHUNK_BYTES)
        if not chunk:
            break
        body += chunk
    return bytes(body)


def _certificate_user(request: web.BaseRequest) -> UserInfo | None:
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport else None
    if transport is None or not certificate:
        return None
    names: dict[str, list[str]] = {}
    for relative_name in certificate.get("subject", ()):
        for key, value in relative_name:
            names.setdefault(key, []).append(value)
    der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return UserInfo(
        names.get("commonName", [""])[0],
        groups=(*names.get("organizationName", ()), "system:authenticated"),
        extra={_CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)},
    )


async def _stream(
    request: web.BaseRequest, response: Response, body: ByteStream
) -> web.StreamResponse:
    answer = web.StreamResponse(status=response.status, headers=dict(response.headers))
    try:
        await answer.prepare(request)
        async for chunk in body:
            await answer.write(chunk)
        await answer.write_eof()
    except ConnectionError:
        # The client went away; there is nobody left to tell.
        pass
    finally:
        await body.aclose()
    return answer
