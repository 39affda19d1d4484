"""Admission reviews: what the API server asks and what it is told. Pure."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import ApiError
from informers.objects import ObjectKey

REVIEW_VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")

Json = dict[str, Any]


class MalformedReviewError(ValueError):
    """A body that is no review; one line saying what is wrong with it."""


class DeniedError(Exception):
    """Raised by a handler to deny what was asked, with a text for the person who asked.

    Args:
        message: what was wrong, where, and what would be right.
        code: the HTTP status that the person sees.
        reason: the Status reason, e.g. `Invalid`; by default the one that belongs to 403.
        warnings: shown besides.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 403,
        reason: str = "",
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason: str = reason or ("Forbidden" if code == 403 else "")
        self.warnings: tuple[str, ...] = tuple(warnings)


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """A kind as reviews name it."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """A resource as reviews name it; `resource` is the plural."""

    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asked."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """One request that the API server asks about.

    `kind`, `resource` and `subresource` are those that the webhook gets; the `requested_` ones are
    those of the request itself, and differ when the server converted the object.

    Args:
        operation: CREATE, UPDATE, DELETE or CONNECT.
        object: the object as it will be; None on DELETE.
        old_object: the object as it is; None on CREATE.
        dry_run: whether nothing will be stored: a handler must leave no trace then.
        warnings: what functions of a Webhook have to say to whoever asked; see `warn`.
    """

    uid: str
    operation: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    requested_kind: GroupVersionKind
    requested_resource: GroupVersionResource
    requester: Requester
    subresource: str = ""
    requested_subresource: str = ""
    name: str = ""
    namespace: str = ""
    object: Json | None = None
    old_object: Json | None = None
    options: Json | None = None
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list, compare=False)

    def warn(self, text: str) -> None:
        """Have the person who asked be told something, whatever is decided; one line."""
        self.warnings.append(text)

    @property
    def key(self) -> ObjectKey:
        """Namespace and name; the name is empty while the server has yet to generate it."""
        return ObjectKey(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a handler decided. `patch` is a JSON patch of the object under review."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def allow(cls, *warnings: str, patch: Sequence[Mapping[str, Any]] = ()) -> Self:
        """Let it pass."""
        return cls(True, warnings=warnings, patch=tuple(patch))

    @classmethod
    def deny(cls, message: str, *, code: int = 403, reason: str = "Forbidden") -> Self:
        """Refuse it."""
        return cls(False, code=code, reason=reason, message=message)

    @classmethod
    def of_error(cls, error: Exception) -> Self:
        """Refuse it because of an error: one that carries a status keeps it, others are 403."""
        match error:
            case DeniedError():
                return cls(
                    False, error.code, error.reason, str(error), warnings=tuple(error.warnings)
                )
            case ApiError():
                return cls(False, error.code, error.reason, error.message, error.details)
        return cls.deny(" ".join(str(error).split()) or type(error).__name__)


Handler = Callable[[Admission], Awaitable[Verdict]]
"""What answers at one path. It raises to deny."""


def all_of(*handlers: Handler) -> Handler:
    """Ask several handlers in turn: the first denial wins, patches and warnings add up.

    A patch is of the object as it came: handlers do not see what those before them changed.
    """

    async def ask(admission: Admission) -> Verdict:
        total = Verdict.allow()
        for handler in handlers:
            verdict = await handler(admission)
            warnings = total.warnings + verdict.warnings
            if not verdict.allowed:
                return replace(verdict, warnings=warnings)
            total = replace(
                total,
                warnings=warnings,
                patch=total.patch + verdict.patch,
                audit_annotations={**total.audit_annotations, **verdict.audit_annotations},
            )
        return total

    return ask


@dataclass(frozen=True, slots=True)
class Review:
    """One AdmissionReview: its question, and how to answer it in the same version."""

    api_version: str
    admission: Admission

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read a review.

        Raises:
            MalformedReviewError: it is none.
        """
        document = parse_review(body, "AdmissionReview", REVIEW_VERSIONS)
        try:
            admission = _admission(document["request"])
        except TypeError as error:
            raise MalformedReviewError(f"AdmissionReview: request is malformed: {error}") from None
        return cls(document["apiVersion"], admission)

    def answer(self, verdict: Verdict) -> bytes:
        """Return the body that tells the verdict."""
        response: Json = {"uid": self.admission.uid, "allowed": verdict.allowed}
        status: Json = {"code": verdict.code}
        if not verdict.allowed:
            status["status"] = "Failure"
        for name in ("reason", "message"):
            if getattr(verdict, name):
                status[name] = getattr(verdict, name)
        if verdict.details:
            status["details"] = dict(verdict.details)
        response["status"] = status
        if verdict.warnings:
            response["warnings"] = list(verdict.warnings)
        if verdict.patch and verdict.allowed:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(codec.encode(list(verdict.patch))).decode()
        if verdict.audit_annotations:
            response["auditAnnotations"] = dict(verdict.audit_annotations)
        return codec.encode(
            {"apiVersion": self.api_version, "kind": "AdmissionReview", "response": response}
        )


def parse_review(body: bytes, kind: str, versions: Sequence[str]) -> Json:
    """Return a review of that kind as JSON with a `request` that has a uid.

    The version is the newest where none is given.

    Raises:
        MalformedReviewError: it is none, or of another version.
    """
    if not body:
        raise MalformedReviewError(f"empty body: must be a {kind}")
    try:
        document = codec.decode_json(body)
    except codec.MalformedJsonError as error:
        raise MalformedReviewError(str(error)) from None
    if not isinstance(document, dict) or document.get("kind", kind) != kind:
        raise MalformedReviewError(f"body: must be a {kind}")
    version = document.get("apiVersion") or versions[0]
    if version not in versions:
        raise MalformedReviewError(f"{kind} of {version}: must be of {' or '.join(versions)}")
    request = document.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise MalformedReviewError(f"{kind}: request must be an object with a uid")
    return {**document, "apiVersion": version}


def _admission(request: Json) -> Admission:
    kind, resource = _kind(request, "kind"), _resource(request, "resource")
    subresource = request.get("subResource") or ""
    return Admission(
        uid=request["uid"],
        operation=str(request.get("operation") or ""),
        kind=kind,
        resource=resource,
        subresource=subresource,
        requested_kind=_kind(request, "requestKind") if request.get("requestKind") else kind,
        requested_resource=(
            _resource(request, "requestResource") if request.get("requestResource") else resource
        ),
        requested_subresource=request.get("requestSubResource") or subresource,
        requester=_requester(_object(request.get("userInfo"), "userInfo") or {}),
        name=request.get("name") or "",
        namespace=request.get("namespace") or "",
        object=_object(request.get("object"), "object"),
        old_object=_object(request.get("oldObject"), "oldObject"),
        options=_object(request.get("options"), "options"),
        dry_run=request.get("dryRun") is True,
    )


def _kind(request: Json, name: str) -> GroupVersionKind:
    value = _object(request.get(name), name) or {}
    return GroupVersionKind(
        value.get("group") or "", value.get("version") or "", value.get("kind") or ""
    )


def _resource(request: Json, name: str) -> GroupVersionResource:
    value = _object(request.get(name), name) or {}
    return GroupVersionResource(
        value.get("group") or "", value.get("version") or "", value.get("resource") or ""
    )


def _requester(value: Json) -> Requester:
    return Requester(
        name=value.get("username") or "",
        uid=value.get("uid") or "",
        groups=tuple(value.get("groups") or ()),
        extra=_object(value.get("extra"), "userInfo.extra") or {},
    )


def _object(value: Any, name: str) -> Json | None:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"{name} must be an object or null")
    return value
