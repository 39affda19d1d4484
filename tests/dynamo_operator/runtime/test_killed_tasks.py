"""No task of a manager dies unnoticed."""

import asyncio
import traceback

import pytest

from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from tests.dynamo_operator.runtime.widgets import Widget, widget, widget_cluster

pytestmark = pytest.mark.virtual_time


class Recorder:
    def __init__(self):
        self.keys = []

    async def reconcile(self, widget_key):
        self.keys.append(widget_key.name)
        return Result.done()


async def kill_each():
    """Cancel every task of a manager, each in a manager of its own; return what came of it."""
    outcomes: dict[str, str] = {}
    position = 0
    while True:
        async with widget_cluster() as cluster:
            before = asyncio.all_tasks()
            recorder = Recorder()
            manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
            manager.add(Controller(Widget, reconciler=recorder, poll_every_seconds=600))
            running = asyncio.get_running_loop().create_task(manager.run())
            await manager.wait_synced()
            await asyncio.sleep(1)
            inner = sorted(asyncio.all_tasks() - before - {running}, key=lambda t: t.get_name())
            if position == len(inner):
                running.cancel()
                await asyncio.wait([running])
                return outcomes
            victim = inner[position]
            name = victim.get_name()
            victim.cancel()
            await asyncio.wait([running], timeout=5)
            if running.done():
                outcomes[name] = "".join(traceback.format_exception(running.exception()))
            else:
                await cluster.client.create(widget("news"))
                await asyncio.sleep(5)
                outcomes[name] = "goes on" if recorder.keys == ["news"] else "is blind"
                running.cancel()
                await asyncio.wait([running])
            position += 1


async def test_a_task_that_is_killed_is_replaced_or_ends_the_manager_with_an_error():
    outcomes = await kill_each()

    assert {
        "Cache",
        "EventRecorder",
        "informer widgets.v1.lab.test",
        "poll",
        "widget",
        "widget worker 0",
    } <= set(outcomes)
    unnoticed = {name: outcome for name, outcome in outcomes.items() if "cancelled" not in outcome}
    assert unnoticed == {}
