import asyncio

import pytest

from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.hardware.inventory import GpuDiscoveryError
from dynamo_operator.runtime.builtin_kinds import Node, Pod
from dynamo_operator.runtime.client.errors import (
    ForbiddenError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from dynamo_operator.testing.virtual_time import VirtualClock, run

L4_NODE = Node.new(
    "n1", labels={"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.count": "4"}
)
H200_METRICS = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",modelName="NVIDIA H200",Hostname="n1"} 40\n'


class Answers:
    """A Reader that answers lists from memory and counts them."""

    def __init__(self, nodes=(), pods=()):
        self.nodes, self.pods = nodes, pods
        self.lists = 0

    async def get(self, kind, key):
        raise AssertionError("discovery lists only")

    async def find(self, kind, key):
        raise AssertionError("discovery lists only")

    async def list(self, kind, *, namespace="", labels=None, fields=None):
        self.lists += 1
        answer = self.nodes if kind is Node else self.pods
        if isinstance(answer, Exception):
            raise answer
        if kind is Node:
            return list(answer)
        return [p for p in answer if labels.items() <= dict(p.labels).items()]


def exporter(name, *, address="10.0.0.1", labels=None, phase="Running"):
    return Pod.new(
        name,
        namespace="gpu",
        labels=labels or {"app": "nvidia-dcgm-exporter"},
        spec={"nodeName": "n1"},
        status={"phase": phase, "podIP": address},
    )


def fetching(answers, seen=None):
    async def fetch(url):
        if seen is not None:
            seen.append(url)
        answer = answers[url]
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return ""
        if isinstance(answer, Exception):
            raise answer
        return answer

    return fetch


def discovery(answers, fetch=None):
    return GpuDiscovery(answers, fetch=fetch, clock=VirtualClock())


def test_metrics_win_over_node_labels():
    fetch = fetching({"http://10.0.0.1:9400/metrics": H200_METRICS})

    found = run(discovery(Answers([L4_NODE], [exporter("a")]), fetch).discover())

    assert (found.sku, found.total) == ("h200_sxm", 1)


def test_node_labels_serve_where_no_exporter_runs():
    answers = Answers([L4_NODE], [exporter("a", phase="Pending")])

    found = run(discovery(answers, fetching({})).discover())

    assert (found.sku, found.total) == ("l4", 4)


def test_a_pod_that_two_selectors_match_is_scraped_once():
    labels = {"app": "dcgm-exporter", "app.kubernetes.io/name": "dcgm-exporter"}
    seen: list[str] = []
    fetch = fetching({"http://[fd00::7]:9400/metrics": H200_METRICS}, seen)

    run(discovery(Answers([], [exporter("a", address="fd00::7", labels=labels)]), fetch).discover())

    assert seen == ["http://[fd00::7]:9400/metrics"]


def test_bad_exporters_are_skipped_in_parallel_and_the_good_node_counts():
    pods = [exporter(f"p{i}", address=f"10.0.0.{i}") for i in range(4)]
    fetch = fetching(
        {
            "http://10.0.0.0:9400/metrics": 3600.0,
            "http://10.0.0.1:9400/metrics": H200_METRICS,
            "http://10.0.0.2:9400/metrics": TransportError("500 internal server error"),
            "http://10.0.0.3:9400/metrics": "<html>login</html>",
        }
    )

    async def timed():
        found = await discovery(Answers([], pods), fetch).discover()
        return found, asyncio.get_running_loop().time()

    found, seconds = run(timed())

    assert found.total == 1
    assert seconds == pytest.approx(5.0)
    assert len(found.notes) == 3


def test_failing_everywhere_names_everything_that_was_looked_at():
    fetch = fetching({"http://10.0.0.1:9400/metrics": TransportError("connection refused")})

    with pytest.raises(GpuDiscoveryError) as error:
        run(discovery(Answers([Node.new("n1")], [exporter("a")]), fetch).discover())

    assert "gpu/a at http://10.0.0.1:9400/metrics: connection refused" in str(error.value)
    assert "none of 1 nodes has the labels" in str(error.value)


def test_missing_rights_name_the_verb_and_the_role_and_do_not_hide_the_other_source():
    forbidden = ForbiddenError(403, "Forbidden", 'User "u" cannot list resource "nodes"')
    fetch = fetching({"http://10.0.0.1:9400/metrics": H200_METRICS})

    found = run(discovery(Answers(forbidden, [exporter("a")]), fetch).discover())
    assert found.total == 1

    with pytest.raises(GpuDiscoveryError, match=r'list nodes \(User "u".*gpu-discovery'):
        run(discovery(Answers(forbidden, [])).discover())


def test_successes_are_kept_for_a_minute_and_failures_are_not():
    async def story():
        answers = Answers([L4_NODE])
        found = discovery(answers)
        await found.discover()
        await found.gpus_per_node()
        first = answers.lists
        await asyncio.sleep(60)
        await found.discover()
        again = answers.lists
        answers.nodes = ServerError(500, "InternalError", "etcd is away")
        await asyncio.sleep(60)
        for _ in range(2):
            with pytest.raises(GpuDiscoveryError, match="etcd is away"):
                await found.discover()
        return first, again, answers.lists

    assert run(story()) == (1, 2, 4)


def test_a_hanging_api_server_is_waited_for_six_seconds_and_no_longer():
    class Hanging(Answers):
        async def list(self, kind, **_):
            await asyncio.sleep(3600)

    async def timed():
        with pytest.raises(GpuDiscoveryError, match="node labels: no answer in 6 s"):
            await discovery(Hanging()).discover()
        return asyncio.get_running_loop().time()

    assert run(timed()) == pytest.approx(6.0)


def test_all_who_ask_at_once_share_one_look():
    answers = Answers(nodes=[L4_NODE])

    async def ask_often():
        discovery = GpuDiscovery(answers, fetch=None, clock=VirtualClock())
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(discovery.discover()) for _ in range(50)]
        return [task.result().total for task in asked]

    assert run(ask_often()) == [4] * 50
    assert answers.lists == 1


def test_who_waits_for_a_look_that_is_broken_off_looks_again():
    class Slow(Answers):
        async def list(self, kind, **how):
            answer = await super().list(kind, **how)
            await asyncio.sleep(1)
            return answer

    answers = Slow(nodes=[L4_NODE])

    async def break_off():
        discovery = GpuDiscovery(answers, fetch=None, clock=VirtualClock())
        async with asyncio.TaskGroup() as group:
            first = group.create_task(discovery.discover())
            await asyncio.sleep(0.5)
            second = group.create_task(discovery.discover())
            await asyncio.sleep(0.1)
            first.cancel()
        return second.result().total

    assert run(break_off()) == 4
    assert answers.lists == 2


def test_a_server_that_asked_for_a_pause_is_not_asked_before():
    reader = Answers(nodes=TooManyRequestsError(429, message="busy", retry_after_seconds=20))

    async def asked():
        discovery = GpuDiscovery(reader, fetch=None, clock=VirtualClock())
        for _ in range(3):
            with pytest.raises(GpuDiscoveryError, match="busy"):
                await discovery.discover()
            await asyncio.sleep(6)
        refused = reader.lists
        reader.nodes = (L4_NODE,)
        await asyncio.sleep(3)
        return refused, await discovery.gpus_per_node()

    assert run(asked()) == (1, 4)
