import json

import pytest

from dynamo_operator.apiserver import AuditLog
from tests.dynamo_operator.apiserver.api import CONFIG_MAPS, Api, config_map

pytestmark = pytest.mark.virtual_time


async def test_every_request_leaves_an_entry():
    api = Api()
    made = await api.create(CONFIG_MAPS, {"metadata": {"generateName": "a-"}})
    await api.get(f"{CONFIG_MAPS}/nosuch", timeout="5s")

    created, missed = api.server.audit.entries

    assert (created.user.name, created.verb, created.resource) == ("admin", "create", "configmaps")
    assert (created.namespace, created.code) == ("default", 201)
    assert created.name == made.body["metadata"]["name"]
    assert created.object_uid == made.body["metadata"]["uid"]
    assert created.user_agent == "tester/1.0"
    assert (missed.code, missed.reason) == (404, "NotFound")
    assert missed.request_uri == f"{CONFIG_MAPS}/nosuch?timeout=5s"


async def test_writes_are_counted_by_user_and_without_dry_runs():
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))
    await api.create(CONFIG_MAPS, config_map("b"), dryRun="All")
    await api.get(CONFIG_MAPS)
    await api.as_user("other").create(CONFIG_MAPS, config_map("c"))

    log = api.server.audit

    assert [entry.name for entry in log.writes(user="admin")] == ["a"]
    assert [entry.code for entry in log.writes(user="other", user_agent="tester")] == [403]


async def test_entries_are_passed_on_as_json_lines():
    lines: list[str] = []
    api = Api(audit=AuditLog(lines.append))
    await api.create(CONFIG_MAPS, config_map("a"))
    events = await api.watch(CONFIG_MAPS)
    await events.close()

    created, watched = map(json.loads, lines)

    assert created["kind"] == "Event"
    assert created["objectRef"]["name"] == "a"
    assert created["responseStatus"]["code"] == 201
    assert created["requestReceivedTimestamp"] == "2030-01-01T00:00:00.000000Z"
    assert (watched["verb"], watched["stage"]) == ("watch", "ResponseStarted")


async def test_only_the_latest_entries_stay_in_memory():
    api = Api(audit=AuditLog(keep=10))

    for _ in range(50):
        await api.get(CONFIG_MAPS)

    assert 10 <= len(api.server.audit.entries) <= 20


async def test_a_question_about_access_is_no_write():
    api = Api()
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)

    (entry,) = api.server.audit.entries

    assert (entry.verb, entry.code) == ("create", 201)
    assert api.server.audit.writes() == []
