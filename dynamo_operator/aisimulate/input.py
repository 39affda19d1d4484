"""Whether AISimulate would take an input: its schema, and its rules between fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.aisimulate.engine_rules import (
    configured_workers,
    engine_violations,
    modes_of,
)
from dynamo_operator.aisimulate.overrides import PROTECTED_KEYS
from dynamo_operator.aisimulate.schema_check import core_sections, schema_violations
from dynamo_operator.aisimulate.traffic_rules import load_type, traffic_violations
from dynamo_operator.aisimulate.violations import Path, Violation, at, shown
from dynamo_operator.api.planner_contract import OUTPUT_ADAPTER

Document = Mapping[str, Any]

_GOODPUT_TARGETS: Final = ("goodput", "goodput_per_gpu", "min_gpus")
_ADAPTER_SECTIONS: Final = frozenset({OUTPUT_ADAPTER, "router", "planner"})
_INTEGER_DOMAINS: Final = frozenset(
    {
        "a_batch_size",
        "attention_data",
        "block_size",
        "concurrency",
        "max_batched_tokens",
        "max_sequences",
        "moe_expert",
        "moe_tensor",
        "num_microbatches",
        "pipeline",
        "replicas",
        "tensor",
        "tp_a",
    }
)
_FREE_FORM: Final = frozenset({"estimator_config", "fpm_profile"})
_DEFAULT_TOKENS: Final = {"input_tokens": 1024, "output_tokens": 128}


def violations(document: Document) -> list[Violation]:
    """Return everything in the document that AISimulate would refuse.

    Sections of adapters other than ours are the adapters' own business.
    """
    found = [*_unknown_sections(document), *schema_violations(document)]
    wrong = {violation.path[0] for violation in found if violation.path}
    found.extend(_adapter_violations(document.get(OUTPUT_ADAPTER, {})))
    sound = {name: document.get(name) for name in core_sections() if name not in wrong}
    for name, section in sound.items():
        found.extend(_domain_violations(section, (name,)))
    wrong |= {violation.path[0] for violation in found if violation.path}
    traffic, engine = sound.get("traffic"), sound.get("engine")
    if traffic is not None and "traffic" not in wrong:
        found.extend(traffic_violations(traffic))
    if engine is not None and "engine" not in wrong:
        found.extend(engine_violations(engine))
    for name, rules in _SECTION_RULES.items():
        if (section := sound.get(name)) is not None:
            found.extend(rules(section))
    if not wrong & core_sections():
        found.extend(_cross_violations(document))
    return found


def has_bound(document: Document) -> bool:
    """Whether the document has a bound that a candidate must meet."""
    sla = at(document, "evaluation", "sla") or {}
    return any(sla.get(name) is not None for name in ("ttft_ms", "itl_ms", "e2e_ms"))


def _unknown_sections(document: Document) -> Iterator[Violation]:
    known = core_sections() | _ADAPTER_SECTIONS
    for name in document:
        if name not in known:
            yield Violation(
                (name,), f"is no section of the input; accepted are {', '.join(sorted(known))}"
            )


def _adapter_violations(section: Any) -> Iterator[Violation]:
    """The caller's part of our own adapter's section; the rest is the operator's."""
    if not isinstance(section, Mapping):
        yield Violation((OUTPUT_ADAPTER,), f"must be an object, not {shown(section)}")
        return
    if section.get("generator", "aic") not in ("aic", "direct"):
        yield Violation((OUTPUT_ADAPTER, "generator"), "must be aic or direct")
    interval = section.get("snapshot_interval_seconds", 0)
    if isinstance(interval, bool) or not isinstance(interval, int | float) or interval < 0:
        where = (OUTPUT_ADAPTER, "snapshot_interval_seconds")
        yield Violation(where, f"must be a number of at least 0, not {shown(interval)}")
    known = (*PROTECTED_KEYS, "generator", "snapshot_interval_seconds")
    for name in section:
        if name not in known:
            yield Violation(
                (OUTPUT_ADAPTER, name),
                "is not known here; accepted are generator and snapshot_interval_seconds",
            )


def _domain_violations(value: Any, path: Path) -> Iterator[Violation]:
    """Rules of `{choices: [...]}` and `{range: {...}}`, wherever they stand."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _domain_violations(item, (*path, index))
    if not isinstance(value, Mapping):
        return
    if set(value) == {"choices"}:
        yield from _choice_violations(value["choices"], (*path, "choices"))
    elif set(value) == {"range"}:
        integer = path[-1] in _INTEGER_DOMAINS
        yield from _range_violations(value["range"], (*path, "range"), integer=integer)
    for name, item in value.items():
        if name not in _FREE_FORM:
            yield from _domain_violations(item, (*path, name))


def _choice_violations(choices: Any, path: Path) -> Iterator[Violation]:
    if not choices:
        yield Violation(path, "must list at least one value")
    elif len({repr(choice) for choice in choices}) != len(choices):
        yield Violation(path, "must not list a value twice")


def _range_violations(domain: Document, path: Path, *, integer: bool) -> Iterator[Violation]:
    scale, step = domain.get("scale", "linear"), domain.get("step")
    if domain["min"] > domain["max"]:
        yield Violation((*path, "max"), "must be at least min")
    if scale == "log" and domain["min"] <= 0:
        yield Violation((*path, "min"), "must be above 0 for scale log")
    if scale == "log" and step is not None:
        yield Violation((*path, "step"), "does not go with scale log")
    if scale == "linear" and integer and step is None:
        yield Violation((*path, "step"), "is missing: a linear range of integers needs it")


def _evaluation_violations(evaluation: Document) -> Iterator[Violation]:
    sla = evaluation.get("sla") or {}
    tokens = [name for name in ("ttft_ms", "itl_ms") if sla.get(name) is not None]
    if sla.get("e2e_ms") is not None and tokens:
        path = ("evaluation", "sla")
        yield Violation(
            path,
            "e2e_ms excludes ttft_ms and itl_ms",
            rivals=tuple((*path, name) for name in ("e2e_ms", *tokens)),
        )


def _optimization_violations(optimization: Document) -> Iterator[Violation]:
    path = ("optimization", "constraints")
    constraints = optimization.get("constraints", {})
    minimum = constraints.get("min_candidate_gpus")
    if minimum is not None and minimum > constraints.get("max_candidate_gpus", 32):
        yield Violation((*path, "min_candidate_gpus"), "must be at most max_candidate_gpus")
    if (
        constraints.get("min_goodput_rps") is not None
        and optimization.get("target", "throughput") != "min_gpus"
    ):
        yield Violation((*path, "min_goodput_rps"), "needs target min_gpus")
    hardware = optimization.get("hardware")
    if hardware is not None and hardware.strip() in ("", "auto"):
        yield Violation(("optimization", "hardware"), "must name one product")


_SECTION_RULES: Final = {
    "evaluation": _evaluation_violations,
    "optimization": _optimization_violations,
}


def _cross_violations(document: Document) -> Iterator[Violation]:
    engine, optimization = document["engine"], document["optimization"]
    if engine["hardware"] == "auto" and optimization.get("hardware") is None:
        yield Violation(("engine", "hardware"), "auto needs optimization.hardware")
    if optimization.get("strict_sla") and not has_bound(document):
        yield Violation(("optimization", "strict_sla"), f"needs {_BOUND}")
    target = optimization.get("target", "throughput")
    if target in _GOODPUT_TARGETS and not has_bound(document):
        yield Violation(("optimization", "target"), f"{target} needs {_BOUND}")
    yield from _source_and_mode_violations(document)
    yield from _context_violations(document)
    yield from _encoder_violations(document)
    if target == "min_gpus":
        yield from _min_gpus_violations(document)


_BOUND: Final = "a bound: evaluation.sla.ttft_ms, itl_ms or e2e_ms"


def _source_and_mode_violations(document: Document) -> Iterator[Violation]:
    modes = modes_of(document["engine"])
    traffic = document.get("traffic")
    source = at(traffic, "source") or {}
    if at(source, "format") == "mooncake-delta" and "disaggregated" in modes:
        yield Violation(("traffic", "source", "format"), "mooncake-delta needs mode aggregated")
    if traffic is None or "afd" not in modes:
        return
    if source["type"] != "synthetic" or source.get("cached_prefix_tokens"):
        yield Violation(
            ("traffic", "source"), "mode afd needs synthetic traffic without a cached prefix"
        )
    if load_type(traffic) == "kv_capacity_fraction":
        yield Violation(("traffic", "load", "type"), "mode afd needs an absolute load")


def _context_violations(document: Document) -> Iterator[Violation]:
    source = at(document, "traffic", "source") or {"type": "synthetic"}
    if source["type"] != "synthetic":
        return
    tokens = {name: source.get(name, default) for name, default in _DEFAULT_TOKENS.items()}
    least = {
        "prefill": tokens["input_tokens"] + 1,
        "decode": tokens["input_tokens"] + tokens["output_tokens"],
    }
    for role, worker in configured_workers(document["engine"]):
        length = worker.get("context_length")
        if role in least and length is not None and length < least[role]:
            path = ("engine", "workers", role, "context_length")
            yield Violation(path, f"must be at least {least[role]} for this traffic")


def _encoder_violations(document: Document) -> Iterator[Violation]:
    encoder = at(document, "engine", "workers", "encoder")
    images = at(document, "traffic", "source", "images")
    if (encoder is None) != (images is None):
        path = (
            ("traffic", "source", "images") if images is None else ("engine", "workers", "encoder")
        )
        yield Violation(path, "is missing: images and an encoder go together")
        return
    if encoder is None:
        return
    concurrency = at(document, "traffic", "load", "concurrency")
    if load_type(document["traffic"]) != "concurrency" or isinstance(concurrency, Mapping):
        yield Violation(("traffic", "load"), "must be one fixed concurrency where images are sent")
    for role, worker in configured_workers(document["engine"]):
        timing = worker.get("timing") or {}
        op_level = timing.get("forward_model", "op_level") == "op_level"
        if timing.get("type", "default") != "default" or not op_level:
            where = ("engine", "workers", role, "timing")
            yield Violation(where, "must be the default where images are sent")


def _min_gpus_violations(document: Document) -> Iterator[Violation]:
    traffic, path = document.get("traffic"), ("optimization", "target")
    fixed = "min_gpus needs synthetic traffic of one fixed concurrency or request rate"
    if traffic is None or traffic["source"]["type"] != "synthetic":
        yield Violation(path, fixed)
        return
    kind = load_type(traffic)
    by_concurrency = kind == "concurrency"
    name = "concurrency" if by_concurrency else "requests_per_second"
    value = traffic["load"].get(name, 10 if by_concurrency else None)
    if kind not in ("concurrency", "constant_rate", "poisson") or isinstance(value, Mapping):
        yield Violation(path, fixed)
        return
    minimum = at(document, "optimization", "constraints", "min_goodput_rps")
    where = ("optimization", "constraints", "min_goodput_rps")
    if not by_concurrency and minimum is None:
        yield Violation(where, "is missing for min_gpus with a request rate")
    if not by_concurrency and minimum is not None and value is not None and minimum > value:
        yield Violation(where, "must be at most the request rate")
