"""Admission by ValidatingAdmissionPolicies, where bindings put them in force."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.admission_conditions import (
    PolicyCompiler,
    compiler_of,
    conditions_hold,
    request_variables,
)
from dynamo_operator.apiserver.admission_matching import is_exempt, matched, rule_matches
from dynamo_operator.apiserver.admission_requests import AdmissionRequest
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.expressions.program import Program
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.kinds.pod_validation import selector_matches
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.storage import StorageKey

_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final[StorageKey] = (_GROUP, "validatingadmissionpolicies")
_BINDINGS: Final[StorageKey] = (_GROUP, "validatingadmissionpolicybindings")
_CODES: Final = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
_AUDIT_KEY: Final = "validation.policy.admission.k8s.io/validation_failure"


class ValidatingPolicies:
    """Holds what is written and deleted to the policies."""

    def validate(self, call: Call, new: Object, old: Object | None) -> None:
        """Raise StatusError for what a policy denies."""
        self.check(AdmissionRequest.of_write(call, new, old))

    def check(self, request: AdmissionRequest) -> None:
        """Judge any request."""
        storage = request.call.world.storage
        bindings = storage.objects(_BINDINGS)
        if not bindings or is_exempt(request):
            return
        failures: list[_Failure] = []
        for stored in bindings:
            binding = stored.value
            policy = storage.get(_POLICIES, "", binding["spec"]["policyName"])
            if policy is not None:
                failures += _failures(policy.value, binding, request)
        self._act(failures, request)

    def _act(self, failures: Sequence[_Failure], request: AdmissionRequest) -> None:
        call = request.call
        audited = [failure.to_audit() for failure in failures if "Audit" in failure.actions]
        if audited:
            call.annotations[_AUDIT_KEY] = to_json(audited).decode()
        for failure in failures:
            if "Warn" in failure.actions:
                call.warnings.append(failure.warning)
        for failure in failures:
            if "Deny" in failure.actions:
                raise failure.to_error(request)


@dataclass(frozen=True, slots=True)
class _Failure:
    """What one binding of one policy has against a request."""

    policy: str
    binding: str
    message: str
    actions: tuple[str, ...]
    reason: str = "Invalid"
    expression_index: int = 0

    @property
    def warning(self) -> str:
        return (
            f"Validation failed for ValidatingAdmissionPolicy '{self.policy}' with binding "
            f"'{self.binding}': {self.message}"
        )

    def to_audit(self) -> Object:
        return {
            "message": self.message,
            "policy": self.policy,
            "binding": self.binding,
            "expressionIndex": self.expression_index,
            "validationActions": list(self.actions),
        }

    def to_error(self, request: AdmissionRequest) -> status.StatusError:
        text = (
            f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}' denied "
            f"request: {self.message}"
        )
        resource = request.resource
        error = status.forbidden(resource.group, resource.plural, request.name, text)
        error.code = _CODES[self.reason]
        error.reason = self.reason
        error.details["causes"] = [{"message": text}]
        return error


def _failures(policy: Object, binding: Object, request: AdmissionRequest) -> Iterator[_Failure]:
    """Yield what a policy has against a request under one binding."""
    spec = policy["spec"]
    evaluation = _Evaluation(
        policy["metadata"]["name"],
        binding["metadata"]["name"],
        tuple(binding["spec"].get("validationActions") or ()),
        ignores_errors=spec.get("failurePolicy") == "Ignore",
    )
    concerned = _matched(spec.get("matchConstraints"), request)
    resources = binding["spec"].get("matchResources")
    if concerned is None or (resources is not None and _matched(resources, request) is None):
        return
    variables = request_variables(concerned)
    try:
        parameters = _parameters(spec, binding["spec"], request)
    except _NoParametersError as error:
        yield from evaluation.error(str(error))
        return
    namespace = request.call.world.storage.get(("", "namespaces"), "", request.namespace)
    variables["namespaceObject"] = namespace.value if namespace else None
    conditions, has_params = spec.get("matchConditions") or (), spec.get("paramKind") is not None
    for parameter in parameters:
        known = {**variables, "params": parameter}
        try:
            if not conditions_hold(conditions, known, has_params=has_params):
                continue
        except ExpressionError as error:
            yield from evaluation.error(str(error))
            continue
        yield from evaluation.failures(spec, known, request.call)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    policy: str
    binding: str
    actions: tuple[str, ...]
    ignores_errors: bool

    def failures(
        self, spec: Mapping[str, Any], variables: dict[str, Any], call: Call
    ) -> Iterator[_Failure]:
        """Yield the validations that do not hold."""
        compiler = compiler_of(spec)
        variables["variables"] = lazy_variables(compiler, variables)
        for index, validation in enumerate(spec.get("validations") or ()):
            expression = validation["expression"]
            try:
                if compiler.validation(expression).evaluate(variables) is True:
                    continue
            except ExpressionError as error:
                text = f"expression '{expression}' resulted in error: {error}"
                yield from self.error(text, index)
                continue
            message = _message(validation, variables, compiler)
            yield self._failure(message, validation.get("reason") or "Invalid", index)
        for annotation in spec.get("auditAnnotations") or ():
            try:
                value = compiler.annotation(annotation["valueExpression"]).evaluate(variables)
            except ExpressionError as error:
                yield from self.error(str(error))
                continue
            if isinstance(value, str) and value:
                call.annotations[f"{self.policy}/{annotation['key']}"] = value

    def error(self, text: str, index: int = 0) -> Iterator[_Failure]:
        """Yield what cannot be evaluated, where that counts."""
        if not self.ignores_errors:
            yield self._failure(text, "Invalid", index)

    def _failure(self, message: str, reason: str, index: int) -> _Failure:
        return _Failure(self.policy, self.binding, message, self.actions, reason, index)


def lazy_variables(compiler: PolicyCompiler, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's variables, each evaluated once, when it is first asked for."""
    values: dict[str, Any] = {}
    seen = {**known, "variables": values}

    def value_of(name: str, program: Program) -> Callable[[], Any]:
        def evaluate() -> Any:
            try:
                value = program.evaluate(seen)
            except ExpressionError as error:
                text = f'composited variable "{name}" fails to evaluate: {error}'
                raise ExpressionError(text) from None
            values[name] = value
            return value

        return evaluate

    values.update((name, value_of(name, program)) for name, program in compiler.programs.items())
    return values


def _message(
    validation: Mapping[str, Any], variables: Mapping[str, Any], compiler: PolicyCompiler
) -> str:
    source = validation.get("messageExpression")
    if source:
        try:
            text = compiler.text(source).evaluate(variables)
        except ExpressionError:
            text = None
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    message = str(validation.get("message") or "").strip()
    return message or f"failed expression: {validation['expression'].strip()}"


def _matched(
    resources: Mapping[str, Any] | None, request: AdmissionRequest
) -> AdmissionRequest | None:
    resources = resources or {}
    excluded = resources.get("excludeResourceRules") or ()
    if any(rule_matches(rule, request, request.resource) for rule in excluded):
        return None
    everything = [
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "*"]}
    ]
    return matched(
        request,
        resources.get("resourceRules") or everything,
        match_policy=resources.get("matchPolicy", "Equivalent"),
        namespace_selector=resources.get("namespaceSelector") or {},
        object_selector=resources.get("objectSelector") or {},
    )


class _NoParametersError(Exception):
    """A policy wants parameters, and a binding names none that are there."""


def _parameters(
    spec: Mapping[str, Any], binding: Mapping[str, Any], request: AdmissionRequest
) -> list[Object | None]:
    """Return the parameter objects to evaluate with, one after the other."""
    kind, reference = spec.get("paramKind"), binding.get("paramRef")
    if kind is None or reference is None:
        return [None]
    group, _, version = kind["apiVersion"].rpartition("/")
    world = request.call.world
    resource = world.registry.find_kind(group, version, kind["kind"])
    if resource is None:
        raise _NoParametersError(
            "failed to configure policy: failed to find resource referenced by paramKind: "
            f"'{kind['apiVersion']}, Kind={kind['kind']}'"
        )
    namespace = (reference.get("namespace") or request.namespace) if resource.namespaced else ""
    found: list[Object | None] = []
    for stored in world.storage.objects(resource.storage_key, namespace):
        if reference.get("name") and stored.name != reference["name"]:
            continue
        if selector_matches(reference.get("selector") or {}, stored.labels):
            found.append(resource.served(stored.value))
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise _NoParametersError(
            "failed to configure binding: no params found for policy binding with `Deny` "
            "parameterNotFoundAction"
        )
    return found
