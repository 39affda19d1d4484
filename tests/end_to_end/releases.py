"""The chart on the cluster, and programs in Pods that look at it from inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dynamo_operator.runtime.builtin_kinds import Namespace, Pod, ServiceAccount
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey
from tests.manifests.releases import Helm, inventory
from tests.manifests.rendering import NAMESPACE

OPERATOR_IMAGE = "dynamo-operator:0.1.0"
PLANNER_IMAGE = "dynamo-operator-planner:0.1.0"
USERS = "searches"
"""The namespace of Requests."""

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
VALUES: dict[str, Any] = {
    "config": {
        "dgdrDefaultImage": PLANNER_IMAGE,
        "runtimeImageSource": "nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.6.0",
        "fallbackGpusPerNode": 8,
        "planner": {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
        "poolRelay": {"module": "dynamo.kv_dc_relay"},
    }
}
POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
ENDED = ("Succeeded", "Failed")


class Release:
    """One release of the chart.

    Args:
        kubeconfig: of an administrator.
        directory: for what helm keeps.
    """

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self.helm = Helm(kubeconfig, directory)
        self._config = ClientConfig.load(kubeconfig, environ={})
        self.before: set[str] = set()

    async def install(self) -> None:
        """Make the namespaces, remember what is there, and install."""
        async with Client.connect(self._config) as client:
            for name in (NAMESPACE, USERS):
                await client.create(Namespace.new(name, labels=RESTRICTED))
            for name in (NAMESPACE, USERS):
                await _has_account(client, name)
            self.before = await inventory(client)
        await self.helm.install(VALUES)


async def _has_account(client: Client, namespace: str) -> None:
    """Wait for what Pods of a new namespace need."""
    account = ObjectKey(namespace, "default")
    await eventually(lambda: client.get(ServiceAccount, account), timeout=30)


async def run_in_pod(
    client: Client, name: str, program: str, *arguments: str, service_account: str = "default"
) -> str:
    """Run a Python program in a restricted Pod, and return what it printed."""
    container = {
        "name": "main",
        "image": OPERATOR_IMAGE,
        "command": ["/opt/dynamo-operator/bin/python3", "-c", program, *arguments],
        "securityContext": CONTAINER_SECURITY,
    }
    spec = {
        "restartPolicy": "Never",
        "serviceAccountName": service_account,
        "securityContext": POD_SECURITY,
        "containers": [container],
    }
    pod = await client.create(Pod.new(name, namespace=USERS, spec=spec))
    ended = await eventually(
        lambda: client.get(Pod, pod.key), lambda found: found.status["phase"] in ENDED, timeout=120
    )
    log = await client.request("GET", f"/api/v1/namespaces/{USERS}/pods/{name}/log")
    assert ended.status["phase"] == "Succeeded", log.body.decode()
    await client.delete(Pod, pod.key, grace_period_seconds=0)
    return log.body.decode()
