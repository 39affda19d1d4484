"""Admission policies: which are taken, what they refuse and change, and in which words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.conformance.asking import delete, get, patch, post, put
from tests.conformance.requests import Case, Json, Request

ROOT = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ROOT}/validatingadmissionpolicies"
BINDINGS = f"{ROOT}/validatingadmissionpolicybindings"
MUTATING = f"{ROOT}/mutatingadmissionpolicies"
MUTATING_BINDINGS = f"{ROOT}/mutatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/$ns/configmaps"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}


def policy(name: str, *expressions: str | Json, kind: str = "Validating", **spec: Any) -> Json:
    """A policy about ConfigMaps."""
    told = [{"expression": each} if isinstance(each, str) else each for each in expressions]
    validations = {"validations": told} if told else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}AdmissionPolicy",
        "metadata": {"name": f"$ns-{name}"},
        "spec": {"matchConstraints": {"resourceRules": [RULE]}, **validations, **spec},
    }


def binding(name: str, *, kind: str = "Validating", **spec: Any) -> Json:
    """Its binding, for what has the policy's name as its label `policy`."""
    selectors = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}},
        "objectSelector": {"matchLabels": {"policy": name}},
    }
    actions = {"validationActions": ["Deny"]} if kind == "Validating" else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}AdmissionPolicyBinding",
        "metadata": {"name": f"$ns-{name}"},
        "spec": {"policyName": f"$ns-{name}", "matchResources": selectors, **actions, **spec},
    }


def config_map(label: str, name: str = "a", **data: str) -> Json:
    """What policies judge."""
    labels = {"policy": label}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        **({"data": data} if data else {}),
    }


def tried(label: str, **data: str) -> Request:
    """Whether a policy takes that."""
    asked = post(MAPS, config_map(label, **data), dryRun="All", keep=("data",))
    return replace(asked, line=f"{label}: {data}")


SHAPES: dict[str, Json] = {
    "the least": policy("a", "true"),
    "no validations": policy("a"),
    "empty validations": policy("a", validations=[]),
    "audit annotations alone": policy(
        "a", auditAnnotations=[{"key": "k", "valueExpression": "'v'"}]
    ),
    "an annotation without key": policy("a", "true", auditAnnotations=[{"valueExpression": "'v'"}]),
    "an annotation twice": policy(
        "a", "true", auditAnnotations=[{"key": "k", "valueExpression": "'v'"}] * 2
    ),
    "an annotation with a bad key": policy(
        "a", "true", auditAnnotations=[{"key": "k k", "valueExpression": "'v'"}]
    ),
    "an annotation that is no text": policy(
        "a", "true", auditAnnotations=[{"key": "k", "valueExpression": "1"}]
    ),
    "an annotation that is null": policy(
        "a", "true", auditAnnotations=[{"key": "k", "valueExpression": "null"}]
    ),
    "an annotation of a condition": policy(
        "a", "true", auditAnnotations=[{"key": "k", "valueExpression": "true ? 'a' : null"}]
    ),
    "no constraints": policy("a", "true", matchConstraints=None),
    "empty constraints": policy("a", "true", matchConstraints={}),
    "a rule without anything": policy("a", "true", matchConstraints={"resourceRules": [{}]}),
    "a rule of all": policy(
        "a",
        "true",
        matchConstraints={
            "resourceRules": [
                {
                    "apiGroups": ["*"],
                    "apiVersions": ["*"],
                    "operations": ["*"],
                    "resources": ["*/*"],
                }
            ]
        },
    ),
    "a rule of all and more": policy(
        "a",
        "true",
        matchConstraints={
            "resourceRules": [
                {
                    "apiGroups": ["*", "a"],
                    "apiVersions": ["*", "v1"],
                    "operations": ["*", "CREATE"],
                    "resources": ["*", "pods"],
                }
            ]
        },
    ),
    "a rule of an unknown operation": policy(
        "a", "true", matchConstraints={"resourceRules": [{**RULE, "operations": ["READ"]}]}
    ),
    "a rule of an unknown scope": policy(
        "a", "true", matchConstraints={"resourceRules": [{**RULE, "scope": "World"}]}
    ),
    "a rule with names": policy(
        "a", "true", matchConstraints={"resourceRules": [{**RULE, "resourceNames": ["b", "b"]}]}
    ),
    "a rule with an empty resource": policy(
        "a", "true", matchConstraints={"resourceRules": [{**RULE, "resources": [""]}]}
    ),
    "an unknown match policy": policy(
        "a", "true", matchConstraints={"resourceRules": [RULE], "matchPolicy": "Near"}
    ),
    "a bad selector": policy(
        "a",
        "true",
        matchConstraints={
            "resourceRules": [RULE],
            "objectSelector": {"matchExpressions": [{"key": "a b", "operator": "Has"}]},
        },
    ),
    "an unknown failure policy": policy("a", "true", failurePolicy="Maybe"),
    "an unknown reason": policy("a", {"expression": "true", "reason": "Because"}),
    "an empty expression": policy("a", ""),
    "a message with a line break": policy("a", {"expression": "true", "message": "a\nb"}),
    "an expression of lines and no message": policy("a", "true ||\nfalse"),
    "a message of blanks": policy("a", {"expression": "true", "message": "  "}),
    "a messageExpression that is no text": policy(
        "a", {"expression": "true", "messageExpression": "1"}
    ),
    "a messageExpression that does not compile": policy(
        "a", {"expression": "true", "messageExpression": "object."}
    ),
    "what does not compile": policy("a", "object."),
    "what is no condition": policy("a", "1"),
    "a dynamic condition": policy("a", "object.data.a"),
    "an unknown name": policy("a", "thing.a == 1"),
    "params without a kind": policy("a", "params.a == 1"),
    "params": policy(
        "a", "params.data.a == 'b'", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}
    ),
    "params without apiVersion": policy("a", "true", paramKind={"kind": "ConfigMap"}),
    "params with a bad apiVersion": policy(
        "a", "true", paramKind={"apiVersion": "a/b/c", "kind": "ConfigMap"}
    ),
    "params of an unknown kind": policy(
        "a", "true", paramKind={"apiVersion": "a.test/v1", "kind": "Thing"}
    ),
    "variables": policy(
        "a",
        "variables.v == 'a'",
        variables=[{"name": "v", "expression": "object.metadata.name"}],
    ),
    "a variable of a variable": policy(
        "a",
        "variables.w == 'a'",
        variables=[
            {"name": "v", "expression": "object.metadata.name"},
            {"name": "w", "expression": "variables.v + ''"},
        ],
    ),
    "a variable of a later one": policy(
        "a",
        "variables.w == 'a'",
        variables=[
            {"name": "w", "expression": "variables.v + ''"},
            {"name": "v", "expression": "object.metadata.name"},
        ],
    ),
    "an unknown variable": policy(
        "a", "variables.w == 'a'", variables=[{"name": "v", "expression": "'a'"}]
    ),
    "a variable of another type": policy(
        "a", "variables.v == 1", variables=[{"name": "v", "expression": "'a'"}]
    ),
    "a variable twice": policy("a", "true", variables=[{"name": "v", "expression": "'a'"}] * 2),
    "a variable with a dash": policy("a", "true", variables=[{"name": "v-w", "expression": "'a'"}]),
    "a variable without name": policy("a", "true", variables=[{"expression": "'a'"}]),
    "a variable without expression": policy("a", "true", variables=[{"name": "v"}]),
    "a variable that does not compile": policy(
        "a", "true", variables=[{"name": "v", "expression": "("}]
    ),
    "conditions": policy("a", "true", matchConditions=[{"name": "c", "expression": "true"}]),
    "a condition without name": policy("a", "true", matchConditions=[{"expression": "true"}]),
    "a condition with a bad name": policy(
        "a", "true", matchConditions=[{"name": "c c", "expression": "true"}]
    ),
    "a condition twice": policy(
        "a", "true", matchConditions=[{"name": "c", "expression": "true"}] * 2
    ),
    "a condition that is none": policy(
        "a", "true", matchConditions=[{"name": "c", "expression": "1"}]
    ),
    "a condition of params": policy(
        "a",
        "true",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=[{"name": "c", "expression": "params.data.a == 'b'"}],
    ),
    "a condition of variables": policy(
        "a",
        "true",
        variables=[{"name": "v", "expression": "'a'"}],
        matchConditions=[{"name": "c", "expression": "variables.v == 'a'"}],
    ),
    "the authorizer": policy("a", "authorizer.group('').resource('pods').check('get').allowed()"),
    "the authorizer of a path": policy("a", "authorizer.path('/healthz').check('get').allowed()"),
    "the authorizer of the request": policy(
        "a", "authorizer.requestResource.check('delete').reason() == ''"
    ),
    "the authorizer of an account": policy(
        "a",
        "authorizer.serviceAccount('ns', 'a').group('apps').resource('deployments')"
        ".subresource('scale').namespace('b').name('c').check('update').errored()",
    ),
    "the authorizer's selectors": policy(
        "a",
        "authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c=d')"
        ".check('list').allowed()",
    ),
    "the authorizer as a condition": policy("a", "authorizer.group('').resource('pods')"),
    "the request": policy(
        "a",
        "request.userInfo.username != '' && request.operation == 'CREATE' && request.dryRun"
        " && request.kind.kind == 'a' && request.namespace == request.name",
    ),
    "a field that no request has": policy("a", "request.other == 1"),
    "a field of the request of another type": policy("a", "request.operation == 1"),
    "the namespace": policy("a", "namespaceObject.metadata.labels['a'] == 'b'"),
    "a field that no namespace has": policy("a", "namespaceObject.other == 1"),
    "too many validations": policy("a", *["true"] * 17, auditAnnotations=None),
    "a cost without bounds": policy(
        "a", "object.metadata.labels.all(k, object.metadata.labels.all(l, k == l))"
    ),
    "an unknown field": policy("a", "true", other=1),
}

BOUND: dict[str, Json] = {
    "a binding": binding("a"),
    "a binding without policy": binding("a", policyName=""),
    "a binding with a bad policy name": binding("a", policyName="A b"),
    "a binding without actions": binding("a", validationActions=[]),
    "a binding with an unknown action": binding("a", validationActions=["Shout"]),
    "a binding with an action twice": binding("a", validationActions=["Deny", "Deny"]),
    "a binding with Deny and Warn": binding("a", validationActions=["Deny", "Warn"]),
    "a binding with all": binding("a", validationActions=["Audit", "Warn"]),
    "params by name": binding("a", paramRef={"name": "p", "parameterNotFoundAction": "Allow"}),
    "params without action": binding("a", paramRef={"name": "p"}),
    "params without name": binding("a", paramRef={"parameterNotFoundAction": "Allow"}),
    "params by name and selector": binding(
        "a", paramRef={"name": "p", "selector": {}, "parameterNotFoundAction": "Deny"}
    ),
    "params by selector": binding(
        "a", paramRef={"selector": {}, "namespace": "n", "parameterNotFoundAction": "Deny"}
    ),
    "params with an unknown action": binding(
        "a", paramRef={"name": "p", "parameterNotFoundAction": "Cry"}
    ),
    "params with a bad namespace": binding(
        "a", paramRef={"name": "p", "namespace": "A b", "parameterNotFoundAction": "Deny"}
    ),
}

PARAMS = {"apiVersion": "v1", "kind": "ConfigMap"}
PLAYED: dict[str, tuple[Json, list[Json], list[dict[str, str]]]] = {
    # policy, bindings, what is tried
    "plain": (
        policy("plain", "object.data.a == 'b'"),
        [binding("plain")],
        [{"a": "b"}, {"a": "c"}, {"b": "b"}, {}],
    ),
    "messages": (
        policy(
            "messages",
            {"expression": "object.data.a != '1'", "message": "not one"},
            {"expression": "object.data.a != '2'", "messageExpression": "'not ' + object.data.a"},
            {
                "expression": "object.data.a != '3'",
                "message": "fallen back",
                "messageExpression": "object.data.zzz",
            },
            {"expression": "object.data.a != '4'", "messageExpression": "object.data.zzz"},
            {"expression": "object.data.a != '5'", "messageExpression": "' '", "message": "five"},
            {"expression": "object.data.a != '6'", "messageExpression": "'a\\nb'"},
            {"expression": "object.data.a != '7'", "reason": "Forbidden"},
            {"expression": "object.data.a != '8'", "reason": "RequestEntityTooLarge"},
            {"expression": "object.data.a != '9'", "reason": "Unauthorized"},
        ),
        [binding("messages")],
        [{"a": str(n)} for n in range(10)],
    ),
    "ignored": (
        policy("ignored", "object.data.a == 'b'", failurePolicy="Ignore"),
        [binding("ignored")],
        [{"a": "b"}, {"a": "c"}, {"b": "b"}],
    ),
    "warned": (
        policy("warned", "object.data.a == 'b'", {"expression": "false", "message": "always"}),
        [binding("warned", validationActions=["Warn", "Audit"])],
        [{"a": "b"}, {"a": "c"}, {}],
    ),
    "errors": (
        policy(
            "errors",
            "object.data.a != 'index' || [1][2] == 1",
            "object.data.a != 'zero' || 1 / (int(object.data.z) - 1) == 1",
            "object.data.a != 'type' || object.data + 1 == 2",
            "object.data.a != 'field' || object.spec.b == 1",
            "object.data.a != 'convert' || int(object.data.a) == 1",
            "object.data.a != 'null' || oldObject.data == {}",
        ),
        [binding("errors")],
        [{"a": each, "z": "1"} for each in ("index", "zero", "type", "field", "convert", "null")],
    ),
    "conditioned": (
        policy(
            "conditioned",
            "false",
            matchConditions=[
                {"name": "wanted", "expression": "object.data.a == 'yes'"},
                {"name": "sure", "expression": "object.data.b != 'no'"},
            ],
        ),
        [binding("conditioned")],
        [{"a": "no"}, {"a": "yes", "b": "yes"}, {"a": "yes", "b": "no"}, {"a": "yes"}, {"a": "no"}],
    ),
    "variable": (
        policy(
            "variable",
            "variables.size < 2",
            "variables.late == 'x'",
            variables=[
                {"name": "data", "expression": "has(object.data) ? object.data : {}"},
                {"name": "size", "expression": "variables.data.size()"},
                {"name": "late", "expression": "variables.data['k']"},
            ],
        ),
        [binding("variable")],
        [{"k": "x"}, {"k": "y"}, {"a": "b"}, {"a": "b", "c": "d"}],
    ),
    "asked": (
        policy(
            "asked",
            "object.data.a != 'user' || request.userInfo.username == 'nobody'",
            "object.data.a != 'dry' || !request.dryRun",
            "object.data.a != 'kind' || request.kind.kind + request.kind.version == ''",
            "object.data.a != 'resource' || request.resource.resource == ''",
            "object.data.a != 'name' || request.name == ''",
            "object.data.a != 'namespace' || request.namespace != namespaceObject.metadata.name",
            "object.data.a != 'operation' || request.operation != 'CREATE'",
            "object.data.a != 'sub' || has(request.subResource)",
            "object.data.a != 'options' || request.options.kind != 'CreateOptions'",
            "object.data.a != 'groups' || !('system:authenticated' in request.userInfo.groups)",
            "object.data.a != 'old' || oldObject != null",
        ),
        [binding("asked")],
        [
            {"a": each}
            for each in (
                [
                    "user",
                    "dry",
                    "kind",
                    "resource",
                    "name",
                    "namespace",
                    "operation",
                    "sub",
                    "options",
                    "groups",
                    "old",
                    "none",
                ]
            )
        ],
    ),
    "authorized": (
        policy(
            "authorized",
            "object.data.a != 'pods' || !authorizer.group('').resource('pods').check('get').allowed()",
            "object.data.a != 'path' || !authorizer.path('/healthz').check('get').allowed()",
            "object.data.a != 'account' || authorizer.serviceAccount(object.metadata.namespace, 'none')"
            ".group('').resource('pods').namespace('x').name('y').check('get').allowed()",
            "object.data.a != 'own' || !authorizer.requestResource.check('delete').allowed()",
            "object.data.a != 'reason' || authorizer.serviceAccount('a', 'b').path('/x')"
            ".check('get').reason() != ''",
            "object.data.a != 'errored' || authorizer.group('').resource('pods').subresource('log')"
            ".check('get').errored()",
            "object.data.a != 'bad' || authorizer.serviceAccount('', 'b').path('/x')"
            ".check('get').allowed()",
        ),
        [binding("authorized")],
        [
            {"a": each}
            for each in ["pods", "path", "account", "own", "reason", "errored", "bad", "none"]
        ],
    ),
    "limited": (
        policy("limited", "int(object.data.n) <= int(params.data.limit)", paramKind=PARAMS),
        [
            binding(
                "limited",
                paramRef={
                    "name": "limits",
                    "namespace": "$ns",
                    "parameterNotFoundAction": "Deny",
                },
            )
        ],
        [{"n": "3"}, {"n": "7"}, {"n": "x"}],
    ),
    "chosen": (
        policy(
            "chosen",
            {
                "expression": "object.data.n != params.data.limit",
                "messageExpression": "'not ' + params.data.limit",
            },
            paramKind=PARAMS,
        ),
        [
            binding(
                "chosen",
                paramRef={
                    "selector": {"matchLabels": {"limits": "yes"}},
                    "parameterNotFoundAction": "Allow",
                },
            )
        ],
        [{"n": "3"}, {"n": "5"}, {"n": "6"}],
    ),
    "lost": (
        policy("lost", "params != null", paramKind=PARAMS),
        [
            binding(
                "lost",
                paramRef={"name": "zzz", "namespace": "$ns", "parameterNotFoundAction": "Deny"},
            )
        ],
        [{}],
    ),
    "forgiven": (
        policy("forgiven", "params != null && false", paramKind=PARAMS),
        [
            binding(
                "forgiven",
                paramRef={"name": "zzz", "namespace": "$ns", "parameterNotFoundAction": "Allow"},
            )
        ],
        [{}],
    ),
    "unbound": (policy("unbound", "params == null", paramKind=PARAMS), [binding("unbound")], [{}]),
    "annotated": (
        policy(
            "annotated",
            "object.data.a != 'no'",
            auditAnnotations=[
                {"key": "what", "valueExpression": "'a is ' + object.data.a"},
                {"key": "none", "valueExpression": "object.data.a == 'x' ? 'y' : null"},
            ],
        ),
        [binding("annotated")],
        [{"a": "x"}, {"a": "no"}, {}],
    ),
    "named": (
        policy(
            "named",
            "false",
            matchConstraints={"resourceRules": [{**RULE, "resourceNames": ["a"]}]},
        ),
        [binding("named")],
        [{}],
    ),
    "excluded": (
        policy(
            "excluded",
            "false",
            matchConstraints={
                "resourceRules": [RULE],
                "excludeResourceRules": [{**RULE, "resourceNames": ["a"]}],
            },
        ),
        [binding("excluded")],
        [{}],
    ),
    "optional": (
        policy(
            "optional", "object.?data.a.orValue('z') == 'b' && object.?spec.hasValue() == false"
        ),
        [binding("optional")],
        [{"a": "b"}, {}],
    ),
    "costly": (
        policy(
            "costly",
            "['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].all(a, object.data.all(b, "
            "object.data.all(c, object.data.all(d, object.data[b] + object.data[c] != a + d))))",
        ),
        [binding("costly")],
        [{"a": "b"}, {f"k{n}": "v" * 10 for n in range(60)}],
    ),
}

LIBRARY = [
    # said of a ConfigMap with data a=hello, n=42, q=1500m, u=https://h.test:80/p?x=1
    "object.data.a.upperAscii() == 'HELLO'",
    "object.data.a.matches('^h.*o$')",
    "object.data.a.split('l').size() == 3",
    "object.data.a.substring(1, 3) == 'el'",
    "object.data.a.replace('l', 'L') == 'heLLo'",
    "object.data.a.find('l+') == 'll'",
    "int(object.data.n) == 42",
    "double(object.data.n) == 42.0",
    "dyn(int(object.data.n)) == dyn(42.0)",
    "uint(object.data.n) == 42u",
    "quantity(object.data.q).asApproximateFloat() == 1.5",
    "quantity(object.data.q).isGreaterThan(quantity('1'))",
    "url(object.data.u).getHost() == 'h.test:80'",
    "url(object.data.u).getQuery()['x'] == ['1']",
    "object.data.map(k, k) == ['a', 'n', 'q', 'u'] || true",
    "object.data.filter(k, k == 'a').size() == 1",
    "object.data.exists(k, object.data[k] == '42')",
    "object.data.exists_one(k, k == 'n')",
    "object.data.all(k, v, v.size() > 0)",
    "object.metadata.labels['policy'] == 'library'",
    "has(object.metadata.annotations)",
    "!has(object.binaryData)",
    "object.kind == 'ConfigMap' && object.apiVersion == 'v1'",
    "object.metadata.name.startsWith('a')",
    "object.?metadata.?annotations['x'].orValue('none') == 'none'",
    "timestamp('2026-01-01T00:00:00Z') < timestamp('2027-01-01T00:00:00Z')",
    "duration('90m').getHours() == 1",
    "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
    "semver('1.2.3').isLessThan(semver('1.10.0'))",
    "sets.contains(['a', 'b'], ['b'])",
    "[1, 2, 3].sum() == 6 && [3, 1].min() == 1",
    "'%s-%d'.format([object.data.a, 3]) == 'hello-3'",
    "cel.bind(x, object.data.a, x + x) == 'hellohello'",
    "format.dns1123Label().validate(object.data.a).hasValue()",
    "type(object.data.a) == string",
    "object.data == {'a': 'hello', 'n': '42', 'q': '1500m', 'u': 'https://h.test:80/p?x=1'}",
    "oldObject == null",
    "object.data.a in ['hello', 'bye']",
    "size(object.data) == 4",
    "string(size(object.data)) == '4'",
]
SEEN = {"a": "hello", "n": "42", "q": "1500m", "u": "https://h.test:80/p?x=1"}


def mutation(name: str, *mutations: Json, **spec: Any) -> Json:
    """A policy that changes ConfigMaps."""
    more = {"reinvocationPolicy": "Never", "mutations": list(mutations), **spec}
    return policy(name, kind="Mutating", **more)


def applied(expression: str) -> Json:
    """A mutation by apply."""
    return {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": expression},
    }


def patched(expression: str) -> Json:
    """A mutation by JSON patch."""
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


MUTATIONS: dict[str, tuple[Json, list[dict[str, str]]]] = {
    "apply": (
        mutation("apply", applied("Object{data: {'new': 'yes'}}")),
        [{}, {"new": "no", "a": "b"}],
    ),
    "apply-labels": (
        mutation(
            "apply-labels",
            applied("Object{metadata: Object.metadata{labels: Object.metadata.labels{team: 'x'}}}"),
        ),
        [{}],
    ),
    "patch": (
        mutation(
            "patch",
            patched(
                "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b~c'), value: 'v'}]"
            ),
        ),
        [{"a": "b"}],
    ),
    "patch-test": (
        mutation(
            "patch-test",
            patched(
                "[JSONPatch{op: 'test', path: '/data/a', value: 'b'},"
                " JSONPatch{op: 'replace', path: '/data/a', value: 'c'}]"
            ),
        ),
        [{"a": "b"}, {"a": "x"}],
    ),
    "patch-remove": (
        mutation("patch-remove", patched("[JSONPatch{op: 'remove', path: '/data/a'}]")),
        [{"a": "b", "c": "d"}, {"c": "d"}],
    ),
    "patch-object": (
        mutation(
            "patch-object",
            patched("[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 'b'}}]"),
        ),
        [{"a": "b"}],
    ),
    "two-steps": (
        mutation(
            "two-steps",
            applied("Object{data: {'one': '1'}}"),
            patched("[JSONPatch{op: 'add', path: '/data/two', value: object.data.one + '2'}]"),
        ),
        [{"a": "b"}],
    ),
    "mutating-condition": (
        mutation(
            "mutating-condition",
            applied("Object{data: {'new': 'yes'}}"),
            matchConditions=[{"name": "wanted", "expression": "object.data.a == 'b'"}],
        ),
        [{"a": "b"}, {"a": "c"}, {}],
    ),
    "mutating-error": (
        mutation("mutating-error", applied("Object{data: {'new': object.data.zzz}}")),
        [{"a": "b"}],
    ),
    "mutating-ignored": (
        mutation(
            "mutating-ignored",
            applied("Object{data: {'new': object.data.zzz}}"),
            failurePolicy="Ignore",
        ),
        [{"a": "b"}],
    ),
    "mutating-variable": (
        mutation(
            "mutating-variable",
            applied("Object{data: {'new': variables.v}}"),
            variables=[{"name": "v", "expression": "object.metadata.name + '!'"}],
        ),
        [{"a": "b"}],
    ),
}

MUTATING_SHAPES: dict[str, Json] = {
    "the least": mutation("a", applied("Object{}")),
    "no mutations": mutation("a"),
    "no reinvocation policy": mutation("a", applied("Object{}"), reinvocationPolicy=None),
    "an unknown reinvocation policy": mutation("a", applied("Object{}"), reinvocationPolicy="Ever"),
    "an unknown patch type": mutation("a", {"patchType": "Merge"}),
    "no patch type": mutation("a", {"applyConfiguration": {"expression": "Object{}"}}),
    "apply without expression": mutation("a", {"patchType": "ApplyConfiguration"}),
    "JSON patch without expression": mutation("a", {"patchType": "JSONPatch"}),
    "both": mutation(
        "a", {**applied("Object{}"), "jsonPatch": {"expression": "[JSONPatch{op: 'test'}]"}}
    ),
    "apply of no object": mutation("a", applied("'a'")),
    "JSON patch of no patch": mutation("a", patched("['a']")),
    "JSON patch of one": mutation("a", patched("JSONPatch{op: 'test', path: '/a', value: 1}")),
    "what does not compile": mutation("a", applied("Object{")),
    "a validation": {**mutation("a", applied("Object{}")), "x": 1},
}


def _shapes() -> Iterator[Case]:
    for name, body in SHAPES.items():
        yield Case(f"policy: {name}", (post(POLICIES, body, dryRun="All", keep=("spec",)),))
    for name, body in BOUND.items():
        yield Case(f"binding: {name}", (post(BINDINGS, body, dryRun="All", keep=("spec",)),))
    for name, body in MUTATING_SHAPES.items():
        yield Case(
            f"mutating policy: {name}", (post(MUTATING, body, dryRun="All", keep=("spec",)),)
        )


def _played() -> Iterator[Request]:
    for name, value in (("limits", "5"), ("more", "6")):
        body = config_map("none", name, limit=value)
        body["metadata"]["labels"]["limits"] = "yes"
        yield post(MAPS, body)
    for wanted, bindings, _ in PLAYED.values():
        yield post(POLICIES, wanted, keep=("spec",))
        for each in bindings:
            yield post(BINDINGS, each, keep=("spec",))
    yield post(POLICIES, policy("last", "false"), keep=("kind",))
    yield post(BINDINGS, binding("last"), keep=("kind",))
    yield replace(tried("last"), until=422)
    for name, (_, _, data) in PLAYED.items():
        for each in data:
            yield tried(name, **each)


def _judged_alone() -> Iterator[Request]:
    """Each expression in a policy of its own, so that what it says is seen."""
    for number, expression in enumerate(LIBRARY):
        name = f"library-{number}"
        yield post(POLICIES, policy(name, expression), keep=("kind",))
        yield post(BINDINGS, binding(name), keep=("kind",))
    yield post(POLICIES, policy("last", "false"), keep=("kind",))
    yield post(BINDINGS, binding("last"), keep=("kind",))
    yield replace(tried("last"), until=422)
    for number, expression in enumerate(LIBRARY):
        yield replace(tried(f"library-{number}", **SEEN), line=expression)
        yield replace(tried(f"library-{number}", a="x"), line=f"otherwise: {expression}")


def _lifecycle() -> Iterator[Request]:
    yield post(POLICIES, policy("life", "object.data.a == 'b'"))
    yield post(BINDINGS, binding("life"))
    yield replace(tried("life", a="c"), until=422)
    yield post(MAPS, config_map("life", a="b"), keep=("data",))
    yield patch(f"{MAPS}/a", {"data": {"a": "c"}}, keep=("data",))
    yield put(f"{MAPS}/a", config_map("life", a="c"), keep=("data",))
    yield patch(f"{MAPS}/a", {"metadata": {"labels": {"policy": "other"}}}, keep=("data",))
    yield patch(
        f"{MAPS}/a", {"metadata": {"labels": {"policy": None}}, "data": {"a": "b"}}, keep=("data",)
    )
    yield delete(f"{MAPS}/a")
    change = {"spec": {"validations": [{"expression": "object.data.a == 'd'"}]}}
    yield patch(f"{POLICIES}/$ns-life", change, keep=("spec",))
    yield replace(tried("life", a="d"), until=201)
    yield replace(tried("life", a="b"), until=422)
    yield patch(f"{BINDINGS}/$ns-life", {"spec": {"validationActions": ["Warn"]}}, keep=("spec",))
    yield replace(tried("life", a="x"), until=201)
    yield delete(f"{BINDINGS}/$ns-life")
    yield delete(f"{POLICIES}/$ns-life")
    yield get(f"{POLICIES}/$ns-life")


def _mutations() -> Iterator[Request]:
    for name, (body, _) in MUTATIONS.items():
        yield post(MUTATING, body, keep=("spec",))
        yield post(MUTATING_BINDINGS, binding(name, kind="Mutating"), keep=("spec",))
    yield post(MUTATING, mutation("last", applied("Object{data: {'new': object.data.zzz}}")))
    yield post(MUTATING_BINDINGS, binding("last", kind="Mutating"))
    yield replace(tried("last", a="b"), until=403)
    for name, (_, data) in MUTATIONS.items():
        for each in data:
            yield tried(name, **each)


CASES = (
    *_shapes(),
    Case("policies in force", tuple(_played())),
    Case("the libraries", tuple(_judged_alone())),
    Case("a policy's life", tuple(_lifecycle())),
    Case("mutations in force", tuple(_mutations())),
)
