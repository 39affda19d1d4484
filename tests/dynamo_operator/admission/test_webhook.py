"""The webhooks of Requests without a server: what they answer to what they are asked."""

from __future__ import annotations

import asyncio
import copy
from typing import Any, cast

import pytest

from dynamo_operator.admission.validation import EffectiveInputPolicy
from dynamo_operator.admission.webhook import TIMEOUT_SECONDS, RequestAdmission
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.apiserver.patches import json_patch
from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.hardware.inventory import GpuDiscoveryError, GpuInventory
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.runtime.webhooks import (
    Admission,
    DeniedError,
    GroupVersionKind,
    GroupVersionResource,
    Requester,
    Verdict,
)
from dynamo_operator.testing import virtual_time
from dynamo_operator.testing.virtual_time import VirtualClock

KIND = DynamoGraphDeploymentRequest.resource_type
FULL = {"model": {"name": "m"}, "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}}}
FAULT = {"aisimulate": {"inputOverrides": {"optimizer": {"max_trials": 0}}}}
H200 = GpuInventory("h200_sxm", "NVIDIA-H200", 16, 8, notes=("1 node has fewer than 8 GPUs",))


class Discovery:
    """Finds what it was told, and counts how often it was asked."""

    def __init__(self, found: GpuInventory | GpuDiscoveryError = H200) -> None:
        self.found = found
        self.calls = 0

    async def discover(self, *, sku: str | None = None) -> GpuInventory:
        self.calls += 1
        if isinstance(self.found, GpuDiscoveryError):
            raise self.found
        return self.found


def request(spec: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": "a", "namespace": "lab", **metadata},
        "spec": spec,
    }


def asked(new: Any, old: Any = None, *, version: str = KIND.version) -> Admission:
    kind = GroupVersionKind(KIND.group, KIND.version, KIND.kind)
    resource = GroupVersionResource(KIND.group, KIND.version, KIND.plural)
    return Admission(
        uid="1",
        operation="CREATE" if old is None else "UPDATE",
        kind=kind,
        resource=resource,
        requested_kind=GroupVersionKind(KIND.group, version, KIND.kind),
        requested_resource=GroupVersionResource(KIND.group, version, KIND.plural),
        requester=Requester("ann"),
        object=new,
        old_object=old,
    )


async def mutate(new: Any, old: Any = None, *, discovery: Any = None, **how: Any) -> Verdict:
    webhook = RequestAdmission(discovery or Discovery()).webhook()
    return await webhook.mutate(asked(new, old, **how))


async def stored(spec: Any, old: Any = None, **how: Any) -> Any:
    """What becomes of a spec."""
    new = request(spec)
    before = copy.deepcopy(new)
    verdict = await mutate(new, old, **how)
    assert verdict.allowed
    assert new == before
    patched: Any = json_patch(new, [dict(each) for each in verdict.patch])
    return patched["spec"]


async def validate(
    new: Any, old: Any = None, policy: EffectiveInputPolicy = EffectiveInputPolicy.DENY, **how: Any
) -> Verdict:
    return await RequestAdmission(policy=policy).webhook().validate(asked(new, old, **how))


async def completed(spec: Any) -> Any:
    return request(await stored(spec))


async def test_the_patch_adds_what_is_missing_and_touches_nothing_else():
    verdict = await mutate(request({**FULL, "objective": {"metric": "ttft"}, "rerun": None}))

    assert {(each["op"], each["path"]) for each in verdict.patch} == {
        ("add", "/spec/backends"),
        ("add", "/spec/workload"),
        ("add", "/spec/objective/mode"),
        ("add", "/spec/recommendation"),
    }


async def test_the_second_time_there_is_nothing_to_patch():
    once = await completed(FULL)

    verdict = await mutate(once)

    assert verdict.patch == ()


@pytest.mark.parametrize(
    ("workload", "static"),
    [
        ({"static": {}}, {}),
        ({"static": None}, {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}),
        (None, {"inputTokens": 1024, "outputTokens": 128, "load": {"concurrency": 10}}),
        (
            {"static": {"load": {"concurrency": None, "requestsPerSecond": 2.0}}},
            {
                "inputTokens": 1024,
                "outputTokens": 128,
                "load": {"concurrency": None, "requestsPerSecond": 2.0},
            },
        ),
    ],
    ids=["empty", "null", "null workload", "null inside"],
)
async def test_an_empty_static_stays_and_null_means_that_nothing_is_there(
    workload: Any, static: Any
):
    spec = await stored({**FULL, "workload": workload})

    assert spec["workload"]["static"] == static


async def test_overrides_are_left_as_they_are():
    written = {"a": [None, 1.5, {"b": None}], "c": {"d": True, "e": 20.0}}

    spec = await stored({**FULL, "aisimulate": {"inputOverrides": written}})

    assert spec["aisimulate"] == {"inputOverrides": written}


async def test_overrides_of_a_hostile_depth_are_refused():
    deep: Any = 1
    for _ in range(800):
        deep = {"a": deep}
    new = request({**FULL, "aisimulate": {"inputOverrides": deep}})

    with pytest.raises(DeniedError, match=r"^spec: is nested deeper than 67 levels$"):
        await RequestAdmission().webhook().mutate(asked(new))
    assert (await validate(new, new)).allowed


async def test_discovered_hardware_comes_with_what_one_should_know_of_it():
    verdict = await mutate(request({"model": {"name": "m"}}))

    assert {"op": "add", "path": "/spec/hardware", "value": {"gpu": {"sku": "h200_sxm",
            "budget": 16}}} in verdict.patch  # fmt: skip
    assert verdict.warnings == ("discovered GPUs: 1 node has fewer than 8 GPUs",)


async def test_hardware_of_the_object_before_comes_before_discovery():
    discovery = Discovery()

    spec = await stored({"model": {"name": "other"}}, request(FULL), discovery=discovery)

    assert spec["hardware"] == FULL["hardware"]
    assert discovery.calls == 0


@pytest.mark.parametrize(
    "discovery",
    [Discovery(GpuDiscoveryError("no node with GPUs was found")), None],
    ids=["nothing found", "nobody looks"],
)
async def test_unknown_hardware_is_refused_with_what_to_set(discovery: Discovery | None):
    webhook = RequestAdmission(discovery).webhook()

    with pytest.raises(DeniedError, match=r"^spec\.hardware\.gpu\.budget: .*; set it$") as refusal:
        await webhook.mutate(
            asked(request({"model": {"name": "m"}, "hardware": {"gpu": {"sku": "l4"}}}))
        )

    assert (refusal.value.code, refusal.value.reason) == (422, "Invalid")


class Hanging:
    """A reader whose API server does not answer."""

    async def list(self, kind: Any, **how: Any) -> Any:
        await asyncio.sleep(3600)


def test_hardware_that_nobody_tells_of_is_refused_before_the_api_server_gives_up():
    async def wait() -> tuple[str, float]:
        clock = VirtualClock()
        discovery = GpuDiscovery(cast("Any", Hanging()), fetch=fetch_text, clock=clock)
        with pytest.raises(DeniedError) as refusal:
            await mutate(request({"model": {"name": "m"}}), discovery=discovery)
        return str(refusal.value), clock.monotonic()

    text, seconds = virtual_time.run(wait())

    assert "node labels: no answer in 6 s" in text
    assert "DCGM exporters: no answer in 6 s" in text
    assert seconds <= 6 < TIMEOUT_SECONDS


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (None, "spec: must be an object, not null"),
        ([], "spec: must be an object, not []"),
        ({}, "spec.model: is missing"),
        (
            {**FULL, "objective": {"sla": {"ttftMs": "800ms"}}},
            "spec.objective.sla.ttftMs: must be a number of milliseconds, not '800ms'",
        ),
    ],
    ids=["null", "a list", "empty", "a unit in a number"],
)
async def test_a_spec_that_cannot_be_read_is_refused_with_its_field(spec: Any, told: str):
    with pytest.raises(DeniedError) as refusal:
        await mutate(request(spec))

    assert str(refusal.value) == told
    assert (refusal.value.code, refusal.value.reason) == (422, "Invalid")


@pytest.mark.parametrize("spec", [FAULT, None, {"model": 1}], ids=["bad", "null", "unreadable"])
async def test_an_unchanged_spec_passes_whatever_it_is(spec: Any):
    old, new = request(spec), request(copy.deepcopy(spec), labels={"a": "b"})
    discovery = Discovery()

    mutated = await mutate(new, old, discovery=discovery)
    validated = await validate(new, old)

    assert (mutated.allowed, mutated.patch, mutated.warnings) == (True, (), ())
    assert (validated.allowed, validated.warnings) == (True, ())
    assert discovery.calls == 0


async def test_true_in_place_of_one_is_a_change():
    old = await completed({**FULL, "aisimulate": {"inputOverrides": {"optimizer": {"seed": 1}}}})
    new = copy.deepcopy(old)
    new["spec"]["aisimulate"]["inputOverrides"]["optimizer"]["seed"] = True

    with pytest.raises(DeniedError, match=r"effective input optimizer\.seed .*, not true"):
        await validate(new, old)


async def test_what_is_being_deleted_may_change_as_it_likes():
    old = request(FULL, deletionTimestamp="2026-01-01T00:00:00Z")
    new = request({"model": 7}, deletionTimestamp="2026-01-01T00:00:00Z")

    assert (await mutate(new, old)).allowed
    assert (await validate(new, old)).allowed


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1"])
async def test_requests_through_other_versions_pass_untouched(version: str):
    new = request({"anything": 1})

    mutated = await mutate(new, version=version)
    validated = await validate(new, version=version)

    assert (mutated.allowed, mutated.patch, mutated.warnings) == (True, (), ())
    assert (validated.allowed, validated.warnings) == (True, ())


@pytest.mark.parametrize(
    ("policy", "warnings"),
    [(EffectiveInputPolicy.WARN, 1), (EffectiveInputPolicy.OFF, 0)],
)
async def test_the_policy_may_only_warn_or_not_look(policy: EffectiveInputPolicy, warnings: int):
    verdict = await validate(await completed({**FULL, **FAULT}), policy=policy)

    assert verdict.allowed
    assert len(verdict.warnings) == warnings


async def test_a_refusal_says_besides_what_only_warns():
    old = await completed({**FULL, **FAULT})
    new = copy.deepcopy(old)
    new["spec"]["aisimulate"]["inputOverrides"]["optimizer"]["parallelism"] = 0

    with pytest.raises(DeniedError, match=r"effective input optimizer\.parallelism") as refusal:
        await validate(new, old)

    (warning,) = refusal.value.warnings
    assert warning.startswith("effective input optimizer.max_trials (override, ")
