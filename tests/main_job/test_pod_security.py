"""A search's Pod where only restricted Pods may run, and what its two containers can do there."""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynamo_operator.api.planner_contract import (
    INPUT_DIRECTORY,
    OUTPUT_DIRECTORY,
    PLANNER_USER_ID,
    SNAPSHOT_DIRECTORY,
)
from dynamo_operator.generate.deployment import USER_ID as PUBLISHER_USER_ID
from dynamo_operator.runtime.builtin_kinds import Namespace, Pod
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey, ResourceType
from tests.main_job.processes import command_of
from tests.main_job.stage import PATIENCE_SECONDS, Stage

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

RESTRICTED = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
}
TOKENS = "/secrets/kubernetes.io/serviceaccount"
TOKEN_REVIEWS = ResourceType(
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False
)
USERS = {"planner": PLANNER_USER_ID, "publisher": PUBLISHER_USER_ID}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start other users")


class Container:
    """What this machine knows of the process that a container's command is."""

    def __init__(self, pod: Pod, name: str) -> None:
        self._proc = Path(f"/proc/{command_of(pod, name).pid}")

    def status(self, field: str) -> list[str]:
        """The words of a line of its status."""
        for line in (self._proc / "status").read_text(encoding="utf-8").splitlines():
            key, _, values = line.partition(":")
            if key == field:
                return values.split()
        raise AssertionError(f"{self._proc}/status has no {field}")

    def mount_points(self) -> dict[str, bool]:
        """Where it has mounts, and whether it may write there."""
        lines = (self._proc / "mountinfo").read_text(encoding="utf-8").splitlines()
        return {fields[4]: "rw" in fields[5].split(",") for fields in map(str.split, lines)}

    def mount_at(self, path: str) -> str:
        """The mount point of a volume; /var/run may be a link to /run."""
        points = self.mount_points()
        return path if path in points else path.removeprefix("/var")

    def path(self, inside: str) -> Path:
        """A path of its file system as this machine reaches it."""
        return Path(f"{self._proc}/root{inside}")

    def can_write(self, directory: str) -> bool:
        """Whether its file system, not only its user, allows a file there."""
        probe = self.path(directory) / "probe"
        try:
            probe.touch()
        except OSError as error:
            if error.errno == errno.EROFS:
                return False
            raise
        probe.unlink()
        return True


async def search_where_only_restricted_pods_run(stage: Stage) -> Pod:
    """Show that the namespace refuses another Pod, and start a search there."""
    key = ObjectKey("", stage.namespace)
    await stage.client.patch(Namespace, key, {"metadata": {"labels": RESTRICTED}})
    await eventually(lambda: refuses_a_plain_pod(stage), timeout=PATIENCE_SECONDS)
    await stage.submit("goes-on")
    _, pod = await stage.searching()
    return pod


async def refuses_a_plain_pod(stage: Stage) -> bool:
    spec = {"containers": [{"name": "main", "image": "plain:1"}]}
    plain = Pod.new("plain", namespace=stage.namespace, spec=spec)
    try:
        await stage.client.create(plain, dry_run=True)
    except ForbiddenError as error:
        return 'violates PodSecurity "restricted:latest"' in error.message
    return False


@needs_root
async def test_each_container_runs_as_a_user_of_its_own_that_can_gain_no_rights(scripted: Stage):
    pod = await search_where_only_restricted_pods_run(scripted)

    containers = {name: Container(pod, name) for name in USERS}
    assert {name: c.status("Uid") for name, c in containers.items()} == {
        name: [str(user)] * 4 for name, user in USERS.items()
    }
    for container in containers.values():
        assert container.status("NoNewPrivs") == ["1"]
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(container.status(kind)[0], 16) == 0


@needs_root
async def test_containers_write_to_their_own_volumes_only(scripted: Stage):
    pod = await search_where_only_restricted_pods_run(scripted)

    planner, publisher = Container(pod, "planner"), Container(pod, "publisher")
    for container in (planner, publisher):
        assert [d for d in ("/", "/etc", "/usr", "/root", "/var") if container.can_write(d)] == []
    output, snapshot = planner.mount_at(OUTPUT_DIRECTORY), planner.mount_at(SNAPSHOT_DIRECTORY)
    assert planner.can_write(output)
    assert planner.can_write(snapshot)
    assert not planner.can_write(INPUT_DIRECTORY)
    assert not publisher.can_write(snapshot)
    assert output not in publisher.mount_points()


async def test_only_the_publisher_has_a_token_which_is_its_own_for_an_hour(scripted: Stage):
    pod = await search_where_only_restricted_pods_run(scripted)
    run, _ = await scripted.searching()

    planner, publisher = Container(pod, "planner"), Container(pod, "publisher")
    assert list(secrets_of(planner)) == []
    (directory,) = secrets_of(publisher)
    token = publisher.path(f"{directory}/token").read_text(encoding="utf-8")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    answer: Any = await scripted.client.create(
        {**review, "metadata": {}, "spec": {"token": token}}, kind=TOKEN_REVIEWS
    )
    user = answer["status"]["user"]
    account = f"system:serviceaccount:{scripted.namespace}:dgdr-publisher-{run.uid}"
    assert answer["status"]["authenticated"]
    assert user["username"] == account
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [pod.uid]
    claims = claims_of(token)
    assert claims["exp"] - claims["iat"] == 3600


def secrets_of(container: Container) -> Iterator[str]:
    """Where an account's files are mounted."""
    return (point for point in container.mount_points() if point.endswith(TOKENS))


def claims_of(token: str) -> dict[str, Any]:
    """What a token says, unverified."""
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(
        base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    )
    return claims
