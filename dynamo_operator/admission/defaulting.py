"""Completes a Request's spec: only what is missing, and the second time nothing."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from dynamo_operator.admission.denials import Denial
from dynamo_operator.api.v1beta2 import (
    Backend,
    Gpu,
    Hardware,
    Load,
    Metric,
    Objective,
    Recommendation,
    SearchSpec,
    StaticWorkload,
    TraceReplay,
    TraceWorkload,
    Workload,
)
from dynamo_operator.hardware.inventory import (
    GpuDiscoveryError,
    GpuInventory,
    unknown_product_message,
)

INPUT_TOKENS: Final = 1024
OUTPUT_TOKENS: Final = 128
CONCURRENCY: Final = 10
MAX_CANDIDATES: Final = 5
OPTIMIZE: Final = "optimize"
SPEEDUP_RATIO: Final = 1

SKU_FIELD: Final = "spec.hardware.gpu.sku"
BUDGET_FIELD: Final = "spec.hardware.gpu.budget"


class Discovery(Protocol):
    """Finds the cluster's GPUs."""

    async def discover(self, *, sku: str | None = None) -> GpuInventory:
        """Return the GPUs; raises GpuDiscoveryError."""


class Completion(NamedTuple):
    """A completed spec, and what a person should know about the hardware that was discovered."""

    spec: SearchSpec
    notes: tuple[str, ...] = ()


def missing_hardware(spec: SearchSpec) -> tuple[str, ...]:
    """Return the hardware fields that discovery has to fill."""
    gpu = _gpu(spec)
    return tuple(
        field
        for field, value in ((SKU_FIELD, gpu.sku), (BUDGET_FIELD, gpu.budget))
        if value is None
    )


async def complete_discovering(
    spec: SearchSpec, discovery: Discovery | None, *, previous: SearchSpec | None = None
) -> Completion:
    """Complete a spec, discovering hardware only where neither it nor `previous` says.

    Args:
        spec: as written.
        discovery: finds the GPUs; None: they have to be named.
        previous: the spec before an update.

    Raises:
        Denial: the hardware is not known; the text names exactly the missing fields.
    """
    completed = complete(spec, previous=previous)
    missing = missing_hardware(completed)
    if not missing:
        return Completion(completed)
    if discovery is None:
        raise Denial(" and ".join(missing), f"missing, and nothing looks for GPUs; {_set(missing)}")
    try:
        inventory = await discovery.discover(sku=_gpu(completed).sku)
    except GpuDiscoveryError as error:
        raise _unknown_hardware(missing, str(error)) from error
    if inventory.sku is None and SKU_FIELD in missing:
        raise _unknown_hardware(missing, unknown_product_message(inventory))
    return Completion(complete(completed, inventory=inventory), inventory.notes)


def complete(
    spec: SearchSpec,
    *,
    inventory: GpuInventory | None = None,
    previous: SearchSpec | None = None,
) -> SearchSpec:
    """Return the spec with defaults in place of what is missing.

    An explicitly empty `static: {}` stays empty; that is how a user opts out.

    Args:
        spec: as written.
        inventory: the cluster's GPUs, for what `previous` leaves open too.
        previous: the spec before an update; its hardware comes before discovery.
    """
    updates: dict[str, Any] = {}
    if spec.backends is None:
        updates["backends"] = [str(Backend.VLLM)]
    if (hardware := _complete_hardware(spec, inventory, previous)) is not None:
        updates["hardware"] = hardware
    updates["workload"] = _complete_workload(spec.workload)
    updates["objective"] = _filled(
        spec.objective or Objective(), mode=OPTIMIZE, metric=str(Metric.THROUGHPUT)
    )
    updates["recommendation"] = _filled(
        spec.recommendation or Recommendation(), max_candidates=MAX_CANDIDATES
    )
    return spec.model_copy(update=updates)


def _gpu(spec: SearchSpec | None) -> Gpu:
    return (spec.hardware.gpu if spec and spec.hardware else None) or Gpu()


def _complete_hardware(
    spec: SearchSpec, inventory: GpuInventory | None, previous: SearchSpec | None
) -> Hardware | None:
    old = _gpu(previous)
    found = {
        "sku": old.sku or (inventory.sku if inventory else None),
        "budget": old.budget or (inventory.budget if inventory else None),
    }
    gpu = _filled(_gpu(spec), **{name: value for name, value in found.items() if value is not None})
    if not gpu.model_fields_set:
        return None
    return (spec.hardware or Hardware()).model_copy(update={"gpu": gpu})


def _complete_workload(workload: Workload | None) -> Workload:
    present = workload or Workload()
    if present.trace is not None:
        return present.model_copy(update={"trace": _complete_trace(present.trace)})
    static = present.static
    if static is not None and not static.model_fields_set:
        return present
    completed = _filled(
        static or StaticWorkload(),
        input_tokens=INPUT_TOKENS,
        output_tokens=OUTPUT_TOKENS,
        load=Load(concurrency=CONCURRENCY),
    )
    return present.model_copy(update={"static": completed})


def _complete_trace(trace: TraceWorkload) -> TraceWorkload:
    replay = trace.replay or TraceReplay()
    if replay.concurrency is None:
        replay = _filled(replay, arrival_speedup_ratio=SPEEDUP_RATIO)
    return trace.model_copy(update={"replay": replay})


def _filled(struct: Any, **defaults: Any) -> Any:
    missing = {name: value for name, value in defaults.items() if getattr(struct, name) is None}
    return struct.model_copy(update=missing)


def _unknown_hardware(missing: tuple[str, ...], why: str) -> Denial:
    return Denial(" and ".join(missing), f"cannot be discovered: {why}; {_set(missing)}")


def _set(missing: tuple[str, ...]) -> str:
    return "set it" if len(missing) == 1 else "set both"
