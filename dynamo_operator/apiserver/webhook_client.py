"""The port to webhooks, and what their answers must look like."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from dynamo_operator.apiserver.messages import Response, to_json
from dynamo_operator.apiserver.object_metadata import dns_subdomain
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

_URL_FORM: Final = "desired format: https://host[/path]"


class CallFailedError(Exception):
    """A webhook gave no usable answer; the text says why."""


class InvalidAnswerError(CallFailedError):
    """A webhook answered something that is no answer."""

    def __init__(self, what: str) -> None:
        super().__init__(f"received invalid webhook response: {what}")
        self.what = what


class WebhookClient(Protocol):
    """Posts to webhooks."""

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        ca_bundle: bytes,
        server_name: str,
        timeout_seconds: float,
    ) -> Response:
        """Return the answer; raise OSError (TimeoutError: not in time) when there is none.

        Args:
            url: https.
            body: JSON.
            ca_bundle: PEM of the authorities to trust; empty for the system's.
            server_name: what the certificate must be for; "" for the host of the URL.
            timeout_seconds: for all of it.
        """


class Webhooks:
    """Calls webhooks by the `clientConfig` of their configuration.

    Args:
        new_uid: makes the uids of reviews.

    Attributes:
        client: what posts; without one no webhook can be reached.
        services: base URLs of Services that webhooks are behind, by `namespace/name`: the server
            itself has no way into a cluster's network.
    """

    def __init__(self, new_uid: Callable[[], str]) -> None:
        self._new_uid = new_uid
        self.client: WebhookClient | None = None
        self.services: dict[str, str] = {}

    async def review(
        self, config: Mapping[str, Any], review: Object, *, timeout_seconds: float, timed: bool
    ) -> Object:
        """Post a review, and return the `response` in the answer.

        Args:
            config: whom to call.
            review: with a `request`, which gets a `uid`.
            timeout_seconds: how long it may take.
            timed: whether the URL tells the time limit.

        Raises:
            CallFailedError: there is no answer, or it answers something else.
        """
        review = {**review, "request": {"uid": self._new_uid(), **review["request"]}}
        path = f"?{urlencode({'timeout': f'{timeout_seconds:g}s'})}" if timed else ""
        url, reached, server_name = self._address(config, path)
        if self.client is None:
            raise CallFailedError(f'Post "{url}": the server has no connection to webhooks')
        try:
            answer = await self.client.post(
                reached,
                to_json(review),
                ca_bundle=_ca_bundle(config),
                server_name=server_name,
                timeout_seconds=timeout_seconds,
            )
        except TimeoutError:
            raise CallFailedError(f'Post "{url}": context deadline exceeded') from None
        except OSError as error:
            raise CallFailedError(f'Post "{url}": {error}') from None
        body = answer.body if isinstance(answer.body, bytes) else b""
        if answer.status != 200:
            raise CallFailedError(_refusal(answer.status, body))
        return _response(review, body)

    def _address(self, config: Mapping[str, Any], query: str) -> tuple[str, str, str]:
        """Return the URL to show, the one to call, and whom the certificate must be for."""
        service = config.get("service")
        if not service:
            url = str(config.get("url", "")) + query
            return url, url, ""
        name, namespace = service.get("name", ""), service.get("namespace", "")
        path = "/" + str(service.get("path") or "").lstrip("/") + query
        server_name = f"{name}.{namespace}.svc"
        shown = f"https://{server_name}:{service.get('port', 443)}{path}"
        base = self.services.get(f"{namespace}/{name}")
        if base is None:
            raise CallFailedError(f'Post "{shown}": service "{name}" not found')
        return shown, base.rstrip("/") + path, server_name


def client_config_errors(config: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield what keeps a `clientConfig` from naming a webhook."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield FieldError(path, FieldErrorKind.REQUIRED, "exactly one of url or service is required")
    elif service is None:
        scheme, found, rest = str(url).partition("://")
        where = f"{path}.url"
        if scheme != "https":
            detail = f"'https' is the only allowed URL scheme; {_URL_FORM}"
            shown = scheme if found else str(url)
            yield FieldError(where, FieldErrorKind.INVALID, detail, shown)
        elif not rest.partition("/")[0]:
            detail = f"host must be specified; {_URL_FORM}"
            yield FieldError(where, FieldErrorKind.INVALID, detail, url)
    else:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield FieldError(f"{path}.service.{field}", FieldErrorKind.REQUIRED)
        yield from _service_errors(service, f"{path}.service")


def _service_errors(service: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    port, where = service.get("port", 443), service.get("path")
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        yield FieldError(f"{path}.port", FieldErrorKind.INVALID, detail, port)
    if where is None or where == "/":
        return
    if where == "":
        yield FieldError(f"{path}.path", FieldErrorKind.INVALID, "must start with a '/'", where)
        return
    if not where.startswith("/"):
        yield FieldError(f"{path}.path", FieldErrorKind.INVALID, "must start with a '/'", where)
    steps = where[1:].split("/")
    for position, step in enumerate(steps):
        if position == len(steps) - 1 and not step:
            break
        problems = [f"segment[{position}] may not be empty"] if not step else []
        problems += dns_subdomain(step) if step else []
        for problem in problems:
            yield FieldError(f"{path}.path", FieldErrorKind.INVALID, problem, where)


def _response(review: Object, body: bytes) -> Object:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidAnswerError(f"{error}") from None
    if not isinstance(answer, dict):
        raise InvalidAnswerError("it is not an object")
    wanted = (review["apiVersion"], review["kind"])
    given = (answer.get("apiVersion", wanted[0]), answer.get("kind", wanted[1]))
    if given != wanted:
        raise InvalidAnswerError(
            f"expected webhook response of {wanted[0]}, "
            f"Kind={wanted[1]}, got {given[0]}, Kind={given[1]}"
        )
    response = answer.get("response")
    if not isinstance(response, dict):
        raise InvalidAnswerError("webhook response was absent")
    uid = review["request"]["uid"]
    if response.get("uid") != uid:
        raise InvalidAnswerError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return response


def _refusal(status: int, body: bytes) -> str:
    text = json.dumps(body.decode("utf-8", "replace"))
    if status >= 500:
        return f"an error on the server ({text}) has prevented the request from succeeding"
    if status == 404:
        return "the server could not find the requested resource"
    return f"the server rejected our request ({status}: {text})"


def _ca_bundle(config: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(config.get("caBundle") or "")
    except binascii.Error as error:
        raise CallFailedError(f"caBundle is not base64: {error}") from None
