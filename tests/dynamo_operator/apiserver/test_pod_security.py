"""Pod Security on the embedded server; tests/conformance holds it to what a real one says."""

from __future__ import annotations

import pytest

from dynamo_operator.apiserver.pod_security import Policy, Standard
from dynamo_operator.apiserver.pod_security_checks import Level, PodView, violations
from tests.dynamo_operator.apiserver.api import PODS, Api, pod

PREFIX = "pod-security.kubernetes.io/"
PLAIN = PodView({}, {"containers": [{"name": "main"}]})
NAMESPACE = "/api/v1/namespaces/default"


def policy(**modes: str) -> Policy:
    labels = {PREFIX + mode.replace("_", "-"): value for mode, value in modes.items()}
    return Policy.of({"metadata": {"labels": labels}})


def reasons(level: Level, minor: int) -> list[str]:
    return [violation.reason for violation in violations(level, minor, PLAIN)]


def test_each_version_adds_its_checks():
    assert reasons(Level.PRIVILEGED, 37) == reasons(Level.BASELINE, 37) == []
    assert reasons(Level.RESTRICTED, 0) == ["runAsNonRoot != true"]
    assert reasons(Level.RESTRICTED, 8) == [
        "allowPrivilegeEscalation != false",
        "runAsNonRoot != true",
    ]
    assert reasons(Level.RESTRICTED, 19)[-1] == "seccompProfile"
    assert reasons(Level.RESTRICTED, 22) == [
        "allowPrivilegeEscalation != false",
        "unrestricted capabilities",
        "runAsNonRoot != true",
        "seccompProfile",
    ]


def test_a_namespace_without_labels_holds_its_pods_to_nothing():
    assert policy() == Policy()
    assert str(policy().enforce) == "privileged:latest"


def test_what_is_enforced_is_warned_of_unless_said_otherwise():
    assert policy(enforce="baseline").warn == Standard(Level.BASELINE)
    assert policy(enforce="baseline", enforce_version="v1.20").warn.version == "v1.20"
    assert policy(enforce="restricted", warn="baseline").warn == Standard(Level.BASELINE)
    assert policy(enforce="baseline", warn_version="v1.20").warn == Standard(
        Level.BASELINE, "v1.20"
    )
    assert policy(enforce="restricted").audit == Standard()


@pytest.mark.parametrize("mode", ["enforce", "audit", "warn"])
def test_a_level_that_is_none_enforces_the_strictest_and_warns_of_nothing(mode: str):
    found = policy(**{mode: "strict"})

    assert found.enforce.level == (Level.RESTRICTED if mode == "enforce" else Level.PRIVILEGED)
    assert found.audit.level == found.warn.level == Level.PRIVILEGED
    assert [str(error) for error in found.errors] == [
        f'metadata.labels[{PREFIX}{mode}]: Invalid value: "strict": '
        "must be one of privileged, baseline, restricted"
    ]


@pytest.mark.parametrize("version", ["1.20", "v1", "v2.0", "v1.020", "Latest", ""])
def test_a_version_that_is_none_is_the_latest(version: str):
    found = policy(enforce="baseline", enforce_version=version)

    assert found.enforce == Standard(Level.BASELINE)
    assert [error.detail for error in found.errors] == ['must be "latest" or "v1.x"']


async def test_labels_that_were_wrong_before_refuse_only_what_they_forbid():
    api = Api()
    namespace = api.server.storage.get(("", "namespaces"), "", "default")
    assert namespace is not None
    labels = {PREFIX + "enforce": "strict"}
    metadata = {**namespace.value["metadata"], "labels": labels}
    api.server.storage.put(("", "namespaces"), {**namespace.value, "metadata": metadata})

    relabelled = await api.merge(NAMESPACE, {"metadata": {"labels": {"a": "b"}}})
    refused = await api.create(PODS, pod("plain"))

    assert relabelled.status == 200
    assert refused.status == 403
    assert 'violates PodSecurity "restricted:latest"' in refused.message
    annotations = api.server.audit.entries[-1].annotations
    assert annotations[PREFIX + "error"].startswith("Failed to parse policy: metadata.labels")


async def test_a_pod_that_was_there_before_can_still_be_labelled_reported_on_and_deleted():
    api = Api()
    await api.create(PODS, pod("plain"))
    await api.merge(NAMESPACE, {"metadata": {"labels": {PREFIX + "enforce": "restricted"}}})

    labelled = await api.merge(f"{PODS}/plain", {"metadata": {"labels": {"a": "b"}}})
    reported = await api.merge(f"{PODS}/plain/status", {"status": {"phase": "Running"}})
    changed = await api.merge(
        f"{PODS}/plain", {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    )
    deleted = await api.delete(f"{PODS}/plain", {"gracePeriodSeconds": 0})

    assert [labelled.status, reported.status, changed.status, deleted.status] == [
        200,
        200,
        403,
        200,
    ]
