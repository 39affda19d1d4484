"""The auth-provider `oidc`: an ID token, and a refresh token to have the next one issued by."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.credentials import bearer
from dynamo_operator.runtime.client.errors import ClientError, ConfigError
from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.client.kubeconfig import Entry
from dynamo_operator.runtime.client.renewed_credentials import Issued
from dynamo_operator.runtime.client.tls import TlsConfig

_TIMEOUT_SECONDS = 30.0
_REQUIRED = ("idp-issuer-url", "client-id")


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """An issuer, and what it knows us by.

    Attributes:
        where: the kubeconfig entry, for errors.
        issuer: its URL.
        client_id: us.
        client_secret: our proof, or "".
        tls: how its certificate is checked.
        environ: for proxies.
        tokens: `id-token`, until it is returned, and `refresh-token`; renewed in place.
        store: keeps renewed ones for the next process; may raise OSError.
    """

    where: str
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    tls: TlsConfig
    environ: Mapping[str, str] = field(repr=False)
    tokens: dict[str, str] = field(repr=False)
    store: Callable[[Mapping[str, str]], None] = field(repr=False)

    @classmethod
    def of(
        cls,
        entry: Entry,
        environ: Mapping[str, str],
        store: Callable[[Mapping[str, str]], None],
    ) -> OidcProvider:
        """Take what the `config` of an auth-provider says.

        Raises:
            ConfigError: it is incomplete, or its issuer is not reached by TLS.
        """
        for name in _REQUIRED:
            if not entry.text(name):
                raise ConfigError(f"{entry.where}: {name} must be specified")
        issuer = entry.text("idp-issuer-url").rstrip("/")
        if urlsplit(issuer).scheme != "https":
            raise ConfigError(f"{entry.where}: idp-issuer-url: must be an https:// URL")
        names = ("id-token", "refresh-token")
        return cls(
            where=entry.where,
            issuer=issuer,
            client_id=entry.text("client-id"),
            client_secret=entry.text("client-secret"),
            tls=TlsConfig(ca_data=entry.content("idp-certificate-authority")),
            environ=environ,
            tokens={name: entry.text(name) for name in names if entry.text(name)},
            store=store,
        )

    async def issue(self, now: datetime) -> Issued:
        """Return the ID token, a new one if the one at hand has expired or was returned before.

        Raises:
            ConfigError: there is no refresh token, or the issuer does not take it.
        """
        token = self.tokens.pop("id-token", "")
        expires = _expiry(token)
        if not token or (expires is not None and expires <= now):
            token = await self._refresh()
            expires = _expiry(token)
        return Issued(bearer(token), expires=expires)

    async def _refresh(self) -> str:
        refresh_token = self.tokens.get("refresh-token")
        if not refresh_token:
            raise self._failure("the ID token is of no use any more, and there is no refresh-token")
        found = await self._fetch("GET", f"{self.issuer}/.well-known/openid-configuration")
        endpoint = found.get("token_endpoint")
        if not isinstance(endpoint, str) or urlsplit(endpoint).scheme != "https":
            raise self._failure("the issuer names no https:// token_endpoint")
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        answer = await self._fetch("POST", endpoint, form)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise self._failure("the issuer answered without an id_token")
        if isinstance(renewed := answer.get("refresh_token"), str):
            self.tokens["refresh-token"] = renewed
        with suppress(OSError):
            # The file may be read-only, e.g. mounted from a Secret: then this process has the token
            # alone, and an issuer that takes each refresh token once asks the next to log in.
            await asyncio.to_thread(self.store, {**self.tokens, "id-token": token})
        return token

    async def _fetch(
        self, method: str, url: str, form: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        body = None
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            if self.client_secret:
                pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
                headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            else:
                form = {**form, "client_id": self.client_id}
            body = urlencode(form).encode()
        try:
            response = await self._send(method, url, headers, body)
        except ClientError as error:
            raise self._failure(str(error)) from None
        return self._parsed(response)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        # Imported here: the transport knows configurations, and they know us.
        from dynamo_operator.runtime.client.config import ClientConfig
        from dynamo_operator.runtime.client.proxies import proxy_for
        from dynamo_operator.runtime.client.transport import HttpTransport

        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}"
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        proxy = proxy_for(server, configured="", where=self.where, environ=self.environ)
        transport = HttpTransport(ClientConfig(server, tls=self.tls, proxy=proxy))
        try:
            request = HttpRequest(method, path, (), headers, body)
            return await transport.send(request, timeout_seconds=_TIMEOUT_SECONDS)
        finally:
            await transport.close()

    def _parsed(self, response: HttpResponse) -> dict[str, Any]:
        try:
            answer = codec.decode_json(response.body)
        except codec.MalformedJsonError:
            answer = None
        document = answer if isinstance(answer, dict) else {}
        if response.status != 200 or not document:
            why = document.get("error")
            raise self._failure(
                f"the issuer answered {response.status}{f' {why}' if isinstance(why, str) else ''}"
                "; log in anew"
            )
        return document

    def _failure(self, what: str) -> ConfigError:
        return ConfigError(f"{self.where}: auth-provider oidc: {what}")


def _expiry(token: str) -> datetime | None:
    """Return when a token says that it expires; nobody but the server has to trust it."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, binascii.Error):
        return None
