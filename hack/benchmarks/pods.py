"""Pods of 5 KB, as an API server lists and watches them, from a server that is only memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse

_CHUNK_LINES = 12
_HEADERS = {"content-type": "application/json"}


def pod(number: int, version: int) -> dict[str, Any]:
    """Return the Pod of that number as it was at that version; about 5,200 bytes of JSON."""
    name = f"worker-{number:06d}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": "worker-",
            "namespace": f"team-{number % 20}",
            "uid": f"{number:08x}-0000-4000-8000-000000000000",
            "resourceVersion": str(version),
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "labels": {
                "app.kubernetes.io/name": "worker",
                "app.kubernetes.io/instance": f"worker-{number % 100}",
                "pod-template-hash": "5d8f6c7b9",
            },
            "annotations": {"kubectl.kubernetes.io/default-container": "main"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"worker-{number % 100}",
                    "uid": f"{number % 100:08x}-1111-4000-8000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_managed("kube-controller-manager"), _managed("kubelet")],
        },
        "spec": {
            "nodeName": f"node-{number % 50}",
            "serviceAccountName": "default",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "containers": [_container("main"), _container("sidecar")],
            "volumes": [
                {"name": "config", "configMap": {"name": "worker", "defaultMode": 420}},
                {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.1.{number % 200}.{version % 200}",
            "startTime": "2030-01-01T00:00:01Z",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2030-01-01T00:00:02Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [_container_status("main"), _container_status("sidecar")],
        },
    }


def _managed(manager: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        f"f:{name}": {".": {}, "f:value": {}} for name in ("spec", "status", "metadata")
    }
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2030-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": fields, "f:spec": {**fields, "f:containers": fields}},
    }


def _container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"registry.lab/worker-{name}:1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/worker", "--verbose", f"--component={name}"],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(14)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/worker", "readOnly": True},
            {"name": "data", "mountPath": "/var/lib/worker"},
        ],
    }


def _container_status(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "ready": True,
        "restartCount": 0,
        "image": f"registry.lab/worker-{name}:1.2.3",
        "imageID": f"registry.lab/worker-{name}@sha256:{'0123456789abcdef' * 4}",
        "containerID": f"containerd://{'fedcba9876543210' * 4}",
        "state": {"running": {"startedAt": "2030-01-01T00:00:02Z"}},
    }


def encoded(number: int, version: int) -> bytes:
    """Return the Pod's JSON."""
    return json.dumps(pod(number, version), separators=(",", ":")).encode()


def event_line(number: int, version: int, kind: str = "MODIFIED") -> bytes:
    """Return one line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded(number, version))


class PodServer:
    """A `Transport` that lists Pods, and whose watch says what it is given.

    Args:
        pods: how many there are; their versions are 1.
        lines: what the watch says after the list.
    """

    def __init__(self, pods: int, lines: Iterable[bytes] = ()) -> None:
        self._items = [encoded(number, 1) for number in range(pods)]
        self._lines = iter(lines)

    async def send(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:
        """Return one page of the list."""
        query = dict(request.query)
        start, limit = int(query.get("continue", 0)), int(query.get("limit", 0))
        end = start + limit if limit else len(self._items)
        metadata = {"resourceVersion": "1", "continue": str(end) if end < len(self._items) else ""}
        body = b'{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[%s]}' % (
            json.dumps(metadata).encode(),
            b",".join(self._items[start:end]),
        )
        return HttpResponse(200, _HEADERS, body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncGenerator[_Watch]:
        """Open the watch; it stays open when all is said."""
        yield _Watch(self._lines)

    async def close(self) -> None:
        """Do nothing."""


class _Watch:
    status = 200
    headers = _HEADERS

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    async def chunks(self) -> AsyncIterator[bytes]:
        chunk: list[bytes] = []
        for line in self._lines:
            chunk.append(line)
            if len(chunk) == _CHUNK_LINES:
                yield b"".join(chunk)
                chunk.clear()
                await asyncio.sleep(0)
        yield b"".join(chunk)
        await asyncio.Event().wait()

    async def read(self) -> bytes:
        return b""
