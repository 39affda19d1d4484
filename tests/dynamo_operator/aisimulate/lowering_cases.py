"""Specs and the inputs that they become; the latter are the files in golden/.

`python -m tests.dynamo_operator.aisimulate.lowering_cases` writes the files anew: read the diff.
"""

from pathlib import Path
from typing import Any

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.aisimulate.document import dump_document
from dynamo_operator.aisimulate.lowering import ExecutionValues, Lowered, lower
from dynamo_operator.api.v1beta2 import SearchSpec

GOLDEN = Path(__file__).parent / "golden"
EXECUTION = ExecutionValues(
    name="r8f2a0a",
    namespace="lab",
    runtime_image="registry.lab:5000/dynamo-planner:1.6.0",
    runtime_version_override="1.6.0",
    num_gpus_per_node=8,
)


def _spec(**sections: Any) -> dict[str, Any]:
    return {
        "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": {"sku": "h200_sxm", "budget": 8}},
        **sections,
    }


def _load(**kinds: Any) -> dict[str, Any]:
    return _spec(workload={"static": {"load": kinds}})


def _trace(**more: Any) -> dict[str, Any]:
    source = {"pvc": {"claimName": "traces", "path": "2026/day 1.jsonl"}}
    return _spec(workload={"trace": {"source": source, **more}})


def _overrides(patch: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return _spec(aisimulate={"inputOverrides": patch}, **sections)


def _objective(**objective: Any) -> dict[str, Any]:
    return _spec(objective=objective)


def _budget(**budget: Any) -> dict[str, Any]:
    return _spec(search={"budget": budget})


CASES: dict[str, dict[str, Any]] = {
    "model-only": _spec(),
    "tokens": _spec(workload={"static": {"inputTokens": 2048}}),
    "output-tokens": _spec(workload={"static": {"outputTokens": 1}}),
    "concurrency": _load(concurrency=64),
    "requests-per-second": _load(requestsPerSecond=20.0),
    "requests-per-second-fractional": _load(requestsPerSecond=0.25),
    "kv-value": _load(kvCapacityFraction={"value": 0.5}),
    "kv-value-above-one": _load(kvCapacityFraction={"value": 2.0}),
    "kv-range": _load(kvCapacityFraction={"range": {"min": 0.1, "max": 1.0}}),
    "kv-range-with-budget": {
        **_load(kvCapacityFraction={"range": {"min": 0.1, "max": 1.0}}),
        "search": {"budget": {"maxEvaluations": 12}},
    },
    "static-opt-out": _spec(workload={"static": {}}),
    "trace": _trace(),
    "trace-speedup": _trace(format="mooncake", replay={"arrivalSpeedupRatio": 2.5}),
    "trace-concurrency": _trace(format="dynamo", replay={"concurrency": 32}),
    "trace-agentic": _trace(format="agentic_mooncake"),
    "backend-sglang": _spec(backends=["sglang"]),
    "backend-trtllm": _spec(backends=["trtllm"]),
    "backends-two": _spec(backends=["trtllm", "sglang"]),
    "backends-all": _spec(backends=["trtllm", "vllm", "sglang"]),
    "budget-evaluations": _budget(maxEvaluations=6),
    "budget-parallel": _budget(parallelEvaluations=2),
    "budget-duration": _budget(maxEvaluationDuration="1h30m"),
    "budget-duration-fraction": _budget(maxEvaluationDuration="1.5s"),
    "budget-duration-milliseconds": _budget(maxEvaluationDuration="250ms"),
    "budget-all": _budget(maxEvaluations=6, parallelEvaluations=2, maxEvaluationDuration="10m"),
    "metric-throughput-per-gpu": _objective(metric="throughputPerGpu"),
    "metric-throughput-per-user": _objective(metric="throughputPerUser"),
    "metric-ttft": _objective(metric="ttft"),
    "metric-e2e-latency": _objective(metric="e2eLatency"),
    "metric-goodput": _objective(metric="goodput", sla={"ttftMs": 200, "itlMs": 20}),
    "metric-goodput-per-gpu": _objective(metric="goodputPerGpu", sla={"e2eMs": 2000}),
    "sla-ttft": _objective(sla={"ttftMs": 200.5}),
    "sla-itl": _objective(sla={"itlMs": 20}),
    "sla-e2e": _objective(sla={"e2eMs": 1000.0}),
    "candidates": _spec(recommendation={"maxCandidates": 100}),
    "rerun": _spec(rerun={"reason": "new prices"}),
    "override-stop": _overrides(
        {"traffic": {"stop": {"requests": None, "requests_per_load_unit": 10}}}
    ),
    "override-strict-sla-deleted": _overrides(
        {"optimization": {"strict_sla": None}}, objective={"sla": {"ttftMs": 200}}
    ),
    "override-strict-sla-replaced": _overrides(
        {"optimization": {"strict_sla": False}}, objective={"sla": {"ttftMs": 200}}
    ),
    "override-max-trials-deleted": _overrides(
        {"optimizer": {"max_trials": None}},
        workload={"static": {"load": {"kvCapacityFraction": {"range": {"min": 0.1, "max": 1}}}}},
    ),
    "override-wins-over-typed": _overrides({"engine": {"model": "other/model", "hardware": "l4"}}),
    "override-mode-aggregated": _overrides({"engine": {"mode": "aggregated"}}),
    "override-mode-disaggregated": _overrides({"engine": {"mode": "disaggregated"}}),
    "override-mode-one-choice": _overrides({"engine": {"mode": {"choices": ["aggregated"]}}}),
    "override-mode-keeps-callers-workers": _overrides(
        {"engine": {"mode": "aggregated", "workers": {"prefill": {"scheduler": {}}}}}
    ),
    "override-mode-deleted": _overrides({"engine": {"mode": None}}),
    "override-workers": _overrides(
        {
            "engine": {
                "workers": {"decode": {"kv_cache": {"block_size": 16, "prefix_caching": False}}}
            }
        }
    ),
    "override-whole-load": _overrides(
        {"traffic": {"load": {"type": "poisson", "concurrency": None, "requests_per_second": 3}}}
    ),
    "override-traffic-deleted": _overrides({"traffic": None}),
    "override-list-replaced": _overrides({"engine": {"backend": {"choices": ["vllm", "sglang"]}}}),
    "override-nested-nulls": _overrides({"execution": {"resources": {"cpu_limit": 2, "x": None}}}),
    "override-adapters": _overrides(
        {"router": {"policy": "kv_router"}, "dgdr_run": {"snapshot_interval_seconds": 0.5}}
    ),
    "override-integral-float": _overrides({"optimizer": {"seed": 7.0}}),
    "override-goodput-bound": _overrides(
        {"evaluation": {"sla": {"ttft_ms": 100}}}, objective={"metric": "goodput"}
    ),
}


def lowered(name: str) -> Lowered:
    """Lower a case as the Run controller does: completed, with execution values."""
    return lower(complete(SearchSpec.model_validate(CASES[name])), EXECUTION)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for case in CASES:
        text = dump_document(lowered(case).document)
        (GOLDEN / f"{case}.yaml").write_text(text, encoding="utf-8")
