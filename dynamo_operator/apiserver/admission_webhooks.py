"""Admission by the webhooks that configurations name."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dynamo_operator.apiserver import patches, status
from dynamo_operator.apiserver.admission_conditions import conditions_hold, request_variables
from dynamo_operator.apiserver.admission_matching import is_exempt, matched
from dynamo_operator.apiserver.admission_requests import DELETE, AdmissionRequest
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.codec import parse_json
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.object_metadata import decode_metadata
from dynamo_operator.apiserver.remote import Question, Unanswered
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.storage import Storage, StorageKey
from dynamo_operator.apiserver.webhook_client import (
    CallFailedError,
    InvalidAnswerError,
    Webhooks,
)

_GROUP: Final = "admissionregistration.k8s.io"
_MUTATING: Final[StorageKey] = (_GROUP, "mutatingwebhookconfigurations")
_VALIDATING: Final[StorageKey] = (_GROUP, "validatingwebhookconfigurations")
_VERSIONS: Final = ("v1", "v1beta1")
_LONGEST_WARNING: Final = 256


class MutatingWebhooks:
    """Lets webhooks change what is written, one after the other."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    def admit(self, call: Call, new: Object, old: Object | None) -> Object:
        """Return the object as the webhooks want it.

        Raises:
            StatusError: one denies it, or cannot be asked and must be.
            Unanswered: one has to be asked first.
        """
        return self.mutated(AdmissionRequest.of_write(call, new, old))

    def mutated(self, request: AdmissionRequest) -> Object:
        """Return the new object of any request as the webhooks want it."""
        assert request.new is not None
        hooks = list(_hooks(request.call.world.storage, _MUTATING))
        if not hooks or is_exempt(request):
            return request.new
        return self._mutated(request, hooks)

    def check_deletion(self, request: AdmissionRequest) -> None:
        """Ask the webhooks about a deletion; there is nothing that they could change."""
        for hook in _hooks(request.call.world.storage, _MUTATING):
            if not is_exempt(request):
                self._ask(hook, request)

    def _mutated(self, request: AdmissionRequest, hooks: list[_Hook]) -> Object:
        """Ask every webhook, and those that want it again if the object changed since."""
        seen: dict[int, Object] = {}
        for again in (False, True):
            for position, hook in enumerate(hooks):
                if again and (not hook.reinvoked or position not in seen):
                    continue
                assert request.new is not None
                shown = request.with_new(request.decoded(request.new))
                if again and seen[position] == shown.new:
                    continue
                changed = self._ask(hook, shown)
                if changed is None:
                    continue
                request = request.with_new(changed)
                seen[position] = request.decoded(changed)
        assert request.new is not None
        return request.new

    def _ask(self, hook: _Hook, request: AdmissionRequest) -> Object | None:
        """Return what one webhook makes of the object; None where it has no say."""
        concerned = hook.concerned(request)
        if concerned is None:
            return None
        answer = hook.answer(concerned)
        if answer is None:
            raise Unanswered([hook.question(concerned, self._webhooks)])
        hook.judge(request.call, answer)
        if request.operation == DELETE or concerned.new is None:
            return None
        patched = hook.patched(concerned.new, answer)
        if patched is concerned.new or request.new is None:
            return request.new
        return request.in_own_version(patched, concerned)


class PartAdmission:
    """Admission of what is written but no object of its own: a Scale, a Binding, an Eviction.

    Args:
        mutating: changes it.
        checks: judge it, in this order.
    """

    def __init__(
        self, mutating: MutatingWebhooks, checks: Sequence[Callable[[AdmissionRequest], None]]
    ) -> None:
        self._mutating = mutating
        self._checks = checks

    def admitted(
        self, call: Call, part: tuple[str, str], new: Object, old: Object | None = None
    ) -> Object:
        """Return the part to go on with.

        Args:
            call: the request.
            part: apiVersion and kind of it.
            new: what was sent.
            old: what is there.

        Raises:
            StatusError: something denies it.
            Unanswered: a webhook has to be asked first.
        """
        new = {**new, "apiVersion": part[0], "kind": part[1]}
        request = replace(AdmissionRequest.of_write(call, new, old), part=part)
        request = request.with_new(self._mutating.mutated(request))
        for check in self._checks:
            check(request)
        assert request.new is not None
        return request.new


class ValidatingWebhooks:
    """Lets webhooks judge what will be stored, all at once."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    def validate(self, call: Call, new: Object, old: Object | None) -> None:
        """Raise StatusError when one denies it, Unanswered when some have to be asked first."""
        self.check(AdmissionRequest.of_write(call, new, old))

    def check(self, request: AdmissionRequest) -> None:
        """Ask the webhooks about any request."""
        if is_exempt(request):
            return
        questions: list[Question] = []
        answers: list[tuple[_Hook, _Answer]] = []
        for hook in _hooks(request.call.world.storage, _VALIDATING):
            concerned = hook.concerned(request)
            if concerned is None:
                continue
            answer = hook.answer(concerned)
            if answer is None:
                questions.append(hook.question(concerned, self._webhooks))
            else:
                answers.append((hook, answer))
        if questions:
            raise Unanswered(questions)
        for hook, answer in answers:
            hook.judge(request.call, answer)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of a call."""

    response: Object
    failure: str = ""


@dataclass(frozen=True, slots=True)
class _Hook:
    """One webhook of one configuration."""

    source: Mapping[str, Any]
    identity: str
    mutates: bool

    @property
    def name(self) -> str:
        return str(self.source.get("name", ""))

    @property
    def reinvoked(self) -> bool:
        return self.source.get("reinvocationPolicy") == "IfNeeded"

    def concerned(self, request: AdmissionRequest) -> AdmissionRequest | None:
        """Return the request in the version that the webhook wants, or None."""
        found = matched(
            request,
            self.source.get("rules") or (),
            match_policy=self.source.get("matchPolicy", "Equivalent"),
            namespace_selector=self.source.get("namespaceSelector") or {},
            object_selector=self.source.get("objectSelector") or {},
        )
        if found is None:
            return None
        try:
            holds = conditions_hold(
                self.source.get("matchConditions") or (), request_variables(found)
            )
        except ExpressionError as error:
            if self.source.get("failurePolicy") == "Ignore":
                return None
            raise status.forbidden(
                request.resource.group, request.resource.plural, request.name, str(error)
            ) from None
        return found if holds else None

    def answer(self, request: AdmissionRequest) -> _Answer | None:
        """Return what the webhook answered to exactly this, or None if it was not asked yet."""
        answer = request.call.answers.get(self._key(request))
        assert answer is None or isinstance(answer, _Answer)
        return answer

    def question(self, request: AdmissionRequest, webhooks: Webhooks) -> Question:
        """Return what asks the webhook."""

        async def ask() -> None:
            request.call.answers[self._key(request)] = await self._call(request, webhooks)

        return ask

    async def _call(self, request: AdmissionRequest, webhooks: Webhooks) -> _Answer:
        versions = self.source.get("admissionReviewVersions") or ()
        version = next((v for v in versions if v in _VERSIONS), _VERSIONS[0])
        review = {
            "kind": "AdmissionReview",
            "apiVersion": f"admission.k8s.io/{version}",
            "request": request.to_review(),
        }
        try:
            response = await webhooks.review(
                self.source.get("clientConfig") or {},
                review,
                timeout_seconds=self.source.get("timeoutSeconds", 10),
                timed=True,
            )
            if not self.mutates and response.get("patch"):
                raise InvalidAnswerError("validating webhook may not return response.patch")
        except InvalidAnswerError as error:
            return _Answer({}, str(error))
        except CallFailedError as error:
            return _Answer({}, f"failed to call webhook: {error}")
        return _Answer(response)

    def judge(self, call: Call, answer: _Answer) -> None:
        """Pass warnings on, and raise StatusError where the webhook does not allow."""
        if answer.failure:
            if self.source.get("failurePolicy") == "Ignore":
                return
            raise status.internal_error(f'failed calling webhook "{self.name}": {answer.failure}')
        call.warnings += [str(w)[:_LONGEST_WARNING] for w in answer.response.get("warnings") or ()]
        for key, value in (answer.response.get("auditAnnotations") or {}).items():
            call.annotations[f"{self.name}/{key}"] = str(value)
        if answer.response.get("allowed") is not True:
            raise self._denial(answer.response.get("status") or {})

    def _denial(self, given: Mapping[str, Any]) -> status.StatusError:
        denied = f'admission webhook "{self.name}" denied the request'
        text = given.get("message") or given.get("reason")
        return status.StatusError(
            max(int(given.get("code") or 0), 400),
            given.get("reason") or "",
            f"{denied}: {text}" if text else f"{denied} without explanation",
            details=given.get("details"),
        )

    def patched(self, obj: Object, answer: _Answer) -> Object:
        """Return the object with the webhook's patch; itself when there is none."""
        patch = answer.response.get("patch")
        if not patch or answer.failure:
            return obj
        try:
            operations = parse_json(base64.b64decode(patch)).value
            changed = patches.json_patch(obj, operations)
        except (ValueError, status.StatusError) as error:
            text = f'the patch of webhook "{self.name}" does not apply: {error}'
            raise status.internal_error(text) from None
        if not isinstance(changed, dict):
            raise status.internal_error(f'webhook "{self.name}" leaves no object')
        return decode_metadata(changed)[0]

    def _key(self, request: AdmissionRequest) -> tuple[str, str, bytes]:
        return (self.identity, self.name, to_json(request.to_review()))


def _hooks(storage: Storage, key: StorageKey) -> Iterator[_Hook]:
    """Yield the webhooks of all configurations, by name of the configuration, then in order."""
    for stored in storage.objects(key):
        metadata = stored.value["metadata"]
        identity = f"{key[1]}/{metadata['uid']}/{metadata['resourceVersion']}"
        for webhook in stored.value.get("webhooks") or ():
            yield _Hook(webhook, identity, key == _MUTATING)
