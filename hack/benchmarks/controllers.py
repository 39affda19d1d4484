"""What the machinery around a reconciler costs, and a whole controller at work."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from dynamo_operator.apiserver import ApiServer
from dynamo_operator.runtime import Channel, Controller, Manager, Result
from dynamo_operator.runtime.builtin_kinds import ConfigMap, CustomResourceDefinition
from dynamo_operator.runtime.client import Client, Reader
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.testing.in_process_transport import InProcessTransport
from hack.benchmarks.measurement import Bar, Measurement
from informers.objects import ObjectKey, ResourceType
from informers.work_queue import WorkQueue

_QUEUE_ITEMS = 100_000
_EMPTY_RECONCILES = 20_000
_WIDGETS = 500
_WORKERS = 8
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_WIDGET_CRD = {
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
                        "properties": {"spec": _ANYTHING, "status": _ANYTHING},
                    }
                },
            }
        ],
    },
}


class _Widget(KubeModel):
    resource_type = ResourceType("lab.test", "v1", "Widget", "widgets")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class _Countdown:
    """Says when something has happened so many times."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._over = asyncio.Event()

    def count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._over.set()

    async def wait(self) -> None:
        await self._over.wait()


class _WidgetReconciler:
    """Makes a ConfigMap for each Widget, and says so in its status."""

    def __init__(self, reader: Reader, client: Client, made: _Countdown) -> None:
        self._reader = reader
        self._client = client
        self._made = made

    async def reconcile(self, key: ObjectKey) -> Result:
        widget = await self._reader.find(_Widget, key)
        if widget is None:
            return Result.done()
        desired = ConfigMap.new(key.name, namespace=key.namespace, data={"size": "1"})
        if await self._reader.find(ConfigMap, key) is None:
            await self._client.apply(desired, owner=widget)
        if not widget.status:
            await self._client.apply_status(widget, {"ready": True})
            self._made.count()
        return Result.done()


def queue(scale: float) -> list[Measurement]:
    """The work queue: add, get and done, without anybody to wait for."""
    count = int(_QUEUE_ITEMS * scale)
    keys = [ObjectKey("default", f"key-{number}") for number in range(count)]
    items: WorkQueue[ObjectKey] = WorkQueue()
    started = time.process_time()
    for key in keys:
        items.add(key)
    while (item := items.get_nowait()) is not None:
        items.done(item.key)
    seconds = time.process_time() - started
    rate = count / seconds
    return [Measurement("queue add, get and done", rate, "1/s", Bar(100_000, at_least=True))]


def reconcile(scale: float) -> list[Measurement]:
    """A reconcile that does nothing: queue, metrics, log context, own-write gate, deadline."""
    count = int(_EMPTY_RECONCILES * scale)
    seconds = asyncio.run(_reconcile_nothing(count))
    return [Measurement("reconcile overhead", seconds / count * 1e6, "us", Bar(100))]


def end_to_end(scale: float) -> list[Measurement]:
    """Widgets that each get a ConfigMap and a status; the API server is in the same process."""
    count = int(_WIDGETS * scale)
    seconds = asyncio.run(_reconcile_widgets(count))
    return [
        Measurement("Widget to ConfigMap", count / seconds, "1/s", Bar(100, at_least=True)),
        Measurement("Widget to ConfigMap, CPU each", seconds / count * 1e3, "ms"),
    ]


async def _reconcile_nothing(count: int) -> float:
    """Return the processor seconds for so many keys."""
    done = _Countdown(count)

    class Nothing:
        async def reconcile(self, key: ObjectKey) -> Result:
            done.count()
            return Result.done()

    client = await _cluster()
    channel = Channel()
    manager = Manager(client)
    manager.add(Controller(_Widget, reconciler=Nothing(), channels=[channel]))
    async with manager.running():
        started = time.process_time()
        for number in range(count):
            channel.send(ObjectKey("default", f"key-{number}"))
        await done.wait()
        return time.process_time() - started


async def _reconcile_widgets(count: int) -> float:
    """Return the processor seconds from the start of the manager to the last status."""
    client = await _cluster()
    for number in range(count):
        await client.create(_Widget.new(f"widget-{number}", namespace="default", spec={"size": 1}))
    made = _Countdown(count)
    manager = Manager(client)
    manager.add(
        Controller(
            _Widget,
            owns=[ConfigMap],
            reconciler=lambda reader, client: _WidgetReconciler(reader, client, made),
            max_concurrent_reconciles=_WORKERS,
        )
    )
    started = time.process_time()
    async with manager.running():
        await made.wait()
        return time.process_time() - started


async def _cluster() -> Client:
    """Return a client of a new API server that serves Widgets."""
    client = Client.over(InProcessTransport(ApiServer()))
    await client.create(CustomResourceDefinition.model_validate(_WIDGET_CRD))
    return client
