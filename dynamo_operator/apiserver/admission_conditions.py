"""CEL about requests: what narrows webhooks and policies down, and what policies demand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from dynamo_operator.apiserver.admission_requests import AdmissionRequest
from dynamo_operator.apiserver.expressions.authorization import Authorizer, request_resource
from dynamo_operator.apiserver.expressions.checker import Messages, no_messages
from dynamo_operator.apiserver.expressions.declarations import Functions
from dynamo_operator.apiserver.expressions.program import LIBRARY, Program
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.expressions.types import (
    AUTHORIZER,
    BOOL,
    DYN,
    INT,
    NULL,
    RESOURCE_CHECK,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.tokens import service_account_user

_REMEMBERED: Final = 1000
_KIND: Final = Type(
    "object",
    "kubernetes.GroupVersionKind",
    fields=dict.fromkeys(("group", "version", "kind"), STRING),
)
_RESOURCE: Final = Type(
    "object",
    "kubernetes.GroupVersionResource",
    fields=dict.fromkeys(("group", "version", "resource"), STRING),
)
_USER: Final = Type(
    "object",
    "kubernetes.UserInfo",
    fields={
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
)
REQUEST: Final = Type(
    "object",
    "kubernetes.AdmissionRequest",
    fields={
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
        **dict.fromkeys(
            ("subResource", "requestSubResource", "name", "namespace", "operation"), STRING
        ),
    },
)
_METADATA: Final = Type(
    "object",
    "kubernetes.NamespaceMetadata",
    fields={
        **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "UID"), STRING),
        **dict.fromkeys(("uid", "resourceVersion"), STRING),
        "labels": map_of(STRING, STRING),
        "annotations": map_of(STRING, STRING),
        "creationTimestamp": TIMESTAMP,
        "deletionTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "generation": INT,
    },
)
NAMESPACE: Final = Type(
    "object",
    "kubernetes.Namespace",
    fields={
        "metadata": _METADATA,
        "spec": Type("object", "kubernetes.NamespaceSpec", fields={"finalizers": list_of(STRING)}),
        "status": Type("object", "kubernetes.NamespaceStatus", fields={"phase": STRING}),
    },
)
_CONDITION_NAMES: Final[Mapping[str, Type]] = {
    "object": DYN,
    "oldObject": DYN,
    "request": REQUEST,
    "authorizer": AUTHORIZER,
    "authorizer.requestResource": RESOURCE_CHECK,
}


class ResultError(ExpressionError):
    """An expression of the wrong type."""


class ConditionError(ExpressionError):
    """A condition cannot be evaluated; says which."""


def request_variables(request: AdmissionRequest) -> dict[str, Any]:
    """Return what expressions see of a request."""
    review = request.to_review()
    about = {name: v for name, v in review.items() if name not in ("object", "oldObject")}
    variables: dict[str, Any] = {
        "object": request.new,
        "oldObject": request.old,
        "request": about,
    }
    decide = request.call.decide
    if decide is not None:
        own = {
            "group": request.resource.group,
            "resource": request.resource.plural,
            "subresource": request.call.info.subresource,
            "namespace": request.namespace,
            "name": request.name,
        }
        authorizer = Authorizer(request.call.user, decide, own, service_account_user)
        variables["authorizer"] = authorizer
        variables["authorizer.requestResource"] = request_resource(authorizer)
    return variables


@lru_cache(maxsize=_REMEMBERED)
def compiled_condition(source: str, *, has_params: bool = False) -> Program:
    """Compile an expression about a request that is true or false.

    Raises:
        ExpressionError: it is none.
    """
    names = {**_CONDITION_NAMES, **({"params": DYN} if has_params else {})}
    return _program(source, names, (BOOL,))


class PolicyCompiler:
    """Compiles the expressions of a policy, which may name what the policy declares.

    Each method raises ExpressionError for what is no expression of that type.

    Args:
        spec: of the policy.
        functions: what its expressions may call.
        messages: the types of the messages that they may make.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        functions: Functions = LIBRARY,
        messages: Messages = no_messages,
    ) -> None:
        self._functions, self._messages = functions, messages
        self._fields: dict[str, Type] = {}
        self._names: dict[str, Type] = {**_CONDITION_NAMES, "namespaceObject": NAMESPACE}
        if spec.get("paramKind") is not None:
            self._names["params"] = DYN
        if spec.get("variables"):
            self._names["variables"] = Type("object", "kubernetes.variables", fields=self._fields)
        self.faults: dict[int, str] = {}
        self.programs: dict[str, Program] = {}
        for position, variable in enumerate(spec.get("variables") or ()):
            name = variable.get("name") or ""
            try:
                program = self._compiled(variable.get("expression") or "", None)
            except ExpressionError as error:
                self.faults[position] = str(error)
                self._fields[name] = DYN
                continue
            self._fields[name] = program.type
            self.programs[name] = program

    def condition(self, source: str) -> Program:
        """Compile what narrows a policy down: true or false."""
        return compiled_condition(source, has_params="params" in self._names)

    def validation(self, source: str) -> Program:
        """Compile what a policy demands: true or false."""
        return self._compiled(source, (BOOL,))

    def text(self, source: str) -> Program:
        """Compile what a policy says."""
        return self._compiled(source, (STRING,))

    def annotation(self, source: str) -> Program:
        """Compile what a policy notes for the audit: text or nothing."""
        return self._compiled(source, (STRING, NULL))

    def of_type(self, source: str, result: Type) -> Program:
        """Compile a value of a type."""
        return self._compiled(source, (result,))

    def _compiled(self, source: str, results: Sequence[Type] | None) -> Program:
        return _program(source, self._names, results, self._functions, self._messages)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(spec: bytes) -> PolicyCompiler:
    return PolicyCompiler(json.loads(spec))


def compiler_of(spec: Mapping[str, Any]) -> PolicyCompiler:
    """Return the compiler for a stored policy."""
    return _remembered(to_json(spec))


def conditions_hold(
    conditions: Sequence[Mapping[str, Any]],
    variables: Mapping[str, Any],
    *,
    has_params: bool = False,
) -> bool:
    """Whether all `matchConditions` hold; one that does not settles it whatever others do.

    Raises:
        ConditionError: none is false, and one cannot be evaluated.
    """
    failure: ConditionError | None = None
    for condition in conditions:
        source = condition["expression"]
        try:
            if compiled_condition(source, has_params=has_params).evaluate(variables) is not True:
                return False
        except ExpressionError as error:
            text = f"expression '{source}' resulted in error: {error}"
            failure = failure or ConditionError(text)
    if failure is not None:
        raise failure
    return True


def _program(
    source: str,
    variables: Mapping[str, Type],
    results: Sequence[Type] | None,
    functions: Functions = LIBRARY,
    messages: Messages = no_messages,
) -> Program:
    program = Program(source, variables, functions, messages)
    if results is not None and program.type not in results:
        wanted = str(results[0])
        if len(results) > 1:
            names = ("null_type" if each == NULL else str(each) for each in results)
            wanted = f"one of [{' '.join(names)}]"
        raise ResultError(f"must evaluate to {wanted} but got {program.type}")
    if program.instantiation_fault:
        raise ResultError(f"instantiation failed: {program.instantiation_fault}")
    return program
