"""The ValidatingAdmissionPolicy that holds a publisher to its own Run.

RBAC names what a publisher may write, not whose it must be: its Role lets it create any Candidate
of its namespace, and patch all of its Run's status. The API server itself judges the rest, whatever
runs or does not run of the operator.
"""

from __future__ import annotations

from typing import Any, Final

from dynamo_operator.api.labels import GROUP, RUN_UID_LABEL
from dynamo_operator.api.names import PUBLISHER_SERVICE_ACCOUNT_PREFIX
from dynamo_operator.api.publisher_contract import PUBLISHER_STATUS_FIELDS
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate, DynamoGraphDeploymentRun
from dynamo_operator.generate.layout import POLICY, labels

_REGISTRATION: Final = "admissionregistration.k8s.io/v1"
_CANDIDATE: Final = DynamoGraphDeploymentCandidate.resource_type
_RUN: Final = DynamoGraphDeploymentRun.resource_type
_USERS: Final = "system:serviceaccount:"
_FIELDS: Final = ", ".join(f"'{field}'" for field in PUBLISHER_STATUS_FIELDS)

_IS_CONTROLLED: Final = (
    "has(each.metadata.ownerReferences) && each.metadata.ownerReferences.exists(owner, "
    f"has(owner.controller) && owner.controller && owner.kind == '{_RUN.kind}' "
    f"&& owner.apiVersion.startsWith('{GROUP}/') && owner.uid == variables.runUid)"
)
_IS_LABELLED: Final = (
    f"!has(each.metadata.labels) || !('{RUN_UID_LABEL}' in each.metadata.labels) "
    f"|| each.metadata.labels['{RUN_UID_LABEL}'] == variables.runUid"
)


def publisher_policy() -> dict[str, Any]:
    """Return the policy: a publisher writes its own Run's progress and Candidates, nothing else."""
    return {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY, "labels": labels("policy")},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    _rule([_CANDIDATE.plural, f"{_CANDIDATE.plural}/status"], "CREATE", "DELETE"),
                    _rule([f"{_RUN.plural}/status"]),
                ]
            },
            "matchConditions": [
                {
                    "name": "is-a-publisher",
                    "expression": (
                        f"request.userInfo.username.matches('^{_USERS}[^:]+:"
                        f"{PUBLISHER_SERVICE_ACCOUNT_PREFIX}')"
                    ),
                }
            ],
            "variables": _variables(),
            "validations": _validations(),
        },
    }


def publisher_policy_binding() -> dict[str, Any]:
    """Return the binding that puts the policy in force everywhere."""
    return {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY, "labels": labels("policy")},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    }


def _rule(resources: list[str], *operations: str) -> dict[str, Any]:
    return {
        "apiGroups": [GROUP],
        "apiVersions": [_RUN.version],
        "resources": resources,
        "operations": sorted({*operations, "UPDATE"}),
    }


def _variables() -> list[dict[str, str]]:
    expressions = {
        # system:serviceaccount:<namespace>:<prefix><uid>
        "account": "request.userInfo.username.split(':')",
        "runUid": f"variables.account[3].substring({len(PUBLISHER_SERVICE_ACCOUNT_PREFIX)})",
        "isOfRun": f"request.resource.resource == '{_RUN.plural}'",
        "objects": "[object, oldObject].filter(each, each != null)",
        "before": "oldObject != null && has(oldObject.status) ? oldObject.status : {}",
        "after": "object != null && has(object.status) ? object.status : {}",
    }
    return [{"name": name, "expression": text} for name, text in expressions.items()]


def _validations() -> list[dict[str, str]]:
    return [
        _validation(
            "variables.account[2] == request.namespace",
            "a publisher writes in its own namespace only",
        ),
        _validation(
            f"variables.isOfRun || variables.objects.all(each, {_IS_CONTROLLED})",
            "a publisher writes only Candidates that its own Run controls",
        ),
        _validation(
            f"variables.isOfRun || variables.objects.all(each, {_IS_LABELLED})",
            "a publisher labels Candidates as its own Run's only",
        ),
        _validation(
            "!variables.isOfRun || oldObject.metadata.uid == variables.runUid",
            "a publisher writes the status of its own Run only",
        ),
        _validation(
            f"!variables.isOfRun || (variables.after.all(name, name in [{_FIELDS}] || "
            "(name in variables.before && variables.before[name] == variables.after[name])) "
            f"&& variables.before.all(name, name in [{_FIELDS}] || name in variables.after))",
            f"of a Run's status a publisher writes only {', '.join(PUBLISHER_STATUS_FIELDS)}",
        ),
    ]


def _validation(expression: str, message: str) -> dict[str, str]:
    return {"expression": expression, "message": message, "reason": "Forbidden"}
