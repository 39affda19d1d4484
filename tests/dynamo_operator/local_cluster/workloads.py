"""Deployments for tests, and a kubelet's words about their Pods."""

from pathlib import Path

from dynamo_operator.runtime.builtin_kinds import Deployment, Pod, ReplicaSet
from informers.objects import controller_ref

LABELS = {"app": "web"}
PORT = 5561

_SERVER = Path(__file__).with_name("health_server.py").read_text(encoding="utf-8")


def deployment(name="web", namespace="default", *, image="lab:1", labels=None, **spec):
    """A Deployment of one small container."""
    labels = labels or LABELS
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template, **spec}
    return Deployment.new(name, namespace=namespace, spec=spec)


def rolling(surge, unavailable):
    """A strategy of rolling updates."""
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def with_image(image):
    """A patch that changes a Deployment's template."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def status_of(found, type_):
    """A condition of a Deployment or ReplicaSet, or None."""
    conditions = found.status.get("conditions") or ()
    return next((c for c in conditions if c["type"] == type_), None)


def is_complete(found):
    """Whether all Pods are new and available, and the status says so of the present spec."""
    status, wanted = found.status, found.spec["replicas"]
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return status.get("observedGeneration") == found.metadata.generation and all(
        status.get(name, 0) == wanted for name in counts
    )


def serving(ready_file, namespace="default"):
    """A Deployment of gRPC servers, each on the same port of its Pod's address."""
    probe = {"grpc": {"port": PORT, "service": ""}, "periodSeconds": 1}
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    made = deployment(namespace=namespace, replicas=2, strategy=rolling(1, 0))
    made.spec["template"]["spec"] = {
        "terminationGracePeriodSeconds": 2,
        "containers": [
            {
                "name": "main",
                "image": "lab:1",
                "command": ["python", "-c", _SERVER, f"$(POD_IP):{PORT}", str(ready_file)],
                "env": [address],
                "ports": [{"name": "grpc", "containerPort": PORT}],
                "startupProbe": {**probe, "failureThreshold": 60},
                "readinessProbe": probe,
            }
        ],
    }
    return made


class Kubelet:
    """Writes what a kubelet would write of Pods that nothing runs."""

    def __init__(self, cluster, namespace="default"):
        self._client = cluster.client
        self._clock = cluster.clock
        self._namespace = namespace

    async def pods(self):
        """The Pods that are not being deleted, by name."""
        pods = await self._client.list(Pod, namespace=self._namespace)
        return [pod for pod in pods if not pod.is_deleting]

    async def set_ready(self, pod, *, ready=True, since=None):
        """Let a Pod run, ready or not."""
        time = (since or self._clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": time,
        }
        status = {"phase": "Running", "conditions": [condition]}
        await self._client.patch(Pod, pod.key, {"status": status}, subresource="status")

    async def make_ready(self):
        """Let every Pod run and be ready that is not yet; returns how many there are."""
        pods = await self.pods()
        for pod in pods:
            if pod.status.get("phase") == "Pending":
                await self.set_ready(pod)
        return len(pods)

    async def replica_sets(self, owner):
        """The ReplicaSets that a Deployment controls, by revision."""
        found = await self._client.list(ReplicaSet, namespace=self._namespace)
        mine = [r for r in found if (c := controller_ref(r)) is not None and c.uid == owner.uid]
        revision = "deployment.kubernetes.io/revision"
        return sorted(mine, key=lambda r: int(r.metadata.annotations[revision]))
