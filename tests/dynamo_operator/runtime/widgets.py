"""A kind of the tests' own, its cluster, and watches that can be held back."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import TransportError
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport
from informers.objects import ObjectKey, ResourceType

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Widget(KubeModel):
    resource_type = ResourceType("lab.test", "v1", "Widget", "widgets")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


WIDGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.lab.test"},
    "spec": {
        "group": "lab.test",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": ANYTHING, "status": ANYTHING},
                    }
                },
            }
        ],
    },
}


def key(name: str, namespace: str = "default") -> ObjectKey:
    return ObjectKey(namespace, name)


def widget(name: str, *, namespace: str = "default", **fields: Any) -> Widget:
    return Widget.new(name, namespace=namespace, **fields)


@asynccontextmanager
async def widget_cluster():
    async with Cluster.start(crds=[WIDGET_CRD]) as cluster:
        yield cluster


class HeldWatches:
    """A transport whose watches of one resource can be held back; it also logs requests."""

    def __init__(self, cluster: Cluster, plural: str = "") -> None:
        self._transport = InProcessTransport(cluster.server)
        self._plural = plural
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.requests: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.loses: list[str] = []
        """Methods of which the next answer is lost, or never comes (`hang METHOD`)."""
        self.client = Client.over(self, clock=cluster.clock, random=cluster.random)

    def hold(self) -> None:
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    def count(self, text: str) -> int:
        return sum(text in request for request in self.requests)

    def _log(self, request: Any) -> None:
        watch = "WATCH" if ("watch", "true") in request.query else request.method
        self.requests.append(f"{watch} {request.path}")
        self.queries.append(dict(request.query))

    async def send(self, request: Any, *, timeout_seconds: float) -> Any:
        self._log(request)
        answer = await self._transport.send(request, timeout_seconds=timeout_seconds)
        if request.method in self.loses:
            self.loses.remove(request.method)
            raise TransportError("connection reset")
        if f"hang {request.method}" in self.loses:
            self.loses.remove(f"hang {request.method}")
            await asyncio.Event().wait()
        return answer

    @asynccontextmanager
    async def stream(self, request: Any):
        self._log(request)
        async with self._transport.stream(request) as stream:
            held = request.path.endswith(f"/{self._plural}")
            yield _HeldStream(stream, self._flowing) if held else stream

    async def close(self) -> None:
        await self._transport.close()


class _HeldStream:
    def __init__(self, stream: Any, flowing: asyncio.Event) -> None:
        self._stream = stream
        self._flowing = flowing
        self.status = stream.status
        self.headers = stream.headers

    async def chunks(self):
        async for chunk in self._stream.chunks():
            await self._flowing.wait()
            yield chunk

    async def read(self) -> Any:
        return await self._stream.read()
