"""hack/cluster: which cluster a machine can have, and what kind is told."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from hack.clusters import base_image, choice, places
from hack.clusters.control_groups import ControlGroups
from hack.clusters.errors import ClusterError
from hack.clusters.images import make_image
from hack.clusters.kind_cluster import KindCluster
from hack.clusters.own_cluster import OwnCluster
from hack.clusters.programs import need
from hack.go_programs import ROOT

KIND = """#!/bin/sh
echo "$*" >> "{log}"
[ "$*" = "get clusters" ] && cat "{clusters}"
exit 0
"""


def program(directory, name, text):
    path = directory / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A PATH of its own, on which there is a shell only."""
    path = tmp_path / "bin"
    path.mkdir()
    for name in ("sh", "cat"):
        (path / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(path))
    return path


@pytest.fixture
def kind(machine, tmp_path, monkeypatch):
    """A machine with Docker, and a kind that writes down what it was told."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "clusters").touch()
    program(machine, "docker", "#!/bin/sh\nexit 0\n")
    program(machine, "kind", KIND.format(log=tmp_path / "kind.log", clusters=tmp_path / "clusters"))
    return tmp_path


def test_a_machine_that_can_have_no_cluster_is_told_what_it_lacks(machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ClusterError) as raised:
        choice.cluster()

    assert str(raised.value) == (
        "a cluster needs Docker and kind, or Linux, root and Go; not here: Docker with kind,"
        " root, Go"
    )


def test_a_docker_client_without_a_daemon_does_not_count(machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    program(machine, "docker", "#!/bin/sh\nexit 1\n")
    program(machine, "kind", "#!/bin/sh\nexit 0\n")
    program(machine, "go", "#!/bin/sh\nexit 0\n")

    assert isinstance(choice.cluster(), OwnCluster)


def test_kind_makes_the_cluster_where_docker_is(kind):
    cluster = choice.cluster()
    kubeconfig = kind / "dynamo-operator" / "cluster" / "kubeconfig"
    cluster.up()
    cluster.load(Path("image.tar"))
    cluster.down()

    assert isinstance(cluster, KindCluster)
    assert cluster.kubeconfig == kubeconfig
    assert (kind / "kind.log").read_text().splitlines() == [
        "get clusters",
        f"create cluster --name {places.NAME} --kubeconfig {kubeconfig} --wait 5m",
        f"load image-archive image.tar --name {places.NAME}",
        f"delete cluster --name {places.NAME}",
    ]


def test_kind_is_not_asked_for_a_second_cluster(kind):
    (kind / "clusters").write_text(f"other\n{places.NAME}\n")

    KindCluster().up()

    assert [line.split()[0] for line in (kind / "kind.log").read_text().splitlines()] == [
        "get",
        "export",
    ]


def test_a_program_that_is_missing_is_named_with_its_package(machine):
    with pytest.raises(ClusterError, match=r"^missing: buildah; as root: apt-get install"):
        need("sh", "buildah")


def test_groups_are_made_in_every_hierarchy_and_a_process_is_told_where(tmp_path):
    for hierarchy in ("cpu", "pids", "unified"):
        (tmp_path / hierarchy).mkdir()
        (tmp_path / hierarchy / "cgroup.procs").touch()
    groups = ControlGroups("a", tmp_path)

    assert groups.create() == tmp_path / "pids" / "a" / "node" / "cgroup.procs"
    assert groups.exists
    assert (tmp_path / "cpu" / "a").is_dir()
    assert (tmp_path / "unified" / "a").is_dir()


def test_groups_can_be_removed_twice(tmp_path):
    (tmp_path / "cgroup.controllers").touch()
    groups = ControlGroups("a", tmp_path)
    groups.create()
    groups.remove()

    assert not groups.exists
    groups.remove()


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.planner"])
def test_images_are_built_on_the_same_pinned_base_that_can_be_chosen(name):
    lines = (ROOT / name).read_text().splitlines()

    assert f"ARG BASE_IMAGE={base_image.default_base()}" in lines
    assert re.fullmatch(
        r"docker\.io/library/python:3\.\d+\.\d+-slim-\w+", base_image.default_base()
    )
    assert {line for line in lines if line.startswith("FROM ")} <= {
        "FROM ${BASE_IMAGE} AS build",
        "FROM ${BASE_IMAGE}",
    }


def test_building_an_image_without_root_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ClusterError, match=r"^building an image needs Linux and root$"):
        make_image("operator")
