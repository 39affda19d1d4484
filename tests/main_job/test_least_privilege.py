"""What the shipped identities must never be able to do, asked of both control planes."""

from __future__ import annotations

import pytest

from dynamo_operator.api.publisher_contract import publisher_role_rules
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.runtime.builtin_kinds import Role, RoleBinding
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.testing.polling import eventually
from informers.objects import ResourceType
from tests.main_job.stage import Stage

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

RBAC = "rbac.authorization.k8s.io"
REVIEWS = ResourceType(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False
)
FURTHER = (
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["deletecollection"]},
)
"""Rules that no search needs."""

NEVER = [
    *((verb, "", "secrets") for verb in ("get", "list", "watch", "update", "patch", "delete")),
    *(("create", "", f"pods/{way}") for way in ("exec", "attach", "portforward")),
    ("create", "", "serviceaccounts/token"),
    ("get", "", "nodes/proxy"),
    ("impersonate", "", "users"),
    ("patch", "", "namespaces"),
    ("escalate", RBAC, "roles"),
    ("bind", RBAC, "roles"),
    ("create", RBAC, "clusterrolebindings"),
    ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions"),
]


async def test_the_operator_makes_the_publishers_role_and_none_that_reaches_further(
    unoperated: Stage,
):
    rules = publisher_role_rules("llama-g1")
    async with as_operator(unoperated) as operator:
        made = Role.new("publisher", namespace=unoperated.namespace, rules=rules)
        await eventually(lambda: may(operator, "create", RBAC, "roles", unoperated.namespace))
        await operator.create(made)
        for further in FURTHER:
            role = Role.new("further", namespace=unoperated.namespace, rules=[*rules, further])
            with pytest.raises(ForbiddenError, match="not currently held"):
                await operator.create(role)
            with pytest.raises(ForbiddenError, match="not currently held"):
                await operator.patch(Role, made.key, {"rules": [*rules, further]})
    await unoperated.client.delete(Role, made.key)


async def test_the_operator_binds_no_role_that_reaches_further(unoperated: Stage):
    role = Role.new("secrets", namespace=unoperated.namespace, rules=[FURTHER[0]])
    await unoperated.client.create(role)
    binding = RoleBinding.new(
        "secrets",
        namespace=unoperated.namespace,
        role_ref={"apiGroup": RBAC, "kind": "Role", "name": "secrets"},
        subjects=[{"kind": "ServiceAccount", "name": "default", "namespace": unoperated.namespace}],
    )

    async with as_operator(unoperated) as operator:
        with pytest.raises(ForbiddenError, match="not currently held"):
            await operator.create(binding)
    await unoperated.client.delete(Role, role.key)


async def test_the_operator_reads_no_secret_and_becomes_nobody_else(unoperated: Stage):
    async with as_operator(unoperated) as operator:
        allowed = [
            (verb, resource, namespace)
            for namespace in ("", "default", unoperated.namespace, NAMESPACE)
            for verb, group, resource in NEVER
            if await may(operator, verb, group, resource, namespace)
        ]

    assert allowed == []


def as_operator(made):
    """The operator's client, whether it runs or not."""
    return made.cluster.connect(made.operator_user, field_manager="dynamo-operator")


async def may(client, verb, group, resource, namespace):
    """Whether the API server lets the client's user do that, to objects of any name."""
    resource, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return (await client.create(review, kind=REVIEWS))["status"]["allowed"]
