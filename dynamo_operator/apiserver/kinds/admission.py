"""This module holds what configures admission: webhooks, and policies with their bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dynamo_operator.apiserver.admission_conditions import (
    PolicyCompiler,
    compiled_condition,
)
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.kinds.openapi import (
    BYTES,
    CONDITIONS,
    FREE_OBJECT,
    INT32,
    INT64,
    LABEL_SELECTOR,
    STRING,
    array,
    kind,
    map_list,
    record,
)
from dynamo_operator.apiserver.kinds.pod_validation import label_selector_errors
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    KindRules,
    Kinds,
    forbidden,
    invalid,
    required,
    supported,
)
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.webhook_client import client_config_errors

_GROUP: Final = "admissionregistration.k8s.io"
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")

_RULE: Final = {
    "operations": array(STRING),
    "apiGroups": array(STRING),
    "apiVersions": array(STRING),
    "resources": array(STRING),
    "scope": STRING,
}
_MATCH_CONDITIONS: Final = map_list("name", record(name=STRING, expression=STRING))
_WEBHOOK: Final = record(
    name=STRING,
    clientConfig=record(
        url=STRING,
        caBundle=BYTES,
        service=record(namespace=STRING, name=STRING, path=STRING, port=INT32),
    ),
    rules=array(record(**_RULE)),
    failurePolicy=STRING,
    matchPolicy=STRING,
    namespaceSelector=LABEL_SELECTOR,
    objectSelector=LABEL_SELECTOR,
    sideEffects=STRING,
    timeoutSeconds=INT32,
    admissionReviewVersions=array(STRING),
    reinvocationPolicy=STRING,
    matchConditions=_MATCH_CONDITIONS,
)
WEBHOOK_CONFIGURATION: Final = kind(webhooks=map_list("name", _WEBHOOK))
_NAMED_RULE: Final = record(**_RULE, resourceNames=array(STRING))
_MATCH_RESOURCES: Final = record(
    resourceRules=array(_NAMED_RULE),
    excludeResourceRules=array(_NAMED_RULE),
    matchPolicy=STRING,
    namespaceSelector=LABEL_SELECTOR,
    objectSelector=LABEL_SELECTOR,
)
POLICY: Final = kind(
    spec=record(
        paramKind=record(apiVersion=STRING, kind=STRING),
        matchConstraints=_MATCH_RESOURCES,
        matchConditions=_MATCH_CONDITIONS,
        variables=map_list("name", record(name=STRING, expression=STRING)),
        validations=array(
            record(expression=STRING, message=STRING, reason=STRING, messageExpression=STRING)
        ),
        auditAnnotations=array(record(key=STRING, valueExpression=STRING)),
        failurePolicy=STRING,
    ),
    status=record(observedGeneration=INT64, typeChecking=FREE_OBJECT, conditions=CONDITIONS),
)
POLICY_BINDING: Final = kind(
    spec=record(
        policyName=STRING,
        paramRef=record(
            name=STRING,
            namespace=STRING,
            selector=LABEL_SELECTOR,
            parameterNotFoundAction=STRING,
        ),
        matchResources=_MATCH_RESOURCES,
        validationActions=array(STRING),
    ),
)


def _default_webhooks(configuration: Object) -> None:
    for webhook in configuration.get("webhooks") or ():
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        webhook.setdefault("failurePolicy", "Fail")
        if configuration["kind"] == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            service.setdefault("port", 443)
        _default_rules(webhook.get("rules"))


def _default_rules(rules: Sequence[Object] | None) -> None:
    for rule in rules or ():
        rule.setdefault("scope", "*")


def _validate_webhooks(configuration: Object) -> Errors:
    for position, webhook in enumerate(configuration.get("webhooks") or ()):
        yield from _webhook_errors(webhook, f"webhooks[{position}]")


def _webhook_errors(webhook: Object, path: str) -> Errors:
    if (webhook.get("name") or "").count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid(f"{path}.name", webhook.get("name"), detail)
    yield from _review_version_errors(webhook, f"{path}.admissionReviewVersions")
    for position, rule in enumerate(webhook.get("rules") or ()):
        yield from _rule_errors(rule, f"{path}.rules[{position}]")
    yield from supported(f"{path}.failurePolicy", webhook.get("failurePolicy"), ("Fail", "Ignore"))
    yield from supported(f"{path}.matchPolicy", webhook.get("matchPolicy"), ("Equivalent", "Exact"))
    if webhook.get("sideEffects") is None:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    else:
        allowed = ("None", "NoneOnDryRun")
        yield from supported(f"{path}.sideEffects", webhook["sideEffects"], allowed)
    seconds: Any = webhook.get("timeoutSeconds")
    if not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", seconds, detail)
    if "reinvocationPolicy" in webhook:
        allowed = ("IfNeeded", "Never")
        yield from supported(f"{path}.reinvocationPolicy", webhook["reinvocationPolicy"], allowed)
    yield from _selector_errors(webhook, path)
    yield from client_config_errors(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from _condition_errors(webhook.get("matchConditions"), f"{path}.matchConditions")


def _review_version_errors(webhook: Object, path: str) -> Errors:
    versions = webhook.get("admissionReviewVersions")
    if not versions:
        yield required(path, "must specify one of v1, v1beta1")
    elif not set(versions) & set(_REVIEW_VERSIONS):
        yield invalid(path, versions, "must include at least one of v1, v1beta1")


def _rule_errors(rule: Object, path: str) -> Errors:
    operations = rule.get("operations") or ()
    if not operations:
        yield required(f"{path}.operations")
    for position, operation in enumerate(operations):
        yield from supported(f"{path}.operations[{position}]", operation, _OPERATIONS)
    for field in ("apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield required(f"{path}.{field}")
    yield from supported(f"{path}.scope", rule.get("scope"), ("*", "Cluster", "Namespaced"))


def _selector_errors(owner: Object, path: str) -> Errors:
    for field in ("namespaceSelector", "objectSelector"):
        yield from label_selector_errors(owner.get(field) or {}, f"{path}.{field}")


def _condition_errors(conditions: Sequence[Object] | None, path: str) -> Errors:
    for position, condition in enumerate(conditions or ()):
        where = f"{path}[{position}]"
        expression = (condition.get("expression") or "").strip()
        if not expression:
            yield required(f"{where}.expression")
        else:
            yield from _compile_errors(f"{where}.expression", expression, compiled_condition)
        if not condition.get("name"):
            yield required(f"{where}.name")


def _compile_errors(path: str, expression: str, compile_it: Callable[[str], object]) -> Errors:
    try:
        compile_it(expression)
    except ExpressionError as error:
        text = str(error)
        compiles = text.startswith("must evaluate")
        yield invalid(path, expression, text if compiles else f"compilation failed: {text}")


def _default_policy(policy: Object) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    constraints = spec.get("matchConstraints")
    if constraints is not None:
        _default_match_resources(constraints)


def _default_match_resources(resources: Object) -> None:
    resources.setdefault("matchPolicy", "Equivalent")
    resources.setdefault("namespaceSelector", {})
    resources.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        _default_rules(resources.get(field))


def _validate_policy(policy: Object) -> Errors:
    spec = policy.get("spec") or {}
    yield from supported("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
    else:
        yield from _match_resources_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", detail)
        yield required("spec.auditAnnotations", detail)
    yield from _condition_errors(spec.get("matchConditions"), "spec.matchConditions")
    yield from _policy_expression_errors(spec)


def _policy_expression_errors(spec: Mapping[str, Any]) -> Errors:
    compiler = PolicyCompiler.of(spec)
    for position, variable in enumerate(spec.get("variables") or ()):
        path, name = f"spec.variables[{position}]", variable.get("name") or ""
        if not name.isidentifier():
            yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
        expression = variable.get("expression") or ""
        if not expression.strip():
            yield required(f"{path}.expression")
        else:
            yield from _compile_errors(f"{path}.expression", expression, compiler.variable)
    for position, validation in enumerate(spec.get("validations") or ()):
        yield from _validation_errors(validation, compiler, f"spec.validations[{position}]")
    for position, annotation in enumerate(spec.get("auditAnnotations") or ()):
        path = f"spec.auditAnnotations[{position}]"
        if not annotation.get("key"):
            yield required(f"{path}.key")
        expression = annotation.get("valueExpression") or ""
        if not expression.strip():
            yield required(f"{path}.valueExpression")
        else:
            yield from _compile_errors(f"{path}.valueExpression", expression, compiler.text)


def _validation_errors(validation: Object, compiler: PolicyCompiler, path: str) -> Errors:
    expression = validation.get("expression") or ""
    if not expression.strip():
        yield required(f"{path}.expression", "expression is not specified")
    else:
        yield from _compile_errors(f"{path}.expression", expression, compiler.validation)
    text = validation.get("messageExpression") or ""
    if text.strip():
        yield from _compile_errors(f"{path}.messageExpression", text, compiler.text)
    if validation.get("reason") is not None:
        yield from supported(f"{path}.reason", validation["reason"], _REASONS)


def _match_resources_errors(resources: Object, path: str) -> Errors:
    yield from supported(
        f"{path}.matchPolicy", resources.get("matchPolicy"), ("Equivalent", "Exact")
    )
    yield from _selector_errors(resources, path)
    for field in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(resources.get(field) or ()):
            yield from _rule_errors(rule, f"{path}.{field}[{position}]")


def _default_binding(binding: Object) -> None:
    resources = (binding.get("spec") or {}).get("matchResources")
    if resources is not None:
        _default_match_resources(resources)


def _validate_binding(binding: Object) -> Errors:
    spec = binding.get("spec") or {}
    if not spec.get("policyName"):
        yield required("spec.policyName")
    actions = spec.get("validationActions") or ()
    if not actions:
        yield required("spec.validationActions")
    for position, action in enumerate(actions):
        yield from supported(f"spec.validationActions[{position}]", action, _ACTIONS)
    if {"Deny", "Warn"} <= set(actions):
        detail = "must not contain both Deny and Warn (repeating the same validation failure "
        detail += "information in the API response and headers serves no purpose)"
        yield invalid("spec.validationActions", list(actions), detail)
    if spec.get("paramRef") is not None:
        yield from _param_ref_errors(spec["paramRef"])
    if spec.get("matchResources") is not None:
        yield from _match_resources_errors(spec["matchResources"], "spec.matchResources")


def _param_ref_errors(reference: Object) -> Errors:
    name, selector = reference.get("name"), reference.get("selector")
    if name and selector is not None:
        for field in ("name", "selector"):
            detail = "name and selector are mutually exclusive"
            yield forbidden(f"spec.paramRef.{field}", detail)
    elif not name and selector is None:
        yield required("spec.paramRef", "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        yield required("spec.paramRef.parameterNotFoundAction")
    else:
        yield from supported("spec.paramRef.parameterNotFoundAction", action, ("Allow", "Deny"))


_WEBHOOKS: Final = KindRules(
    schema=WEBHOOK_CONFIGURATION,
    has_generation=True,
    generation_fields=("webhooks",),
    default=_default_webhooks,
    validate=_validate_webhooks,
)
KINDS: Final[Kinds] = {
    (_GROUP, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (_GROUP, "MutatingWebhookConfiguration"): _WEBHOOKS,
    (_GROUP, "ValidatingAdmissionPolicy"): KindRules(
        schema=POLICY,
        has_status=True,
        has_generation=True,
        default=_default_policy,
        validate=_validate_policy,
    ),
    (_GROUP, "ValidatingAdmissionPolicyBinding"): KindRules(
        schema=POLICY_BINDING,
        has_generation=True,
        default=_default_binding,
        validate=_validate_binding,
    ),
}
