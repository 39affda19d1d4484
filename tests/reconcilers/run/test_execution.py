"""What a Run is executed with, written down and read back."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from reconcilers.run.errors import InvalidExecutionError
from reconcilers.run.execution import (
    ContainerImage,
    Execution,
    PlannerSettings,
    PodSecurity,
    digest,
    read_frozen,
)

EXECUTION = Execution(
    planner=ContainerImage(image="registry.lab/planner:1.2.3"),
    publisher=ContainerImage(image="registry.lab/operator:0.1.0"),
    runtime_image_source="registry.lab/planner:1.2.3",
    dynamo_version="1.2.3",
    gpus_per_node=8,
    image_pull_secrets=("registry",),
    planner_settings=PlannerSettings(tolerations=({"key": "lab"},), cache_pvc="models"),
    pod_security=PodSecurity(run_as_user=None),
    run_deadline_seconds=60,
)


def frozen(text: str) -> ConfigMap:
    config_map = ConfigMap.new("frozen", namespace="default", data={"execution.json": text})
    config_map.metadata.uid = "u"
    return config_map


def test_it_is_read_back_as_it_was_written():
    config_map = frozen(EXECUTION.to_json())

    assert read_frozen(config_map, uid="u", sha256=digest(config_map.data)) == EXECUTION


def test_it_holds_everything_that_an_execution_depends_on():
    assert json.loads(EXECUTION.to_json()).keys() == {
        "schemaVersion",
        "planner",
        "publisher",
        "runtimeImageSource",
        "dynamoVersion",
        "gpusPerNode",
        "snapshotPath",
        "imagePullSecrets",
        "plannerSettings",
        "publisherSettings",
        "podSecurity",
        "runDeadlineSeconds",
    }


def test_the_digest_is_of_the_content_in_any_order():
    assert digest({"a": "1", "b": "2"}) == digest({"b": "2", "a": "1"})
    assert digest({"a": "1"}) != digest({"a": "2"})
    assert len(digest({})) == 64


@pytest.mark.parametrize(
    ("uid", "sha256", "told"),
    [
        ("other", digest(frozen("{}").data), "has uid u, the Run recorded other"),
        ("u", "0" * 64, f"the Run recorded {'0' * 64}"),
    ],
    ids=["uid", "hash"],
)
def test_another_object_or_content_is_refused_by_name(uid: str, sha256: str, told: str):
    with pytest.raises(InvalidExecutionError, match=f"ConfigMap default/frozen .*{told}"):
        read_frozen(frozen("{}"), uid=uid, sha256=sha256)


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(ValidationError, match="imagePullPolicy"):
        ContainerImage.model_validate({"image": "a", "imagePullPolicy": "Always"})
