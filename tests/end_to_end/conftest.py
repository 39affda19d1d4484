"""The cluster that the tests of this folder share, and what they do with it."""

from __future__ import annotations

import asyncio

import pytest

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.config import ClientConfig
from hack.clusters.choice import cluster as cluster_of_this_machine
from hack.clusters.errors import ClusterError
from hack.clusters.images import make_image
from tests.end_to_end.releases import OPERATOR_IMAGE, PLANNER_IMAGE, Release


@pytest.fixture(scope="session")
def machine_cluster():
    """The cluster that this machine can have, down at first and in the end."""
    try:
        cluster = cluster_of_this_machine()
    except ClusterError as error:
        pytest.skip(str(error))
    cluster.down()
    yield cluster
    cluster.down()


@pytest.fixture(scope="session")
def kubeconfig(machine_cluster):
    """Of the cluster, which is up and has our images."""
    images = [make_image("operator"), make_image("planner")]
    references = [f"docker.io/library/{name}" for name in (OPERATOR_IMAGE, PLANNER_IMAGE)]
    assert [image.reference for image in images] == references
    machine_cluster.up()
    for image in images:
        machine_cluster.load(image.archive)
    return machine_cluster.kubeconfig


@pytest.fixture(scope="session")
def release(kubeconfig, tmp_path_factory):
    """The chart, installed where Pod Security is restricted; uninstalled by the last test."""
    release = Release(kubeconfig, tmp_path_factory.mktemp("helm"))
    asyncio.run(release.install())
    return release


@pytest.fixture
async def client(kubeconfig):
    """An administrator's."""
    async with Client.connect(ClientConfig.load(kubeconfig, environ={})) as client:
        yield client
