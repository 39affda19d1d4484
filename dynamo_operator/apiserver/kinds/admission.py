"""This module holds what configures admission: webhooks, and policies with their bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from dynamo_operator.apiserver.admission_conditions import (
    PolicyCompiler,
    ResultError,
    compiled_condition,
)
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.kinds import columns
from dynamo_operator.apiserver.kinds.openapi import (
    BYTES,
    CONDITIONS,
    FREE_OBJECT,
    INT32,
    INT64,
    LABEL_SELECTOR,
    STRING,
    array,
    atomic,
    kind,
    map_list,
    record,
    set_of,
)
from dynamo_operator.apiserver.kinds.pod_validation import label_selector_errors
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    KindRules,
    Kinds,
    forbidden,
    invalid,
    problems,
    required,
    supported,
)
from dynamo_operator.apiserver.object_metadata import dns_subdomain, qualified_name
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
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
_MATCH_RESOURCES: Final = atomic(
    record(
        resourceRules=array(_NAMED_RULE),
        excludeResourceRules=array(_NAMED_RULE),
        matchPolicy=STRING,
        namespaceSelector=LABEL_SELECTOR,
        objectSelector=LABEL_SELECTOR,
    )
)
POLICY: Final = kind(
    spec=record(
        paramKind=atomic(record(apiVersion=STRING, kind=STRING)),
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
        paramRef=atomic(
            record(
                name=STRING,
                namespace=STRING,
                selector=LABEL_SELECTOR,
                parameterNotFoundAction=STRING,
            )
        ),
        matchResources=_MATCH_RESOURCES,
        validationActions=set_of(STRING),
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
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        yield invalid(f"{path}.operations", list(operations), detail)
    for position, operation in enumerate(operations):
        yield from supported(f"{path}.operations[{position}]", operation, _OPERATIONS)
    for field, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        yield from _named_errors(rule.get(field) or (), f"{path}.{field}", words)
    yield from _resource_errors(rule.get("resources") or (), f"{path}.resources")
    yield from supported(f"{path}.scope", rule.get("scope"), ("*", "Cluster", "Namespaced"))
    names = rule.get("resourceNames") or ()
    for position, name in enumerate(names):
        if name in names[:position]:
            yield _duplicate(f"{path}.resourceNames[{position}]", name)


def _named_errors(names: Sequence[str], path: str, words: str) -> Errors:
    if not names:
        yield required(path)
    if len(names) > 1 and "*" in names:
        yield invalid(path, list(names), f"if '*' is present, must not specify other {words}")
    if path.endswith("apiVersions"):
        for position, name in enumerate(names):
            if not name:
                yield required(f"{path}[{position}]")


def _resource_errors(resources: Sequence[str], path: str) -> Errors:
    if not resources:
        yield required(path)
    for position, resource in enumerate(resources):
        if not resource:
            yield required(f"{path}[{position}]")
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        yield invalid(path, list(resources), detail)
    plain = [resource for resource in resources if "/" not in resource]
    if len(plain) > 1 and "*" in plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, list(resources), detail)


def _duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, FieldErrorKind.DUPLICATE, "", value)


def _selector_errors(owner: Object, path: str) -> Errors:
    for field in ("namespaceSelector", "objectSelector"):
        yield from label_selector_errors(owner.get(field) or {}, f"{path}.{field}")


def _condition_errors(
    conditions: Sequence[Object] | None, path: str, *, has_params: bool = False
) -> Errors:
    seen: set[str] = set()
    for position, condition in enumerate(conditions or ()):
        where, name = f"{path}[{position}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            yield required(f"{where}.expression")
        else:
            compile_it = partial(compiled_condition, has_params=has_params)
            yield from _compile_errors(f"{where}.expression", expression, compile_it)
        if not name:
            yield required(f"{where}.name")
            continue
        yield from problems(f"{where}.name", name, qualified_name(name))
        if name in seen:
            yield _duplicate(f"{where}.name", name)
        seen.add(name)


def _compile_errors(path: str, expression: str, compile_it: Callable[[str], object]) -> Errors:
    try:
        compile_it(expression)
    except ResultError as error:
        yield invalid(path, expression, str(error))
    except ExpressionError as error:
        yield invalid(path, expression, f"compilation failed: {error}")


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
    if spec.get("paramKind") is not None:
        yield from _param_kind_errors(spec["paramKind"])
    yield from _condition_errors(
        spec.get("matchConditions"),
        "spec.matchConditions",
        has_params=spec.get("paramKind") is not None,
    )
    yield from _policy_expression_errors(spec, policy["metadata"].get("name", ""))


def _param_kind_errors(kind: Object) -> Errors:
    version, path = kind.get("apiVersion") or "", "spec.paramKind.apiVersion"
    if not version:
        yield required(path)
    elif version.count("/") > 1:
        yield invalid(path, version, f"unexpected GroupVersion string: {version}")
    if not kind.get("kind"):
        yield required("spec.paramKind.kind")


def _policy_expression_errors(spec: Mapping[str, Any], name: str) -> Errors:
    compiler = PolicyCompiler(spec)
    yield from variable_errors(spec, compiler)
    for position, validation in enumerate(spec.get("validations") or ()):
        yield from _validation_errors(validation, compiler, f"spec.validations[{position}]")
    annotations = spec.get("auditAnnotations") or ()
    for position, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{position}]", annotation.get("key") or ""
        full = f"{name}/{key}"
        yield from problems(f"{path}.key", full, qualified_name(full))
        if key in [each.get("key") for each in annotations[:position]]:
            yield _duplicate(f"{path}.key", key)
        expression = annotation.get("valueExpression") or ""
        if not expression.strip():
            yield required(f"{path}.valueExpression", "valueExpression is not specified")
        else:
            where = f"{path}.valueExpression"
            yield from _compile_errors(where, expression, compiler.annotation)


def variable_errors(spec: Mapping[str, Any], compiler: PolicyCompiler) -> Errors:
    """Yield what is wrong with the variables of a policy."""
    for position, variable in enumerate(spec.get("variables") or ()):
        path, name = f"spec.variables[{position}]", variable.get("name") or ""
        if not name:
            yield required(f"{path}.name", "name is not specified")
        elif not name.isidentifier():
            yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
        expression = variable.get("expression") or ""
        if not expression.strip():
            yield required(f"{path}.expression", "expression is not specified")
        elif position in compiler.faults:
            detail = f"compilation failed: {compiler.faults[position]}"
            yield invalid(f"{path}.expression", expression, detail)


def _validation_errors(validation: Object, compiler: PolicyCompiler, path: str) -> Errors:
    expression, message = validation.get("expression") or "", validation.get("message") or ""
    if not expression.strip():
        yield required(f"{path}.expression", "expression is not specified")
    else:
        yield from _compile_errors(f"{path}.expression", expression, compiler.validation)
    text = validation.get("messageExpression") or ""
    if text.strip():
        yield from _compile_errors(f"{path}.messageExpression", text, compiler.text)
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid(f"{path}.message", message, "must not contain line breaks")
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
    else:
        yield from problems(
            "spec.policyName", spec["policyName"], dns_subdomain(spec["policyName"])
        )
    actions = spec.get("validationActions") or ()
    if not actions:
        yield required("spec.validationActions")
    for position, action in enumerate(actions):
        yield from supported(f"spec.validationActions[{position}]", action, _ACTIONS)
        if action in actions[:position]:
            yield _duplicate(f"spec.validationActions[{position}]", action)
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
    elif action not in ("Deny", "Allow"):
        where, detail = "spec.paramRef.parameterNotFoundAction", 'supported values: "Deny", "Allow"'
        yield FieldError(where, FieldErrorKind.NOT_SUPPORTED, detail, action)


_WEBHOOKS: Final = KindRules(
    schema=WEBHOOK_CONFIGURATION,
    has_generation=True,
    generation_fields=("webhooks",),
    default=_default_webhooks,
    validate=_validate_webhooks,
    columns=columns.WEBHOOKS,
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
        columns=columns.POLICY,
    ),
    (_GROUP, "ValidatingAdmissionPolicyBinding"): KindRules(
        schema=POLICY_BINDING,
        has_generation=True,
        default=_default_binding,
        validate=_validate_binding,
    ),
}
