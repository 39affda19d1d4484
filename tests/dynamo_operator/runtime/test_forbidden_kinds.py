"""A missing permission is named wherever one looks for what is wrong."""

import asyncio

import pytest

from dynamo_operator.runtime.cache import CacheSyncError
from dynamo_operator.runtime.client.http import HttpRequest
from dynamo_operator.runtime.controller import Controller
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.reconciler import Result
from informers.errors import AccessDeniedError
from tests.dynamo_operator.runtime.widgets import Widget, widget_cluster

pytestmark = pytest.mark.virtual_time


class Nothing:
    async def reconcile(self, widget_key):
        return Result.done()


@pytest.fixture
async def cluster():
    async with widget_cluster() as cluster:
        yield cluster


def manager_without_permission(cluster, **options):
    manager = Manager(
        cluster.client_of("nobody"), clock=cluster.clock, random=cluster.random, **options
    )
    manager.add(Controller(Widget, reconciler=Nothing(), cache_sync_timeout_seconds=20))
    return manager


async def answer_of(endpoint, path):
    """What the endpoint says, without a socket."""

    class Routes:
        def route(self, method, path, handler, *, below):
            self.handler = handler

    routes = Routes()
    endpoint.mount(routes)
    return await routes.handler(HttpRequest("GET", path))


async def test_the_time_out_of_the_first_list_says_that_it_is_forbidden(cluster):
    with pytest.raises(CacheSyncError, match=r"20 s: widgets.*403 Forbidden.*widgets"):
        await manager_without_permission(cluster).run()


async def test_readiness_and_a_metric_say_so_before_that(cluster):
    manager = manager_without_permission(cluster)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await asyncio.sleep(5)
        answer = await answer_of(manager.readyz, "/readyz/informers")
        text = manager.metrics.render().decode()
        task.cancel()

    assert answer.status == 500
    assert b"403 Forbidden" in answer.body
    assert b"widgets" in answer.body
    assert 'informer_list_watch_failing{code="403",namespace="",resource="widgets' in text


async def test_a_manager_can_fail_at_once_instead(cluster):
    manager = manager_without_permission(cluster, fail_when_forbidden=True)

    with pytest.raises(
        AccessDeniedError, match=r"lab.*Widget: 403 Forbidden.*grant its list and watch"
    ):
        await manager.run()

    assert asyncio.get_running_loop().time() < 1
