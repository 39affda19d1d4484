"""The controller on `dynamo_operator.runtime`."""

# ruff: noqa: E402 - what is imported while nothing is collected comes after that is said
from __future__ import annotations

import gc

gc.disable()  # importing makes many objects and drops none, so a search for garbage is in vain

import asyncio
import contextlib
import logging
import os
import signal
import sys
from typing import Any

import structlog
from pydantic import Field

from dynamo_operator.runtime import Controller, Manager, Result
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Pod
from dynamo_operator.runtime.client import Client, ClientConfig, Reader
from dynamo_operator.runtime.models import KubeModel, KubeStruct
from dynamo_operator.runtime.predicates import generation_changed
from informers.objects import ObjectKey, ResourceType


class WidgetSpec(KubeStruct):
    """What is wanted."""

    size: int


class WidgetStatus(KubeStruct):
    """What is there."""

    size: int | None = None


class Widget(KubeModel):
    """Wants a ConfigMap."""

    resource_type = ResourceType("bench.test", "v1", "Widget", "widgets")
    spec: WidgetSpec
    status: WidgetStatus = Field(default_factory=WidgetStatus)


class WidgetReconciler:
    """Makes the ConfigMap, then the status."""

    def __init__(self, reader: Reader, client: Client, wanted: int) -> None:
        self._reader = reader
        self._client = client
        self._wanted = wanted
        self._settled: set[str] = set()

    async def reconcile(self, key: ObjectKey) -> Result:
        """Bring one Widget to what it wants."""
        widget = await self._reader.find(Widget, key)
        if widget is None:
            return Result.done()
        data = {"size": str(widget.spec.size)}
        config = await self._reader.find(ConfigMap, key)
        if config is None:
            made = ConfigMap.new(key.name, namespace=key.namespace, data=data)
            await self._client.create(made, owner=widget)
        elif config.data != data:
            await self._client.patch(ConfigMap, key, {"data": data})
        if widget.status.size != widget.spec.size:
            status = {"status": {"size": widget.spec.size}}
            await self._client.patch(Widget, key, status, subresource="status")
        self._count(key.name)
        return Result.done()

    def _count(self, name: str) -> None:
        if len(self._settled) < self._wanted:
            self._settled.add(name)
            if len(self._settled) == self._wanted:
                print("settled", flush=True)


async def main() -> None:
    """Run until SIGTERM."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    namespace = os.environ["BENCH_NAMESPACE"]
    async with Client.connect(ClientConfig.load(environ=os.environ)) as client:
        gc.freeze()  # the modules are here to stay
        gc.enable()
        manager = Manager(client, namespaces=[namespace], metrics_address="127.0.0.1:0")
        kind: Any = {"ConfigMap": ConfigMap, "Pod": Pod}.get(os.environ.get("BENCH_CACHE", ""))
        if kind is None:
            wanted = int(os.environ["BENCH_WIDGETS"])
            manager.add(
                Controller(
                    Widget,
                    owns=[ConfigMap],
                    predicates=[generation_changed],
                    reconciler=lambda reader, client: WidgetReconciler(reader, client, wanted),
                    max_concurrent_reconciles=8,
                )
            )
            await manager.run()
        else:
            manager.cache.declare(kind)
            async with manager.running():
                await asyncio.sleep(1)
                print("settled", flush=True)
                await asyncio.Event().wait()


if __name__ == "__main__":
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),  # as zap's default is
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        import uvloop

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    with contextlib.suppress(asyncio.CancelledError):
        runner.run(main())
