"""One request on its way through the server, and what its handlers need of the world."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dynamo_operator.apiserver import protobuf_bodies, status
from dynamo_operator.apiserver.codec import parse_json, parse_yaml, to_yaml
from dynamo_operator.apiserver.messages import JSON_TYPE, Request, Response, UserInfo, to_json
from dynamo_operator.apiserver.negotiation import Representation
from dynamo_operator.apiserver.query import Query
from dynamo_operator.apiserver.resources import Object, Resource, ResourceRegistry
from dynamo_operator.apiserver.routes import RequestInfo
from dynamo_operator.apiserver.storage import Storage
from informers.clock import Clock, Random

MAX_BODY_BYTES = 3 * 1024 * 1024
_LONGEST_MANAGER = 128
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


_OPTIONS = {
    "create": "CreateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
}


@dataclass(frozen=True, slots=True)
class World:
    """What handlers act on. Time and randomness come from here only."""

    storage: Storage
    registry: ResourceRegistry
    clock: Clock
    random: Random

    def now(self) -> datetime:
        """Return the present in UTC."""
        return self.clock.now().astimezone(UTC)

    def timestamp(self) -> str:
        """Return the present as metadata shows it."""
        return rfc3339(self.now())

    def new_uid(self) -> str:
        """Return a fresh UID."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def name_suffix(self) -> str:
        """Return the random end of a generated name."""
        return "".join(self.random.choice(_NAME_LETTERS) for _ in range(5))


@dataclass(slots=True)
class Call:
    """One request for a resource.

    Args:
        authorize: raises 403 unless the user may do that (verb, group, plural, namespace, name,
            subresource); handlers ask it about what a request implies beyond its own verb.
        annotations: what admission tells the audit log.
        answers: what others were asked about this request, and said.
        repeated: what strict decoding says of keys that the body repeats.
        object_uid: set by a handler, for the audit log.
        decide: whether a user may do what a policy's expression asks about, and why.
    """

    request: Request
    info: RequestInfo
    resource: Resource
    user: UserInfo
    query: Query
    representation: Representation
    world: World
    allowed: Callable[[RequestInfo], bool]
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    answers: dict[object, object] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)
    object_name: str = ""
    object_uid: str = ""
    decide: Callable[[UserInfo, Mapping[str, str]], tuple[bool, str]] | None = None

    @property
    def namespace(self) -> str:
        """The namespace that the path names; empty for cluster-scoped resources."""
        return self.info.namespace if self.resource.namespaced else ""

    @property
    def dry_run(self) -> bool:
        """Whether nothing shall be stored.

        Raises:
            StatusError: 422 for a value other than All.
        """
        values = self.query.texts("dryRun")
        for value in values:
            if value != "All":
                error = status.FieldError(
                    "dryRun",
                    status.FieldErrorKind.NOT_SUPPORTED,
                    'supported values: "All"',
                    values,
                )
                raise self._invalid_options(error)
        return bool(values)

    @property
    def field_manager(self) -> str:
        """Who manages the fields this write sets: the parameter, else the user agent's name.

        Raises:
            StatusError: 422 for a name that is too long, or not to be printed.
        """
        named = self.query.text("fieldManager")
        problem: status.FieldError | None = None
        if len(named.encode()) > _LONGEST_MANAGER:
            detail = f"may not be more than {_LONGEST_MANAGER} bytes"
            problem = status.FieldError("fieldManager", status.FieldErrorKind.TOO_LONG, detail)
        elif not named.isprintable():
            at = next(i for i, letter in enumerate(named) if not letter.isprintable())
            shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in named)
            detail = f'"{shown}": invalid character U+{ord(named[at]):04X} (at position {at})'
            kind = status.FieldErrorKind.INVALID
            problem = status.FieldError("fieldManager", kind, detail)
        if problem is not None:
            raise self._invalid_options(problem)
        return named or self.request.headers.get("user-agent", "").split("/")[0] or "unknown"

    def not_found(self, name: str = "") -> status.StatusError:
        """Return the 404 for an object of this resource."""
        return status.not_found(self.resource.group, self.resource.plural, name or self.info.name)

    def body(self) -> Object:
        """Decode the body as an object.

        Raises:
            StatusError: 400, 413 or 415.
        """
        value = self.parse_body()
        if not isinstance(value, dict):
            raise status.bad_request(
                "couldn't get version/kind; json parse error: the body is not an object"
            )
        return value

    def object_body(self) -> Object:
        """Decode the body as an object of the resource's kind.

        Raises:
            StatusError: 400, 413 or 415.
        """
        try:
            value = self.parse_body()
        except status.StatusError as error:
            if error.code != 400 or "parse error" not in error.message:
                raise
            raise self.unrecognized(error.message) from None
        if value is None and not self.resource.custom:
            return {}
        if not isinstance(value, dict):
            raise self.unrecognized(
                "couldn't get version/kind; json parse error: the body is not an object"
            )
        return value

    def unrecognized(self, detail: str) -> status.StatusError:
        """Return the 400 for a body of no kind."""
        kind = self.resource.kind
        return status.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): {detail}"
        )

    def undecodable(
        self, kind: str, version: str, detail: str, *, wanted: str = ""
    ) -> status.StatusError:
        """Return the 400 for a body of a kind that is not, or is not quite, what is wanted."""
        return status.bad_request(f"{self._handled(kind, version, wanted)}: {detail}")

    def parse_body(self) -> Any:
        """Decode the body, which is JSON or YAML by its Content-Type.

        Raises:
            StatusError: 400, 413 or 415.
        """
        if len(self.request.body) > MAX_BODY_BYTES:
            raise status.request_too_large(MAX_BODY_BYTES)
        media_type = self.content_type or JSON_TYPE
        if media_type == protobuf_bodies.MEDIA_TYPE:
            return protobuf_bodies.parse_protobuf(self.request.body)
        if media_type == "application/yaml":
            value, self.repeated = parse_yaml(self.request.body)
            return value
        if media_type != JSON_TYPE:
            raise status.unsupported_media_type(
                (JSON_TYPE, "application/yaml", protobuf_bodies.MEDIA_TYPE)
            )
        merging = not self.resource.custom
        value, self.repeated = parse_json(self.request.body, merging=merging)
        return value

    @property
    def content_type(self) -> str:
        """The body's media type without parameters, in lower case."""
        return self.request.headers.get("content-type", "").split(";")[0].strip().lower()

    @property
    def field_validation(self) -> str:
        """Ignore, Warn (the default) or Strict.

        Raises:
            StatusError: 422 for another value.
        """
        value = self.query.text("fieldValidation")
        if value not in {"", "Ignore", "Warn", "Strict"}:
            error = status.FieldError(
                "fieldValidation",
                status.FieldErrorKind.NOT_SUPPORTED,
                'supported values: "", "Ignore", "Strict", "Warn"',
                value,
            )
            raise self._invalid_options(error)
        return value or "Warn"

    def _invalid_options(self, error: status.FieldError) -> status.StatusError:
        kind = _OPTIONS.get(self.info.verb, "UpdateOptions")
        return status.invalid("meta.k8s.io", kind, "", [error])

    def report(
        self, unknown: Sequence[str], *, patched: bool = False, kind: str = "", version: str = ""
    ) -> None:
        """Refuse or warn about what strict decoding objects to, as fieldValidation says.

        Args:
            unknown: the paths of unknown fields; repeated keys are known.
            patched: whether they are those of a patched object.
            kind: what was to be decoded, where it is not the resource's kind.
            version: its version.

        Raises:
            StrictDecodingError: under Strict.
        """
        is_yaml = self.content_type.endswith("yaml")
        if is_yaml or patched:  # which are sorted on their way
            unknown = sorted(unknown)
        told = [text for text in self.repeated if not _is_within(text, unknown)]
        texts = [f'unknown field "{path}"' for path in unknown]
        match self.field_validation:
            case "Strict" if told or texts:
                if told and is_yaml:
                    told = ["\n  ".join(["yaml: unmarshal errors:", *told])]
                kind, version = kind or self.resource.kind, version or self.resource.version
                raise status.StrictDecodingError(
                    self._handled(kind, version, kind), [*told, *texts]
                )
            case "Warn":
                self.warnings += [*told, *texts]

    def _handled(self, kind: str, version: str, wanted: str) -> str:
        wanted = wanted or self.resource.kind
        return f'{kind} in version "{version}" cannot be handled as a {wanted}'

    def answer(self, code: int, data: bytes) -> Response:
        """Return JSON bytes in the negotiated encoding."""
        if self.representation.yaml:
            return Response(code, {"content-type": "application/yaml"}, to_yaml(json.loads(data)))
        return Response(code, {"content-type": JSON_TYPE}, data)

    def answer_value(self, code: int, value: Any) -> Response:
        """Return a JSON value in the negotiated encoding."""
        return self.answer(code, to_json(value))


def _is_within(repeated: str, unknown: Sequence[str]) -> bool:
    """Whether a repeated field is an unknown one or inside one, which tells enough."""
    return any(repeated.startswith(f'duplicate field "{path}') for path in unknown)


def rfc3339(moment: datetime) -> str:
    """Return a time in whole seconds, as metadata shows it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
