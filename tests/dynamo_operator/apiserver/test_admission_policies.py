"""ValidatingAdmissionPolicies and their bindings, as a real API server answered."""

import json

import pytest

from tests.dynamo_operator.apiserver.api import CONFIG_MAPS, CORE, Api, config_map
from tests.dynamo_operator.apiserver.scripted_webhooks import REGISTRATION

POLICIES = f"{REGISTRATION}/validatingadmissionpolicies"
BINDINGS = f"{REGISTRATION}/validatingadmissionpolicybindings"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "resources": ["configmaps"],
}
NOT_BAD = {"expression": "!has(object.data.bad)"}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


def policy(name="p", **spec):
    return {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [NOT_BAD],
            **spec,
        },
    }


def binding(name="b", **spec):
    return {
        "metadata": {"name": name},
        "spec": {"policyName": "p", "validationActions": ["Deny"], **spec},
    }


async def governed(policy_spec=None, binding_spec=None):
    api = Api()
    for path, made in (
        (POLICIES, policy(**(policy_spec or {}))),
        (BINDINGS, binding(**(binding_spec or {}))),
    ):
        answer = await api.create(path, made)
        assert answer.status == 201, answer.body
    return api


async def test_what_a_policy_forbids_is_refused():
    api = await governed()

    refused = await api.create(CONFIG_MAPS, config_map("bad", bad="1"))
    made = await api.create(CONFIG_MAPS, config_map("good", good="1"))
    changed = await api.merge(f"{CONFIG_MAPS}/good", {"data": {"bad": "1"}})

    text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
    expression = "failed expression: !has(object.data.bad)"
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")
    assert refused.message == f'configmaps "bad" is forbidden: {text}{expression}'
    assert refused.body["details"]["causes"] == [{"message": text + expression}]
    assert (made.status, changed.status) == (201, 422)


async def test_a_policy_without_a_binding_has_no_effect():
    api = Api()
    await api.create(POLICIES, policy())

    assert (await api.create(CONFIG_MAPS, config_map("bad", bad="1"))).status == 201


@pytest.mark.parametrize(
    ("validations", "code", "text"),
    [
        ([{**NOT_BAD, "message": "no bad", "reason": "Forbidden"}], 403, "no bad"),
        (
            [{**NOT_BAD, "messageExpression": "'not ' + object.metadata.name"}],
            422,
            "not bad",
        ),
        ([{**NOT_BAD, "message": "plain", "messageExpression": "string(object.x)"}], 422, "plain"),
        ([{**NOT_BAD, "reason": "RequestEntityTooLarge"}], 413, "failed expression"),
        ([NOT_BAD, {"expression": "false", "message": "second"}], 422, "failed expression"),
        (
            [{"expression": "object.data.absent == 'x'"}],
            422,
            "expression 'object.data.absent == 'x'' resulted in error: no such key: absent",
        ),
    ],
)
async def test_a_denial_says_what_the_policy_says(validations, code, text):
    api = await governed({"validations": validations})

    refused = await api.create(CONFIG_MAPS, config_map("bad", bad="1"))

    assert refused.status == code
    assert f"denied request: {text}" in refused.message


async def test_what_cannot_be_told_passes_where_failures_are_ignored():
    spec = {
        "failurePolicy": "Ignore",
        "validations": [{"expression": "object.data.absent == 'x'"}],
    }
    api = await governed(spec)

    assert (await api.create(CONFIG_MAPS, config_map("a", k="v"))).status == 201


async def test_a_binding_may_only_warn_and_note():
    api = await governed(binding_spec={"validationActions": ["Warn", "Audit"]})

    made = await api.create(CONFIG_MAPS, config_map("bad", bad="1"))

    assert made.status == 201
    assert made.headers["warning"] == (
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
        'failed expression: !has(object.data.bad)"'
    )
    noted = api.server.audit.entries[-1].annotations
    (failure,) = json.loads(noted["validation.policy.admission.k8s.io/validation_failure"])
    assert failure["policy"] == "p"


async def test_variables_build_on_each_other():
    api = await governed(
        {
            "variables": [
                {"name": "data", "expression": "object.data"},
                {"name": "count", "expression": "size(variables.data)"},
            ],
            "validations": [{"expression": "variables.count < 2"}],
        }
    )

    assert (await api.create(CONFIG_MAPS, config_map("a", k="1"))).status == 201
    assert (await api.create(CONFIG_MAPS, config_map("b", k="1", m="2"))).status == 422


@pytest.mark.parametrize(
    ("spec", "binding_spec", "status"),
    [
        pytest.param(
            {"matchConditions": [{"name": "n", "expression": "object.metadata.name != 'bad'"}]},
            {}, 201, id="condition",
        ),
        pytest.param(
            {"matchConditions": [{"name": "n", "expression": "object.data.absent == '1'"}]},
            {}, 422, id="condition-that-cannot-be-told",
        ),
        pytest.param(
            {"matchConstraints": {"resourceRules": [{**RULE, "resourceNames": ["other"]}]}},
            {}, 201, id="resource-name",
        ),
        pytest.param(
            {"matchConstraints": {"resourceRules": [RULE], "excludeResourceRules": [RULE]}},
            {}, 201, id="excluded",
        ),
        pytest.param(
            {}, {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}},
            201, id="binding-of-other-namespaces",
        ),
        pytest.param(
            {}, {"matchResources": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
            201, id="binding-of-other-operations",
        ),
        pytest.param(
            {"validations": [{"expression": "namespaceObject.metadata.name == 'other'"}]},
            {}, 422, id="namespace",
        ),
        pytest.param(
            {"validations": [{"expression": "request.userInfo.username == 'admin'"}]},
            {}, 201, id="requester",
        ),
    ],
)  # fmt: skip
async def test_a_policy_is_about_what_it_names(spec, binding_spec, status):
    api = await governed(spec, binding_spec)

    assert (await api.create(CONFIG_MAPS, config_map("bad", bad="1"))).status == status


async def test_a_deletion_is_judged_too():
    spec = {
        "validations": [
            {
                "expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'keep'",
                "message": "keep it",
            }
        ]
    }
    api = await governed(spec)
    await api.create(CONFIG_MAPS, config_map("keep"))

    refused = await api.delete(f"{CONFIG_MAPS}/keep")

    assert refused.status == 422
    assert "denied request: keep it" in refused.message
    assert (await api.get(f"{CONFIG_MAPS}/keep")).status == 200


@pytest.mark.parametrize(
    ("reference", "status", "text"),
    [
        ({"name": "limits", "namespace": "default"}, 422, "failed expression: size"),
        ({"selector": {"matchLabels": {"for": "p"}}, "namespace": "default"}, 422, "failed"),
        ({"name": "large", "namespace": "default"}, 201, ""),
        ({"name": "absent", "namespace": "default"}, 422, "no params found for policy binding"),
        ({"name": "absent", "parameterNotFoundAction": "Allow"}, 201, ""),
    ],
)
async def test_a_binding_brings_the_parameters(reference, status, text):
    api = Api()
    limits = config_map("limits", max="1")
    limits["metadata"]["labels"] = {"for": "p"}
    for made in (limits, config_map("large", max="9")):
        await api.create(CONFIG_MAPS, made)
    validations = [{"expression": "size(object.data) < int(params.data.max)"}]
    await api.create(POLICIES, policy(paramKind=CONFIG_MAP, validations=validations))
    reference = {"parameterNotFoundAction": "Deny", **reference}
    await api.create(BINDINGS, binding(paramRef=reference))

    answer = await api.create(CONFIG_MAPS, config_map("a", k="1", m="2"))

    assert answer.status == status
    assert text in answer.body.get("message", "")


async def test_parameters_of_a_kind_that_is_not_served_refuse_the_request():
    kind = {"apiVersion": "lab.test/v1", "kind": "Limit"}
    api = await governed({"paramKind": kind}, {"paramRef": {"name": "x",
                         "parameterNotFoundAction": "Deny"}})  # fmt: skip

    refused = await api.create(CONFIG_MAPS, config_map("a", k="1"))

    assert "failed to find resource referenced by paramKind" in refused.message


async def test_a_policy_notes_what_it_computes_in_the_audit_log():
    annotation = {"key": "name", "valueExpression": "'is ' + object.metadata.name"}
    api = await governed({"auditAnnotations": [annotation]})

    await api.create(CONFIG_MAPS, config_map("a", k="1"))

    assert api.server.audit.entries[-1].annotations["p/name"] == "is a"


async def test_policies_have_no_say_about_policies():
    rule = {**RULE, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false"}],
    }
    api = await governed(spec)

    refused = await api.create(f"{CORE}/namespaces", {"metadata": {"name": "new"}})
    unlocked = await api.delete(f"{BINDINGS}/b")

    assert (refused.status, unlocked.status) == (422, 200)


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"validations": []}, "spec.auditAnnotations", "must contain at least one item"),
        ({"validations": [{"expression": "nonsense("}]}, "spec.validations[0].expression",
         "compilation failed"),
        ({"validations": [{"expression": "1"}]}, "spec.validations[0].expression",
         "must evaluate to"),
        ({"validations": [{"expression": ""}]}, "spec.validations[0].expression",
         "expression is not specified"),
        ({"validations": [{"expression": "true", "reason": "Nope"}]}, "spec.validations[0].reason",
         'supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"'),
        ({"validations": [{"expression": "true", "messageExpression": "1"}]},
         "spec.validations[0].messageExpression", "must evaluate to"),
        ({"validations": [{"expression": "variables.foo"}]}, "spec.validations[0].expression",
         "undeclared reference to 'variables'"),
        ({"validations": [{"expression": "params.x == 1"}]}, "spec.validations[0].expression",
         "undeclared reference to 'params'"),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules", "Required value"),
        ({"matchConstraints": None}, "spec.matchConstraints", "Required value"),
        ({"failurePolicy": "X"}, "spec.failurePolicy", 'supported values: "Fail", "Ignore"'),
        ({"variables": [{"name": "1x", "expression": "1"}]}, "spec.variables[0].name",
         "must be a valid CEL identifier"),
        ({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
         "spec.auditAnnotations[0].valueExpression", "must evaluate to"),
    ],
)  # fmt: skip
async def test_a_policy_that_cannot_work_is_refused(spec, field, text):
    answer = await Api().create(POLICIES, policy(**spec))

    assert answer.status == 422
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]
    assert text in answer.message


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"validationActions": []}, "spec.validationActions", "Required value"),
        ({"validationActions": ["Nope"]}, "spec.validationActions[0]",
         'supported values: "Audit", "Deny", "Warn"'),
        ({"validationActions": ["Deny", "Warn"]}, "spec.validationActions",
         "must not contain both Deny and Warn"),
        ({"policyName": ""}, "spec.policyName", "Required value"),
        ({"paramRef": {"name": "a", "selector": {}}}, "spec.paramRef.name",
         "name and selector are mutually exclusive"),
        ({"paramRef": {}}, "spec.paramRef", "one of name or selector must be specified"),
        ({"paramRef": {"name": "a", "parameterNotFoundAction": "X"}},
         "spec.paramRef.parameterNotFoundAction", "supported values"),
    ],
)  # fmt: skip
async def test_a_binding_that_cannot_work_is_refused(spec, field, text):
    answer = await Api().create(BINDINGS, binding(**spec))

    assert answer.status == 422
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]
    assert text in answer.message
