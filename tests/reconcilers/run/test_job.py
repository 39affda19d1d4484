"""The execution Job, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.runtime.builtin_kinds import Job
from reconcilers.run.execution import (
    ContainerImage,
    ContainerResources,
    Execution,
    PlannerSettings,
    PodSecurity,
)
from reconcilers.run.job import render_job
from tests.builders import COMPLETED_SPEC, run

TRACE_SPEC: dict[str, Any] = {
    **COMPLETED_SPEC,
    "workload": {
        "trace": {
            "source": {"pvc": {"claimName": "traces", "path": "mooncake/a.jsonl"}},
            "format": "mooncake",
        }
    },
}
EXECUTION = Execution(
    planner=ContainerImage(image="registry.lab/planner:1.2.3"),
    publisher=ContainerImage(image="registry.lab/operator:0.1.0", pull_policy="Always"),
    runtime_image_source="registry.lab/planner:1.2.3",
    dynamo_version="1.2.3",
    gpus_per_node=8,
)


def rendered(spec: dict[str, Any] | None = None, **changes: Any) -> Job:
    return render_job(run(spec=spec), EXECUTION.model_copy(update=changes), "frozen")


def pod_spec(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = job.spec["template"]["spec"]
    return found


def container(job: Job, name: str) -> dict[str, Any]:
    return next(c for c in pod_spec(job)["containers"] if c["name"] == name)


def mounts(job: Job, name: str) -> dict[str, dict[str, Any]]:
    return {mount["name"]: mount for mount in container(job, name)["volumeMounts"]}


def volume(job: Job, name: str) -> dict[str, Any]:
    return next(v for v in pod_spec(job)["volumes"] if v["name"] == name)


def test_its_name_comes_from_the_runs_and_fits_a_label():
    one = rendered()
    long = render_job(run("x" * 250), EXECUTION, "frozen")
    other = render_job(run(uid="5ad3b100-0000-4000-8000-00000000beef"), EXECUTION, "frozen")

    assert one.key.name.startswith("llama-g1-4f1c2a-search-")
    assert one.key.name == rendered().key.name
    assert one.key.name != other.key.name
    assert len(long.key.name) <= 63


def test_it_runs_once_and_never_again():
    job = rendered()

    assert job.spec["backoffLimit"] == 0
    assert pod_spec(job)["restartPolicy"] == "Never"
    assert "activeDeadlineSeconds" not in job.spec
    assert "ttlSecondsAfterFinished" not in job.spec


def test_a_run_deadline_is_the_jobs():
    assert rendered(run_deadline_seconds=7200).spec["activeDeadlineSeconds"] == 7200


def test_the_planner_runs_exactly_the_public_command_as_user_1000():
    planner = container(rendered(), "planner")

    assert [c["name"] for c in pod_spec(rendered())["containers"]] == ["planner", "publisher"]
    assert " ".join(planner["command"]) == (
        "aisimulate recommend --stack dynamo --config /etc/aisimulate/input.yaml --output dgdr_run"
        " --output-dir /var/run/aisimulate/output --overwrite"
    )
    assert "args" not in planner
    assert planner["image"] == "registry.lab/planner:1.2.3"
    assert planner["imagePullPolicy"] == "IfNotPresent"
    assert planner["securityContext"]["runAsUser"] == 1000
    assert planner["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_images_that_are_pinned_by_a_digest_run_as_they_are_written():
    planner = f"registry.lab/planner:1.2.3@sha256:{'a' * 64}"
    publisher = f"registry.lab/operator@sha256:{'b' * 64}"

    job = rendered(planner=ContainerImage(image=planner), publisher=ContainerImage(image=publisher))

    assert container(job, "planner")["image"] == planner
    assert container(job, "publisher")["image"] == publisher


def test_the_publisher_is_the_operators_image_under_its_own_user():
    publisher = container(rendered(), "publisher")

    assert publisher["command"] == [
        "/dgdr-run-publisher",
        "--snapshot-dir=/var/run/aisimulate/snapshot",
        "--run-name=llama-g1-4f1c2a",
        "--run-uid=5ad3b100-0000-4000-8000-000000000002",
        "--planner-container=planner",
        "--poll-interval=1s",
    ]
    assert (publisher["image"], publisher["imagePullPolicy"]) == (
        "registry.lab/operator:0.1.0",
        "Always",
    )
    assert "runAsUser" not in publisher["securityContext"]
    assert {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in publisher["env"]} == {
        "POD_NAMESPACE": "metadata.namespace",
        "POD_NAME": "metadata.name",
    }


def test_only_the_snapshot_directory_is_shared():
    job = rendered()
    shared = mounts(job, "planner").keys() & mounts(job, "publisher").keys()

    assert shared == {"snapshot"}
    assert mounts(job, "planner")["snapshot"]["mountPath"] == "/var/run/aisimulate/snapshot"
    assert "readOnly" not in mounts(job, "planner")["snapshot"]
    assert mounts(job, "publisher")["snapshot"]["readOnly"] is True
    assert volume(job, "snapshot")["emptyDir"]["sizeLimit"]
    assert mounts(job, "planner")["output"]["mountPath"] == "/var/run/aisimulate/output"


def test_only_the_publisher_holds_credentials_and_they_are_short_lived():
    job = rendered()
    sources = volume(job, "credentials")["projected"]["sources"]

    assert pod_spec(job)["automountServiceAccountToken"] is False
    assert pod_spec(job)["serviceAccountName"] == (
        "dgdr-publisher-5ad3b100-0000-4000-8000-000000000002"
    )
    assert "credentials" not in mounts(job, "planner")
    assert mounts(job, "publisher")["credentials"]["readOnly"] is True
    assert [next(iter(source)) for source in sources] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    assert sources[0]["serviceAccountToken"]["expirationSeconds"] == 3600


def test_the_planner_reads_the_frozen_input_and_not_the_settings_beside_it():
    job = rendered()

    assert volume(job, "input")["configMap"] == {
        "name": "frozen",
        "items": [{"key": "input.yaml", "path": "input.yaml"}],
    }
    assert mounts(job, "planner")["input"]["mountPath"] == "/etc/aisimulate"
    assert mounts(job, "planner")["input"]["readOnly"] is True


@pytest.mark.parametrize("name", ["planner", "publisher"])
def test_both_containers_are_restricted(name: str):
    job = rendered()
    security = container(job, name)["securityContext"]

    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["readOnlyRootFilesystem"] is True
    assert container(job, name)["resources"]["requests"]
    assert container(job, name)["resources"]["limits"]


@pytest.mark.parametrize(
    "variable", ["HOME", "HF_HOME", "TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME"]
)
def test_whatever_the_planner_writes_goes_to_a_sized_directory(variable: str):
    job = rendered()
    path = {e["name"]: e["value"] for e in container(job, "planner")["env"]}[variable]
    holding = [
        m["name"] for m in mounts(job, "planner").values() if _is_below(path, m["mountPath"])
    ]

    assert holding
    assert all(volume(job, name)["emptyDir"]["sizeLimit"] for name in holding)


def test_the_file_group_is_the_planners_user():
    assert pod_spec(rendered())["securityContext"]["fsGroup"] == 1000


def test_a_cluster_that_assigns_users_itself_is_left_to_it():
    job = rendered(pod_security=PodSecurity(run_as_user=None))

    assert "runAsUser" not in container(job, "planner")["securityContext"]
    assert "fsGroup" not in pod_spec(job)["securityContext"]
    assert container(job, "planner")["securityContext"]["runAsNonRoot"] is True


def test_a_trace_is_read_only_and_the_planners_alone():
    job = rendered(TRACE_SPEC)

    assert volume(job, "trace")["persistentVolumeClaim"] == {
        "claimName": "traces",
        "readOnly": True,
    }
    assert mounts(job, "planner")["trace"] == {
        "name": "trace",
        "mountPath": "/var/run/aisimulate/trace",
        "readOnly": True,
    }
    assert "trace" not in mounts(job, "publisher")
    assert "trace" not in mounts(rendered(), "planner")


def test_the_administrators_settings_reach_the_planner():
    settings = PlannerSettings(
        env_from_secret="hub-token",
        node_selector={"pool": "cpu"},
        tolerations=({"key": "lab", "operator": "Exists"},),
        resources=ContainerResources(requests={"cpu": "3"}, limits={"memory": "9Gi"}),
        cache_pvc="models",
    )
    job = rendered(planner_settings=settings, image_pull_secrets=("registry",))
    planner = container(job, "planner")

    assert planner["envFrom"] == [{"secretRef": {"name": "hub-token", "optional": True}}]
    assert planner["resources"] == {"requests": {"cpu": "3"}, "limits": {"memory": "9Gi"}}
    assert pod_spec(job)["nodeSelector"] == {"pool": "cpu"}
    assert pod_spec(job)["tolerations"] == [{"key": "lab", "operator": "Exists"}]
    assert pod_spec(job)["imagePullSecrets"] == [{"name": "registry"}]
    assert volume(job, "cache")["persistentVolumeClaim"] == {"claimName": "models"}
    assert mounts(job, "planner")["cache"]["mountPath"] in {
        e["value"] for e in planner["env"] if e["name"] == "HF_HOME"
    }
    assert "cache" not in mounts(job, "publisher")
    assert "envFrom" not in container(job, "publisher")


def test_a_token_for_gated_models_is_optional_and_can_be_left_out():
    default = container(rendered(), "planner")["envFrom"]
    without = rendered(planner_settings=PlannerSettings(env_from_secret=None))

    assert default == [{"secretRef": {"name": "hf-token-secret", "optional": True}}]
    assert "envFrom" not in container(without, "planner")


def test_job_and_pod_carry_the_runs_uid():
    job = rendered()

    for labels in (job.labels, job.spec["template"]["metadata"]["labels"]):
        assert labels["nvidia.com/dgdr-run-uid"] == "5ad3b100-0000-4000-8000-000000000002"


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")
