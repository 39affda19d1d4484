"""The parts of the soak: faults that are real ones, and a history that notices what is wrong."""

import pytest

from dynamo_operator.api.labels import REQUEST_GENERATION_LABEL, RUN_UID_LABEL
from dynamo_operator.apiserver.storage import Storage
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client import Client, ServerError, TransportError, UnknownOutcomeError
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.in_process_transport import InProcessTransport
from hack.simulation.faulty_transport import FaultyTransport, Weather
from hack.simulation.history import JOBS, PODS, RUNS, History
from informers.clock import Random
from informers.objects import ObjectKey

KEY = ObjectKey("default", "a")


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("weather", "error", "is_done"),
    [
        (Weather(unreachable=1), TransportError, False),
        (Weather(lost_request=1), UnknownOutcomeError, False),
        (Weather(lost_answer=1), UnknownOutcomeError, True),
        (Weather(late=1), ServerError, True),
    ],
    ids=["unreachable", "lost request", "lost answer", "late"],
)
async def test_a_fault_is_one_that_a_client_cannot_tell_from_a_real_one(weather, error, is_done):
    async with Cluster.start() as cluster:
        transport = FaultyTransport(InProcessTransport(cluster.server), Random(1))
        client = Client.over(transport, clock=cluster.clock, random=cluster.random)
        transport.weather = weather

        with pytest.raises(error):
            await client.create(ConfigMap.new(KEY.name, namespace=KEY.namespace))

        assert (await cluster.client.find(ConfigMap, KEY) is not None) is is_done


@pytest.mark.virtual_time
async def test_a_killed_client_reaches_nothing_any_more():
    async with Cluster.start() as cluster:
        transport = FaultyTransport(InProcessTransport(cluster.server), Random(1))
        client = Client.over(transport, clock=cluster.clock, random=cluster.random)
        transport.kill()

        with pytest.raises(TransportError):
            await client.create(ConfigMap.new(KEY.name, namespace=KEY.namespace))

        assert await cluster.client.find(ConfigMap, KEY) is None


def owned(name, owner, **fields):
    reference = {"apiVersion": "v1", "kind": "Any", "name": "any", "uid": owner, "controller": True}
    metadata = {"name": name, "namespace": "default", "uid": f"uid of {name}"}
    return {
        "apiVersion": "v1",
        "kind": "Any",
        "metadata": {**metadata, "ownerReferences": [reference], **fields.pop("metadata", {})},
        **fields,
    }


def run(name, phase, generation=1, reason="Succeeded"):
    completed = {"type": "Completed", "status": "True", "reason": reason}
    return owned(
        name,
        "request",
        metadata={"labels": {REQUEST_GENERATION_LABEL: str(generation)}},
        status={"phase": phase, "conditions": [completed]},
    )


POD = owned("a", "job", metadata={"labels": {RUN_UID_LABEL: "uid of r"}}, status={})


@pytest.mark.parametrize(
    ("commits", "noticed"),
    [
        ([(JOBS, owned("a", "run")), (JOBS, owned("b", "run"))], "Job b is another one of Run run"),
        ([(RUNS, run("r", "Failed")), (JOBS, owned("a", "uid of r"))], "for a Run that is Failed"),
        ([(RUNS, run("r", "Failed")), (RUNS, run("s", None))], "another one of generation 1"),
        ([(RUNS, run("r", None)), (RUNS, run("s", None, 2))], "was made while r goes on"),
        (
            [(RUNS, run("r", "Running")), (RUNS, run("r", "Pending"))],
            "Running back to Pending",
        ),
        ([(RUNS, run("r", "Failed")), (RUNS, run("r", "Succeeded"))], "its phase went from Failed"),
        (
            [(JOBS, owned("a", "uid of r")), (RUNS, run("r", None)), (RUNS, run("r", "Failed"))],
            "Run r ended, and its Job a goes on",
        ),
        (
            [(PODS, POD), (RUNS, run("r", None)), (RUNS, run("r", "Failed"))],
            "Run r ended, and its Pod a goes on",
        ),
        (
            [(RUNS, run("r", "Failed", reason="Failed")), (RUNS, run("r", "Failed"))],
            "its Completed went from",
        ),
    ],
)
def test_a_broken_promise_is_noticed_as_it_is_committed(commits, noticed):
    storage = Storage()
    history = History(storage)
    for key, value in commits:
        storage.put(key, value)

    (violation,) = history.violations
    assert noticed in violation


def test_a_life_without_fault_breaks_no_promise():
    storage = Storage()
    history = History(storage)
    for phase in (None, "Pending", "Running", "Succeeded", "Succeeded"):
        storage.put(RUNS, run("r", phase))
    storage.put(RUNS, run("s", None, generation=2))
    storage.put(JOBS, owned("a", "uid of s"))

    assert history.violations == []
