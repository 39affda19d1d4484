import os
from pathlib import Path

import pytest

from dynamo_operator.local_cluster.container_environment import ContainerConfigError
from dynamo_operator.local_cluster.container_process import Isolation, Mount
from dynamo_operator.local_cluster.images import ImageEnvironment
from dynamo_operator.local_cluster.mounts import Machine, PathRewriter, UntruePathError, plan_launch
from dynamo_operator.local_cluster.volumes import (
    PodVolumes,
    VolumeError,
    VolumeFile,
    VolumeSources,
    write_atomically,
)
from informers.clock import SystemClock


async def nothing(*_):
    return None


def plan(tmp_path, container, *, pod_spec=None, isolation=Isolation.PRIVILEGED, image=None):
    spec = {"volumes": [{"name": "v", "emptyDir": {}}], **(pod_spec or {})}
    pod = {"metadata": {"name": "a", "namespace": "lab"}, "spec": spec}
    (tmp_path / "volumes" / "v" / "inner").mkdir(parents=True, exist_ok=True)
    return plan_launch(
        pod,
        {"name": "main", "command": ["run"], **container},
        image=image or ImageEnvironment(),
        variables={"HOME": "/", "WHERE": "/data/x"},
        volumes=PodVolumes(
            tmp_path / "volumes", VolumeSources(nothing, nothing, {}, {}), SystemClock()
        ),
        directory=tmp_path / "main",
        machine=Machine(isolation, tmp_path),
    )


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("/data", "/host/v"),
        ("--dir=/data/sub", "--dir=/host/v/sub"),
        ("/data/inner/x", "/host/i/x"),
        ("a:/data:/b", "a:/host/v:/b"),
        ("/database", "/database"),
        ("/data.old", "/data.old"),
        ("/other/data", "/other/data"),
        ("cat /data/a > /data/b", "cat /host/v/a > /host/v/b"),
    ],
)
def test_mount_paths_are_rewritten_at_path_boundaries_only(text, rewritten):
    rewrite = PathRewriter([Mount("/host/v", "/data"), Mount("/host/i", "/data/inner")])

    assert rewrite(text) == rewritten


def test_without_namespaces_command_args_and_variables_name_host_paths(tmp_path):
    launch = plan(
        tmp_path,
        {
            "args": ["--in", "$(WHERE)"],
            "workingDir": "/data",
            "volumeMounts": [{"name": "v", "mountPath": "/data"}],
        },
        isolation=Isolation.NONE,
    )

    host = f"{tmp_path}/volumes/v"
    assert launch.command == ("run", "--in", f"{host}/x")
    assert launch.environment["WHERE"] == f"{host}/x"
    assert launch.directory == host


def plan_with_file(tmp_path, text, **options):
    """A container with a ConfigMap on /etc/lab that says this, and an emptyDir on /scratch."""
    write_atomically(
        make(tmp_path / "volumes" / "c"), {"in.yaml": VolumeFile(text.encode(), 0o644)}
    )
    mounts = [
        {"name": "c", "mountPath": "/etc/lab/", **options.pop("mount", {})},
        {"name": "v", "mountPath": "/scratch"},
    ]
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}]
    return plan(tmp_path, {"volumeMounts": mounts}, pod_spec={"volumes": volumes}, **options)


def make(directory):
    directory.mkdir(parents=True)
    return directory


@pytest.mark.parametrize(
    ("mount", "file"),
    [
        ({}, "/etc/lab/in.yaml"),
        ({"mountPath": "/etc/one.yaml", "subPath": "in.yaml"}, "/etc/one.yaml"),
    ],
    ids=["directory", "file"],
)
def test_without_namespaces_a_file_that_names_a_mount_path_is_refused(tmp_path, mount, file):
    with pytest.raises(UntruePathError) as refused:
        plan_with_file(tmp_path, "dir: /scratch/out\n", mount=mount, isolation=Isolation.NONE)

    assert str(refused.value) == (
        f"container main: file {file} names the mount path /scratch, which exists only in a mount"
        " namespace; this node has none: that takes root or unprivileged user namespaces"
    )


def test_files_may_name_anything_else_or_have_namespaces(tmp_path):
    plan_with_file(tmp_path / "a", "dir: /workshop\n", isolation=Isolation.NONE)
    launch = plan_with_file(tmp_path / "b", "dir: /scratch/out\n")

    assert Mount(f"{tmp_path}/b/volumes/c", "/etc/lab", read_only=True) in launch.root.mounts


def test_outer_mounts_come_before_inner_ones(tmp_path):
    launch = plan(
        tmp_path,
        {
            "volumeMounts": [
                {"name": "v", "mountPath": "/data/a/b/", "subPath": "inner", "readOnly": True},
                {"name": "v", "mountPath": "/data"},
            ]
        },
    )

    assert launch.root.mounts == (
        Mount(f"{tmp_path}/main/hosts", "/etc/hosts"),
        Mount(f"{tmp_path}/volumes/v", "/data", is_scratch=True),
        Mount(f"{tmp_path}/main/termination-log", "/dev/termination-log"),
        Mount(f"{tmp_path}/volumes/v/inner", "/data/a/b", read_only=True, is_scratch=True),
    )


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../b"])
def test_a_sub_path_that_leaves_the_volume_is_refused(tmp_path, path):
    mount = {"name": "v", "mountPath": "/data", "subPath": path}

    with pytest.raises(ContainerConfigError, match="must stay inside"):
        plan(tmp_path, {"volumeMounts": [mount]})


def test_a_sub_path_that_is_a_link_out_of_the_volume_is_refused(tmp_path):
    (tmp_path / "volumes" / "v").mkdir(parents=True)
    (tmp_path / "volumes" / "v" / "out").symlink_to("/etc")

    with pytest.raises(ContainerConfigError, match="leads out of the volume"):
        plan(tmp_path, {"volumeMounts": [{"name": "v", "mountPath": "/d", "subPath": "out"}]})


def test_a_mount_of_no_volume_is_refused(tmp_path):
    with pytest.raises(VolumeError, match='volume "w" is not among'):
        plan(tmp_path, {"volumeMounts": [{"name": "w", "mountPath": "/data"}]})


def test_the_containers_user_wins_over_the_pods_and_the_images(tmp_path):
    image = ImageEnvironment(user=5)
    pod_spec = {"securityContext": {"runAsUser": 7, "fsGroup": 9, "supplementalGroups": [8, 9]}}

    own = plan(tmp_path, {"securityContext": {"runAsUser": 6}}, pod_spec=pod_spec, image=image)
    pods = plan(tmp_path, {}, pod_spec=pod_spec, image=image)
    images = plan(tmp_path, {}, image=image)

    assert (own.uid, pods.uid, images.uid) == (6, 7, 5)
    assert pods.groups == (8, 9)


def test_root_is_refused_where_the_pod_forbids_it(tmp_path):
    context = {"runAsNonRoot": True, "runAsUser": 0}

    with pytest.raises(ContainerConfigError, match="runAsNonRoot"):
        plan(tmp_path, {"securityContext": context})


def test_a_container_without_any_command_is_refused(tmp_path):
    with pytest.raises(ContainerConfigError, match="no command specified"):
        plan(tmp_path, {"command": []})


def test_directories_that_bar_the_user_from_the_environment_are_opened(tmp_path):
    closed = tmp_path / "home"
    environment = closed / "python"
    environment.mkdir(parents=True)
    closed.chmod(0o700)
    machine = Machine(Isolation.PRIVILEGED, Path("/nowhere/state"))

    hidden = machine.hidden([str(environment)], uid=os.geteuid() + 1)

    assert "/nowhere/state" in hidden
    assert any(str(closed) == path or str(closed).startswith(f"{path}/") for path in hidden)
