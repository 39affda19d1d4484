"""Webhooks, declared: one kind, what defaults its objects and what judges changes of them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from inspect import isawaitable
from typing import Any, Final, Generic, Literal, TypeVar, cast

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.errors import DecodeError
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.webhooks.admission import (
    Admission,
    DeniedError,
    Handler,
    Json,
    Verdict,
)
from dynamo_operator.runtime.webhooks.json_patch import patch_of
from informers.objects import ResourceType

T = TypeVar("T", bound=KubeModel | dict[str, Any])

Warnings = Iterable[str] | None
"""What a validator that allows has to say; one text is one warning."""

Defaulter = Callable[[T, Admission], T | Awaitable[T | None] | None]
"""Changes the object in place, or returns the one to go on with."""
Validator = Callable[[T, Admission], Warnings | Awaitable[Warnings]]
"""Judges one object: raises to deny, returns warnings to allow."""
UpdateValidator = Callable[[T, T, Admission], Warnings | Awaitable[Warnings]]
"""Judges a change: gets the new and the old object."""

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"

_PATH = re.compile(r"(/[A-Za-z0-9_-]+)+|/")
_LONGEST_SECONDS: Final = 30


@dataclass(frozen=True)
class Webhook(Generic[T]):
    """A declaration. Objects are models of `kind`, or dicts where it is a ResourceType.

    A denial is a raised DeniedError; an ApiError keeps its status, any other error is 403, and a
    defect in the code is 500. Several functions are asked in turn and the first denial wins.
    Nothing may be left behind by a handler: the server calls it for dry runs too, may call it
    again, and never says what became of the request.

    Args:
        kind: whose objects.
        default: completes objects on CREATE and UPDATE; doing it twice changes nothing more.
        validate_create: judges new objects.
        validate_update: judges changes.
        validate_delete: judges deletions; gets the object as it is.
        subresource: judge that one (`status`) instead of the object itself.
        ignores_other_versions: let pass what was requested through another version of the API,
            instead of judging it as the server converts it.
        timeout_seconds: of a call, in whole seconds, 1 to 30.
        failure_policy: what the server does when the call fails.
        match_policy: whether requests through other versions count.
        reinvocation_policy: whether to be asked again when a later webhook changed the object.
        namespace_selector: a label selector of namespaces, as the API has it.
        object_selector: a label selector of objects.
        match_conditions: CEL expressions, by name, that must all hold.
        mutate_path: where defaulting is served, if not at the usual path.
        validate_path: where validation is served, if not at the usual path.

    Raises:
        ValueError: a path, a time limit, or nothing to do.

    Example:
        >>> def at_least_one(pod: dict[str, Any], admission: Admission) -> None:
        ...     if not pod["spec"].get("containers"):
        ...         raise DeniedError("spec.containers: must have an item")
        >>> pods = ResourceType("", "v1", "Pod", "pods")
        >>> Webhook(pods, validate_create=at_least_one).validate_path
        '/validate--v1-pod'
    """

    kind: type[KubeModel] | ResourceType
    _: KW_ONLY
    default: Defaulter[T] | Sequence[Defaulter[T]] = ()
    validate_create: Validator[T] | Sequence[Validator[T]] = ()
    validate_update: UpdateValidator[T] | Sequence[UpdateValidator[T]] = ()
    validate_delete: Validator[T] | Sequence[Validator[T]] = ()
    subresource: str = ""
    ignores_other_versions: bool = False
    timeout_seconds: int = 10
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    reinvocation_policy: Literal["Never", "IfNeeded"] = "Never"
    namespace_selector: Mapping[str, Any] = field(default_factory=dict)
    object_selector: Mapping[str, Any] = field(default_factory=dict)
    match_conditions: Mapping[str, str] = field(default_factory=dict)
    mutate_path: str = ""
    validate_path: str = ""

    def __post_init__(self) -> None:
        for attribute, verb in (("mutate_path", "mutate"), ("validate_path", "validate")):
            path = getattr(self, attribute) or self._usual_path(verb)
            if not _PATH.fullmatch(path):
                raise ValueError(f"webhook path {path!r}: must be /segments of letters, digits, -_")
            object.__setattr__(self, attribute, path)
        if not 1 <= self.timeout_seconds <= _LONGEST_SECONDS:
            raise ValueError(
                f"webhook of {self.resource_type}: timeout_seconds is {self.timeout_seconds}: "
                f"must be 1 to {_LONGEST_SECONDS}"
            )
        if not self.defaults and not self.validated_operations:
            raise ValueError(
                f"webhook of {self.resource_type}: does nothing: give it default= or validate_*="
            )

    @property
    def resource_type(self) -> ResourceType:
        """The type of the objects."""
        return codec.resource_type_of(self.kind)

    @property
    def defaults(self) -> Sequence[Defaulter[T]]:
        """The functions that default."""
        return _each(self.default)

    @property
    def validated_operations(self) -> tuple[str, ...]:
        """The operations that are judged."""
        judged = (
            (CREATE, self.validate_create),
            (UPDATE, self.validate_update),
            (DELETE, self.validate_delete),
        )
        return tuple(operation for operation, functions in judged if _each(functions))

    async def mutate(self, admission: Admission) -> Verdict:
        """Default the object; the answer at `mutate_path`."""
        if admission.operation == DELETE:
            return Verdict.allow()
        return self._passes(admission, (CREATE, UPDATE)) or await self._sparing_deletion(
            self._default, admission
        )

    async def validate(self, admission: Admission) -> Verdict:
        """Judge the request; the answer at `validate_path`."""
        if admission.operation == DELETE and DELETE not in self.validated_operations:
            return Verdict.allow()
        return self._passes(admission, self.validated_operations) or await self._sparing_deletion(
            self._validate, admission
        )

    async def _sparing_deletion(self, handler: Handler, admission: Admission) -> Verdict:
        """Let an object that the model cannot read be deleted, and its finalizers be removed."""
        try:
            return await handler(admission)
        except _UnreadableError as error:
            if admission.operation == DELETE or _is_deleting(admission.old_object):
                return Verdict.allow(f"{error}: not judged, because it is being deleted")
            raise

    async def _default(self, admission: Admission) -> Verdict:
        raw = admission.object
        if raw is None:
            return Verdict.allow(f"{admission.operation} without an object: nothing to default")
        admission = replace(admission, warnings=[])
        obj = self._decoded(raw, "object")
        before = _encoded(obj)
        for function in self.defaults:
            with _warning_of(admission):
                returned = cast("T | None", await _result(function(obj, admission)))
            obj = obj if returned is None else returned
        return Verdict.allow(*admission.warnings, patch=patch_of(raw, before, _encoded(obj)))

    async def _validate(self, admission: Admission) -> Verdict:
        old = admission.old_object
        if admission.operation == DELETE:
            if old is None:
                return Verdict.allow("DELETE without an oldObject: nothing to judge")
            return await self._judge(self.validate_delete, admission, old)
        if admission.object is None:
            return Verdict.allow(f"{admission.operation} without an object: nothing to judge")
        if admission.operation == CREATE or old is None:
            return await self._judge(self.validate_create, admission, admission.object)
        return await self._judge(self.validate_update, admission, admission.object, old)

    async def _judge(
        self,
        functions: Callable[..., Any] | Sequence[Callable[..., Any]],
        admission: Admission,
        *raw: Json,
    ) -> Verdict:
        admission = replace(admission, warnings=[])
        for function in _each(functions):
            # Each gets objects of its own: none can change what the next one judges.
            names = ("oldObject",) if admission.operation == DELETE else ("object", "oldObject")
            objects = [self._decoded(one, name) for one, name in zip(raw, names, strict=False)]
            with _warning_of(admission):
                said = await _result(function(*objects, admission)) or ()
            admission.warnings.extend([said] if isinstance(said, str) else said)
        return Verdict.allow(*admission.warnings)

    def _passes(self, admission: Admission, operations: Sequence[str]) -> Verdict | None:
        """Let pass, with a warning, what nobody here declared to know."""
        mine, asked = self.resource_type, admission.resource
        where = f"{mine.plural}/{self.subresource}" if self.subresource else mine.plural
        if (asked.group, asked.version, asked.resource, admission.subresource) != (
            mine.group,
            mine.version,
            mine.plural,
            self.subresource,
        ):
            resource = "/".join(filter(None, (asked.resource, admission.subresource)))
            group_version = "/".join(filter(None, (asked.group, asked.version)))
            return Verdict.allow(
                f"webhook of {where} in {mine.api_version} does not judge {resource} in "
                f"{group_version}: allowed"
            )
        if self.ignores_other_versions and admission.requested_kind.version != mine.version:
            return Verdict.allow()
        if admission.operation not in operations:
            return Verdict.allow(
                f"webhook of {where} in {mine.api_version} does not judge "
                f"{admission.operation or 'no operation'}: allowed"
            )
        return None

    def _decoded(self, raw: Json, name: str) -> T:
        try:
            return cast("T", codec.decode(self.kind, codec.encode(raw)))
        except DecodeError as error:
            raise _UnreadableError(f"{name}: {error}", code=400, reason="BadRequest") from None

    def _usual_path(self, verb: str) -> str:
        mine = self.resource_type
        group = mine.group.replace(".", "-")
        subresource = f"-{self.subresource}" if self.subresource else ""
        return f"/{verb}-{group}-{mine.version}-{mine.kind.lower()}{subresource}"


class _UnreadableError(DeniedError):
    """An object does not fit its model."""


def _is_deleting(obj: Json | None) -> bool:
    metadata = (obj or {}).get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))


@contextmanager
def _warning_of(admission: Admission) -> Iterator[None]:
    """Let a denial carry the warnings so far."""
    try:
        yield
    except DeniedError as denial:
        denial.warnings = (*admission.warnings, *denial.warnings)
        raise


async def _result(value: Any) -> Any:
    return await value if isawaitable(value) else value


def _each(functions: Any) -> Sequence[Any]:
    return (functions,) if callable(functions) else tuple(functions)


def _encoded(obj: KubeModel | dict[str, Any]) -> Any:
    """Return the JSON form, detached from the object."""
    value = obj if isinstance(obj, dict) else obj.to_dict()
    return codec.decode_json(codec.encode(value))
