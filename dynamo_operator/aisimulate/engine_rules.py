"""What AISimulate refuses in `engine` beyond its schema: our port of its rules, pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.aisimulate.violations import Violation, at

Section = Mapping[str, Any]

ROLES: Final = ("aggregated", "prefill", "decode")
DEFAULT_MODES: Final = ("aggregated", "disaggregated")
DEFAULT_BACKENDS: Final = ("vllm", "sglang")

_IDENTITY_FIELDS: Final = (
    "gemm_quant_mode",
    "moe_quant_mode",
    "fmha_quant_mode",
    "kvcache_quant_mode",
    "comm_quant_mode",
    "attention_backend",
)
_ESTIMATOR_FIELDS: Final = (
    "estimation_mode",
    "fallback_policy",
    "estimator_config",
    "systems_paths",
    "database_mode",
    "transfer_policy",
)
_PARALLEL_KNOBS: Final = (
    "replicas",
    "tensor",
    "pipeline",
    "attention_data",
    "moe_tensor",
    "moe_expert",
)


def engine_violations(engine: Section) -> Iterator[Violation]:
    """Yield what is wrong with an `engine` section that the schema accepts."""
    for name in ("model", "hardware"):
        if not engine[name]:
            yield Violation(("engine", name), "must not be empty")
    yield from _role_violations(engine)
    yield from _version_violations(engine)
    yield from _policy_violations(engine)
    yield from _speculation_violations(engine)
    for role, worker in configured_workers(engine):
        yield from _worker_violations(engine, role, worker)


def modes_of(engine: Section) -> tuple[str, ...]:
    """Return the modes that are searched."""
    return _choices(engine.get("mode"), DEFAULT_MODES)


def backends_of(engine: Section) -> tuple[str, ...]:
    """Return the backends that are searched."""
    return _choices(engine.get("backend"), DEFAULT_BACKENDS)


def configured_workers(engine: Section) -> list[tuple[str, Section]]:
    """Return the roles that have a worker, with it."""
    workers = engine.get("workers") or {}
    return [(role, workers[role]) for role in ROLES if workers.get(role) is not None]


def _choices(value: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    if value is None:
        return default
    return tuple(value["choices"]) if isinstance(value, Mapping) else (value,)


def _role_violations(engine: Section) -> Iterator[Violation]:
    modes, path = modes_of(engine), ("engine", "workers")
    configured = {role for role, _ in configured_workers(engine)}
    if "afd" in modes:
        yield from _afd_violations(engine, configured)
        return
    if engine.get("afd") is not None:
        yield Violation(("engine", "afd"), "needs engine.mode afd")
    for mode, roles in (("aggregated", ("aggregated",)), ("disaggregated", ("prefill", "decode"))):
        for role in roles:
            if mode in modes and role not in configured:
                yield Violation((*path, role), f"is missing for mode {mode}")
            if mode not in modes and role in configured:
                yield Violation(
                    (*path, role),
                    f"does not go with mode {' and '.join(modes)}",
                    rivals=((*path, role),),
                )
    if modes == ("aggregated",) and engine.get("kv_transfer") is not None:
        yield Violation(("engine", "kv_transfer"), "does not go with mode aggregated")


def _afd_violations(engine: Section, configured: set[str]) -> Iterator[Violation]:
    if set(modes_of(engine)) != {"afd"}:
        yield Violation(("engine", "mode"), "afd cannot be searched together with other modes")
        return
    if at(engine, "workers", "encoder") is not None:
        yield Violation(("engine", "workers", "encoder"), "does not go with mode afd")
    if engine.get("kv_transfer") is not None:
        yield Violation(("engine", "kv_transfer"), "does not go with mode afd")
    afd = engine.get("afd")
    if afd is None:
        yield Violation(("engine", "afd"), "is missing for mode afd")
        return
    companions: set[str] = set()
    if afd["combined_with_pd"] and afd["phase"] != "both":
        companions = {"decode" if afd["phase"] == "prefill" else "prefill"}
    if afd["combined_with_pd"] == (afd["phase"] == "both"):
        accepted = "prefill or decode" if afd["combined_with_pd"] else "both"
        yield Violation(("engine", "afd", "phase"), f"must be {accepted} here")
    for role in sorted(configured - companions):
        path = ("engine", "workers", role)
        yield Violation(path, "does not go with mode afd", rivals=(path,))


def _version_violations(engine: Section) -> Iterator[Violation]:
    versions = engine.get("backend_version")
    if isinstance(versions, Mapping):
        for backend in versions:
            if backend not in backends_of(engine):
                yield Violation(
                    ("engine", "backend_version", backend), "is not among the backends searched"
                )


def _policy_violations(engine: Section) -> Iterator[Violation]:
    nextn, accepted = engine.get("nextn", 0), engine.get("nextn_accepted")
    if nextn and accepted is None:
        yield Violation(("engine", "nextn_accepted"), "is missing where nextn is set")
    if accepted is not None and (not nextn or accepted > nextn):
        yield Violation(("engine", "nextn_accepted"), "must be between 0 and nextn")
    if "afd" in modes_of(engine) and engine.get("enable_chunked_prefill") is not None:
        yield Violation(("engine", "enable_chunked_prefill"), "does not go with mode afd")
    paths, path = engine.get("systems_paths"), engine.get("systems_path")
    if path is not None and paths is not None and paths != [path]:
        yield Violation(("engine", "systems_path"), "contradicts systems_paths: set one of them")


def _speculation_violations(engine: Section) -> Iterator[Violation]:
    speculation, path = engine.get("speculation"), ("engine", "speculation")
    if speculation is None:
        return
    if len(speculation["acceptance_rates"]) != speculation["num_speculative_tokens"]:
        yield Violation(
            (*path, "acceptance_rates"), "must have one rate for each speculative token"
        )
    if engine.get("nextn"):
        yield Violation(path, "does not go with nextn")
    if set(backends_of(engine)) != {"vllm"}:
        yield Violation(path, "needs backend vllm alone")
    if "afd" in modes_of(engine) or at(engine, "workers", "encoder") is not None:
        yield Violation(path, "needs aggregated or disaggregated workers without an encoder")
    for role, worker in configured_workers(engine):
        if at(worker, "kv_cache", "host_offload") is not None:
            where = ("engine", "workers", role, "kv_cache", "host_offload")
            yield Violation(where, "does not go with engine.speculation")


def _worker_violations(engine: Section, role: str, worker: Section) -> Iterator[Violation]:
    path = ("engine", "workers", role)
    if role == "aggregated" and worker.get("context_length") is not None:
        yield Violation((*path, "context_length"), "is set as engine.context_length")
    hardware = worker.get("hardware")
    if hardware is not None:
        modes = modes_of(engine)
        if role == "aggregated" or "disaggregated" not in modes or "afd" in modes:
            yield Violation((*path, "hardware"), "goes with prefill and decode workers only")
        elif hardware != hardware.strip() or hardware in ("", "auto"):
            yield Violation((*path, "hardware"), "must name one product")
    yield from _parallelism_violations((*path, "parallelism"), worker.get("parallelism") or {})
    yield from _cache_violations(engine, (*path, "kv_cache"), worker.get("kv_cache") or {})
    yield from _timing_violations((*path, "timing"), worker.get("timing") or {})


def _parallelism_violations(path: tuple[str, ...], parallelism: Section) -> Iterator[Violation]:
    preset = parallelism.get("preset", "default")
    if preset == [] or (isinstance(preset, Mapping) and preset):
        yield Violation((*path, "preset"), "must be default, false, or a list that is not empty")
    if isinstance(preset, list):
        for index, entry in enumerate(preset):
            missing = [name for name in _PARALLEL_KNOBS if name not in entry]
            if missing:
                where = (*path, "preset", str(index))
                yield Violation(where, f"lacks {', '.join(missing)}: every knob must be given")
    given = [name for name in _PARALLEL_KNOBS if parallelism.get(name) is not None]
    if given and preset is not False and preset != {}:
        yield Violation(
            (*path, given[0]), "is searched on its own only with preset: false beside it"
        )


def _cache_violations(
    engine: Section, path: tuple[str, ...], cache: Section
) -> Iterator[Violation]:
    capacity = cache.get("capacity") or {}
    kind = capacity.get("type", "default")
    where = (*path, "capacity")
    fraction = at(capacity, "memory_fraction", "range")
    if fraction is not None and not (fraction["min"] > 0 and fraction["max"] <= 1):
        yield Violation((*where, "memory_fraction"), "must stay above 0 and at most 1")
    if kind == "fixed" and capacity.get("blocks") is None:
        yield Violation((*where, "blocks"), "is missing for capacity type fixed")
    if kind == "fixed" and capacity.get("memory_fraction") is not None:
        yield Violation((*where, "memory_fraction"), "does not go with capacity type fixed")
    if kind == "default" and capacity.get("blocks") is not None:
        yield Violation((*where, "blocks"), "needs capacity type fixed")
    yield from _offload_violations(engine, path, cache)
    yield from _block_size_violations(engine, path, cache.get("block_size"))


def _offload_violations(
    engine: Section, path: tuple[str, ...], cache: Section
) -> Iterator[Violation]:
    if cache.get("host_offload") is None:
        return
    where = (*path, "host_offload")
    if engine.get("mode") not in DEFAULT_MODES:
        yield Violation(where, "needs engine.mode aggregated or disaggregated, not a choice")
    if engine.get("backend") != "vllm":
        yield Violation(where, "needs engine.backend vllm")
    if cache.get("prefix_caching") is False:
        yield Violation(where, "needs prefix_caching")


def _block_size_violations(
    engine: Section, path: tuple[str, ...], block_size: Any
) -> Iterator[Violation]:
    if block_size is None or "sglang" in backends_of(engine) or "afd" in modes_of(engine):
        return
    if isinstance(block_size, Mapping):
        choices = block_size.get("choices")
        largest = max(choices) if choices else at(block_size, "range", "max")
    else:
        largest = block_size
    if largest is not None and largest < 2:
        yield Violation((*path, "block_size"), "must be at least 2 for vllm and trtllm")


def _timing_violations(path: tuple[str, ...], timing: Section) -> Iterator[Violation]:
    kind = timing.get("type", "default")
    for name in _IDENTITY_FIELDS:
        if timing.get(name) is not None:
            yield Violation((*path, name), "goes with predictions only, not with a search")
    if kind != "default":
        for name in _ESTIMATOR_FIELDS:
            if timing.get(name) is not None:
                yield Violation((*path, name), "needs timing type default")
        if timing.get("forward_model", "op_level") != "op_level":
            yield Violation((*path, "forward_model"), "needs timing type default")
    for name in ("prefill_ms", "decode_ms"):
        if kind == "fixed" and timing.get(name) is None:
            yield Violation((*path, name), "is missing for timing type fixed")
        if kind != "fixed" and timing.get(name) is not None:
            yield Violation((*path, name), "needs timing type fixed")
