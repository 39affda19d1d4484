import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo_operator.admission.defaulting import (
    complete,
    complete_discovering,
    missing_hardware,
)
from dynamo_operator.admission.denials import Denial
from dynamo_operator.api.v1beta2 import SearchSpec
from dynamo_operator.hardware.inventory import GpuDiscoveryError, GpuInventory
from dynamo_operator.testing.virtual_time import run

H200 = GpuInventory("h200_sxm", "NVIDIA-H200", total=16, gpus_per_node=8)
FULL_GPU = {"gpu": {"sku": "h200_sxm", "budget": 8}}


def spec(**sections):
    return SearchSpec.model_validate({"model": {"name": "m"}, **sections})


class Discovery:
    def __init__(self, answer):
        self.answer = answer
        self.asked: list[str | None] = []

    async def discover(self, *, sku=None):
        self.asked.append(sku)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_model_alone_is_completed():
    assert complete(spec(hardware=FULL_GPU)).to_dict() == {
        "model": {"name": "m"},
        "backends": ["vllm"],
        "hardware": FULL_GPU,
        "workload": {
            "static": {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}
        },
        "objective": {"mode": "optimize", "metric": "throughput"},
        "recommendation": {"maxCandidates": 5},
    }


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ({"static": {}}, {"static": {}}),
        (
            {},
            {"static": {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}},
        ),
        (
            {"static": {"inputTokens": 2048}},
            {"static": {"inputTokens": 2048, "outputTokens": 128, "load": {"concurrency": 10}}},
        ),
        (
            {"static": {"load": {"requestsPerSecond": 2}}},
            {
                "static": {
                    "inputTokens": 1024,
                    "outputTokens": 128,
                    "load": {"requestsPerSecond": 2},
                }
            },
        ),
    ],
)
def test_a_static_workload_is_completed_unless_it_is_explicitly_empty(workload, expected):
    assert complete(spec(workload=workload)).to_dict()["workload"] == expected


@pytest.mark.parametrize(
    ("replay", "expected"),
    [
        (None, {"arrivalSpeedupRatio": 1}),
        ({}, {"arrivalSpeedupRatio": 1}),
        ({"arrivalSpeedupRatio": 3}, {"arrivalSpeedupRatio": 3}),
        ({"concurrency": 2}, {"concurrency": 2}),
    ],
)
def test_a_trace_runs_at_its_own_speed_unless_told_otherwise(replay, expected):
    trace = {"source": {"pvc": {"claimName": "c", "path": "p"}}}
    more = {} if replay is None else {"replay": replay}

    completed = complete(spec(workload={"trace": {**trace, **more}})).to_dict()

    assert completed["workload"] == {"trace": {**trace, "replay": expected}}


def test_what_is_written_stays_as_it_is():
    written = {
        "backends": ["sglang", "vllm"],
        "objective": {"metric": "ttft", "sla": {"ttftMs": 3}},
        "recommendation": {"maxCandidates": 9},
        "aisimulate": {"inputOverrides": {"traffic": {"stop": {"requests": None}}}},
    }

    completed = complete(spec(**written)).to_dict()

    assert completed["backends"] == ["sglang", "vllm"]
    assert completed["objective"] == {"mode": "optimize", "metric": "ttft", "sla": {"ttftMs": 3}}
    assert completed["recommendation"] == {"maxCandidates": 9}
    assert completed["aisimulate"] == written["aisimulate"]


TOKENS = st.fixed_dictionaries({}, optional={"inputTokens": st.integers(1, 9)})
GPUS = st.fixed_dictionaries({}, optional={"sku": st.just("l4"), "budget": st.integers(1, 9)})
SPECS = st.fixed_dictionaries(
    {"model": st.just({"name": "m"})},
    optional={
        "backends": st.just(["trtllm"]),
        "hardware": st.fixed_dictionaries({}, optional={"gpu": GPUS}),
        "workload": st.fixed_dictionaries({}, optional={"static": TOKENS}),
        "objective": st.fixed_dictionaries({}, optional={"metric": st.just("ttft")}),
    },
)


@settings(max_examples=60, deadline=None)
@given(SPECS, st.sampled_from([None, H200]))
def test_completing_twice_changes_nothing_and_only_adds(wire, inventory):
    once = complete(SearchSpec.model_validate(wire), inventory=inventory)

    assert complete(once, inventory=inventory).to_dict() == once.to_dict()
    assert _contains(once.to_dict(), wire)


def _contains(whole, part):
    if isinstance(part, dict):
        return all(key in whole and _contains(whole[key], value) for key, value in part.items())
    return bool(whole == part)


def test_hardware_that_is_given_is_not_discovered():
    discovery = Discovery(H200)

    completed, _ = run(complete_discovering(spec(hardware=FULL_GPU), discovery))

    assert discovery.asked == []
    assert completed.to_dict()["hardware"] == FULL_GPU


@pytest.mark.parametrize(
    ("gpu", "asked", "expected"),
    [
        ({}, None, {"sku": "h200_sxm", "budget": 16}),
        ({"budget": 4}, None, {"sku": "h200_sxm", "budget": 4}),
        ({"sku": "h200_sxm"}, "h200_sxm", {"sku": "h200_sxm", "budget": 16}),
    ],
)
def test_only_the_missing_half_is_discovered(gpu, asked, expected):
    discovery = Discovery(H200)

    completed, _ = run(complete_discovering(spec(hardware={"gpu": gpu}), discovery))

    assert discovery.asked == [asked]
    assert completed.to_dict()["hardware"] == {"gpu": expected}


def test_the_hardware_of_the_spec_before_comes_before_discovery():
    discovery = Discovery(H200)

    completed, _ = run(complete_discovering(spec(), discovery, previous=spec(hardware=FULL_GPU)))

    assert discovery.asked == []
    assert completed.to_dict()["hardware"] == FULL_GPU


@pytest.mark.parametrize(
    ("gpu", "fields"),
    [
        ({}, "spec.hardware.gpu.sku and spec.hardware.gpu.budget"),
        ({"sku": "l4"}, "spec.hardware.gpu.budget"),
        ({"budget": 4}, "spec.hardware.gpu.sku"),
    ],
)
def test_a_denial_names_exactly_what_is_missing_and_why(gpu, fields):
    discovery = Discovery(GpuDiscoveryError("may not list nodes"))

    with pytest.raises(Denial) as denial:
        run(complete_discovering(spec(hardware={"gpu": gpu}), discovery))

    assert denial.value.field == fields
    assert "may not list nodes" in denial.value.reason
    assert missing_hardware(spec(hardware={"gpu": gpu})) == tuple(fields.split(" and "))


def test_gpus_outside_the_catalogue_are_denied_by_name():
    discovery = Discovery(GpuInventory(None, "Tesla-T4", total=4, gpus_per_node=4))

    with pytest.raises(Denial, match=r"gpu\.sku.*Tesla-T4.*none of a100_pcie.*set both"):
        run(complete_discovering(spec(), discovery))
