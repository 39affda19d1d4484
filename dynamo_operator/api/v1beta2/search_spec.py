"""The search that a Request asks for and a Run holds: `spec` of both kinds."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field

from dynamo_operator.api.schema import (
    COUNT,
    POSITIVE,
    Integer,
    Milliseconds,
    Number,
    Rule,
    Schema,
)
from dynamo_operator.api.sku_catalog import SKUS
from dynamo_operator.runtime.models import KubeStruct


class Backend(StrEnum):
    """Inference engines, in the order in which they are searched."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"


class Metric(StrEnum):
    """What a search may optimize."""

    THROUGHPUT = "throughput"
    THROUGHPUT_PER_GPU = "throughputPerGpu"
    THROUGHPUT_PER_USER = "throughputPerUser"
    TTFT = "ttft"
    E2E_LATENCY = "e2eLatency"
    GOODPUT = "goodput"
    GOODPUT_PER_GPU = "goodputPerGpu"

    @property
    def needs_sla(self) -> bool:
        """Whether the metric counts only what meets a bound."""
        return self in (Metric.GOODPUT, Metric.GOODPUT_PER_GPU)


class TraceFormat(StrEnum):
    """Formats of a recorded trace."""

    MOONCAKE = "mooncake"
    MOONCAKE_DELTA = "mooncake-delta"
    AGENTIC_MOONCAKE = "agentic_mooncake"
    APPLIED_COMPUTE_AGENTIC = "applied_compute_agentic"
    DYNAMO = "dynamo"
    WEKA = "weka"


def _exactly_one_of(*names: str) -> Rule:
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    return Rule(f"{count} == 1", f"exactly one of {_listed(names)} must be set")


def _at_most_one_of(*names: str) -> Rule:
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    return Rule(f"{count} <= 1", f"at most one of {_listed(names)} may be set")


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


class Model(KubeStruct):
    """The model to deploy."""

    name: Annotated[
        str, Schema("Model name, as on the Hugging Face hub.", minLength=1, maxLength=512)
    ]


class Gpu(KubeStruct):
    """The GPUs to search on."""

    sku: Annotated[
        str | None,
        Schema(
            "GPU product, by its name in AISimulate's catalogue; default: discovered.", enum=SKUS
        ),
    ] = None
    budget: Annotated[
        Integer | None,
        Schema("The most GPUs that a candidate may use; default: discovered, at most 32.", **COUNT),
    ] = None


class Hardware(KubeStruct):
    """The hardware to search on."""

    gpu: Annotated[Gpu | None, Schema("The GPUs to search on.")] = None


class KvCapacityRange(KubeStruct):
    """A range of loads to search over."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.max >= self.min", "max must be at least min", ".max"),
    )

    min: Annotated[Number, Schema("Lowest fraction.", **POSITIVE)]
    max: Annotated[Number, Schema("Highest fraction.", **POSITIVE)]


class KvCapacityFraction(KubeStruct):
    """Load as a fraction of the KV-cache capacity."""

    rules: ClassVar[tuple[Rule, ...]] = (_exactly_one_of("value", "range"),)

    value: Annotated[Number | None, Schema("One fraction; may exceed 1.", **POSITIVE)] = None
    range: Annotated[KvCapacityRange | None, Schema("A range that is searched as well.")] = None


class Load(KubeStruct):
    """How much synthetic traffic there is."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _exactly_one_of("requestsPerSecond", "concurrency", "kvCapacityFraction"),
    )

    requests_per_second: Annotated[
        Number | None, Schema("Requests that arrive each second, evenly.", **POSITIVE)
    ] = None
    concurrency: Annotated[
        Integer | None, Schema("Requests that are under way at any time.", **COUNT)
    ] = None
    kv_capacity_fraction: Annotated[
        KvCapacityFraction | None,
        Schema("Requests under way as a fraction of what the KV cache of the candidate holds."),
    ] = None


class StaticWorkload(KubeStruct):
    """Synthetic traffic of one shape. `static: {}` opts out of defaulting."""

    input_tokens: Annotated[
        Integer | None, Schema("Tokens of each prompt; default 1024.", **COUNT)
    ] = None
    output_tokens: Annotated[
        Integer | None, Schema("Tokens of each answer; default 128.", **COUNT)
    ] = None
    load: Annotated[Load | None, Schema("Offered load; default concurrency 10.")] = None


class TracePvc(KubeStruct):
    """Where the trace lies."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            r"!self.path.startsWith('/') && !self.path.matches('(^|/)[.][.](/|$)')",
            "path must be relative to the volume and must not contain '..'",
            ".path",
        ),
    )

    claim_name: Annotated[
        str,
        Schema(
            "PersistentVolumeClaim in the Request's namespace.",
            pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
            minLength=1,
            maxLength=253,
        ),
    ]
    path: Annotated[
        str, Schema("Path of the file, relative to the volume.", minLength=1, maxLength=1024)
    ]


class TraceSource(KubeStruct):
    """Where the trace comes from."""

    pvc: Annotated[TracePvc, Schema("A file on a volume.")]


class TraceReplay(KubeStruct):
    """How the trace is replayed."""

    rules: ClassVar[tuple[Rule, ...]] = (_at_most_one_of("arrivalSpeedupRatio", "concurrency"),)

    arrival_speedup_ratio: Annotated[
        Number | None,
        Schema("Factor on the recorded arrival times; default 1 without concurrency.", **POSITIVE),
    ] = None
    concurrency: Annotated[
        Integer | None, Schema("Ignore arrival times; keep that many under way.", **COUNT)
    ] = None


class TraceWorkload(KubeStruct):
    """Recorded traffic."""

    source: Annotated[TraceSource, Schema("Where the trace comes from.")]
    format: Annotated[
        str | None,
        Schema("Format of the file; AISimulate's default is mooncake.", enum=tuple(TraceFormat)),
    ] = None
    replay: Annotated[TraceReplay | None, Schema("How the trace is replayed.")] = None


class Workload(KubeStruct):
    """The traffic to optimize for."""

    rules: ClassVar[tuple[Rule, ...]] = (_at_most_one_of("static", "trace"),)

    static: Annotated[
        StaticWorkload | None,
        Schema("Synthetic traffic; missing fields are completed, but `{}` is left empty."),
    ] = None
    trace: Annotated[TraceWorkload | None, Schema("Recorded traffic.")] = None


class Sla(KubeStruct):
    """Bounds that a candidate must meet, in milliseconds."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.ttftMs) || has(self.itlMs) || has(self.e2eMs)",
            "at least one of ttftMs, itlMs and e2eMs must be set",
        ),
        Rule(
            "!has(self.e2eMs) || !(has(self.ttftMs) || has(self.itlMs))",
            "e2eMs excludes ttftMs and itlMs",
        ),
    )

    ttft_ms: Annotated[
        Milliseconds | None, Schema("Time to first token: a number of milliseconds.", **POSITIVE)
    ] = None
    itl_ms: Annotated[
        Milliseconds | None, Schema("Inter-token latency: a number of milliseconds.", **POSITIVE)
    ] = None
    e2e_ms: Annotated[
        Milliseconds | None,
        Schema("End-to-end latency: a number of milliseconds.", **POSITIVE),
        Field(alias="e2eMs"),
    ] = None


class Objective(KubeStruct):
    """What makes a candidate better than another."""

    mode: Annotated[str | None, Schema("Kind of search; default optimize.", enum=("optimize",))] = (
        None
    )
    metric: Annotated[
        str | None, Schema("What is optimized; default throughput.", enum=tuple(Metric))
    ] = None
    sla: Annotated[Sla | None, Schema("Bounds that a candidate must meet.")] = None


class SearchBudget(KubeStruct):
    """How long the search may go on."""

    max_evaluations: Annotated[Integer | None, Schema("Candidates to evaluate.", **COUNT)] = None
    parallel_evaluations: Annotated[
        Integer | None, Schema("Candidates that are evaluated at once.", **COUNT)
    ] = None
    max_evaluation_duration: Annotated[
        str | None,
        Schema(
            "Time that one candidate may take, e.g. 90s or 10m.",
            Rule("self.matches('[1-9]')", "must be longer than zero, e.g. 90s or 10m"),
            pattern=r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$",
            minLength=2,
            maxLength=32,
        ),
    ] = None


class Search(KubeStruct):
    """How to search."""

    budget: Annotated[SearchBudget | None, Schema("How long the search may go on.")] = None


class Recommendation(KubeStruct):
    """What to publish."""

    max_candidates: Annotated[
        Integer | None, Schema("The most Candidates to publish; default 5.", minimum=1, maximum=100)
    ] = None


class AisimulateOverrides(KubeStruct):
    """What is handed to AISimulate beside the typed fields."""

    input_overrides: Annotated[
        dict[str, Any] | None,
        Schema(
            "RFC 7386 merge patch of AISimulate's recommendation input, applied last: null deletes "
            "a key. Plain `kubectl apply` drops nulls: use `--server-side`."
        ),
    ] = None


class Rerun(KubeStruct):
    """A wish to search again."""

    reason: Annotated[
        str,
        Schema("Changing it makes a new Run of the same input.", minLength=1, maxLength=256),
    ]


_GOODPUT_METRICS = ", ".join(f"'{metric}'" for metric in Metric if metric.needs_sla)


class SearchSpec(KubeStruct):
    """The search: everything but `model` is completed by admission.

    A rule cannot look into overrides, where a bound may stand as well: with overrides, lowering
    judges whether a goodput metric has one.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.objective) || !has(self.objective.metric) "
            f"|| !(self.objective.metric in [{_GOODPUT_METRICS}]) || has(self.objective.sla) "
            "|| has(self.aisimulate)",
            "a goodput metric needs objective.sla: set ttftMs, itlMs or e2eMs",
            ".objective",
        ),
    )

    model: Annotated[Model, Schema("The model to deploy.")]
    backends: Annotated[
        list[Annotated[str, Schema(enum=tuple(Backend))]] | None,
        Schema(
            "Inference engines to search over; default vllm.",
            minItems=1,
            maxItems=3,
            **{"x-kubernetes-list-type": "set"},
        ),
    ] = None
    hardware: Annotated[Hardware | None, Schema("The hardware; default: discovered.")] = None
    workload: Annotated[Workload | None, Schema("The traffic; default: static.")] = None
    objective: Annotated[Objective | None, Schema("What makes a candidate better.")] = None
    search: Annotated[Search | None, Schema("How to search.")] = None
    recommendation: Annotated[Recommendation | None, Schema("What to publish.")] = None
    aisimulate: Annotated[
        AisimulateOverrides | None, Schema("AISimulate input beside the typed fields.")
    ] = None
    rerun: Annotated[Rerun | None, Schema("A wish to search again.")] = None
