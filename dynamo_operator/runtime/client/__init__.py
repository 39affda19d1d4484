"""The Kubernetes client.

Here belongs what speaks to an API server: configuration and credentials, transport, typed errors,
reads, writes, lists and watches. What keeps copies or runs controllers does not.
"""

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.config import ClientConfig, Impersonation
from dynamo_operator.runtime.client.conflicts import retry_on_conflict
from dynamo_operator.runtime.client.credentials import ClientCertificate, Credentials
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ClientError,
    ConfigError,
    ConflictError,
    DeadlineExceededError,
    DecodeError,
    ForbiddenError,
    GoneError,
    InvalidError,
    MethodNotAllowedError,
    NotFoundError,
    NotLeadingError,
    RequestTooLargeError,
    ServerError,
    ServerTimeoutError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
    UnknownOutcomeError,
)
from dynamo_operator.runtime.client.http import (
    HttpRequest,
    HttpResponse,
    HttpStream,
    Transport,
    WriteFence,
)
from dynamo_operator.runtime.client.merge_patches import merge_patch
from dynamo_operator.runtime.client.options import FieldValidation
from dynamo_operator.runtime.client.reader import Reader
from dynamo_operator.runtime.client.rest import RequestObserver, WarningObserver
from dynamo_operator.runtime.client.tls import TlsConfig
from dynamo_operator.runtime.client.uncached_reader import UncachedReader
from dynamo_operator.runtime.client.writes import PatchType, Write, WriteObserver

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "BadRequestError",
    "Client",
    "ClientCertificate",
    "ClientConfig",
    "ClientError",
    "ConfigError",
    "ConflictError",
    "Credentials",
    "DeadlineExceededError",
    "DecodeError",
    "FieldValidation",
    "ForbiddenError",
    "GoneError",
    "HttpRequest",
    "HttpResponse",
    "HttpStream",
    "Impersonation",
    "InvalidError",
    "MethodNotAllowedError",
    "NotFoundError",
    "NotLeadingError",
    "PatchType",
    "Reader",
    "RequestObserver",
    "RequestTooLargeError",
    "ServerError",
    "ServerTimeoutError",
    "TlsConfig",
    "TooManyRequestsError",
    "Transport",
    "TransportError",
    "UnauthorizedError",
    "UncachedReader",
    "UnknownOutcomeError",
    "WarningObserver",
    "Write",
    "WriteFence",
    "WriteObserver",
    "merge_patch",
    "retry_on_conflict",
]
