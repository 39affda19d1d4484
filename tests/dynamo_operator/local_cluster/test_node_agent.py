import os
import ssl
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import trustme

from dynamo_operator.apiserver.server import HttpsServer
from dynamo_operator.local_cluster.container_init import mount_points
from dynamo_operator.local_cluster.container_process import Isolation
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.local_cluster.kubelet_server import ServingCertificate
from dynamo_operator.local_cluster.node_agent import (
    NodeAgent,
    NodeOptions,
    StateDirectoryInUseError,
    gpu_labels,
)
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Event,
    Lease,
    Node,
    Pod,
    Secret,
    ServiceAccount,
)
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.dynamo_operator.local_cluster.processes import (
    existing,
    start_agent,
    wait_gone,
    with_word,
)

pytestmark = pytest.mark.node

ROOT = os.geteuid() == 0
IMAGES = ImageMap({"lab:1": ImageEnvironment.for_python(sys.executable)})


@pytest.fixture
async def cluster():
    async with Cluster.start() as cluster:
        await cluster.client.create(ServiceAccount.new("default", namespace="default"))
        yield cluster


@asynccontextmanager
async def node(cluster, tmp_path, **more):
    options = NodeOptions(
        **{
            "name": "n1",
            "state_directory": tmp_path / "state",
            "images": IMAGES,
            "volume_refresh_seconds": 0.2,
            **more,
        }
    )
    async with cluster.manager(NodeAgent(cluster.client, options)):
        await cluster.eventually(lambda: cluster.client.get(Node, ObjectKey("", "n1")))
        yield


@pytest.fixture
async def agent(cluster, tmp_path):
    async with node(cluster, tmp_path):
        yield


def sh(script, name="main", **container):
    return {"name": name, "image": "lab:1", "command": ["sh", "-c", script], **container}


async def start(cluster, *containers, name="p", **spec):
    spec = {
        "nodeName": "n1",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "containers": list(containers),
        **spec,
    }
    return await cluster.client.create(Pod.new(name, namespace="default", spec=spec))


async def until(cluster, pod, predicate):
    return await cluster.eventually(lambda: cluster.client.get(Pod, pod.key), predicate)


async def ended(cluster, pod):
    return await until(cluster, pod, lambda p: p.status.get("phase") in ("Succeeded", "Failed"))


async def gone(cluster, pod):
    await cluster.eventually(lambda: cluster.client.list(Pod), lambda pods: not pods)


def state_of(pod, name="main", part="containerStatuses"):
    statuses = {status["name"]: status for status in pod.status.get(part) or ()}
    return statuses.get(name, {}).get("state", {})


def waiting_for(reason):
    def is_waiting(pod):
        return any(
            (s["state"].get("waiting") or {}).get("reason") == reason
            for s in pod.status.get("containerStatuses") or ()
        )

    return is_waiting


def conditions(pod):
    return {c["type"]: c["status"] for c in pod.status["conditions"]}


async def notes(cluster, reason):
    return [e.note for e in await cluster.client.list(Event) if e.reason == reason]


async def test_the_node_presents_itself(cluster, tmp_path):
    labels = gpu_labels("NVIDIA-H200", 8, 143771)
    async with node(cluster, tmp_path, labels=labels, capacity={"nvidia.com/gpu": "8"}):
        found = await cluster.eventually(
            lambda: cluster.client.get(Node, ObjectKey("", "n1")),
            lambda n: n.status.get("conditions"),
        )
        lease = await cluster.eventually(
            lambda: cluster.client.get(Lease, ObjectKey("kube-node-lease", "n1"))
        )

    assert found.labels["nvidia.com/gpu.product"] == "NVIDIA-H200"
    assert found.labels["kubernetes.io/hostname"] == "n1"
    assert found.status["allocatable"]["nvidia.com/gpu"] == "8"
    assert {"type": "InternalIP", "address": "127.0.0.1"} in found.status["addresses"]
    assert [(c["type"], c["status"]) for c in found.status["conditions"]] == [("Ready", "True")]
    assert lease.spec["holderIdentity"] == "n1"
    assert lease.owner_references[0].uid == found.uid


async def test_a_deleted_node_comes_back(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("dynamo_operator.local_cluster.node_agent._HEARTBEAT_SECONDS", 0.05)
    lease = ObjectKey("kube-node-lease", "n1")
    async with node(cluster, tmp_path):
        first = await cluster.client.get(Node, ObjectKey("", "n1"))
        await cluster.eventually(lambda: cluster.client.get(Lease, lease))

        await cluster.client.delete(Node, first.key)
        await cluster.client.delete(Lease, lease)

        again = await cluster.eventually(lambda: cluster.client.get(Node, first.key))
        renewed = await cluster.eventually(lambda: cluster.client.get(Lease, lease))

    assert again.uid != first.uid
    assert renewed.owner_references[0].uid == again.uid


async def test_a_node_that_is_called_unready_says_that_it_is_ready(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("dynamo_operator.local_cluster.node_agent._HEARTBEAT_SECONDS", 0.05)
    key = ObjectKey("", "n1")

    def is_ready(node):
        return any(c["status"] == "True" for c in node.status.get("conditions") or ())

    async with node(cluster, tmp_path):
        await cluster.eventually(lambda: cluster.client.get(Node, key), is_ready)
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        patch = {"status": {"conditions": [unknown]}}
        await cluster.client.patch(Node, key, patch, subresource="status")

        await cluster.eventually(lambda: cluster.client.get(Node, key), is_ready)


async def test_a_pod_runs_to_success(cluster, agent):
    pod = await start(cluster, sh("echo hi > /dev/termination-log"))

    pod = await ended(cluster, pod)

    state = state_of(pod)["terminated"]
    assert pod.status["phase"] == "Succeeded"
    assert (state["exitCode"], state["reason"], state["message"]) == (0, "Completed", "hi\n")
    assert pod.status["hostIP"] == "127.0.0.1"
    assert pod.status["podIPs"] == [{"ip": pod.status["podIP"]}]
    assert conditions(pod)["Ready"] == "False"
    assert conditions(pod)["Initialized"] == "True"


async def test_a_failure_keeps_its_code_and_its_last_words(cluster, agent):
    pod = await start(
        cluster,
        sh(
            "echo first; echo last words >&2; exit 2",
            terminationMessagePolicy="FallbackToLogsOnError",
        ),
        sh("kill -KILL $$$$", name="other"),
    )

    pod = await ended(cluster, pod)

    state = state_of(pod)["terminated"]
    assert pod.status["phase"] == "Failed"
    assert (state["exitCode"], state["reason"]) == (2, "Error")
    assert "last words\n" in state["message"]
    assert state_of(pod, "other")["terminated"]["exitCode"] == 137


async def test_conditions_of_others_are_kept(cluster, agent):
    made = Pod.new(
        "p", namespace="default", spec={"nodeName": "n1", "containers": [sh("sleep 60")]}
    )
    pod = await cluster.client.create(made)
    running = await until(cluster, pod, lambda p: p.status.get("phase") == "Running")
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    patch = {"status": {"conditions": [*running.status["conditions"], scheduled]}}
    await cluster.client.patch(Pod, pod.key, patch, subresource="status")

    await cluster.client.delete(Pod, pod.key, grace_period_seconds=1)

    deleting = await cluster.client.find(Pod, pod.key)
    assert deleting is None or conditions(deleting)["PodScheduled"] == "True"
    await gone(cluster, pod)


async def test_an_unknown_image_names_the_known_ones(cluster, agent):
    pod = await start(cluster, {"name": "main", "image": "other:2", "command": ["true"]})

    pod = await until(cluster, pod, waiting_for("ErrImagePull"))

    assert pod.status["phase"] == "Pending"
    assert "known images: lab:1" in state_of(pod)["waiting"]["message"]
    assert await cluster.eventually(lambda: notes(cluster, "Failed"))
    await until(cluster, pod, waiting_for("ImagePullBackOff"))


async def test_a_missing_secret_is_waited_for(cluster, agent):
    variable = {
        "name": "TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "late", "key": "token"}},
    }
    pod = await start(cluster, sh('test "$TOKEN" = abc', env=[variable]))

    pod = await until(cluster, pod, waiting_for("CreateContainerConfigError"))
    assert state_of(pod)["waiting"]["message"] == 'secret "late" not found'
    await cluster.client.create(Secret.new("late", namespace="default", data={"token": "YWJj"}))

    assert (await ended(cluster, pod)).status["phase"] == "Succeeded"


async def test_a_volume_that_cannot_be_mounted_is_said_in_an_event(cluster, agent):
    pod = await start(
        cluster,
        sh("cat /in/key", volumeMounts=[{"name": "v", "mountPath": "/in"}]),
        volumes=[{"name": "v", "configMap": {"name": "late"}}],
    )

    assert await cluster.eventually(lambda: notes(cluster, "FailedMount")) == [
        'MountVolume.SetUp failed for volume "v": configmap "late" not found'
    ]
    assert waiting_for("ContainerCreating")(
        await until(cluster, pod, waiting_for("ContainerCreating"))
    )
    await cluster.client.create(ConfigMap.new("late", namespace="default", data={"key": "x"}))
    assert (await ended(cluster, pod)).status["phase"] == "Succeeded"


async def test_containers_share_volumes_and_see_changes_of_config_maps(cluster, agent):
    config = await cluster.client.create(
        ConfigMap.new("c", namespace="default", data={"mode": "old"})
    )
    mounts = [
        {"name": "config", "mountPath": "/etc/lab", "readOnly": True},
        {"name": "shared", "mountPath": "/var/run/lab"},
    ]
    script = "until grep -q new /etc/lab/mode; do sleep 0.05; done; echo seen > /var/run/lab/file"
    pod = await start(
        cluster,
        sh(f"touch /var/run/lab/began; {script}", volumeMounts=mounts),
        sh(
            "until grep -q seen /scratch/file; do sleep 0.05; done",
            name="other",
            volumeMounts=[{"name": "shared", "mountPath": "/scratch"}],
        ),
        volumes=[
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "shared", "emptyDir": {}},
        ],
    )
    await until(cluster, pod, lambda p: p.status.get("phase") == "Running")

    await cluster.client.patch(ConfigMap, config.key, {"data": {"mode": "new"}})

    assert (await ended(cluster, pod)).status["phase"] == "Succeeded"


async def test_a_pod_reaches_the_api_server_with_its_own_token(cluster, tmp_path):
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    script = 'test -s /run/token/token && test "$KUBERNETES_SERVICE_HOST" = 127.0.0.1'
    async with node(cluster, tmp_path, api_server=("127.0.0.1", 6443)):
        pod = await start(
            cluster,
            sh(script, volumeMounts=[{"name": "t", "mountPath": "/run/token"}]),
            serviceAccountName="default",
            volumes=[{"name": "t", "projected": {"sources": [source]}}],
        )

        assert (await ended(cluster, pod)).status["phase"] == "Succeeded"


@pytest.mark.skipif(not ROOT, reason="only root runs containers as other users")
async def test_a_restricted_container_runs_as_its_user_and_writes_only_to_its_volumes(
    cluster, agent
):
    context = {
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    script = (
        "python -c 'import json' && echo x > /tmp/x && ! touch /home/x 2>/dev/null"
        ' && test "$(id -u):$(id -g)" = 65532:65532 && id -G | grep -w 2000'
    )
    pod = await start(
        cluster,
        sh(script, securityContext=context, volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}]),
        volumes=[{"name": "tmp", "emptyDir": {"sizeLimit": "1Mi"}}],
        securityContext={"fsGroup": 2000},
    )

    pod = await ended(cluster, pod)

    assert (pod.status["phase"], state_of(pod)["terminated"]["exitCode"]) == ("Succeeded", 0)


async def test_without_namespaces_a_pod_whose_files_name_mount_paths_fails_and_says_why(
    cluster, tmp_path
):
    await cluster.client.create(
        ConfigMap.new("c", namespace="default", data={"input.yaml": "out: /scratch/snapshot"})
    )
    config = {"name": "config", "mountPath": "/etc/lab"}
    async with node(cluster, tmp_path, isolation=Isolation.NONE):
        pod = await start(
            cluster,
            sh("true", volumeMounts=[config, {"name": "work", "mountPath": "/scratch"}]),
            sh("sleep 60", name="other"),
            volumes=[
                {"name": "config", "configMap": {"name": "c"}},
                {"name": "work", "emptyDir": {}},
            ],
        )

        await ended(cluster, pod)
        said = await cluster.eventually(lambda: notes(cluster, "Failed"))

    message = (
        "container main: file /etc/lab/input.yaml names the mount path /scratch, which exists only"
        " in a mount namespace; this node has none: that takes root or unprivileged user namespaces"
    )
    status = (await cluster.client.get(Pod, pod.key)).status
    assert (status["phase"], status["reason"]) == ("Failed", "MountPathsNotSupported")
    assert (status["message"], said) == (message, [f"Error: {message}"])


async def test_a_new_agent_leaves_the_status_of_a_failed_pod_as_it_is(cluster, tmp_path):
    async with node(cluster, tmp_path):
        failed = await start(
            cluster, sh("sleep 60"), sh("exit 3", name="other"), activeDeadlineSeconds=1
        )
        await ended(cluster, failed)
    before = await cluster.client.get(Pod, failed.key)

    async with node(cluster, tmp_path):
        await ended(cluster, await start(cluster, sh("true"), name="q"))
        after = await cluster.client.get(Pod, failed.key)

    assert before.status["reason"] == "DeadlineExceeded"
    assert after.resource_version == before.resource_version


@pytest.fixture
def tool():
    """A command below /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        tool = Path(home, "lab", "bin", "tool")
        tool.parent.mkdir(parents=True)
        tool.write_text('#!/bin/sh\necho "$1" > "$HOME/$1" && cat "$HOME/$1"\n')
        tool.chmod(0o755)
        yield tool


async def test_an_image_below_tmp_works_with_a_volume_on_tmp(cluster, tmp_path, tool):
    home = tool.parents[2]
    environment = ImageEnvironment(
        path=(str(tool.parent),), environment={"HOME": str(home)}, readable=(str(tool.parent),)
    )
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]
    user = {"securityContext": {"runAsUser": 65532}} if ROOT else {}
    async with node(cluster, tmp_path, images=ImageMap({"lab:1": environment})):
        pod = await start(
            cluster,
            *(
                {"name": name, "image": "lab:1", "command": ["tool", name], "volumeMounts": mounts}
                for name in ("a", "b")
            ),
            volumes=[{"name": "tmp", "emptyDir": {"sizeLimit": "64Ki"}}],
            **user,
        )

        pod = await ended(cluster, pod)

    assert [state_of(pod, name)["terminated"]["exitCode"] for name in ("a", "b")] == [0, 0]
    assert existing(f"{home}/a", f"{home}/b") == []


async def test_deleting_a_pod_terminates_its_processes_and_then_the_object(cluster, agent):
    word = "deleted-pod-process"
    script = f"trap 'exit 0' TERM; sh -c 'sleep 60; :' {word} & wait"
    pod = await start(cluster, sh(script))
    await cluster.eventually(lambda: with_word(word))

    await cluster.client.delete(Pod, pod.key)

    await gone(cluster, pod)
    assert with_word(word) == []
    assert await cluster.eventually(lambda: notes(cluster, "Killing")) == [
        "Stopping container main"
    ]


async def test_a_pod_held_by_a_finalizer_shows_its_outcome(cluster, agent):
    pod = await start(cluster, sh("trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done"))
    await until(cluster, pod, lambda p: p.status.get("phase") == "Running")
    await cluster.client.patch(Pod, pod.key, {"metadata": {"finalizers": ["lab.test/hold"]}})

    await cluster.client.delete(Pod, pod.key)

    pod = await ended(cluster, pod)
    assert (pod.status["phase"], state_of(pod)["terminated"]["exitCode"]) == ("Failed", 4)
    await cluster.client.patch(Pod, pod.key, {"metadata": {"finalizers": None}})
    await gone(cluster, pod)


async def test_a_shorter_grace_period_cuts_a_longer_one_short(cluster, agent):
    word = "stubborn-pod-process"
    script = f"trap '' TERM; while :; do sh -c 'sleep 60; :' {word}; done"
    pod = await start(cluster, sh(script), terminationGracePeriodSeconds=600)
    await cluster.eventually(lambda: with_word(word))
    await cluster.client.delete(Pod, pod.key)
    await cluster.eventually(lambda: notes(cluster, "Killing"))

    await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)

    await gone(cluster, pod)
    assert wait_gone(word) == []


async def test_a_pod_of_the_same_name_starts_anew(cluster, agent):
    word = "replaced-pod-process"
    first = await start(cluster, sh(f"sh -c 'sleep 60; :' {word}"))
    await cluster.eventually(lambda: with_word(word))
    await cluster.client.delete(Pod, first.key, grace_period_seconds=0)
    await gone(cluster, first)

    second = await start(cluster, sh("true"))

    assert (await ended(cluster, second)).status["phase"] == "Succeeded"
    assert wait_gone(word) == []


async def test_a_crashing_container_is_restarted_with_a_delay(cluster, agent):
    pod = await start(cluster, sh("exit 5"), restartPolicy="OnFailure")

    pod = await until(cluster, pod, waiting_for("CrashLoopBackOff"))

    status = pod.status["containerStatuses"][0]
    assert pod.status["phase"] == "Running"
    assert status["lastState"]["terminated"]["exitCode"] == 5
    assert "back-off 10s restarting failed container=main" in status["state"]["waiting"]["message"]


async def test_init_containers_run_one_after_the_other_before_the_rest(cluster, agent):
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    pod = await start(
        cluster,
        sh("test $(cat /v/log) = 12", **mounts),
        initContainers=[
            sh("sleep 0.1; printf 1 >> /v/log", name="one", **mounts),
            sh("printf 2 >> /v/log", name="two", **mounts),
        ],
        volumes=[{"name": "v", "emptyDir": {}}],
    )

    pod = await ended(cluster, pod)

    assert pod.status["phase"] == "Succeeded"
    assert [s["state"]["terminated"]["exitCode"] for s in pod.status["initContainerStatuses"]] == [
        0,
        0,
    ]


async def test_a_failed_init_container_fails_the_pod(cluster, agent):
    pod = await start(cluster, sh("true"), initContainers=[sh("exit 1", name="one")])

    pod = await ended(cluster, pod)

    assert pod.status["phase"] == "Failed"
    assert conditions(pod)["Initialized"] == "False"
    assert "waiting" in state_of(pod)


async def test_a_sidecar_serves_as_long_as_the_containers_run(cluster, agent):
    sidecar = sh("trap 'exit 0' TERM; while :; do sleep 0.05; done", name="side")
    pod = await start(
        cluster, sh("sleep 0.2"), initContainers=[{**sidecar, "restartPolicy": "Always"}]
    )

    pod = await ended(cluster, pod)

    assert pod.status["phase"] == "Succeeded"
    assert "terminated" in state_of(pod, "side", "initContainerStatuses")


async def test_a_pod_past_its_deadline_has_failed(cluster, agent):
    pod = await start(cluster, sh("sleep 60"), activeDeadlineSeconds=1)

    pod = await ended(cluster, pod)

    assert (pod.status["phase"], pod.status["reason"]) == ("Failed", "DeadlineExceeded")
    assert state_of(pod)["terminated"]["exitCode"] == 143


async def test_an_ephemeral_container_is_refused_with_a_warning(cluster, agent):
    pod = await start(cluster, sh("sleep 60"))
    await until(cluster, pod, lambda p: p.status.get("phase") == "Running")

    debugger = {"name": "debug", "image": "lab:1"}
    patch = {"spec": {"ephemeralContainers": [debugger]}}
    await cluster.client.patch(Pod, pod.key, patch, subresource="ephemeralcontainers")

    told = await cluster.eventually(lambda: notes(cluster, "Unsupported"))
    assert told == ["ephemeral container debug: this node runs none"]


async def test_readiness_follows_its_probe(cluster, agent):
    probe = {"exec": {"command": ["test", "-e", "/v/ready"]}, "periodSeconds": 1}
    script = "sleep 0.3; touch /v/ready; sleep 60"
    pod = await start(
        cluster,
        sh(script, readinessProbe=probe, volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        volumes=[{"name": "v", "emptyDir": {}}],
    )

    unready = await until(cluster, pod, lambda p: p.status.get("phase") == "Running")
    assert conditions(unready)["Ready"] == "False"
    await until(cluster, pod, lambda p: conditions(p)["Ready"] == "True")
    assert (await notes(cluster, "Unhealthy"))[0].startswith("Readiness probe failed")


async def test_a_container_that_is_not_alive_is_restarted(cluster, agent):
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    pod = await start(cluster, sh("sleep 60", livenessProbe=probe), restartPolicy="Always")

    pod = await until(cluster, pod, waiting_for("CrashLoopBackOff"))

    assert pod.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 143
    assert "Container main failed liveness probe, will be restarted" in await cluster.eventually(
        lambda: notes(cluster, "Killing")
    )


async def test_hooks_run_after_the_start_and_before_the_stop(cluster, agent):
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo started >> /v/log"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo stopping >> /v/log"]}},
    }
    script = "trap 'cp /v/log /dev/termination-log; exit 0' TERM; while :; do sleep 0.05; done"
    pod = await start(
        cluster,
        sh(script, lifecycle=hooks, **mount),
        sh("until test -e /v/log; do sleep 0.05; done", name="other", **mount),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    await until(cluster, pod, lambda p: "terminated" in state_of(p, "other"))
    await cluster.client.patch(Pod, pod.key, {"metadata": {"finalizers": ["lab.test/hold"]}})

    await cluster.client.delete(Pod, pod.key)

    pod = await ended(cluster, pod)
    assert state_of(pod)["terminated"]["message"] == "started\nstopping\n"


async def test_a_container_knows_its_pods_name(cluster, agent):
    script = "getent hosts p | grep -q 127.0.0.1 && getent hosts db | grep -q 10.0.0.9"
    aliases = [{"ip": "10.0.0.9", "hostnames": ["db"]}]
    pod = await start(cluster, sh(script), hostAliases=aliases)

    assert (await ended(cluster, pod)).status["phase"] == "Succeeded"


async def test_a_command_that_does_not_exist_fails_the_pod(cluster, agent):
    pod = await start(cluster, {"name": "main", "image": "lab:1", "command": ["no-such-command"]})

    pod = await ended(cluster, pod)

    state = state_of(pod)["terminated"]
    assert (state["exitCode"], state["reason"]) == (128, "StartError")
    assert "no-such-command" in state["message"]


@pytest.mark.parametrize("isolation", [None, Isolation.NONE])
async def test_nothing_is_left_when_the_agent_stops(cluster, tmp_path, isolation):
    word = f"stopped-agent-process-{isolation}"
    async with node(cluster, tmp_path, isolation=isolation):
        await start(
            cluster,
            sh(f"sh -c 'sleep 60; :' {word}", volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
        )
        await cluster.eventually(lambda: with_word(word))

    assert wait_gone(word) == []
    assert list(tmp_path.iterdir()) == []
    assert [p for p in mount_points() if p.startswith(str(tmp_path))] == []


async def test_a_new_agent_says_what_became_of_the_old_ones_pods(cluster, tmp_path):
    word = "old-agent-process"
    async with node(cluster, tmp_path):
        never = await start(cluster, sh(f"sh -c 'sleep 60; :' {word}"), name="never")
        always = await start(
            cluster,
            sh("test -e /v/again || sleep 60; sleep 60", volumeMounts=[]),
            name="always",
            restartPolicy="Always",
        )
        for pod in (never, always):
            await until(cluster, pod, lambda p: p.status.get("phase") == "Running")

    async with node(cluster, tmp_path):
        never = await ended(cluster, never)
        always = await until(
            cluster,
            always,
            lambda p: (
                p.status["containerStatuses"][0]["restartCount"] == 1 and "running" in state_of(p)
            ),
        )

    state = state_of(never)["terminated"]
    assert (state["exitCode"], state["reason"]) == (137, "ContainerStatusUnknown")
    assert always.status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137


@pytest.mark.parametrize("isolation", [None, Isolation.NONE])
async def test_a_killed_agents_pods_end_with_it_and_its_successor_cleans_up(
    cluster, tmp_path, isolation
):
    word = f"killed-agent-process-{isolation}"
    arguments = [tmp_path / "kubeconfig", tmp_path / "state", isolation or ""]
    async with HttpsServer(cluster.server) as https:
        https.write_kubeconfig(tmp_path / "kubeconfig", user="admin", groups=["system:masters"])
        with start_agent(_AGENT, *arguments) as process:
            pod = await start(
                cluster,
                sh(
                    f"sh -c 'sleep 60; :' {word}; :",
                    volumeMounts=[{"name": "v", "mountPath": "/v"}],
                ),
                volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
            )
            await until(cluster, pod, lambda p: p.status.get("phase") == "Running")
            await cluster.eventually(lambda: with_word(word))
            process.kill()

    if isolation is not Isolation.NONE:  # which nothing but a successor can end
        assert wait_gone(word) == []
    async with node(cluster, tmp_path):
        pod = await ended(cluster, pod)

    assert state_of(pod)["terminated"]["reason"] == "ContainerStatusUnknown"
    assert wait_gone(word) == []
    assert list((tmp_path / "state").iterdir()) == []
    assert [p for p in mount_points() if p.startswith(str(tmp_path))] == []


_AGENT = """
import asyncio, sys
from pathlib import Path
from dynamo_operator.local_cluster.container_process import Isolation
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.local_cluster.node_agent import NodeAgent, NodeOptions
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.config import ClientConfig

kubeconfig, state, isolation = sys.argv[1:]
options = NodeOptions(
    name="n1",
    state_directory=Path(state),
    images=ImageMap({"lab:1": ImageEnvironment()}),
    isolation=Isolation(isolation) if isolation else None,
)

async def main():
    config = ClientConfig.load(kubeconfig=kubeconfig, environ={})
    async with Client.connect(config, field_manager="agent") as client:
        await NodeAgent(client, options).run()

asyncio.run(main())
"""


async def test_two_agents_do_not_share_a_state_directory(cluster, agent, tmp_path):
    options = NodeOptions(name="n2", state_directory=tmp_path / "state", images=IMAGES)

    with pytest.raises(StateDirectoryInUseError, match="another node agent works in it"):
        await NodeAgent(cluster.client, options).run()


@pytest.fixture
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    server = authority.issue_cert("127.0.0.1")
    server.cert_chain_pems[0].write_to_path(str(directory / "server.pem"))
    server.private_key_pem.write_to_path(str(directory / "server.key"))
    serving = ServingCertificate(
        directory / "server.pem", directory / "server.key", directory / "ca.pem"
    )
    return serving, authority


async def test_logs_are_served_to_clients_of_the_right_authority(cluster, tmp_path, certificates):
    serving, authority = certificates
    trusting = ssl.create_default_context(cafile=str(serving.client_ca_file))
    known = ssl.create_default_context(cafile=str(serving.client_ca_file))
    authority.issue_cert("kube-apiserver").configure_cert(known)
    async with node(cluster, tmp_path, serving=serving), aiohttp.ClientSession() as session:
        pod = await start(
            cluster,
            sh(
                "echo one; echo two; while ! [ -e /v/x ]; do sleep 0.05; done; echo three",
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
            ),
            sh(
                "sleep 0.5; touch /v/x",
                name="other",
                volumeMounts=[{"name": "v", "mountPath": "/v"}],
            ),
            volumes=[{"name": "v", "emptyDir": {}}],
        )
        await until(cluster, pod, lambda p: p.status.get("phase") == "Running")
        found = await cluster.client.get(Node, ObjectKey("", "n1"))
        port = found.status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        base = f"https://127.0.0.1:{port}/containerLogs/default/p"

        async with session.get(f"{base}/main?follow=true&tailLines=1", ssl=known) as answer:
            followed = await answer.text()
        async with session.get(f"{base}/main?timestamps=1&limitBytes=35", ssl=known) as answer:
            limited = await answer.text()
        async with session.get(f"{base}/main?tailLines=x", ssl=known) as answer:
            refused = (answer.status, await answer.text())
        async with session.get(f"{base}/absent", ssl=known) as answer:
            absent = (answer.status, await answer.text())
        async with session.get(f"{base}/main?previous=true", ssl=known) as answer:
            previous = answer.status
        await start(cluster, {"name": "main", "image": "absent:1"}, name="q")
        await cluster.eventually(lambda: notes(cluster, "Failed"))
        async with session.get(f"{base[:-1]}q/main", ssl=known) as answer:
            waiting = (answer.status, await answer.text())
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{base}/main", ssl=trusting)

    assert followed.endswith("three\n")
    assert limited.endswith(" one\n") or len(limited) == 35
    assert refused == (400, "tailLines=x: must be a whole number of at least 0\n")
    assert absent == (404, 'container "absent" is not in pod "p"\n')
    assert previous == 404
    assert waiting[0] == 400
    assert 'container "main" in pod "q" is waiting to start: ' in waiting[1]
