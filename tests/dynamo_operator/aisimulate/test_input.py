"""What AISimulate refuses; each expectation was tried on the real model."""

import pytest

from dynamo_operator.aisimulate.input import violations
from dynamo_operator.aisimulate.overrides import LayeredDocument
from dynamo_operator.aisimulate.violations import dotted
from tests.dynamo_operator.aisimulate.lowering_cases import lowered

ENGINE = {"model": "m", "hardware": "h"}
SYNTHETIC = {"type": "synthetic"}
SESSION = {"type": "synthetic-session", "session": {}}
TRACE = {"type": "trace", "paths": ["p"]}


def found(document):
    return {dotted(violation.path): violation.reason for violation in violations(document)}


def patched(patch, name="model-only"):
    layers = LayeredDocument(dict(lowered(name).document))
    layers.merge(patch)
    return layers.content


def traffic(source=SYNTHETIC, load=None, stop=None):
    stops = {"synthetic": {"requests": 1}, "synthetic-session": {"sessions": 1}, "trace": None}
    chosen = stops[source["type"]] if stop is None else stop
    return {
        "engine": {**ENGINE, "workers": {r: {} for r in ("aggregated", "prefill", "decode")}},
        "optimization": {},
        "traffic": {
            "source": source,
            "load": load or {"type": "concurrency", "concurrency": 1},
            **({} if chosen is None else {"stop": chosen}),
        },
    }


@pytest.mark.parametrize(
    "engine",
    [
        {"mode": "aggregated", "workers": {"aggregated": {}}},
        {"mode": "disaggregated", "workers": {"prefill": {}, "decode": {}}},
        {"workers": {"aggregated": {}, "prefill": {}, "decode": {}}},
        {"mode": {"choices": ["aggregated"]}, "workers": {"aggregated": {}}},
    ],
)
def test_the_smallest_documents_are_taken(engine):
    assert found({"engine": {**ENGINE, **engine}, "optimization": {}}) == {}


@pytest.mark.parametrize(
    "document",
    [
        traffic(),
        traffic(load={}),
        traffic(load={"type": "poisson", "requests_per_second": 2.5, "seed": 0}),
        traffic(load={"type": "constant_rate", "requests_per_second": {"choices": [1, 2]}}),
        traffic(load={"type": "kv_capacity_fraction", "fraction": 1.5}),
        traffic(load={"concurrency": {"range": {"min": 1, "max": 8, "scale": "log"}}}),
        traffic(stop={"requests_per_load_unit": 0.5}),
        traffic(SESSION, {"type": "poisson", "sessions_per_second": 1}),
        traffic(TRACE, {"type": "trace_timestamps", "speedup": 2}),
        traffic({**TRACE, "format": "dynamo", "paths": ["a", "b"]}),
        traffic({**TRACE, "format": "weka"}, {"type": "trace_timestamps", "agentic_lanes": 2}),
        traffic(TRACE, stop={"max_virtual_time_seconds": 60}),
        patched({"traffic": None}),
        patched({"evaluation": {"sla": None}}),
        patched({"engine": {"database_mode": "hybrid", "backend_version": None}}),
        patched({"execution": {"resources": {"cpu_limit": "auto"}}}),
        patched({"router": {"policy": "anything"}, "planner": {"x": 1}}),
    ],
)
def test_a_document_that_aisimulate_takes_is_taken(document):
    assert found(document) == {}


AGGREGATED = "engine.workers.aggregated"

REFUSED = [
    (traffic({**SYNTHETIC, "cached_prefix_tokens": 2000}), "traffic.source.cached_prefix_tokens"),
    (traffic({**SYNTHETIC, "input_tokens": 10.5}), "traffic.source.input_tokens"),
    (traffic({**SYNTHETIC, "input_tokens": True}), "traffic.source.input_tokens"),
    (traffic({**SYNTHETIC, "input_tokens": "10"}), "traffic.source.input_tokens"),
    (traffic(load={"type": "trace_timestamps"}), "traffic.load.type"),
    (traffic(load={"type": "poisson"}), "traffic.load.requests_per_second"),
    (traffic(load={"type": "kv_capacity_fraction"}), "traffic.load.fraction"),
    (traffic(load={"concurrency": 1, "seed": 0}), "traffic.load.seed"),
    (traffic(load={"concurrency": [1, 2]}), "traffic.load.concurrency"),
    (traffic(load={"concurrency": {"choices": []}}), "traffic.load.concurrency.choices"),
    (traffic(load={"concurrency": {"choices": [1, 1]}}), "traffic.load.concurrency.choices"),
    (traffic(load={"concurrency": {"range": {"min": 1, "max": 2}}}),
     "traffic.load.concurrency.range.step"),
    (traffic(load={"concurrency": {"range": {"min": 3, "max": 2, "step": 1}}}),
     "traffic.load.concurrency.range.max"),
    (traffic(load={"concurrency": {"range": {"min": 1, "max": 2, "step": 1, "scale": "log"}}}),
     "traffic.load.concurrency.range.step"),
    (traffic(load={"concurrency": {"range": {"min": 0, "max": 2, "step": 1}}}),
     "traffic.load.concurrency.range.min"),
    (traffic(load={"type": "poisson", "requests_per_second": 1, "sessions_per_second": 1}),
     "traffic.load.sessions_per_second"),
    (traffic(stop={}), "traffic.stop"),
    (traffic(stop={"requests": 1, "requests_per_load_unit": 1}), "traffic.stop"),
    (traffic(stop={"requests": 1, "sessions": 1}), "traffic.stop.sessions"),
    (traffic(stop={"requests": 1, "max_virtual_time_seconds": 1}),
     "traffic.stop.max_virtual_time_seconds"),
    (traffic({**SESSION, "session": {"turns": 1}}), "traffic.source.session.turns"),
    (traffic({**SESSION, "session": {"shared_prefix_ratio": 0.5}}),
     "traffic.source.session.prefix_groups"),
    (traffic({**TRACE, "paths": ["a", "b"]}), "traffic.source.paths"),
    (traffic({**TRACE, "paths": []}), "traffic.source.paths"),
    (traffic({**TRACE, "nested_timestamp_basis": "auto"}), "traffic.source.nested_timestamp_basis"),
    (traffic(TRACE, {"type": "poisson", "requests_per_second": 1}), "traffic.load.type"),
    (traffic(TRACE, stop={"requests": 1}), "traffic.stop.requests"),
    (traffic({**TRACE, "format": "weka"}), "traffic.load.type"),
    (traffic({**TRACE, "format": "mooncake-delta"}), "traffic.source.format"),
    (patched({"traffic": {"source": {"type": "real"}}}), "traffic.source.type"),
    (patched({"traffic": {"source": {"type": None}}}), "traffic.source.type"),
    (patched({"traffic": {"load": None}}), "traffic.load"),
    (patched({"engine": {"workers": {"prefill": None}}}), "engine.workers.prefill"),
    (patched({"engine": {"mode": "afd"}}), "engine.afd"),
    (patched({"engine": {"hardware": "auto"}}), "engine.hardware"),
    (patched({"engine": {"hardware": ""}}), "engine.hardware"),
    (patched({"engine": {"backend": "onnx"}}), "engine.backend"),
    (patched({"engine": {"context_length": "min"}}), "engine.context_length"),
    (patched({"engine": {"backend_version": {"trtllm": "1"}}}), "engine.backend_version.trtllm"),
    (patched({"engine": {"nextn": 2}}), "engine.nextn_accepted"),
    (patched({"engine": {"workers": {"aggregated": {"context_length": 9}}}}),
     f"{AGGREGATED}.context_length"),
    (patched({"engine": {"workers": {"decode": {"context_length": 1000}}}}),
     "engine.workers.decode.context_length"),
    (patched({"engine": {"workers": {"aggregated": {"hardware": "l4"}}}}),
     f"{AGGREGATED}.hardware"),
    (patched({"engine": {"workers": {"aggregated": {"kv_cache": {"block_size": 1}}}}}),
     f"{AGGREGATED}.kv_cache.block_size"),
    (patched({"engine": {"workers": {"aggregated": {"kv_cache": {"capacity": {"blocks": 9}}}}}}),
     f"{AGGREGATED}.kv_cache.capacity.blocks"),
    (patched({"engine": {"workers": {"aggregated": {"parallelism": {"tensor": 2}}}}}),
     f"{AGGREGATED}.parallelism.tensor"),
    (patched({"engine": {"workers": {"aggregated": {"timing": {"type": "fixed"}}}}}),
     f"{AGGREGATED}.timing.prefill_ms"),
    (patched({"engine": {"workers": {"aggregated": {"timing": {"gemm_quant_mode": "fp8"}}}}}),
     f"{AGGREGATED}.timing.gemm_quant_mode"),
    (patched({"evaluation": {"sla": {"e2e_ms": 1, "itl_ms": 1}}}), "evaluation.sla"),
    (patched({"evaluation": None}, "model-only") | {"evaluation": None}, "evaluation"),
    (patched({"optimization": {"strict_sla": True}}), "optimization.strict_sla"),
    (patched({"optimization": {"strict_sla": 1}}), "optimization.strict_sla"),
    (patched({"optimization": {"target": "goodput"}}), "optimization.target"),
    (patched({"optimization": {"target": "speed"}}), "optimization.target"),
    (patched({"optimization": {"constraints": {"min_goodput_rps": 1}}}),
     "optimization.constraints.min_goodput_rps"),
    (patched({"optimization": {"hardware": "auto"}}), "optimization.hardware"),
    (patched({"optimizer": {"seed": -1}}), "optimizer.seed"),
    (patched({"optimizer": {"candidate_timeout_seconds": 0}}),
     "optimizer.candidate_timeout_seconds"),
    (patched({"dgdr_run": {"generator": "magic"}}), "dgdr_run.generator"),
    (patched({"dgdr_run": {"snapshot_interval_seconds": -1}}),
     "dgdr_run.snapshot_interval_seconds"),
    (patched({"dgdr_run": {"extra": 1}}), "dgdr_run.extra"),
    (patched({"outputs": {}}), "outputs"),
    ({"engine": ENGINE}, "optimization"),
    ({"optimization": {}}, "engine"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "path"), REFUSED, ids=[path for _, path in REFUSED])
def test_a_document_that_aisimulate_refuses_is_refused_at_its_path(document, path):
    assert path in found(document)


def test_a_fixed_rate_for_the_fewest_gpus_needs_its_goodput():
    rate = {"type": "constant_rate", "concurrency": None, "requests_per_second": 5}
    wanted = "optimization.constraints.min_goodput_rps"

    def of(**constraints):
        optimization = {"target": "min_gpus", "constraints": constraints}
        sla = {"sla": {"ttft_ms": 1}}
        patch = {"traffic": {"load": rate}, "evaluation": sla, "optimization": optimization}
        return found(patched(patch))

    assert wanted in of()
    assert of(min_goodput_rps=6) == {wanted: "must be at most the request rate"}
    assert of(min_goodput_rps=5) == {}


@pytest.mark.parametrize(
    ("patch", "path", "reason"),
    [
        (
            {"engine": {"backend": ["vllm"]}},
            "engine.backend",
            "must be one of vllm, sglang, trtllm or {choices: [...]}, not ['vllm']",
        ),
        (
            {"optimizer": {"seed": -1}},
            "optimizer.seed",
            "must be an integer of at least 0, not -1",
        ),
        (
            {"optimizer": {"turbo": 1}},
            "optimizer.turbo",
            "is not known here; accepted are algorithm, max_trials, parallelism, "
            "candidate_timeout_seconds, seed",
        ),
        (
            {"traffic": {"load": {"concurrency": {"choices": [1, "x"]}}}},
            "traffic.load.concurrency.choices[1]",
            "must be an integer above 0, not 'x'",
        ),
        (
            {"engine": {"model": None}},
            "engine.model",
            "is missing",
        ),
    ],
)
def test_a_violation_says_what_would_be_accepted(patch, path, reason):
    assert found(patched(patch))[path] == reason
