import json
from random import Random
from typing import Any

import pytest

from tests.dynamo_operator.apiserver.api import (
    APPLY,
    CONFIG_MAPS,
    CORE,
    CRDS,
    JSON_PATCH,
    MERGE,
    PODS,
    WIDGETS,
    Api,
    Json,
    config_map,
    pod,
    widget,
    widget_crd,
)

pytestmark = pytest.mark.virtual_time

RBAC = "/apis/rbac.authorization.k8s.io/v1"
KEYS = [
    "apiVersion",
    "audiences",
    "containers",
    "data",
    "deleteOptions",
    "finalizers",
    "from",
    "groups",
    "kind",
    "labels",
    "metadata",
    "name",
    "namespace",
    "op",
    "ownerReferences",
    "path",
    "preconditions",
    "replicas",
    "resources",
    "roleRef",
    "rules",
    "spec",
    "status",
    "subjects",
    "target",
    "template",
    "uid",
    "value",
    "verbs",
    "versions",
]
RULES = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
REQUESTS: list[tuple[str, str, Any, str]] = [
    ("POST", CONFIG_MAPS, config_map("new", a="b"), ""),
    ("POST", PODS, pod("new"), ""),
    ("POST", CRDS, widget_crd(), ""),
    ("POST", WIDGETS, widget("new"), ""),
    ("PUT", f"{WIDGETS}/w", widget("w"), ""),
    ("PUT", f"{WIDGETS}/w/scale", {"spec": {"replicas": 3}}, ""),
    ("PATCH", f"{WIDGETS}/w", widget("w"), MERGE),
    ("PATCH", f"{CONFIG_MAPS}/c", [{"op": "add", "path": "/data/x", "value": "y"}], JSON_PATCH),
    ("DELETE", f"{PODS}/p", {"preconditions": {"uid": "x"}, "dryRun": ["All"]}, ""),
    ("POST", f"{PODS}/p/binding", {"target": {"name": "n"}}, ""),
    ("POST", f"{PODS}/p/eviction", {"deleteOptions": {"preconditions": {"uid": "x"}}}, ""),
    ("PUT", f"{CORE}/namespaces/default/finalize", {"spec": {"finalizers": ["a"]}}, ""),
    ("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": RULES}, ""),
]


def junk(random: Random, depth: int = 0) -> Any:
    choice = random.random()
    if depth > 2 or choice < 0.5:
        return random.choice([None, True, 0, -1, 1.5, "", "a", "x/y", [], {}])
    if choice < 0.75:
        return [junk(random, depth + 1) for _ in range(random.randint(0, 3))]
    return {random.choice(KEYS): junk(random, depth + 1) for _ in range(random.randint(0, 3))}


def spoilt(random: Random, value: Any) -> Any:
    """Return the value with something in it replaced or added."""
    if isinstance(value, dict):
        key = random.choice([*value, *KEYS[:1]])
        inner = key in value and random.random() < 0.6
        return {**value, key: spoilt(random, value[key]) if inner else junk(random)}
    if isinstance(value, list) and value:
        return [spoilt(random, value[0]), *value[1:]]
    return junk(random)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_sent_the_answer_is_an_object_or_a_status(seed):
    random = Random(seed)
    api = Api()
    await api.create(CRDS, widget_crd())
    await api.create(WIDGETS, widget("w"))
    await api.create(PODS, pod("p"))
    await api.create(CONFIG_MAPS, config_map("c", a="b"))

    for _ in range(150):
        method, path, body, content_type = random.choice(REQUESTS)
        for _ in range(random.randint(1, 3)):
            body = spoilt(random, body)
        answer = await api.ask(method, path, body, content_type=content_type or "application/json")

        # A real server does not tell a binding's errors as a refusal.
        is_bad_target = answer.status == 500 and answer.message.startswith("target.")
        assert is_bad_target or answer.status in {200, 201, 400, 404, 409, 422}, json.dumps(body)
        assert answer.body["kind"] == "Status" or answer.status < 300


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"[ # no JSON\n"])
@pytest.mark.parametrize("content_type", ["application/json", "application/yaml", APPLY])
async def test_a_body_nested_without_end_is_a_bad_request(content_type, opening):
    method, path = ("PATCH", f"{CONFIG_MAPS}/a") if content_type == APPLY else ("POST", CONFIG_MAPS)
    query: Json = {"fieldManager": "tester"} if content_type == APPLY else {}

    answer = await Api().ask(method, path, opening * 500, content_type=content_type, **query)

    assert answer.status == 400
    assert "\n" not in answer.message


@pytest.mark.parametrize("depth", [260, 2000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
async def test_a_body_nested_too_deeply_is_a_bad_request(depth, opening, closing):
    text = json.dumps({**config_map("c"), "data": 0}).replace(
        '"data": 0', f'"data": {opening * depth}0{closing * depth}'
    )
    api = Api()

    for method, path, content_type in (
        ("POST", CONFIG_MAPS, "application/json"),
        ("PATCH", f"{CONFIG_MAPS}/c", APPLY),
        ("PATCH", f"{CONFIG_MAPS}/c", MERGE),
    ):
        query: Json = {"fieldManager": "tester"} if content_type == APPLY else {}
        answer = await api.ask(method, path, text.encode(), content_type=content_type, **query)

        assert answer.status == 400


@pytest.mark.parametrize(
    "body",
    [
        "&a [*a, *a]",
        "data: &a {a: *a, b: *a}",
        "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9 if n else 'a')}]\n" for n in range(9)),
        "a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 1000 + "]",
    ],
)
async def test_aliases_that_stand_for_too_much_are_a_bad_request(body):
    answer = await Api().ask(
        "PATCH", f"{CONFIG_MAPS}/a", body.encode(), content_type=APPLY, fieldManager="tester"
    )

    assert answer.status == 400


async def test_half_a_character_does_not_reach_other_clients():
    api = Api()
    body = json.dumps(config_map("a", x="\ud800")).encode()

    answer = await api.ask("POST", CONFIG_MAPS, body)

    assert answer.body["data"] == {"x": "\ufffd"}


async def test_a_method_that_the_resource_lacks_is_not_allowed():
    answer = await Api().create(f"{CONFIG_MAPS}/a", config_map("a"))

    assert (answer.status, answer.body["reason"]) == (405, "MethodNotAllowed")


async def test_the_same_seed_and_requests_give_the_same_answers():
    async def story() -> list[Any]:
        api = Api()
        answers = [await api.create(CRDS, widget_crd())]
        answers.append(
            await api.create(WIDGETS, {**widget("a"), "metadata": {"generateName": "a"}})
        )
        answers.append(await api.create(PODS, pod("p")))
        answers.append(await api.get(f"{CORE}/namespaces"))
        return [answer.body for answer in answers]

    assert await story() == await story()
