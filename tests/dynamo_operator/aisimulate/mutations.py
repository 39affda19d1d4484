"""Recommendation inputs that are a few random changes away from a good one; seeded."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from tests.dynamo_operator.aisimulate.lowering_cases import lowered

VALUES: list[Any] = [
    *(None, 0, 1, -1, 10, 2.5, True, False, "", "x", [], {}, ["a"], ["a", "b"]),
    *("auto", "aggregated", "disaggregated", "afd", "vllm", "sglang", "fixed", "default"),
    *("poisson", "constant_rate", "kv_capacity_fraction", "trace_timestamps"),
    *("synthetic", "synthetic-session", "trace", "weka", "mooncake-delta", "dynamo"),
    *("agentic_mooncake", "applied_compute_agentic", "goodput", "min_gpus", "pareto"),
    *({"choices": c} for c in ([1, 2], [], [1, 1], ["vllm", "sglang"], ["aggregated"])),
    *(
        {"range": r}
        for r in (
            {"min": 1, "max": 4},
            {"min": 1, "max": 4, "step": 1},
            {"min": 4, "max": 1, "step": 1},
            {"min": 0.1, "max": 0.9},
            {"min": 1, "max": 8, "scale": "log"},
        )
    ),
    {"height": 1, "width": 1},
    {"phase": "both", "combined_with_pd": False, "a_batch_size": 1},
    {"kind": "ngram", "num_speculative_tokens": 1, "acceptance_rates": [0.5]},
]
_WORKER = (
    "context_length hardware parallelism.preset parallelism.tensor scheduler.max_sequences "
    "kv_cache.block_size kv_cache.prefix_caching kv_cache.capacity.type kv_cache.capacity.blocks "
    "kv_cache.capacity.memory_fraction kv_cache.host_offload.num_host_blocks timing.type "
    "timing.prefill_ms timing.decode_ms timing.forward_model timing.estimation_mode "
    "timing.gemm_quant_mode startup_seconds"
)
_ENGINE = (
    "mode backend hardware model backend_version context_length kv_transfer nextn nextn_accepted "
    "workers workers.encoder estimation_mode database_mode systems_paths enable_eplb moe_backend "
    "speculation afd enable_chunked_prefill"
)
_TRAFFIC = (
    "source load stop source.type source.input_tokens source.cached_prefix_tokens source.images "
    "source.paths source.format source.session source.nested_timestamp_basis load.type "
    "load.concurrency load.requests_per_second load.sessions_per_second load.fraction load.speedup "
    "load.seed load.agentic_lanes load.agentic_warmup stop.requests stop.requests_per_load_unit "
    "stop.sessions stop.max_virtual_time_seconds"
)
_REST = (
    "evaluation evaluation.sla evaluation.sla.ttft_ms evaluation.sla.e2e_ms optimization "
    "optimization.target optimization.hardware optimization.strict_sla optimization.constraints "
    "optimization.constraints.min_candidate_gpus optimization.constraints.min_goodput_rps "
    "optimizer optimizer.max_trials optimizer.seed optimizer.algorithm "
    "optimizer.candidate_timeout_seconds execution execution.resources.cpu_limit engine traffic"
)
PATHS = [
    *(f"engine.{name}" for name in _ENGINE.split()),
    *(f"engine.workers.{role}" for role in ("aggregated", "prefill", "decode")),
    *(f"engine.workers.{r}.{n}" for r in ("aggregated", "decode") for n in _WORKER.split()),
    *(f"traffic.{name}" for name in _TRAFFIC.split()),
    *_REST.split(),
]


def mutated_inputs(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield inputs with one to four changes each, core sections only."""
    chance = random.Random(seed)
    good = lowered("model-only").document
    del good["dgdr_run"]
    for _ in range(count):
        document = copy.deepcopy(good)
        for _ in range(chance.randint(1, 4)):
            _change(document, chance)
        yield document


def _change(document: dict[str, Any], chance: random.Random) -> None:
    *parents, last = chance.choice(PATHS).split(".")
    node: dict[str, Any] = document
    for key in parents:
        if not isinstance(node.get(key), dict):
            node[key] = {}
        node = node[key]
    if chance.random() < 0.2:
        node.pop(last, None)
    else:
        node[last] = copy.deepcopy(chance.choice(VALUES))
