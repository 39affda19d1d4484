"""ValidatingAdmissionPolicies decide alike on every API server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.runtime.client.errors import ApiError
from informers.objects import ObjectKey, ResourceType

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "admissionregistration.k8s.io"
POLICY = ResourceType(
    GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False
)
BINDING = ResourceType(
    GROUP, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False
)
CONFIG_MAP = ResourceType("", "v1", "ConfigMap", "configmaps")
PATIENCE_SECONDS = 30.0
FAILED = "failed expression: "


def rule(*expressions: str, **fields: Any) -> dict[str, Any]:
    return {"validations": [{"expression": e} for e in expressions], **fields}


TRIALS: dict[str, tuple[dict[str, Any], dict[str, str], int, str, list[dict[str, str]]]] = {
    # policy, data that is refused, code, the end of the message, data that passes
    "optional": (
        rule("object.data[?'k'].orValue('z') == 'v'"),
        {"k": "w"}, 422, FAILED + "object.data[?'k'].orValue('z') == 'v'", [{"k": "v"}],
    ),
    "macro": (
        rule("object.data.all(k, object.data[k].size() < 3)"),
        {"k": "vvv"}, 422, FAILED + "object.data.all(k, object.data[k].size() < 3)", [{"k": "vv"}],
    ),
    "quantity": (
        rule("quantity(object.data.q).isLessThan(quantity('1Gi'))"),
        {"q": "2Gi"}, 422,
        FAILED + "quantity(object.data.q).isLessThan(quantity('1Gi'))", [{"q": "100Mi"}],
    ),
    "absent-key": (
        rule("object.data.n == 'x'"),
        {"a": "b"}, 422, "expression 'object.data.n == 'x'' resulted in error: no such key: n",
        [{"n": "x"}],
    ),
    "variables": (
        rule(
            "variables.count < 2",
            variables=[
                {"name": "data", "expression": "object.data"},
                {"name": "count", "expression": "size(variables.data)"},
            ],
        ),
        {"a": "1", "b": "2"}, 422, FAILED + "variables.count < 2", [{"a": "1"}],
    ),
    "variable-that-fails": (
        rule("variables.n == 'x'", variables=[{"name": "n", "expression": "object.data.absent"}]),
        {"a": "b"}, 422,
        "expression 'variables.n == 'x'' resulted in error: composited variable \"n\" fails to "
        "evaluate: no such key: absent",
        [{"absent": "x"}],
    ),
    "first-failure-speaks": (
        {
            "validations": [
                {"expression": "true"},
                {"expression": "has(object.data.ok)", "message": "two", "reason": "Forbidden"},
                {"expression": "has(object.data.ok)", "message": "three"},
            ]
        },
        {"a": "b"}, 403, "denied request: two", [{"ok": "1"}],
    ),
    "message-expression": (
        {
            "validations": [
                {
                    "expression": "has(object.data.ok)",
                    "messageExpression": "request.operation + ' of ' + object.metadata.name",
                }
            ]
        },
        {"a": "b"}, 422, "denied request: CREATE of message-expression", [{"ok": "1"}],
    ),
    "condition": (
        rule(
            "false",
            matchConditions=[{"name": "spared", "expression": "!has(object.data.spared)"}],
        ),
        {"a": "b"}, 422, FAILED + "false", [{"spared": "1"}],
    ),
    "request": (
        rule("request.namespace == namespaceObject.metadata.name && has(object.data.ok) && "
             "'system:masters' in request.userInfo.groups && oldObject == null"),
        {"a": "b"}, 422, "oldObject == null", [{"ok": "1"}],
    ),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def governed(cluster: Any) -> AsyncIterator[Any]:
    """The cluster, with a policy for each trial that is about its own label only."""
    for label, (spec, *_) in TRIALS.items():
        constraints = {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }
            ],
            "objectSelector": {"matchLabels": {"trial": label}},
        }
        await cluster.client.create(
            {"metadata": {"name": label}, "spec": {"matchConstraints": constraints, **spec}},
            kind=POLICY,
        )
        bound = {"policyName": label, "validationActions": ["Deny"]}
        await cluster.client.create({"metadata": {"name": label}, "spec": bound}, kind=BINDING)
    yield cluster
    for label in TRIALS:
        await cluster.client.delete(BINDING, ObjectKey("", label))
        await cluster.client.delete(POLICY, ObjectKey("", label))


@pytest.mark.parametrize("label", TRIALS)
async def test_a_policy_decides_alike(governed, namespace, label):
    _, refused, code, text, allowed = TRIALS[label]

    def config_map(data):
        metadata = {"name": label, "namespace": namespace, "labels": {"trial": label}}
        return {"metadata": metadata, "data": data}

    async def refusal():
        try:
            await governed.client.create(config_map(refused), kind=CONFIG_MAP, dry_run=True)
        except ApiError as error:
            return error
        return None  # the server has yet to take up the policy

    error = await governed.eventually(refusal, timeout=PATIENCE_SECONDS)

    assert error.code == code
    assert error.message.startswith(
        f"configmaps \"{label}\" is forbidden: ValidatingAdmissionPolicy '{label}' with binding "
        f"'{label}' denied request: "
    )
    assert error.message.endswith(text)
    for data in allowed:
        await governed.client.create(config_map(data), kind=CONFIG_MAP, dry_run=True)
