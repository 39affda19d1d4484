"""What webhooks are asked and what becomes of their answers, as a real API server showed it."""

import asyncio
import math

import pytest

from dynamo_operator.apiserver.messages import Response
from tests.dynamo_operator.apiserver.api import (
    CONFIG_MAPS,
    CORE,
    CRDS,
    PODS,
    WIDGETS,
    Api,
    config_map,
    pod,
    widget,
    widget_crd,
)
from tests.dynamo_operator.apiserver.scripted_webhooks import (
    EVERYTHING,
    MUTATING,
    VALIDATING,
    ScriptedWebhooks,
    add,
    allow,
    configure,
    deny,
    hook,
    patch,
)

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def api():
    api = Api()
    assert (await api.create(CRDS, widget_crd())).status == 201
    return api


@pytest.fixture
async def webhooks(api):
    """One mutating and one validating webhook."""
    scripted = ScriptedWebhooks(api)
    await configure(api, MUTATING, hook("mutate"))
    await configure(api, VALIDATING, hook("validate"))
    return scripted


async def test_a_creation_is_mutated_as_it_was_sent_and_validated_as_it_will_be_stored(
    api, webhooks
):
    made = await api.create(WIDGETS, {**widget("a"), "status": {"x": 1}}, fieldManager="me")

    (first, mutated), (second, validated) = webhooks.reviews
    assert made.status == 201
    assert (first, second) == ("/mutate", "/validate")
    assert mutated["object"]["metadata"] == {"name": "a", "namespace": "default"}
    assert mutated["object"]["status"] == {"x": 1}
    assert validated["object"]["metadata"]["uid"] == made.body["metadata"]["uid"]
    assert validated["object"]["metadata"]["generation"] == 1
    assert "status" not in validated["object"]
    for request in (mutated, validated):
        assert request["oldObject"] is None
        assert request["dryRun"] is False
        assert request["kind"] == request["requestKind"]
        assert request["kind"] == {"group": "lab.test", "version": "v1", "kind": "Widget"}
        assert request["resource"]["resource"] == "widgets"
        assert (request["name"], request["namespace"]) == ("a", "default")
        assert request["userInfo"]["username"] == "admin"
        assert "system:masters" in request["userInfo"]["groups"]
        assert request["options"] == {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "me",
        }


async def test_a_null_of_a_client_is_dropped_and_one_of_a_webhook_is_refused(api, webhooks):
    """As kube-apiserver 1.37 does: what webhooks patch is defaulted, but not read again."""
    made = await api.create(WIDGETS, {**widget("a"), "spec": {"size": None}})
    webhooks.scripts["/mutate"] = patch(add("/spec/size", None))
    refused = await api.create(WIDGETS, widget("b"))
    changed = await api.merge(f"{WIDGETS}/a", {"spec": {"replicas": 2}})

    assert (made.status, made.body["spec"]) == (201, {})
    for answer in (refused, changed):
        assert answer.status == 422
        assert (
            'spec.size: Invalid value: "null": spec.size in body must be of type integer: "null"'
            in answer.body["message"]
        )


async def test_a_name_is_generated_after_mutation(api, webhooks):
    made = await api.create(CONFIG_MAPS, {"metadata": {"generateName": "g-"}})

    (_, mutated), (_, validated) = webhooks.reviews
    assert "name" not in mutated
    assert "name" not in mutated["object"]["metadata"]
    assert validated["name"] == validated["object"]["metadata"]["name"]
    assert validated["name"] == made.body["metadata"]["name"]


async def test_a_patch_is_applied_and_what_the_schema_does_not_know_is_dropped(api, webhooks):
    webhooks.scripts["/mutate"] = patch(add("/spec/replicas", 7), add("/spec/bogus", 7))

    made = await api.create(WIDGETS, widget("a"))

    assert made.body["spec"] == {"size": 1, "replicas": 7}
    assert webhooks.reviews[1][1]["object"]["spec"]["replicas"] == 7


async def test_what_a_mutation_adds_belongs_to_no_manager(api, webhooks):
    webhooks.scripts["/mutate"] = patch(add("/spec/replicas", 7))

    made = await api.create(WIDGETS, widget("a"))
    changed = await api.merge(f"{WIDGETS}/a", {"spec": {"size": 2}})

    for answer in (made, changed):
        (entry,) = answer.body["metadata"]["managedFields"]
        assert entry["fieldsV1"] == {"f:spec": {".": {}, "f:size": {}}}
        assert answer.body["spec"]["replicas"] == 7


async def test_a_mutation_may_name_the_object_otherwise(api, webhooks):
    webhooks.scripts["/mutate"] = patch(
        {"op": "replace", "path": "/metadata/name", "value": "other"}
    )

    made = await api.create(WIDGETS, widget("a"))

    assert made.body["metadata"]["name"] == "other"


async def test_what_a_mutation_makes_invalid_is_refused(api, webhooks):
    webhooks.scripts["/mutate"] = patch(add("/spec/size", -1))

    made = await api.create(WIDGETS, widget("a"))

    assert made.status == 422
    assert webhooks.asked == ["/mutate CREATE"]


async def test_a_change_is_shown_with_what_it_changes(api, webhooks):
    await api.create(WIDGETS, widget("a"))
    webhooks.reviews.clear()

    await api.merge(f"{WIDGETS}/a", {"spec": {"size": 2}})

    for _, request in webhooks.reviews:
        assert request["operation"] == "UPDATE"
        assert request["object"]["spec"] == {"size": 2}
        assert request["oldObject"]["spec"] == {"size": 1}
        assert request["options"]["kind"] == "UpdateOptions"
    (_, mutated), (_, validated) = webhooks.reviews
    assert mutated["object"]["metadata"]["generation"] == 1
    assert validated["object"]["metadata"]["generation"] == 2


async def test_server_side_apply_is_a_creation_or_a_change(api, webhooks):
    webhooks.scripts["/mutate"] = patch(add("/metadata/labels", {"by": "hook"}))

    first = await api.apply(f"{WIDGETS}/a", widget("a"))
    second = await api.apply(f"{WIDGETS}/a", widget("a", size=3))

    assert webhooks.asked == [
        "/mutate CREATE", "/validate CREATE", "/mutate UPDATE", "/validate UPDATE",
    ]  # fmt: skip
    assert first.body["metadata"]["labels"] == {"by": "hook"}
    assert second.body["spec"] == {"size": 3}


async def test_the_status_is_a_subresource_of_its_own(api, webhooks):
    await api.create(WIDGETS, widget("a"))
    webhooks.reviews.clear()

    await api.merge(f"{WIDGETS}/a/status", {"status": {"y": 1}})

    assert [r["subResource"] for _, r in webhooks.reviews] == ["status", "status"]
    assert [r["requestSubResource"] for _, r in webhooks.reviews] == ["status", "status"]
    assert webhooks.reviews[1][1]["object"]["status"] == {"y": 1}


async def test_the_scale_is_judged_as_a_scale(api, webhooks):
    await api.create(WIDGETS, widget("a"))
    webhooks.reviews.clear()
    webhooks.scripts["/mutate"] = patch({"op": "replace", "path": "/spec/replicas", "value": 2})

    scaled = await api.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": 3}})

    for (_, request), replicas in zip(webhooks.reviews, (3, 2), strict=True):
        assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        assert (request["resource"]["resource"], request["subResource"]) == ("widgets", "scale")
        assert (request["operation"], request["name"]) == ("UPDATE", "a")
        assert request["object"]["spec"] == {"replicas": replicas}
        assert request["oldObject"]["kind"] == "Scale"
    assert scaled.body["spec"] == {"replicas": 2}
    assert (await api.get(f"{WIDGETS}/a")).body["spec"] == {"size": 1, "replicas": 2}


@pytest.mark.parametrize(
    ("subresource", "body", "kind", "code"),
    [
        ("binding", {"target": {"kind": "Node", "name": "n"}}, "Binding", 201),
        ("eviction", {}, "Eviction", 201),
    ],
)
async def test_what_is_done_to_a_pod_through_a_subresource_is_judged(subresource, body, kind, code):
    api = Api()
    webhooks = ScriptedWebhooks(api)
    await api.create(PODS, pod("p"))
    rule = {**EVERYTHING, "resources": [f"pods/{subresource}"]}
    await configure(api, VALIDATING, hook("validate", rules=[rule]))
    webhooks.scripts["/validate"] = deny("not now")
    refused = await api.create(f"{PODS}/p/{subresource}", body)
    webhooks.scripts["/validate"] = allow

    done = await api.create(f"{PODS}/p/{subresource}", body)

    assert (refused.status, done.status) == (400, code)
    for _, request in webhooks.reviews:
        assert (request["operation"], request["name"]) == ("CREATE", "p")
        assert request["object"]["kind"] == request["kind"]["kind"] == kind


async def test_a_deletion_shows_the_object_that_goes(api, webhooks):
    await api.create(WIDGETS, widget("a"))
    webhooks.reviews.clear()

    await api.delete(f"{WIDGETS}/a", {"gracePeriodSeconds": 5})

    for _, request in webhooks.reviews:
        assert (request["operation"], request["object"]) == ("DELETE", None)
        assert request["oldObject"]["metadata"]["name"] == request["name"] == "a"
        assert request["options"] == {
            "kind": "DeleteOptions",
            "apiVersion": "meta.k8s.io/v1",
            "gracePeriodSeconds": 5,
        }
    assert webhooks.asked == ["/mutate DELETE", "/validate DELETE"]


async def test_deleting_a_collection_asks_about_each_before_the_first_goes(api, webhooks):
    for name in ("a", "b"):
        await api.create(WIDGETS, widget(name))
    webhooks.reviews.clear()
    webhooks.scripts["/validate"] = lambda request: {
        "allowed": request["oldObject"]["metadata"]["name"] != "b"
    }

    refused = await api.delete(WIDGETS)
    left = await api.get(WIDGETS)

    assert refused.status == 400
    assert left.names == ["a", "b"]
    assert all("name" not in request for _, request in webhooks.reviews)

    webhooks.scripts["/validate"] = allow
    await api.delete(WIDGETS)

    assert (await api.get(WIDGETS)).names == []


async def test_a_dry_run_says_so_and_stores_nothing(api, webhooks):
    await api.create(WIDGETS, widget("a"), dryRun="All")

    assert [request["dryRun"] for _, request in webhooks.reviews] == [True, True]
    assert webhooks.reviews[0][1]["options"]["dryRun"] == ["All"]
    assert (await api.get(WIDGETS)).names == []


@pytest.mark.parametrize("which", ["mutate", "validate"])
@pytest.mark.parametrize(
    ("script", "code", "reason", "text"),
    [
        (deny("no way", code=418), 418, "", "denied the request: no way"),
        (deny(reason="Conflict", code=409), 409, "Conflict", "denied the request: Conflict"),
        (deny("low", code=200), 400, "", "denied the request: low"),
        (deny(), 400, "", "denied the request without explanation"),
    ],
)
async def test_a_denial_carries_the_status_of_the_webhook(
    api, webhooks, which, script, code, reason, text
):
    webhooks.scripts[f"/{which}"] = script

    refused = await api.create(WIDGETS, widget("a"))

    assert (refused.status, refused.body.get("reason", "")) == (code, reason)
    assert refused.message == f'admission webhook "{which}.hooks.test" {text}'
    assert (await api.get(WIDGETS)).names == []


async def slow(request):
    await asyncio.sleep(11)
    raise TimeoutError


def refused_connection(request):
    raise ConnectionError("connection refused")


FAILURES = [
    (
        lambda r: {"uid": "x", "allowed": True},
        'received invalid webhook response: expected response.uid="',
    ),
    (
        lambda r: Response(500, {}, b"kaputt\nmore"),
        'failed to call webhook: an error on the server ("kaputt\\nmore") has prevented',
    ),
    (
        lambda r: Response(200, {}, b"{}"),
        "received invalid webhook response: webhook response was absent",
    ),
    (lambda r: Response(200, {}, b"nope"), "received invalid webhook response"),
    (lambda r: Response(404, {}, b""), "the server could not find the requested resource"),
    (slow, 'Post "https://hooks.test/mutate?timeout=10s": context deadline exceeded'),
    (refused_connection, 'Post "https://hooks.test/mutate?timeout=10s": connection refused'),
]


@pytest.mark.parametrize(("script", "text"), FAILURES)
async def test_a_call_that_fails_refuses_the_request(api, webhooks, script, text):
    webhooks.scripts["/mutate"] = script

    refused = await api.create(WIDGETS, widget("a"))

    assert (refused.status, refused.body["reason"]) == (500, "InternalError")
    assert refused.message.startswith(
        'Internal error occurred: failed calling webhook "mutate.hooks.test": '
    )
    assert text in refused.message


@pytest.mark.parametrize(("script", "text"), FAILURES)
async def test_a_call_that_fails_is_passed_over_where_the_policy_says_so(api, script, text):
    scripted = ScriptedWebhooks(api)
    await configure(api, MUTATING, hook("mutate", failurePolicy="Ignore"))
    scripted.scripts["/mutate"] = script

    assert (await api.create(WIDGETS, widget("a"))).status == 201


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (patch({"op": "remove", "path": "/nothing"}), "does not apply"),
        (lambda r: {"allowed": True, "patch": "%%%"}, "does not apply"),
        (patch({"op": "add", "path": "/spec/size", "value": math.nan}), "does not apply"),
        (patch({"op": "add", "path": "/spec/size", "value": math.inf}), "does not apply"),
        (patch({"op": "replace", "path": "", "value": 1}), "leaves no object"),
    ],
)
async def test_a_patch_that_does_not_apply_refuses_the_request(api, webhooks, script, text):
    webhooks.scripts["/mutate"] = script

    refused = await api.create(WIDGETS, widget("a"))

    assert refused.status == 500
    assert text in refused.message


async def test_a_validating_webhook_may_not_patch(api, webhooks):
    webhooks.scripts["/validate"] = patch()

    refused = await api.create(WIDGETS, widget("a"))

    assert "validating webhook may not return response.patch" in refused.message


async def test_warnings_reach_the_client_in_their_first_256_letters(api, webhooks):
    webhooks.scripts["/mutate"] = lambda r: {"allowed": True, "warnings": ["careful", "x" * 300]}
    webhooks.scripts["/validate"] = lambda r: {"allowed": True, "warnings": ["careful", "so so"]}

    made = await api.create(WIDGETS, widget("a"))

    assert made.headers["warning"] == (f'299 - "careful", 299 - "{"x" * 256}", 299 - "so so"')


async def test_webhooks_go_by_the_names_of_their_configurations_and_see_what_those_before_did(api):
    scripted = ScriptedWebhooks(api)
    await configure(api, MUTATING, hook("second"), hook("third"), name="b")
    await configure(api, MUTATING, hook("first"), name="a")
    scripted.scripts["/first"] = patch(add("/spec/replicas", 1))
    scripted.scripts["/second"] = patch(add("/spec/replicas", 2))

    made = await api.create(WIDGETS, widget("a"))

    assert [
        (path, request["object"]["spec"].get("replicas")) for path, request in scripted.reviews
    ] == [("/first", None), ("/second", 1), ("/third", 2)]
    assert made.body["spec"]["replicas"] == 2


async def test_a_webhook_is_asked_again_once_if_it_wants_when_the_object_changed(api):
    scripted = ScriptedWebhooks(api)
    await configure(
        api,
        MUTATING,
        hook("again", reinvocationPolicy="IfNeeded"),
        hook("once"),
        hook("last", reinvocationPolicy="IfNeeded"),
    )
    scripted.scripts["/last"] = patch(add("/spec/replicas", 2))

    await api.create(WIDGETS, widget("a"))

    assert scripted.asked == ["/again CREATE", "/once CREATE", "/last CREATE", "/again CREATE"]


async def test_validating_webhooks_are_asked_at_once(api):
    scripted = ScriptedWebhooks(api)
    await configure(api, VALIDATING, hook("one"), hook("two"))
    meeting = asyncio.Barrier(2)

    async def meet(request):
        await meeting.wait()
        return {"allowed": True}

    scripted.scripts = {"/one": meet, "/two": meet}

    assert (await api.create(WIDGETS, widget("a"))).status == 201


def both_versions():
    crd = widget_crd()
    versions = crd["spec"]["versions"]
    versions.append({**versions[0], "name": "v2", "storage": False})
    return crd


V1_ONLY = {**EVERYTHING, "apiGroups": ["lab.test"], "apiVersions": ["v1"]}


@pytest.mark.parametrize(("policy", "asked"), [("Equivalent", True), ("Exact", False)])
async def test_a_request_through_another_version_is_shown_in_the_one_that_is_wanted(policy, asked):
    api = Api()
    await api.create(CRDS, both_versions())
    scripted = ScriptedWebhooks(api)
    await configure(api, MUTATING, hook("mutate", rules=[V1_ONLY], matchPolicy=policy))
    scripted.scripts["/mutate"] = patch(add("/spec/replicas", 4))

    made = await api.create(
        WIDGETS.replace("v1", "v2"), {**widget("a"), "apiVersion": "lab.test/v2"}
    )

    assert made.status == 201
    assert made.body["apiVersion"] == "lab.test/v2"
    assert bool(scripted.reviews) is asked
    for _, request in scripted.reviews:
        assert request["kind"]["version"] == request["resource"]["version"] == "v1"
        assert request["requestKind"]["version"] == request["requestResource"]["version"] == "v2"
        assert request["object"]["apiVersion"] == "lab.test/v1"
        assert made.body["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        pytest.param({"rules": []}, False, id="no-rule"),
        pytest.param({"rules": [{**EVERYTHING, "operations": ["UPDATE"]}]}, False, id="operation"),
        pytest.param({"rules": [{**EVERYTHING, "apiGroups": [""]}]}, False, id="group"),
        pytest.param({"rules": [{**EVERYTHING, "resources": ["*"]}]}, True, id="all-resources"),
        pytest.param({"rules": [{**EVERYTHING, "resources": ["*/*"]}]}, True, id="all-and-below"),
        pytest.param(
            {"rules": [{**EVERYTHING, "resources": ["widgets/status"]}]}, False, id="subresource"
        ),
        pytest.param({"rules": [{**EVERYTHING, "scope": "Cluster"}]}, False, id="scope"),
        pytest.param({"rules": [{**EVERYTHING, "scope": "Namespaced"}]}, True, id="its-scope"),
        pytest.param({"namespaceSelector": {"matchLabels": {"a": "b"}}}, False, id="namespace"),
        pytest.param(
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "In",
                         "values": ["default"]}
                    ]
                }
            },
            True,
            id="its-namespace",
        ),
        pytest.param({"objectSelector": {"matchLabels": {"a": "c"}}}, False, id="object"),
        pytest.param({"objectSelector": {"matchLabels": {"a": "b"}}}, True, id="its-object"),
        pytest.param(
            {"matchConditions": [{"name": "n", "expression": "object.spec.size > 1"}]},
            False,
            id="condition",
        ),
        pytest.param(
            {"matchConditions": [{"name": "n", "expression": "request.operation == 'CREATE'"}]},
            True,
            id="its-condition",
        ),
        pytest.param(
            {
                "matchConditions": [
                    {"name": "n", "expression": "object.spec.absent == 1"},
                    {"name": "m", "expression": "oldObject != null"},
                ]
            },
            False,
            id="one-condition-is-false-another-cannot-be-told",
        ),
        pytest.param(
            {
                "matchConditions": [{"name": "n", "expression": "object.spec.absent == 1"}],
                "failurePolicy": "Ignore",
            },
            False,
            id="condition-that-cannot-be-told-is-ignored",
        ),
    ],
)  # fmt: skip
async def test_a_webhook_is_asked_about_what_it_names(api, fields, asked):
    scripted = ScriptedWebhooks(api)
    await configure(api, VALIDATING, hook("validate", **fields))

    made = await api.create(WIDGETS, widget("a", labels={"a": "b"}))

    assert made.status == 201
    assert bool(scripted.reviews) is asked


async def test_a_condition_that_cannot_be_told_refuses_the_request(api):
    ScriptedWebhooks(api)
    condition = {"name": "n", "expression": "object.spec.absent == 1"}
    await configure(api, VALIDATING, hook("validate", matchConditions=[condition]))

    refused = await api.create(WIDGETS, widget("a"))

    assert refused.status == 403
    assert "no such key: absent" in refused.message


async def test_an_object_that_loses_its_label_is_still_shown(api):
    scripted = ScriptedWebhooks(api)
    await api.create(WIDGETS, widget("a", labels={"a": "b"}))
    await configure(api, VALIDATING, hook("validate", objectSelector={"matchLabels": {"a": "b"}}))

    await api.merge(f"{WIDGETS}/a", {"metadata": {"labels": None}})

    assert scripted.asked == ["/validate UPDATE"]


async def test_a_namespace_is_selected_by_its_own_labels(api):
    scripted = ScriptedWebhooks(api)
    rule = {**EVERYTHING, "resources": ["namespaces"]}
    selector = {"matchLabels": {"watched": "yes"}}
    await configure(api, VALIDATING, hook("validate", rules=[rule], namespaceSelector=selector))

    for name, labels in (("plain", {}), ("watched", {"watched": "yes"})):
        await api.create(f"{CORE}/namespaces", {"metadata": {"name": name, "labels": labels}})

    assert [request["name"] for _, request in scripted.reviews] == ["watched"]
    assert scripted.reviews[0][1]["namespace"] == "watched"


async def test_webhooks_have_no_say_about_webhook_configurations(api):
    scripted = ScriptedWebhooks(api)
    rule = {**EVERYTHING, "resources": ["*/*"]}
    await configure(api, VALIDATING, hook("lock", rules=[rule]))
    scripted.scripts["/lock"] = deny("locked")

    refused = await api.create(WIDGETS, widget("a"))
    unlocked = await api.delete(f"{VALIDATING}/hooks")

    assert (refused.status, unlocked.status) == (400, 200)


async def test_a_service_is_called_where_the_server_was_told_that_it_is(api):
    scripted = ScriptedWebhooks(api)
    service = {"name": "hooks", "namespace": "lab", "path": "/validate", "port": 8443}
    await configure(api, VALIDATING, hook("validate", clientConfig={"service": service}))

    unknown = await api.create(WIDGETS, widget("a"))
    api.server.webhooks.services["lab/hooks"] = "https://127.0.0.1:1234"
    known = await api.create(WIDGETS, widget("a"))

    assert (unknown.status, known.status) == (500, 201)
    assert 'Post "https://hooks.lab.svc:8443/validate?timeout=10s"' in unknown.message
    (call,) = scripted.calls
    assert call["url"] == "https://127.0.0.1:1234/validate?timeout=10s"
    assert call["server_name"] == "hooks.lab.svc"


async def test_the_call_has_the_trust_and_the_time_that_the_configuration_gives(api):
    scripted = ScriptedWebhooks(api)
    config = {"url": "https://hooks.test/validate", "caBundle": "UEVN"}
    await configure(api, VALIDATING, hook("validate", clientConfig=config, timeoutSeconds=3))

    await api.create(WIDGETS, widget("a"))

    (call,) = scripted.calls
    assert call["url"].endswith("?timeout=3s")
    assert (call["ca_bundle"], call["timeout_seconds"]) == (b"PEM", 3)


# Others go on meanwhile


async def test_a_change_made_meanwhile_is_judged_anew(api, webhooks):
    await api.create(WIDGETS, widget("a"))
    webhooks.reviews.clear()
    elsewhere = iter([True])

    async def meddle(request):
        if next(elsewhere, False):
            webhooks.scripts.pop("/mutate")
            await api.merge(f"{WIDGETS}/a", {"spec": {"replicas": 9}})
        return {"allowed": True}

    webhooks.scripts["/mutate"] = meddle

    changed = await api.merge(f"{WIDGETS}/a", {"spec": {"size": 2}})

    assert changed.body["spec"] == {"size": 2, "replicas": 9}
    last = webhooks.reviews[-1][1]
    assert last["oldObject"]["spec"] == {"size": 1, "replicas": 9}


async def test_a_replacement_of_what_changed_meanwhile_is_a_conflict(api, webhooks):
    made = await api.create(WIDGETS, widget("a"))
    elsewhere = iter([True])

    async def meddle(request):
        if next(elsewhere, False):
            await api.merge(f"{WIDGETS}/a", {"spec": {"replicas": 9}})
        return {"allowed": True}

    webhooks.scripts["/validate"] = meddle

    refused = await api.replace(f"{WIDGETS}/a", {**made.body, "spec": {"size": 2}})

    assert refused.status == 409


async def test_of_two_creations_at_once_one_finds_the_other_there(api, webhooks):
    both = asyncio.Barrier(2)

    async def meet(request):
        await both.wait()
        return {"allowed": True}

    webhooks.scripts["/validate"] = meet

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(api.create(WIDGETS, widget("a"))) for _ in range(2)]

    assert sorted(task.result().status for task in tasks) == [201, 409]


async def test_what_is_drawn_at_random_and_the_time_stay_while_webhooks_are_asked(api, webhooks):
    async def take_time(request):
        await asyncio.sleep(5)
        return {"allowed": True}

    webhooks.scripts = {"/mutate": take_time, "/validate": take_time}

    made = await api.create(CONFIG_MAPS, {"metadata": {"generateName": "g-"}})

    assert made.status == 201
    assert len(webhooks.reviews) == 2
    assert webhooks.reviews[1][1]["object"]["metadata"]["uid"] == made.body["metadata"]["uid"]


async def test_other_requests_go_on_while_a_webhook_takes_its_time(api, webhooks):
    held = asyncio.Event()

    async def hold(request):
        await held.wait()
        return {"allowed": True}

    webhooks.scripts["/mutate"] = hold
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(api.create(WIDGETS, widget("a")))
        await asyncio.sleep(1)
        seen = await api.get(WIDGETS)
        held.set()

    assert seen.names == []
    assert creating.result().status == 201


# Configurations


@pytest.mark.parametrize(
    ("fields", "path", "text"),
    [
        ({"name": "a.b"}, "name", "should be a domain with at least three segments"),
        ({"sideEffects": None}, "sideEffects", "must specify one of None, NoneOnDryRun"),
        ({"sideEffects": "Some"}, "sideEffects", 'supported values: "None", "NoneOnDryRun"'),
        ({"admissionReviewVersions": ["v9"]}, "admissionReviewVersions", "at least one of v1"),
        ({"admissionReviewVersions": []}, "admissionReviewVersions", "must specify one of v1"),
        ({"timeoutSeconds": 31}, "timeoutSeconds", "between 1 and 30 seconds"),
        ({"failurePolicy": "Maybe"}, "failurePolicy", 'supported values: "Fail", "Ignore"'),
        ({"matchPolicy": "Maybe"}, "matchPolicy", 'supported values: "Equivalent", "Exact"'),
        ({"clientConfig": {"url": "http://x/y"}}, "clientConfig.url", "'https' is the only"),
        ({"clientConfig": {"url": "https:///y"}}, "clientConfig.url", "host must be specified"),
        ({"clientConfig": {}}, "clientConfig", "exactly one of url or service is required"),
        ({"rules": [{**EVERYTHING, "operations": []}]}, "rules[0].operations", "Required value"),
        (
            {"rules": [{**EVERYTHING, "operations": ["PATCH"]}]},
            "rules[0].operations[0]",
            'supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
        ),
        ({"rules": [{**EVERYTHING, "apiGroups": []}]}, "rules[0].apiGroups", "Required value"),
        ({"rules": [{**EVERYTHING, "scope": "Both"}]}, "rules[0].scope", "supported values"),
        (
            {"matchConditions": [{"name": "x", "expression": "nonsense("}]},
            "matchConditions[0].expression",
            "compilation failed",
        ),
        (
            {"matchConditions": [{"name": "x", "expression": "1"}]},
            "matchConditions[0].expression",
            "must evaluate to",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}},
            "namespaceSelector.matchExpressions[0].operator",
            "not a valid selector operator",
        ),
    ],
)
async def test_a_configuration_that_cannot_work_is_refused(fields, path, text):
    answer = await Api().create(
        VALIDATING, {"metadata": {"name": "bad"}, "webhooks": [hook("a", **fields)]}
    )

    assert answer.status == 422
    fields_named = [cause["field"] for cause in answer.body["details"]["causes"]]
    assert f"webhooks[0].{path}" in fields_named
    assert text in answer.message


async def test_what_a_configuration_leaves_out_has_its_defaults():
    api = Api()
    await configure(api, MUTATING, hook("a"))

    (webhook,) = (await api.get(f"{MUTATING}/hooks")).body["webhooks"]

    defaults = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert {name: webhook[name] for name in defaults} == defaults
    assert webhook["rules"][0]["scope"] == "*"


async def test_a_config_map_is_shown_with_its_kind(api, webhooks):
    await api.create(CONFIG_MAPS, {**config_map("a", k="v")})

    assert webhooks.reviews[0][1]["object"]["kind"] == "ConfigMap"
