"""The webhooks of Requests: admission's functions behind the API server's reviews.

What was asked for through another version of the API is not ours and passes. So does whatever
leaves the spec as it is, and everything about an object that is being deleted: labels, finalizers
and ownership must stay changeable when a newer release would refuse the spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from dynamo_operator.admission.defaulting import Discovery, complete_discovering
from dynamo_operator.admission.denials import Denial
from dynamo_operator.admission.reading import read_spec
from dynamo_operator.admission.validation import EffectiveInputPolicy, validate
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, SearchSpec
from dynamo_operator.runtime.webhooks import Admission, DeniedError, Webhook
from dynamo_operator.runtime.webhooks.json_patch import is_same_json

Json = dict[str, Any]

TIMEOUT_SECONDS: Final = 10
"""Of a call; discovery takes at most 6 of them."""

CONDITIONS: Final = {
    "requested-in-our-version": (
        f"request.requestKind.version == '{DynamoGraphDeploymentRequest.resource_type.version}'"
    ),
    "changes-the-spec": (
        "oldObject == null || !(has(oldObject.metadata.deletionTimestamp) "
        "|| (has(object.spec) && has(oldObject.spec) && object.spec == oldObject.spec))"
    ),
}
"""What passes is not even asked about: finalizers can be removed while nobody serves webhooks."""


class RequestAdmission:
    """Completes and judges Requests as they are written; keeps nothing.

    Objects are handled as they came, not as models: what cannot be read must still be let through
    when nobody touches it.

    Args:
        discovery: finds the GPUs that a Request leaves open; None: it has to name them.
        policy: what becomes of violations in the effective input.
    """

    def __init__(
        self,
        discovery: Discovery | None = None,
        *,
        policy: EffectiveInputPolicy = EffectiveInputPolicy.DENY,
    ) -> None:
        self._discovery = discovery
        self._policy = policy

    def webhook(self, *, namespaces: Sequence[str] = ()) -> Webhook[Json]:
        """Declare the webhooks.

        Args:
            namespaces: those whose Requests are judged; empty for all.
        """
        return Webhook(
            DynamoGraphDeploymentRequest.resource_type,
            default=self.default,
            validate_create=self.validate_create,
            validate_update=self.validate_update,
            ignores_other_versions=True,
            match_policy="Equivalent",
            failure_policy="Fail",
            timeout_seconds=TIMEOUT_SECONDS,
            match_conditions=CONDITIONS,
            namespace_selector=_selector(namespaces),
        )

    async def default(self, request: Json, admission: Admission) -> Json | None:
        """Return the Request with what it leaves out, or None to leave it as it is.

        Raises:
            DeniedError: the spec cannot be read, or its hardware not be found.
        """
        if _is_untouched(admission):
            return None
        spec: Any = request.get("spec")
        with _denying():
            written = read_spec(spec)
            completion = await complete_discovering(
                written, self._discovery, previous=_readable(admission.old_object)
            )
        for note in completion.notes:
            admission.warn(f"discovered GPUs: {note}")
        return {**request, "spec": _filled(spec, _defaulted_sections(completion.spec))}

    def validate_create(self, request: Json, admission: Admission) -> list[str]:
        """Return warnings about a new Request.

        Raises:
            DeniedError: it cannot be searched.
        """
        return self._judge(request, None)

    def validate_update(self, request: Json, old: Json, admission: Admission) -> list[str]:
        """Return warnings about a change.

        Raises:
            DeniedError: what it became cannot be searched.
        """
        return [] if _is_untouched(admission) else self._judge(request, old)

    def _judge(self, request: Json, old: Json | None) -> list[str]:
        with _denying():
            spec = read_spec(request.get("spec"))
        findings = validate(spec, previous=_readable(old), policy=self._policy)
        if findings.refusal:
            raise _refusal(findings.refusal, findings.warnings)
        return findings.warnings


def _is_untouched(admission: Admission) -> bool:
    """Whether the object is being deleted, or its spec is what it was."""
    new, old = admission.object or {}, admission.old_object
    if old is None:
        return False
    is_deleting = bool((old.get("metadata") or {}).get("deletionTimestamp"))
    return is_deleting or is_same_json(new.get("spec"), old.get("spec"))


def _readable(obj: Json | None) -> SearchSpec | None:
    """Return the spec of an object; None when there is none that can be read."""
    try:
        return read_spec(obj.get("spec")) if obj is not None else None
    except Denial:
        return None


def _defaulted_sections(spec: SearchSpec) -> Json:
    """Return what defaulting fills; what the caller alone writes may be of any depth."""
    return spec.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude={"aisimulate", "rerun"}
    )


def _filled(written: Mapping[str, Any], completed: Mapping[str, Any]) -> Json:
    """Return what was written, with what only the completed form has; null counts as not there."""
    filled = dict(written)
    for name, value in completed.items():
        present = filled.get(name)
        if present is None:
            filled[name] = value
        elif isinstance(present, Mapping) and isinstance(value, Mapping):
            filled[name] = _filled(present, value)
    return filled


@contextmanager
def _denying() -> Iterator[None]:
    try:
        yield
    except Denial as denial:
        raise _refusal(str(denial)) from denial


def _refusal(message: str, warnings: Sequence[str] = ()) -> DeniedError:
    return DeniedError(message, code=422, reason="Invalid", warnings=warnings)


def _selector(namespaces: Sequence[str]) -> Json:
    if not namespaces:
        return {}
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    return {"matchExpressions": [names]}
