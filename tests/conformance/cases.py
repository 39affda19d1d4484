"""What is asked of every API server: requests whose answers our controllers and users rely on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.runtime.builtin_kinds import ConfigMap, CustomResourceDefinition
from informers.objects import ResourceType
from tests.builders import MODEL
from tests.conformance.answers import (
    JSON_PATCH,
    Body,
    Case,
    Json,
    Step,
    apply,
    patch,
    post,
    put,
)
from tests.conformance.pod_security_cases import pod_security
from tests.dynamo_operator.generate.test_crds import (
    BAD,
    CANDIDATE_CHANGES,
    CANDIDATE_SPEC,
    GOOD,
    RUN_CHANGES,
    RUN_SPEC,
)

REQUESTS = DynamoGraphDeploymentRequest.resource_type
RUNS = DynamoGraphDeploymentRun.resource_type
CANDIDATES = DynamoGraphDeploymentCandidate.resource_type
CONFIG_MAPS = ConfigMap.resource_type
DEFINITIONS = CustomResourceDefinition.resource_type

PLAIN = {"spec": {"model": {"name": MODEL}}}
THEN = "2026-11-30T12:00:00Z"


def renewed(**changes: Any) -> Any:
    """The latest object with other top-level fields."""
    return lambda latest: {**latest, **changes}


def condition(kind: str, status: str = "True", **more: Any) -> Json:
    """A condition."""
    return {
        "type": kind,
        "status": status,
        "reason": "Lab",
        "message": "as the test says",
        "lastTransitionTime": THEN,
        **more,
    }


def owned(resource_type: ResourceType, steps: Sequence[Step]) -> Case:
    """A case whose field owners matter."""
    return Case(resource_type, steps, owners=True)


def apply_status(body: Body, manager: str, *, force: bool = False) -> Step:
    """Server-side apply of the status."""
    return apply(body, manager, subresource="status", force=force)


def with_version(body: Json) -> Any:
    """The body, valid only for the version that the latest answer held."""
    return lambda latest: {
        **body,
        "metadata": {"resourceVersion": latest["metadata"]["resourceVersion"]},
    }


def specs() -> Iterator[tuple[str, Case]]:
    """Every good and bad spec, by each way of writing it."""
    tables: dict[str, dict[str, Json]] = {"good": GOOD, "bad": {k: v for k, (v, _) in BAD.items()}}
    for verdict, table in tables.items():
        for name, spec in table.items():
            body: Json = {"spec": spec}
            ways: dict[str, list[Step]] = {
                "create": [post(body, fieldValidation="Strict")],
                "replace": [post(PLAIN), put(renewed(spec=spec))],
                "apply": [apply(body, "kubectl")],
                "merge patch": [post(PLAIN), patch(body)],
                "JSON patch": [
                    post(PLAIN),
                    patch([{"op": "replace", "path": "/spec", "value": spec}], JSON_PATCH),
                ],
            }
            for way, steps in ways.items():
                yield f"{verdict}: {name}, by {way}", Case(REQUESTS, steps)


def immutability() -> Iterator[tuple[str, Case]]:
    """Every change of what may not change, and one that may."""
    tables: list[tuple[Any, Json, dict[str, Json]]] = [
        (RUNS, RUN_SPEC, RUN_CHANGES),
        (CANDIDATES, CANDIDATE_SPEC, CANDIDATE_CHANGES),
    ]
    for resource_type, before, changes in tables:
        made = post({"spec": before})
        for name, after in changes.items():
            ways: dict[str, Step] = {
                "replace": put(renewed(spec=after)),
                "apply": apply({"spec": after}, "someone-else", force=True),
                "merge patch": patch({"spec": after}),
                "JSON patch": patch(
                    [{"op": "replace", "path": "/spec", "value": after}], JSON_PATCH
                ),
            }
            for way, step in ways.items():
                yield f"{resource_type.kind}: {name}, by {way}", Case(resource_type, [made, step])
        labelled = patch({"metadata": {"labels": {"a": "b"}}})
        same = put(renewed(spec=before))
        yield f"{resource_type.kind}: the same again", Case(resource_type, [made, labelled, same])


def free_form() -> Iterator[tuple[str, Case]]:
    """Nulls and numbers where the schema does not say what there may be."""
    overrides = {"a": None, "b": {"c": None, "d": [1, None, {"e": None}]}, "n": 10.0, "big": 2**53}
    spec = {**PLAIN["spec"], "aisimulate": {"inputOverrides": overrides}}
    body: Json = {"spec": spec}
    yield "nulls by create", Case(REQUESTS, [post(body)])
    yield "nulls by replace", Case(REQUESTS, [post(PLAIN), put(renewed(spec=spec))])
    yield "nulls by apply", Case(REQUESTS, [apply(body, "kubectl"), apply(body, "kubectl")])
    yield "nulls by merge patch", Case(REQUESTS, [post(body), patch(body)])
    yield (
        "a null takes away by merge patch",
        Case(REQUESTS, [post(body), patch({"spec": {"aisimulate": None}})]),
    )
    yield (
        "an override taken back by apply",
        Case(
            REQUESTS,
            [
                apply(body, "kubectl"),
                apply({"spec": {**spec, "aisimulate": {"inputOverrides": {"b": {}}}}}, "kubectl"),
            ],
        ),
    )
    yield (
        "an explicit null in a typed field",
        Case(REQUESTS, [post({"spec": {**PLAIN["spec"], "rerun": None, "backends": None}})]),
    )
    parameters = {"parameters": {"unset": None, "deep": {"unset": None, "list": [None]}}}
    yield (
        "a Candidate's nulls",
        Case(CANDIDATES, [post({"spec": {**CANDIDATE_SPEC, **parameters}})]),
    )


def integral_floats() -> Iterator[tuple[str, Case]]:
    """8.0 where an integer belongs, which YAML does not tell from 8."""
    gpus: Json = {"gpu": {"budget": 8.0, "sku": "h200_sxm"}}
    load: Json = {"static": {"load": {"concurrency": 8.0}}}
    specs_of: dict[str, tuple[ResourceType, Json]] = {
        "an integer": (REQUESTS, {**PLAIN["spec"], "hardware": gpus}),
        "an integer below a rule": (REQUESTS, {**PLAIN["spec"], "workload": load}),
        "a Run's integer": (RUNS, {**RUN_SPEC, "hardware": gpus}),
        "a Run's override": (RUNS, {**RUN_SPEC, "aisimulate": {"inputOverrides": {"n": 1.0}}}),
    }
    for name, (resource_type, spec) in specs_of.items():
        applied = apply({"spec": spec}, "kubectl")
        yield f"{name} by apply", Case(resource_type, [applied, applied])
        whole = json.loads(json.dumps(spec).replace(".0", ""))
        made = post({"spec": whole})
        yield f"{name} becomes a float by apply", Case(resource_type, [made, applied])
    yield (
        "an integer by create",
        Case(REQUESTS, [post({"spec": {**PLAIN["spec"], "hardware": gpus}})]),
    )


def fields_unknown() -> Iterator[tuple[str, Case]]:
    """Misspelt fields, by each level of validation."""
    spec = {"model": {"name": "m", "nmae": 1}, "backend": "vllm", "sla": {"ttft": 200}}
    for level in ("Strict", "Warn", "Ignore"):
        made = post({"spec": spec, "extra": 1}, fieldValidation=level)
        yield f"unknown fields, {level}", Case(REQUESTS, [made])
        patched = patch({"spec": spec}, fieldValidation=level)
        yield f"unknown fields by merge patch, {level}", Case(REQUESTS, [post(PLAIN), patched])


def status_writers() -> Iterator[tuple[str, Case]]:
    """Two field managers on one status, as our controllers and the publisher write it."""
    one: Json = {"status": {"observedGeneration": 1, "conditions": [condition("Accepted")]}}
    two: Json = {"status": {"phase": "Running", "conditions": [condition("Completed", "False")]}}
    made = post(PLAIN)
    first = apply_status(one, "request-controller")
    second = apply_status(two, "publisher")
    yield "status: two writers of different fields", owned(REQUESTS, [made, first, second])
    taken: Json = {
        "status": {"observedGeneration": 2, "conditions": [condition("Accepted", "False")]}
    }
    yield (
        "status: one writer takes the other's fields",
        owned(
            REQUESTS,
            [made, first, apply_status(taken, "publisher")],
        ),
    )
    yield (
        "status: by force",
        owned(REQUESTS, [made, first, apply_status(taken, "publisher", force=True), first]),
    )
    yield (
        "status: both own an equal value",
        owned(REQUESTS, [made, first, apply_status(one, "publisher")]),
    )
    less: Json = {"status": {"observedGeneration": 1}}
    yield (
        "status: what is left out goes",
        owned(REQUESTS, [made, first, second, apply_status(less, "request-controller")]),
    )
    yield (
        "status: shared fields stay until the last owner leaves",
        owned(
            REQUESTS,
            [
                made,
                first,
                apply_status(one, "publisher"),
                apply_status(less, "request-controller"),
                apply_status({"status": {}}, "publisher"),
            ],
        ),
    )
    yield (
        "status: the spec in a status write is ignored",
        owned(
            REQUESTS,
            [
                made,
                put(
                    lambda latest: {**latest, "spec": {"model": {"name": "x"}}, **one},
                    subresource="status",
                ),
            ],
        ),
    )
    yield (
        "status: the status in a main write is ignored",
        owned(
            REQUESTS,
            [
                post({**PLAIN, **one}),
                put(renewed(**one)),
                apply_status({**PLAIN, **one}, "kubectl"),
            ],
        ),
    )
    yield "status: of an object that is not there", owned(REQUESTS, [first])
    yield (
        "status: at the right version",
        owned(REQUESTS, [made, apply_status(with_version(one), "request-controller")]),
    )
    stale: Json = {"metadata": {"resourceVersion": "1"}, **one}
    yield (
        "status: at a stale version",
        owned(REQUESTS, [made, apply_status(stale, "request-controller", force=True)]),
    )
    yield (
        "status: replaced at a stale version",
        owned(
            REQUESTS,
            [
                made,
                first,
                put(
                    lambda latest: {
                        **latest,
                        "metadata": {**latest["metadata"], "resourceVersion": "1"},
                    },
                    subresource="status",
                ),
            ],
        ),
    )
    of_another: Json = {"metadata": {"uid": "4f1c2a00-0000-4000-8000-000000000001"}, **one}
    yield (
        "status: of another uid",
        owned(REQUESTS, [made, apply_status(of_another, "request-controller")]),
    )
    for name, wrong in {
        "a phase that is no text": {"phase": 1},
        "a generation below zero": {"observedGeneration": -1},
        "half a generation": {"observedGeneration": 1.5},
        "a generation as an integral float": {"observedGeneration": 2.0},
        "a condition without type": {"conditions": [{"status": "True"}]},
        "a condition with a strange status": {"conditions": [condition("Accepted", "Maybe")]},
        "a condition twice": {"conditions": [condition("Accepted"), condition("Accepted")]},
        "a condition without a time": {
            "conditions": [{k: v for k, v in condition("A").items() if k != "lastTransitionTime"}]
        },
        "a condition with a bad time": {"conditions": [condition("A", lastTransitionTime="now")]},
    }.items():
        yield (
            f"status: {name}, by apply",
            owned(REQUESTS, [made, apply_status({"status": wrong}, "request-controller")]),
        )
        yield (
            f"status: {name}, by merge patch",
            owned(REQUESTS, [made, patch({"status": wrong}, subresource="status")]),
        )
    yield "status: applied unchanged twice", owned(REQUESTS, [made, first, first])
    yield (
        "status: patched where it was applied",
        owned(
            REQUESTS,
            [
                made,
                first,
                patch({"status": {"observedGeneration": 3}}, subresource="status"),
                first,
            ],
        ),
    )


def ownership() -> Iterator[tuple[str, Case]]:
    """Server-side apply on a built-in kind, and its neighbours."""
    one: Json = {"data": {"a": "1", "b": "1"}, "metadata": {"labels": {"x": "1"}}}
    yield (
        "apply: conflicts name the fields and their owner",
        owned(
            CONFIG_MAPS,
            [
                apply(one, "one"),
                apply({"data": {"a": "2"}, "metadata": {"labels": {"x": "2"}}}, "two"),
            ],
        ),
    )
    yield (
        "apply: what was created is taken over",
        owned(
            CONFIG_MAPS,
            [post(one, manager="one"), apply({"data": {"a": "2"}}, "two", force=True)],
        ),
    )
    yield (
        "apply: a field that two own stays",
        owned(
            CONFIG_MAPS,
            [apply(one, "one"), apply({"data": {"a": "1"}}, "two"), apply({"data": {}}, "one")],
        ),
    )
    yield (
        "apply: the same manager by update and by apply",
        owned(CONFIG_MAPS, [post(one, manager="one"), apply({"data": {"a": "2"}}, "one")]),
    )
    yield (
        "apply: managedFields may not be sent",
        owned(CONFIG_MAPS, [apply({"metadata": {"managedFields": [{"manager": "x"}]}}, "one")]),
    )
    yield (
        "apply: without a manager",
        owned(CONFIG_MAPS, [Step("PATCH", one, "application/apply-patch+yaml")]),
    )
    yield (
        "apply: a name that is not the path's",
        owned(CONFIG_MAPS, [apply({"metadata": {"name": "other"}}, "one")]),
    )
    another = {"uid": "4f1c2a00-0000-4000-8000-000000000001"}
    yield (
        "apply: of another uid",
        owned(
            CONFIG_MAPS,
            [post(one), apply({"metadata": another, "data": {"a": "2"}}, "two", force=True)],
        ),
    )
    yield (
        "apply: of another uid, of our kind",
        owned(REQUESTS, [post(PLAIN), apply({"metadata": another, **PLAIN}, "two", force=True)]),
    )
    yield (
        "apply: of a uid, where there is none",
        owned(CONFIG_MAPS, [apply({"metadata": another, "data": {"a": "2"}}, "two")]),
    )
    yield (
        "replace: of another uid",
        owned(
            CONFIG_MAPS,
            [
                post(one),
                put(lambda latest: {**latest, "metadata": {**latest["metadata"], **another}}),
            ],
        ),
    )
    yield (
        "replace: of another uid, of our kind",
        owned(
            REQUESTS,
            [
                post(PLAIN),
                put(lambda latest: {**latest, "metadata": {**latest["metadata"], **another}}),
            ],
        ),
    )
    yield (
        "merge patch: of another uid",
        owned(CONFIG_MAPS, [post(one), patch({"metadata": another})]),
    )
    yield (
        "replace: the status of another uid",
        owned(
            REQUESTS,
            [
                post(PLAIN),
                put(
                    lambda latest: {
                        **latest,
                        "metadata": {**latest["metadata"], **another},
                        "status": {"phase": "A"},
                    },
                    subresource="status",
                ),
            ],
        ),
    )
    yield (
        "apply: at a stale version",
        owned(
            CONFIG_MAPS,
            [
                post(one),
                apply(
                    {"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}}, "two", force=True
                ),
            ],
        ),
    )
    yield "apply: an unknown field", owned(CONFIG_MAPS, [apply({"datum": {}}, "one")])
    yield (
        "replace: managedFields emptied",
        owned(
            CONFIG_MAPS,
            [
                apply(one, "one"),
                put(
                    lambda latest: {
                        **latest,
                        "metadata": {**latest["metadata"], "managedFields": [{}]},
                    }
                ),
            ],
        ),
    )
    yield (
        "delete: a uid that is not its",
        owned(
            CONFIG_MAPS,
            [
                post(one),
                Step(
                    "DELETE",
                    {
                        "apiVersion": "v1",
                        "kind": "DeleteOptions",
                        "preconditions": {"uid": "4f1c2a00-0000-4000-8000-000000000001"},
                    },
                    "application/json",
                ),
            ],
        ),
    )
    yield "create: a name that is taken", owned(CONFIG_MAPS, [post(one), post(one)])
    yield "create: a bad name", owned(CONFIG_MAPS, [post({"metadata": {"name": "A_b"}})])
    yield (
        "create: a bad label",
        owned(CONFIG_MAPS, [post({"metadata": {"labels": {"a b": "c d"}}, "data": {"a/b": "c"}})]),
    )
    yield (
        "replace: immutable data",
        owned(CONFIG_MAPS, [post({**one, "immutable": True}), put(renewed(data={"a": "2"}))]),
    )


_PROPERTIES: Json = {
    "count": {"type": "integer"},
    "rate": {"type": "number"},
    "name": {"type": "string", "maxLength": 63},
    "on": {"type": "boolean"},
    "names": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 63}},
    "labels": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string"}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "free-values": {
        "type": "object",
        "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True},
    },
    "port": {"x-kubernetes-int-or-string": True},
    "at": {"type": "string", "format": "date-time"},
    "maybe": {"type": "string", "nullable": True},
    "deep": {"type": "object", "properties": {"er": {"type": "integer"}}},
}
_RULES = {
    "an integer with an integer": "self.count == 1",
    "an integer with a double": "self.count == 1.5",
    "an integer above a double": "self.count > 1.5",
    "a number with an integer": "self.rate == 1",
    "a number above an integer": "self.rate > 1",
    "a number added to an integer": "self.rate + self.count > 1.0",
    "text with an integer": "self.name == 1",
    "text added to an integer": "self.name + 1 == 'a'",
    "text as a condition": "self.name",
    "an integer as a condition": "self.count ? true : false",
    "not text": "!self.name",
    "an unknown field": "self.cuont == 1",
    "an unknown field at depth": "self.deep.re == 1",
    "has an unknown field": "has(self.cuont)",
    "a field of text": "self.name.length == 1",
    "a field of free content": "self.free.a == 1",
    "has a field of free content": "has(self.free.a)",
    "a field of free content by dyn": "dyn(self.free).a == 1",
    "a key in free content": "'a' in self.free",
    "free content equal": "self.free == oldSelf.free",
    "anything equal": "self.any == oldSelf.any",
    "anything by dyn equal": "dyn(self).any == dyn(oldSelf).any",
    "a field of anything": "self.any.a == 1",
    "has anything": "has(self.any)",
    "free values equal": "self.free__dash__values == oldSelf.free__dash__values",
    "a field of free values": "self.free__dash__values.a == 1",
    "int-or-string as an integer": "self.port == 1",
    "int-or-string as text": "self.port == 'a'",
    "int-or-string by type": "type(self.port) == int ? self.port > 1 : self.port != ''",
    "a list of text with an integer": "1 in self.names",
    "a list of text with text": "'a' in self.names",
    "an item of a list": "self.names[0] == 'a'",
    "a list by text": "self.names['a'] == 'a'",
    "a label by key": "self.labels['a'] == 'a'",
    "a label by selection": "self.labels.a == 'a'",
    "a label by integer": "self.labels[1] == 'a'",
    "every item": "self.names.all(n, n.size() > 1)",
    "every item as an integer": "self.names.all(n, n > 1)",
    "a variable that is not there": "self.names.all(n, m == 'a')",
    "a function that is not there": "shout(self.name) == 'A'",
    "a method of another type": "self.count.startsWith('a')",
    "a method with too few arguments": "self.name.startsWith()",
    "a moment with text": "self.at == 'a'",
    "a moment before a moment": "self.at < timestamp('2030-01-01T00:00:00Z')",
    "a conversion": "double(self.count) > 1.5",
    "both arms of one type": "(self.on ? 1 : 'a') == 1",
    "a list of two types": "[1, 'a'].size() == 2",
    "text that is never closed": "self.name == 'a",
    "nothing": "",
    "the old object": "self == oldSelf",
    "text with null": "self.name == null",
    "text that may be null with null": "self.maybe == null",
    "an object with null": "self.deep == null",
    "a list with null": "self.names == null",
    "two kinds of list": "self.names == [1]",
    "a list added to another kind": "self.names + [1] == []",
    "an empty list": "self.names == []",
    "an empty map": "self.labels == {}",
    "a map by mixed keys": "{'a': 1, 2: 3}.size() == 2",
    "a format of mixed items": "'%s-%d'.format(['a', 3]) == 'a-3'",
    "a comprehension over text": "self.name.all(c, c == 'a')",
    "a filter that is no condition": "self.names.filter(n, n.size()).size() > 0",
    "a list made of a list": "self.names.map(n, n.size()) == [1]",
    "a list made of a list, of another type": "self.names.map(n, n.size()) == ['a']",
    "a dynamic condition": "dyn(self.on)",
    "a number below a label": "self.rate < self.labels['a']",
    "text joined": "self.names.join(',') == ''",
    "a sum": "self.names.size() + 1.0 == 2.0",
    "a duration of a moment": "self.at - self.at < duration('1h')",
    "a moment's year with text": "self.at.getFullYear() == 'a'",
    "a division by zero": "self.count / 0 == 1",
    "a negated text": "-self.name == ''",
    "a type of a field": "type(self.name) == string",
    "a url with text": "url(self.name) == 'a'",
    "an address": "ip(self.name).family() == 4",
    "text in lower case": "self.name.lowerAscii() == 'a'",
    "text cut": "self.name.substring(1, 2) == 'a'",
    "text split": "self.name.split(',')[0] == 'a'",
    "text replaced by an integer": "self.name.replace('a', 1) == 'a'",
    "a set of two lists": "sets.contains(self.names, ['a'])",
    "a regular expression": "self.name.find('[a-z]+') == 'a'",
    "a bound variable": "cel.bind(n, self.name, n == 'a')",
    "optional old": "oldSelf.hasValue()",
    "the metadata of no root": "self.metadata.name == 'a'",
    "quantities": "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    "a quantity with text": "quantity('1Gi') > '1Mi'",
    "an optional": "self.?name.orValue('') == ''",
    "an optional of another type": "self.?name.orValue(1) == 1",
}


def definitions() -> Iterator[tuple[str, Case]]:
    """Rules that a CustomResourceDefinition may and may not have."""
    for name, rule in _RULES.items():
        spec: Json = {
            "type": "object",
            "properties": _PROPERTIES,
            "x-kubernetes-validations": [{"rule": rule}],
        }
        crd = {
            "metadata": {"name": "widgets.lab.example"},
            "spec": {
                "group": "lab.example",
                "names": {"plural": "widgets", "kind": "Widget"},
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}
                        },
                    }
                ],
            },
        }
        yield f"a rule: {name}", Case(DEFINITIONS, [post(crd, dryRun="All")])


GROUPS: dict[str, Callable[[], Iterator[tuple[str, Case]]]] = {
    "specs": specs,
    "immutability": immutability,
    "free-form": free_form,
    "integral floats": integral_floats,
    "unknown fields": fields_unknown,
    "status writers": status_writers,
    "ownership": ownership,
    "definitions": definitions,
    "pod security": pod_security,
}


def cases_of(group: str) -> dict[str, Case]:
    """The cases of a group by their names, which are unique."""
    named = list(GROUPS[group]())
    assert len(dict(named)) == len(named)
    return dict(named)
