"""The bridge to kubernetes_asyncio: its API classes, configurations and models beside ours.

Nothing else imports that library, and nothing imports this module before it is needed: loading it
takes longer and more memory than all of the runtime.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kubernetes_asyncio import client as generated

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.runtime.client.credentials import ClientCertificate, header_value
from dynamo_operator.runtime.client.errors import ApiError, ConfigError, DecodeError
from dynamo_operator.runtime.client.http import HttpRequest, HttpStream
from dynamo_operator.runtime.client.rest import DEFAULT_TIMEOUT_SECONDS, RestClient
from dynamo_operator.runtime.client.tls import TlsConfig
from informers.objects import ResourceType

_OBJECT_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)/"
    r"(?P<namespaced>namespaces/namespace/)?(?P<plural>[^/]+)/name"
)
_MODEL_NAME = re.compile(r"\w*?V\d+((alpha|beta)\d+)?(?P<kind>[A-Z]\w*)")


@asynccontextmanager
async def api_client(rest: RestClient) -> AsyncGenerator[generated.ApiClient]:
    """Yield an ApiClient whose requests go the way of ours, until the context ends."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        rest_object = _RestObject(rest, tasks)
        try:
            yield _ApiClient(rest_object)
        except Exception as error:  # noqa: BLE001 - raised below: the group would wrap it
            failure = error
        finally:
            rest_object.close_streams()
    if failure is not None:
        raise failure


def config_of(configuration: generated.Configuration) -> ClientConfig:
    """Return what a Configuration says; see `ClientConfig.from_configuration`."""
    if configuration.proxy_headers:
        raise ConfigError("proxy_headers: not supported: put the password into the proxy's URL")
    authority = configuration.ssl_ca_cert
    return ClientConfig(
        configuration.host or "",
        tls=TlsConfig(
            ca_file=Path(authority) if authority and configuration.verify_ssl else None,
            insecure=not configuration.verify_ssl,
            server_name=configuration.tls_server_name or "",
            strict="off" if configuration.disable_strict_ssl_verification else "auto",
        ),
        credentials=_ConfiguredCredentials(configuration),
        proxy=configuration.proxy or "",
        source="a kubernetes_asyncio Configuration",
    )


def resource_type_of(model: type) -> ResourceType:
    """Return the resource type of the objects that a generated model is of.

    Raises:
        ConfigError: the model is of something else, e.g. of a part of an object.
    """
    found = resource_types().get(model.__name__)
    if found is None:
        raise ConfigError(f"{model.__name__}: no API serves objects of that model")
    return found


@cache
def resource_types() -> Mapping[str, ResourceType]:
    """What each model is served as, learned by asking every API class to read an object."""
    found: dict[str, ResourceType] = {}
    recorder = _Recorder()
    for api_name in dir(generated):
        if not re.fullmatch(r"\w+V\d+\w*Api", api_name):
            continue
        api = getattr(generated, api_name)(recorder)
        for name in dir(api):
            if not name.startswith("read_") or name.endswith("_with_http_info"):
                continue
            scope = ("namespace",) if name.startswith("read_namespaced_") else ()
            getattr(api, name)("name", *scope)
            path = _OBJECT_PATH.fullmatch(recorder.path)
            model = _MODEL_NAME.fullmatch(recorder.model)
            if path and model:
                found[recorder.model] = ResourceType(
                    path["group"] or "",
                    path["version"],
                    model["kind"],
                    path["plural"],
                    namespaced=bool(path["namespaced"]),
                )
    return found


def decode(model: type, data: bytes) -> Any:
    """Return an object as an instance of a generated model.

    Raises:
        DecodeError: the object does not fit the model.
    """
    try:
        # Fields that are null or missing make no error: the library may be older than the server.
        return _codec().deserialize(cast("Any", SimpleNamespace(data=data)), model)
    except (ValueError, TypeError, AttributeError) as error:
        raise DecodeError(f"{resource_type_of(model)} does not fit its model: {error}") from None


def to_dict(obj: object) -> dict[str, Any]:
    """Return the JSON form of an instance of a generated model: the fields that are not None."""
    form: dict[str, Any] = _codec().sanitize_for_serialization(obj)
    return form


class _ConfiguredCredentials:
    """What a Configuration holds."""

    def __init__(self, configuration: generated.Configuration) -> None:
        self._configuration = configuration
        self.client_certificate = _pair(configuration.cert_file, configuration.key_file)

    async def authorization(self) -> str:
        configuration = self._configuration
        if "BearerToken" in configuration.api_key:
            value = await configuration.get_api_key_with_prefix("BearerToken")
            return header_value(value or "")
        if configuration.username or configuration.password:
            pair = f"{configuration.username or ''}:{configuration.password or ''}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return ""

    def rejected(self, authorization: str) -> bool:
        return self._configuration.refresh_api_key_hook is not None

    def __repr__(self) -> str:
        return "the credentials of a kubernetes_asyncio Configuration"


class _RestObject(generated.rest.RESTClientObject):
    """Takes the place of the part of an ApiClient that speaks HTTP."""

    def __init__(self, rest: RestClient, tasks: asyncio.TaskGroup) -> None:
        # Not the base's: that opens a session of its own.
        self._rest = rest
        self._tasks = tasks
        self._streams: list[_Stream] = []

    async def request(
        self,
        method: str,
        url: str,
        query_params: Any = None,
        headers: Any = None,
        body: Any = None,
        post_params: Any = None,
        _preload_content: bool = True,
        _request_timeout: Any = None,
    ) -> Any:
        query = [(name, _text(value)) for name, value in query_params or ()]
        data = body if body is None or isinstance(body, bytes) else codec.encode(body)
        headers = {"Content-Type": "application/json", **(headers or {})}
        request = HttpRequest(method.upper(), url, query, headers, data)
        try:
            if not _preload_content:
                return await self._open(request)
            timeout = _seconds(_request_timeout)
            response = await self._rest.request(request, timeout_seconds=timeout)
            return _Answer(response.status, response.headers, response.body)
        except ApiError as error:
            raise generated.ApiException(http_resp=cast("Any", _refusal(error))) from error

    async def _open(self, request: HttpRequest) -> _Stream:
        stream = _Stream()
        self._streams.append(stream)
        self._tasks.create_task(stream.keep_open(self._rest, request))
        await stream.opened()
        return stream

    def close_streams(self) -> None:
        for stream in self._streams:
            stream.close()

    async def close(self) -> None:
        """Close what this client opened; the connections belong to ours."""
        self.close_streams()


class _ApiClient(generated.ApiClient):
    """An ApiClient without connections, and without the credentials that it would look for."""

    def __init__(self, rest_object: _RestObject | None) -> None:
        # Not the base's: that makes a TLS context.
        self.configuration = generated.Configuration(host="")
        self.configuration.client_side_validation = False  # of what the server sent
        self.client_side_validation = True  # of arguments
        self.rest_client = cast("Any", rest_object)
        self.default_headers = {}
        self.cookie = cast("Any", None)
        self.pool_threads = 1


class _Answer:
    """A whole answer, as the generated client reads it."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status = status
        self.reason = _phrase(status)
        self.data = data
        self._headers = headers

    def getheaders(self) -> Mapping[str, str]:
        return self._headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        return self._headers.get(name.lower(), default)


class _Stream:
    """An answer of any length, with those of aiohttp's names that watches and logs are read by.

    It is opened and left by a task of its own, because `close` may not wait.
    """

    def __init__(self) -> None:
        self._opened: asyncio.Future[HttpStream] = asyncio.get_running_loop().create_future()
        self._closed = asyncio.Event()
        self._stream: HttpStream | None = None
        self.content: _Content | None = None

    async def keep_open(self, rest: RestClient, request: HttpRequest) -> None:
        try:
            async with rest.stream(request) as stream:
                if not self._opened.done():
                    self._opened.set_result(stream)
                await self._closed.wait()
        except Exception as error:  # noqa: BLE001 - raised where the stream is waited for
            if not self._opened.done():
                self._opened.set_exception(error)

    async def opened(self) -> None:
        try:
            self._stream = await self._opened
        except BaseException:
            self.close()
            raise
        self.content = _Content(self._stream.chunks())

    @property
    def status(self) -> int:
        return self._stream.status if self._stream else 0

    @property
    def reason(self) -> str:
        return _phrase(self.status)

    @property
    def headers(self) -> Mapping[str, str]:
        return self._stream.headers if self._stream else {}

    async def read(self) -> bytes:
        return await self.content.read() if self.content else b""

    def close(self) -> None:
        self._closed.set()

    release = close


class _Content:
    """The lines of a body that arrives in chunks."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._pending = bytearray()
        self._searched = 0

    async def readline(self) -> bytes:
        """Return the next line with its end, the rest at the end of the body, then nothing."""
        while (end := self._pending.find(b"\n", self._searched)) < 0:
            self._searched = len(self._pending)
            chunk = await anext(self._chunks, None)
            if chunk is None:
                return self._taken(len(self._pending))
            self._pending += chunk
        return self._taken(end + 1)

    async def read(self) -> bytes:
        """Return all that is left."""
        async for chunk in self._chunks:
            self._pending += chunk
        return self._taken(len(self._pending))

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._pending[:size])
        del self._pending[:size]
        self._searched = 0
        return taken


class _Recorder:
    """Stands where an ApiClient would, to learn from the API classes what they would ask for."""

    client_side_validation = False

    def __init__(self) -> None:
        self.path = ""
        self.model = ""

    def select_header_accept(self, accepts: object) -> str:
        return "application/json"

    def call_api(self, path: str, *arguments: object, **options: Any) -> None:
        parameters: Mapping[str, str] = arguments[1]  # type: ignore[assignment]
        for name, value in parameters.items():
            path = path.replace(f"{{{name}}}", value)
        self.path, self.model = path, options["response_types_map"].get(200, "")


@cache
def _codec() -> _ApiClient:
    return _ApiClient(None)


def _pair(certificate: str | None, key: str | None) -> ClientCertificate | None:
    if not certificate:
        return None
    try:
        chain = Path(certificate).read_bytes()
        return ClientCertificate(chain, Path(key).read_bytes() if key else chain)
    except OSError as error:
        raise ConfigError(f"client certificate {error.filename}: {error.strerror}") from None


def _refusal(error: ApiError) -> _Answer:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "details": error.details,
        "code": error.code,
    }
    headers = {"content-type": "application/json"}
    if error.retry_after_seconds is not None:
        headers["retry-after"] = f"{error.retry_after_seconds:g}"
    return _Answer(error.code, headers, codec.encode(status))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _seconds(timeout: object) -> float:
    """Return a deadline: of a number, a pair (connection, answer), or aiohttp's ClientTimeout."""
    if isinstance(timeout, int | float) and timeout > 0:
        return float(timeout)
    if isinstance(timeout, tuple):
        return float(sum(part for part in timeout if part) or DEFAULT_TIMEOUT_SECONDS)
    total: float | None = getattr(timeout, "total", None)
    return total or DEFAULT_TIMEOUT_SECONDS
