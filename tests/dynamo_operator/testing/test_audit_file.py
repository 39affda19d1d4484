import json
from datetime import UTC, datetime, timedelta

import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import AlreadyExistsError
from dynamo_operator.testing import Cluster
from dynamo_operator.testing.audit_file import AuditFile

RESOLUTION = timedelta(microseconds=1)
WATCH = {
    "auditID": "1",
    "user": {"username": "reader", "groups": ["lab"]},
    "verb": "watch",
    "requestURI": "/api/v1/pods?watch=1",
    "requestReceivedTimestamp": "2026-11-30T12:00:00.000001Z",
    "stageTimestamp": "2026-11-30T12:00:00.000002Z",
    "objectRef": {"resource": "pods", "apiVersion": "v1"},
    "responseStatus": {"metadata": {}, "code": 200},
}


async def test_entries_are_the_same_in_a_file_as_in_the_embedded_server(tmp_path):
    file = AuditFile(tmp_path / "audit.log")
    assert file.entries == []
    async with Cluster.start() as cluster:
        await cluster.client.create(ConfigMap.new("a", namespace="default"))
        await cluster.client.create(ConfigMap.new("b", namespace="default"), dry_run=True)
        await cluster.client.list(ConfigMap)
        embedded = cluster.audit.entries
    lines = [json.dumps(entry.to_json()) + "\n" for entry in embedded]
    (tmp_path / "audit.log").write_text("".join(lines))

    assert file.entries == embedded
    assert [entry.name for entry in file.writes(user="admin")] == ["a"]


def test_a_line_that_is_still_being_written_is_read_later(tmp_path):
    path = tmp_path / "audit.log"
    file = AuditFile(path)
    line = json.dumps({**WATCH, "stage": "ResponseStarted"}) + "\n"

    path.write_text(line + line[:20])
    assert len(file.entries) == 1

    path.write_text(line + line)
    assert len(file.entries) == 2


def test_a_watch_counts_once_when_it_begins(tmp_path):
    path = tmp_path / "audit.log"
    stages = ("ResponseStarted", "ResponseComplete")
    path.write_text("".join(json.dumps({**WATCH, "stage": stage}) + "\n" for stage in stages))

    assert [entry.stage for entry in AuditFile(path).entries] == ["ResponseStarted"]


def test_who_was_impersonated_asks(tmp_path):
    path = tmp_path / "audit.log"
    event = {**WATCH, "stage": "ResponseComplete", "verb": "create"}
    path.write_text(json.dumps({**event, "impersonatedUser": {"username": "operator"}}) + "\n")

    (entry,) = AuditFile(path).writes(user="operator")

    assert entry.impersonated_by is not None
    assert entry.impersonated_by.name == "reader"


async def test_what_was_created_is_counted_and_not_what_was_tried(tmp_path):
    file = AuditFile(tmp_path / "audit.log")
    async with Cluster.start() as cluster:
        lab = cluster.client_of("lab", ["system:masters"])
        await cluster.client.create(ConfigMap.new("a", namespace="default"))
        with pytest.raises(AlreadyExistsError):
            await lab.create(ConfigMap.new("a", namespace="default"))
        await lab.apply(ConfigMap.new("b", namespace="default", data={"k": "v"}))
        await lab.apply(ConfigMap.new("b", namespace="default", data={"k": "w"}))
        await lab.create(ConfigMap.new("c", namespace="default"), dry_run=True)
        lines = [json.dumps(entry.to_json()) + "\n" for entry in cluster.audit.entries]
    (tmp_path / "audit.log").write_text("".join(lines))

    for audit in (cluster.audit, file):
        assert [entry.name for entry in audit.created("configmaps")] == ["a", "b"]
        assert [entry.name for entry in audit.created("configmaps", user="lab")] == ["b"]
        assert len(audit.created("configmaps", namespace="default", name="a")) == 1
        assert audit.created("secrets") == []
        assert len(audit.writes(user="lab")) == 3


def test_writes_are_found_by_their_time(tmp_path):
    path = tmp_path / "audit.log"
    write = {**WATCH, "verb": "create", "stage": "ResponseComplete"}
    path.write_text(json.dumps(write) + "\n")
    file = AuditFile(path)
    received, answered = (datetime(2026, 11, 30, 12, 0, 0, n, tzinfo=UTC) for n in (1, 2))

    assert len(file.writes(since=answered)) == 1
    assert file.writes(since=answered + RESOLUTION) == []
    assert len(file.writes(until=received + RESOLUTION)) == 1
    assert file.writes(until=received) == []
