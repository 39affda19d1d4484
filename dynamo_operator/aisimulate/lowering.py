"""A completed spec becomes AISimulate's recommendation input: pure, the same for every caller."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from dynamo_operator.aisimulate.document import canonical
from dynamo_operator.aisimulate.overrides import (
    DEEPEST,
    OVERRIDES_FIELD,
    LayeredDocument,
    LoweringError,
    Origin,
    OriginKind,
    is_too_deep,
    protected_violations,
)
from dynamo_operator.api.planner_contract import (
    OUTPUT_ADAPTER,
    SNAPSHOT_DIRECTORY,
    TRACE_DIRECTORY,
)
from dynamo_operator.api.schema import canonical_number
from dynamo_operator.api.v1beta2 import (
    Backend,
    KvCapacityFraction,
    Load,
    Metric,
    SearchSpec,
    StaticWorkload,
    TraceWorkload,
)

STOP_REQUESTS: Final = 1000
"""`traffic.stop.requests` of synthetic traffic."""

RANGE_TRIALS: Final = 320
"""`optimizer.max_trials` when the load is a range to search over."""

MODES: Final = ("aggregated", "disaggregated")
ROLES_OF_MODE: Final = {"aggregated": ("aggregated",), "disaggregated": ("prefill", "decode")}
_ROLES: Final = ("aggregated", "prefill", "decode")
_BLOCK_SIZES: Final = {Backend.VLLM: 64, Backend.SGLANG: 1, Backend.TRTLLM: 32}
_BLOCK_SIZE_OF_SEVERAL: Final = 64

_SECONDS: Final = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class ExecutionValues:
    """What the operator fixes for one Run: identity, runtime images, topology."""

    name: str
    namespace: str
    runtime_image: str
    num_gpus_per_node: int
    runtime_version_override: str | None = None
    snapshot_dir: str = SNAPSHOT_DIRECTORY
    derive_runtime_images: bool = True


@dataclass(frozen=True, slots=True)
class Lowered:
    """The effective document in canonical form, and where its values come from."""

    document: dict[str, Any]
    layers: LayeredDocument

    def origin_of(self, path: Sequence[str]) -> Origin | None:
        """Return where the value at a path of the document comes from."""
        return self.layers.origin_of(tuple(path))


def lower(spec: SearchSpec, execution: ExecutionValues | None = None) -> Lowered:
    """Return the effective document of a completed spec.

    Layers, lowest first: the static underlay, typed fields, derived values where nothing is set,
    `inputOverrides`, the operator's own values.

    Args:
        spec: a spec that defaulting has completed; no default is added here.
        execution: the operator's values; None leaves them out, as admission does, which has no Run.

    Raises:
        LoweringError: a field is missing or wrong; `path` names it.
    """
    layers = LayeredDocument()
    _lower_engine(layers, spec)
    _lower_workload(layers, spec)
    _lower_objective(layers, spec)
    _lower_search(layers, spec)
    _derive(layers, spec)
    _apply_overrides(layers, spec)
    _check_goodput(layers, spec)
    _apply_operator_values(layers, spec, execution)
    try:
        return Lowered(canonical(layers.content), layers)
    except ValueError as error:
        raise LoweringError(OVERRIDES_FIELD, str(error)) from error


def duration_seconds(text: str, path: str) -> int | float:
    """Return the seconds of a duration such as `90s`, `1.5h` or `1h30m`.

    Raises:
        LoweringError: it is no duration, or not above zero.
    """
    parts = _DURATION_PART.findall(text)
    seconds = sum((Decimal(number) * _SECONDS[unit] for number, unit in parts), Decimal(0))
    is_one = "".join(number + unit for number, unit in parts) == text
    if not is_one or seconds <= 0 or math.isinf(float(seconds)):
        raise LoweringError(path, f"{text!r} must be a duration above zero, e.g. 90s or 10m")
    number: int | float = canonical_number(float(seconds))
    return number


def _typed(field: str) -> Origin:
    return Origin(OriginKind.TYPED, field)


_DERIVED: Final = Origin(OriginKind.DERIVED)
_UNDERLAY: Final = Origin(OriginKind.UNDERLAY)


def _lower_engine(layers: LayeredDocument, spec: SearchSpec) -> None:
    backends = _backends(spec)
    block_size = _BLOCK_SIZES[backends[0]] if len(backends) == 1 else _BLOCK_SIZE_OF_SEVERAL
    layers.set("engine.mode", {"choices": list(MODES)}, _UNDERLAY)
    for role in _ROLES:
        layers.set(f"engine.workers.{role}.kv_cache.block_size", block_size, _UNDERLAY)

    gpu = spec.hardware.gpu if spec.hardware else None
    if gpu is None or gpu.sku is None:
        raise LoweringError("spec.hardware.gpu.sku", "is missing: name the GPU product")
    if gpu.budget is None:
        raise LoweringError("spec.hardware.gpu.budget", "is missing: say how many GPUs may be used")
    layers.set("engine.model", spec.model.name, _typed("spec.model.name"))
    layers.set("engine.hardware", gpu.sku, _typed("spec.hardware.gpu.sku"))
    layers.set(
        "optimization.constraints.max_candidate_gpus",
        gpu.budget,
        _typed("spec.hardware.gpu.budget"),
    )
    names = [str(backend) for backend in backends]
    layers.set(
        "engine.backend",
        names[0] if len(names) == 1 else {"choices": names},
        _typed("spec.backends"),
    )


def _backends(spec: SearchSpec) -> list[Backend]:
    if not spec.backends:
        raise LoweringError("spec.backends", "is missing: list vllm, sglang or trtllm")
    for index, name in enumerate(spec.backends):
        if name not in set(Backend):
            accepted = ", ".join(Backend)
            raise LoweringError(f"spec.backends[{index}]", f"{name!r} must be one of {accepted}")
    return [backend for backend in Backend if backend in spec.backends]


def _lower_workload(layers: LayeredDocument, spec: SearchSpec) -> None:
    workload = spec.workload
    if workload is None or (workload.static is None and workload.trace is None):
        raise LoweringError("spec.workload", "is missing: set static or trace")
    if workload.static is not None and workload.trace is not None:
        raise LoweringError("spec.workload", "at most one of static and trace may be set")
    if workload.trace is not None:
        _lower_trace(layers, workload.trace)
    elif workload.static is not None and workload.static.model_fields_set:
        _lower_static(layers, workload.static)


def _lower_static(layers: LayeredDocument, static: StaticWorkload) -> None:
    field = "spec.workload.static"
    layers.set("traffic.source.type", "synthetic", _typed(field))
    for name, value in (
        ("input_tokens", static.input_tokens),
        ("output_tokens", static.output_tokens),
    ):
        if value is not None:
            layers.set(f"traffic.source.{name}", value, _typed(f"{field}.{_camel(name)}"))
    if static.load is None:
        raise LoweringError(
            f"{field}.load",
            "is missing: set requestsPerSecond, concurrency or kvCapacityFraction",
        )
    _lower_load(layers, static.load, f"{field}.load")


def _lower_load(layers: LayeredDocument, load: Load, field: str) -> None:
    given = {
        name: getattr(load, name)
        for name in ("requests_per_second", "concurrency", "kv_capacity_fraction")
        if getattr(load, name) is not None
    }
    if len(given) != 1:
        raise LoweringError(
            field,
            "exactly one of requestsPerSecond, concurrency and kvCapacityFraction must be set",
        )
    ((name, value),) = given.items()
    origin = _typed(f"{field}.{_camel(name)}")
    if name == "concurrency":
        layers.set("traffic.load.type", "concurrency", origin)
        layers.set("traffic.load.concurrency", value, origin)
    elif name == "requests_per_second":
        layers.set("traffic.load.type", "constant_rate", origin)
        layers.set("traffic.load.requests_per_second", value, origin)
    else:
        layers.set("traffic.load.type", "kv_capacity_fraction", origin)
        layers.set("traffic.load.fraction", _fraction(value, origin.field), origin)


def _fraction(fraction: KvCapacityFraction, field: str) -> Any:
    if (fraction.value is None) == (fraction.range is None):
        raise LoweringError(field, "exactly one of value and range must be set")
    if fraction.range is None:
        return fraction.value
    if fraction.range.max < fraction.range.min:
        raise LoweringError(f"{field}.range.max", "must be at least min")
    return {"range": {"min": fraction.range.min, "max": fraction.range.max}}


def _lower_trace(layers: LayeredDocument, trace: TraceWorkload) -> None:
    field = "spec.workload.trace"
    path = trace.source.pvc.path
    if path.startswith("/") or ".." in path.split("/"):
        raise LoweringError(
            f"{field}.source.pvc.path",
            f"{path!r} must be relative to the volume and must not contain '..'",
        )
    layers.set("traffic.source.type", "trace", _typed(field))
    layers.set(
        "traffic.source.paths", [f"{TRACE_DIRECTORY}/{path}"], _typed(f"{field}.source.pvc.path")
    )
    if trace.format is not None:
        layers.set("traffic.source.format", trace.format, _typed(f"{field}.format"))

    speedup = trace.replay.arrival_speedup_ratio if trace.replay else None
    concurrency = trace.replay.concurrency if trace.replay else None
    if speedup is not None and concurrency is not None:
        raise LoweringError(
            f"{field}.replay", "at most one of arrivalSpeedupRatio and concurrency may be set"
        )
    if concurrency is not None:
        origin = _typed(f"{field}.replay.concurrency")
        layers.set("traffic.load.type", "concurrency", origin)
        layers.set("traffic.load.concurrency", concurrency, origin)
        return
    origin = _typed(f"{field}.replay.arrivalSpeedupRatio")
    layers.set("traffic.load.type", "trace_timestamps", origin)
    if speedup is not None:
        layers.set("traffic.load.speedup", speedup, origin)


def _lower_objective(layers: LayeredDocument, spec: SearchSpec) -> None:
    objective = spec.objective
    if objective is None:
        return
    if objective.metric is not None:
        layers.set("optimization.target", _snake(objective.metric), _typed("spec.objective.metric"))
    if objective.sla is not None:
        for name in ("ttft_ms", "itl_ms", "e2e_ms"):
            value = getattr(objective.sla, name)
            if value is not None:
                origin = _typed(f"spec.objective.sla.{_camel(name)}")
                layers.set(f"evaluation.sla.{name}", value, origin)


def _lower_search(layers: LayeredDocument, spec: SearchSpec) -> None:
    budget = spec.search.budget if spec.search else None
    if budget is None:
        return
    field = "spec.search.budget"
    if budget.max_evaluations is not None:
        origin = _typed(f"{field}.maxEvaluations")
        layers.set("optimizer.max_trials", budget.max_evaluations, origin)
    if budget.parallel_evaluations is not None:
        origin = _typed(f"{field}.parallelEvaluations")
        layers.set("optimizer.parallelism", budget.parallel_evaluations, origin)
    if budget.max_evaluation_duration is not None:
        path = f"{field}.maxEvaluationDuration"
        seconds = duration_seconds(budget.max_evaluation_duration, path)
        layers.set("optimizer.candidate_timeout_seconds", seconds, _typed(path))


def _derive(layers: LayeredDocument, spec: SearchSpec) -> None:
    if spec.workload and spec.workload.static and spec.workload.static.model_fields_set:
        layers.set_absent("traffic.stop.requests", STOP_REQUESTS, _DERIVED)
    if _searches_load(spec):
        layers.set_absent("optimizer.max_trials", RANGE_TRIALS, _DERIVED)
    if layers.content.get("evaluation", {}).get("sla"):
        layers.set_absent("optimization.strict_sla", True, _DERIVED)


def _searches_load(spec: SearchSpec) -> bool:
    static = spec.workload.static if spec.workload else None
    fraction = static.load.kv_capacity_fraction if static and static.load else None
    return fraction is not None and fraction.range is not None


def _apply_overrides(layers: LayeredDocument, spec: SearchSpec) -> None:
    overrides = spec.aisimulate.input_overrides if spec.aisimulate else None
    if not overrides:
        return
    if is_too_deep(overrides):
        raise LoweringError(OVERRIDES_FIELD, f"is nested deeper than {DEEPEST} levels")
    for violation in protected_violations(overrides):
        raise violation
    engine = overrides.get("engine")
    if isinstance(engine, dict) and engine.get("mode") is not None:
        for role in _roles_without_use(engine["mode"]):
            layers.remove(("engine", "workers", role))
    layers.merge(overrides)


def _check_goodput(layers: LayeredDocument, spec: SearchSpec) -> None:
    metric = spec.objective.metric if spec.objective else None
    if metric not in (Metric.GOODPUT, Metric.GOODPUT_PER_GPU):
        return
    origin = layers.origin_of(("optimization", "target"))
    evaluation = layers.content.get("evaluation")
    bounds = evaluation.get("sla") if isinstance(evaluation, dict) else None
    if origin is not None and origin.kind is OriginKind.TYPED and not bounds:
        raise LoweringError(
            "spec.objective.sla", f"is missing for {metric}: set ttftMs, itlMs or e2eMs"
        )


def _roles_without_use(mode: Any) -> list[str]:
    """Roles of the underlay that a mode chosen by an override does not use: they are ours."""
    choices = mode.get("choices") if isinstance(mode, dict) else [mode]
    if not isinstance(choices, list):
        return []
    used = {role for choice in choices for role in ROLES_OF_MODE.get(str(choice), ())}
    return [role for role in _ROLES if role not in used]


def _apply_operator_values(
    layers: LayeredDocument, spec: SearchSpec, execution: ExecutionValues | None
) -> None:
    recommendation = spec.recommendation
    if recommendation is not None and recommendation.max_candidates is not None:
        layers.set(
            f"{OUTPUT_ADAPTER}.max_candidates",
            recommendation.max_candidates,
            _typed("spec.recommendation.maxCandidates"),
        )
    if execution is None:
        return
    operator = Origin(OriginKind.OPERATOR)
    values = {
        "name": execution.name,
        "namespace": execution.namespace,
        "snapshot_dir": execution.snapshot_dir,
        "runtime_image": execution.runtime_image,
        "runtime_version_override": execution.runtime_version_override,
        "num_gpus_per_node": execution.num_gpus_per_node,
        "derive_runtime_images": execution.derive_runtime_images,
    }
    for key, value in values.items():
        if value is not None:
            layers.set(f"{OUTPUT_ADAPTER}.{key}", value, operator)


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).lower()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
