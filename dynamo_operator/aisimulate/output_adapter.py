"""AISimulate's output adapter `dgdr_run`: reports a search, while it runs, to the snapshot file.

Runs inside the `aisimulate recommend` process, in the planner image, so it imports of ours only the
snapshot format and the image rules, and AISimulate and Dynamo when they are needed.

The search calls `on_candidate` and `on_round`; these only take note and wake the one writer thread,
which renders manifests and writes at most one snapshot per interval, always the newest state. What
ends the search ends the thread first, then writes the terminal snapshot itself: whoever sees that
one sees the last. Newer versions of AISimulate announce the end (`on_complete`, `on_failure`); for
the others it is `write`, or the exit of a process that found nothing.
"""

from __future__ import annotations

import argparse
import atexit
import dataclasses
import hashlib
import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from dynamo_operator.aisimulate.snapshot import (
    SNAPSHOT_FILE,
    Outcome,
    Phase,
    Progress,
    RunState,
    Snapshot,
    SnapshotCandidate,
    SnapshotError,
    parse_snapshot,
    read_snapshot,
    timestamp,
    to_json,
    write_snapshot,
)
from dynamo_operator.images import sibling_image

BACKENDS = ("vllm", "sglang", "trtllm")
MAX_RENDER_TRIES = 3
MAX_TEXT = 500
NO_FEASIBLE_CANDIDATE = "NoFeasibleCandidate"
FAILED = "Failed"

# What differs between machines, or says how an estimate came about, is not the configuration.
_PRIVATE_PARAMETERS = frozenset(
    {"forward_pass_estimators", "systems_paths", "provenance", "diagnostics"}
)
# These time the simulator itself.
_PRIVATE_METRICS = frozenset(
    {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}
)
# What AISimulate counts as evaluated; unsupported and resource-limited points never ran.
_EVALUATED = frozenset({"feasible", "infeasible", "timed_out", "failed"})


class DgdrRunConfig(BaseModel):
    """The `dgdr_run` section of the input document."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    snapshot_dir: str | None = Field(default=None, min_length=1)
    namespace: str | None = None
    generator: Literal["aic", "direct"] = "aic"
    runtime_image: str = Field(min_length=1)
    derive_runtime_images: bool = False
    runtime_version_override: str | None = None
    num_gpus_per_node: int = Field(gt=0)
    max_candidates: int = Field(default=5, ge=1)
    snapshot_interval_seconds: float = Field(default=5.0, ge=0, allow_inf_nan=False)

    def image_for(self, backend: str) -> str:
        """Return the runtime image of a candidate's backend.

        Raises:
            ValueError: none can be derived.
        """
        if not self.derive_runtime_images:
            return self.runtime_image
        return sibling_image(self.runtime_image, backend)


class CandidateRenderError(Exception):
    """This candidate cannot be rendered; others may be."""


class Upstream(Protocol):
    """What the adapter needs of AISimulate and Dynamo."""

    def callbacks(self, **handlers: Callable[..., None]) -> tuple[Any, bool]:
        """Return the callbacks object, and whether it announces the end of the search."""

    def check(self, config: DgdrRunConfig) -> None:
        """Raise ValueError where no manifest could ever be rendered with this configuration."""

    def render(self, candidate: Any, workload: Any, config: DgdrRunConfig, name: str) -> str:
        """Return a candidate's manifest.

        Raises:
            CandidateRenderError: it cannot be rendered. Anything else: nothing can.
        """

    def workload(self, result: Any) -> Any:
        """Return the workload that a finished search recorded."""

    def finished(self) -> bool:
        """Whether this process has stored the result of a search."""


@dataclass(frozen=True, slots=True)
class Point:
    """A feasible evaluated configuration."""

    id: str
    parameters: dict[str, JsonValue]
    canonical: str
    score: float
    used_gpus: int
    metrics: dict[str, JsonValue]
    candidate: Any

    @property
    def rank(self) -> tuple[float, int, str]:
        """Sorts the best first, whatever the order of arrival."""
        return (-self.score, self.used_gpus, self.canonical)


def point_of(candidate: Any) -> Point | None:
    """Return a candidate as a point, or None when it has no finite score."""
    score, used_gpus = candidate.score, candidate.used_gpus
    if score is None or used_gpus is None or not math.isfinite(score):
        return None
    parameters = public_parameters(candidate.config)
    canonical = json.dumps(parameters, sort_keys=True, separators=(",", ":"), allow_nan=False)
    metrics: dict[str, JsonValue] = {"score": float(score), "usedGpus": int(used_gpus)}
    if candidate.objectives:
        metrics["objectives"] = to_json(candidate.objectives)
    metrics["performance"] = to_json(
        {k: v for k, v in (candidate.metrics or {}).items() if k not in _PRIVATE_METRICS}
    )
    return Point(
        id="evaluated-point-" + hashlib.sha256(canonical.encode()).hexdigest()[:12],
        parameters=parameters,
        canonical=canonical,
        score=float(score),
        used_gpus=int(used_gpus),
        metrics=metrics,
        candidate=candidate,
    )


def public_parameters(config: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the concrete configuration without what is unset, private or machine-dependent."""
    return {key: _public(to_json(config[key])) for key in sorted(config) if _is_public(config, key)}


def _is_public(mapping: Mapping[str, Any], key: str) -> bool:
    return key not in _PRIVATE_PARAMETERS and mapping[key] is not None


def _public(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return public_parameters(value)
    if isinstance(value, list):
        return [_public(item) for item in value]
    return value


class Retention:
    """The best points seen so far, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._points: dict[str, Point] = {}

    def add(self, point: Point) -> bool:
        """Keep the point if it is among the best; return whether anything changed."""
        known = self._points.get(point.id)
        if known is not None and known.rank <= point.rank:
            return False
        self._points[point.id] = point
        if len(self._points) > self._limit:
            worst = max(self._points.values(), key=lambda p: p.rank)
            del self._points[worst.id]
            return worst.id != point.id
        return True

    def best(self) -> list[Point]:
        """Return the kept points, best first."""
        return sorted(self._points.values(), key=lambda p: p.rank)


class Manifests:
    """Renders each point once, and gives up on one after a few tries."""

    def __init__(self, upstream: Upstream, config: DgdrRunConfig, workload: Any) -> None:
        self._upstream = upstream
        self._config = config
        self._workload = workload
        self._settled: dict[str, tuple[Outcome, str]] = {}
        self._tries: Counter[str] = Counter()

    def settle(self, points: Iterable[Point], *, tries: int) -> list[SnapshotCandidate]:
        """Try the unsettled points at most `tries` times each; return the settled ones in order.

        Raises:
            Exception: the renderer is unavailable.
        """
        candidates = []
        for point in points:
            for _ in range(tries):
                if point.id not in self._settled:
                    self._try(point)
            if point.id in self._settled:
                candidates.append(self._candidate(point))
        return candidates

    def settled(self, points: Iterable[Point]) -> list[SnapshotCandidate]:
        """Return the points that need no rendering any more, in order."""
        return [self._candidate(point) for point in points if point.id in self._settled]

    def _candidate(self, point: Point) -> SnapshotCandidate:
        outcome, text = self._settled[point.id]
        return SnapshotCandidate(
            id=point.id,
            outcome=outcome,
            parameters=point.parameters,
            metrics=point.metrics,
            manifest=text if outcome is Outcome.MATERIALIZED else None,
            error=text if outcome is Outcome.MATERIALIZATION_FAILED else None,
        )

    def _try(self, point: Point) -> None:
        name = f"{self._config.name}-{point.id.rpartition('-')[2]}"
        try:
            manifest = self._upstream.render(point.candidate, self._workload, self._config, name)
        except CandidateRenderError as error:
            self._tries[point.id] += 1
            if self._tries[point.id] >= MAX_RENDER_TRIES:
                self._settled[point.id] = (Outcome.MATERIALIZATION_FAILED, short(error))
        else:
            self._settled[point.id] = (Outcome.MATERIALIZED, manifest)


class LiveSearch:
    """A search under way: what is known of it, and the thread that reports it.

    The search's thread adds under the lock; the writer thread alone renders and writes, until it
    has ended.
    """

    def __init__(
        self,
        config: DgdrRunConfig,
        directory: Path,
        manifests: Manifests,
        now: Callable[[], datetime],
    ) -> None:
        self.directory = directory
        self.manifests = manifests
        self.round = 0
        self.evaluated = 0
        self.terminal = False
        self._interval_seconds = config.snapshot_interval_seconds
        self._now = now
        self._retention = Retention(config.max_candidates)
        self._rejections: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self.failure: Exception | None = None
        self._lock = threading.Condition()
        self._is_changed = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._report, name="dgdr-run-snapshot", daemon=True)

    def start(self) -> None:
        """Write the first snapshot, then report changes from the writer thread."""
        self._write(RunState(phase=Phase.RUNNING, terminal=False), ())
        self._thread.start()

    def on_candidate(self, record: Any) -> None:
        """Take note of an evaluated point."""
        self._raise_failure()
        status = _text(record.status)
        point = point_of(record) if status == "feasible" else None
        with self._lock:
            self.evaluated += status in _EVALUATED
            if point is not None:
                self._retention.add(point)
            else:
                self._reject(_text(record.reason_category), record.reason)
            self._wake()

    def on_round(self, number: int, candidates: Sequence[Any]) -> None:
        """Take note of a finished round and the feasible points so far."""
        self._raise_failure()
        points = [point for candidate in candidates if (point := point_of(candidate)) is not None]
        with self._lock:
            self.round = max(self.round, number)
            for point in points:
                self._retention.add(point)
            self._wake()

    def on_complete(self) -> None:
        """Report the last state; a search that found nothing ends here."""
        self.stop()
        self._raise_failure()
        if not self.terminal and not self._retention.best():
            self.fail(self.nothing_found(), reason=NO_FEASIBLE_CANDIDATE)

    def on_failure(self, error: BaseException) -> None:
        """Report the error that ended the search."""
        self.stop()
        if not self.terminal:
            self.fail(f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """Let the writer thread report the last state, and end it."""
        with self._lock:
            self._stopping.set()
            self._lock.notify()
        if self._thread.is_alive():
            self._thread.join()

    def fail(self, error: str, *, reason: str = FAILED) -> None:
        """Write the terminal snapshot of a failed search, with what is rendered already."""
        text = short(error)
        run = RunState(phase=Phase.FAILED, terminal=True, reason=reason, message=text, error=text)
        self._write(run, self.manifests.settle(self._retention.best(), tries=0))

    def succeed(self, candidates: Sequence[SnapshotCandidate], evaluated: int) -> None:
        """Write the terminal snapshot of a search with a result."""
        self.evaluated = evaluated
        message = f"{len(candidates)} best of {evaluated} evaluated points"
        self._write(RunState(phase=Phase.SUCCEEDED, terminal=True, message=message), candidates)

    def nothing_found(self) -> str:
        """Say why there is no candidate."""
        kinds = ", ".join(
            f"{count} {kind} (such as: {self._examples[kind]})"
            for kind, count in sorted(
                self._rejections.items(), key=lambda item: (-item[1], item[0])
            )
        )
        text = f"no feasible candidate among {self.evaluated} evaluated points"
        return f"{text}: {kinds}" if kinds else text

    def _reject(self, category: str, reason: str | None) -> None:
        reason = reason or "its score is not a finite number"
        self._rejections[category] += 1
        self._examples[category] = min(reason, self._examples.get(category, reason))

    def _wake(self) -> None:
        self._is_changed = True
        self._lock.notify()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _report(self) -> None:
        pause_seconds = self._interval_seconds
        while True:
            self._stopping.wait(pause_seconds)
            with self._lock:
                self._lock.wait_for(lambda: self._is_changed or self._stopping.is_set())
                if not self._is_changed:
                    return
                self._is_changed = False
                points = self._retention.best()
            try:
                self._report_once(points)
            except OSError:
                # The next state is written instead; the terminal snapshot must be, or it raises.
                pause_seconds = max(self._interval_seconds, 1.0)
                self._is_changed = not self._stopping.is_set()
            except Exception as error:  # noqa: BLE001 # raised in the search's own thread
                self._give_up(error)
                return

    def _report_once(self, points: Sequence[Point]) -> None:
        candidates = self.manifests.settle(points, tries=1)
        if len(candidates) < len(points):
            self._is_changed = True  # tried again
        self._write(RunState(phase=Phase.RUNNING, terminal=False), candidates)

    def _give_up(self, error: Exception) -> None:
        try:
            self.fail(f"{type(error).__name__}: {error}")
        except OSError as write_error:
            error.add_note(f"nor could the terminal snapshot be written: {write_error}")
        self.failure = error

    def _write(self, run: RunState, candidates: Sequence[SnapshotCandidate]) -> None:
        snapshot = Snapshot(
            schemaVersion=1,
            timestamp=timestamp(self._now()),
            run=run,
            progress=Progress(round=self.round, evaluated=self.evaluated),
            candidates=tuple(candidates),
        )
        write_snapshot(self.directory, snapshot)
        self.terminal = run.terminal


class DgdrRunAdapter:
    """The adapter that AISimulate finds under the entry point `dgdr_run`."""

    name = "dgdr_run"
    api_version = 1

    def __init__(
        self,
        upstream: Upstream | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._upstream = upstream or InstalledUpstream()
        self._now = now
        self._searches: dict[Path, LiveSearch] = {}

    def subscribe(self, config: Mapping[str, Any], context: Any = None) -> Any:
        """Check the configuration and start reporting, if there is a directory to report to.

        Raises:
            ValueError: the configuration is wrong, or no manifest could be rendered with it.
        """
        settings = DgdrRunConfig.model_validate(dict(config))
        self._upstream.check(settings)
        if settings.snapshot_dir is None or context is None:
            return None
        search = self._search(settings, Path(settings.snapshot_dir).absolute(), context.workload)
        search.start()
        callbacks, announces_end = self._upstream.callbacks(
            on_candidate=search.on_candidate,
            on_round=search.on_round,
            on_complete=search.on_complete,
            on_failure=search.on_failure,
        )
        if not announces_end:
            atexit.register(self._exit, search)
        self._searches[search.directory] = search
        return callbacks

    def write(
        self, config: Mapping[str, Any], *, result: Any, output_dir: Path
    ) -> Sequence[str | Path]:
        """Write the terminal snapshot, in AISimulate's own final order.

        Raises:
            NotImplementedError: the search has several objectives.
            RuntimeError: no candidate could be rendered.
        """
        settings = DgdrRunConfig.model_validate(dict(config))
        directory = Path(settings.snapshot_dir or output_dir).absolute()
        search = self._searches.pop(directory, None)
        if search is None:
            search = self._search(settings, directory, self._upstream.workload(result))
            search.round = _round_of(directory)
        search.stop()
        try:
            candidates = self._final(settings, search, result)
        except Exception as error:
            if not search.terminal:
                search.fail(str(error))
            raise
        if candidates:
            search.succeed(candidates, result.counts.evaluated)
        else:
            search.fail(search.nothing_found(), reason=NO_FEASIBLE_CANDIDATE)
        return [SNAPSHOT_FILE] if directory == output_dir.absolute() else []

    def _final(
        self, settings: DgdrRunConfig, search: LiveSearch, result: Any
    ) -> list[SnapshotCandidate]:
        if search.failure is not None:
            raise search.failure
        if result.views.pareto_front:
            raise NotImplementedError(
                "optimization.target pareto has no best candidate; must be a single objective"
            )
        points = [p for candidate in result.selected_candidates if (p := point_of(candidate))]
        unique = list({point.id: point for point in reversed(points)}.values())[::-1]
        candidates = search.manifests.settle(
            unique[: settings.max_candidates], tries=MAX_RENDER_TRIES
        )
        if candidates and all(c.outcome is Outcome.MATERIALIZATION_FAILED for c in candidates):
            raise RuntimeError(candidates[0].error)
        return candidates

    def _search(self, settings: DgdrRunConfig, directory: Path, workload: Any) -> LiveSearch:
        manifests = Manifests(self._upstream, settings, workload)
        return LiveSearch(settings, directory, manifests, self._now)

    def _exit(self, search: LiveSearch) -> None:
        """End a search that nothing announced the end of, when its process ends."""
        if search.terminal or search.directory not in self._searches:
            return
        if self._upstream.finished():
            search.on_complete()
        else:
            search.stop()


class InstalledUpstream:
    """The AISimulate and Dynamo of this environment, imported when first needed."""

    def callbacks(self, **handlers: Callable[..., None]) -> tuple[Any, bool]:
        """Return RecommendationOutputCallbacks with the handlers that this version knows."""
        from aisimulate.output_adapter import RecommendationOutputCallbacks

        known = {field.name for field in dataclasses.fields(RecommendationOutputCallbacks)}
        callbacks = {name: handler for name, handler in handlers.items() if name in known}
        return RecommendationOutputCallbacks(**callbacks), "on_complete" in known

    def check(self, config: DgdrRunConfig) -> None:
        """Make the rendering options of every backend."""
        for backend in BACKENDS if config.derive_runtime_images else BACKENDS[:1]:
            self._options(config, backend)

    def render(self, candidate: Any, workload: Any, config: DgdrRunConfig, name: str) -> str:
        """Render with Dynamo's own renderer."""
        from dynamo.aisimulate.output.dgd.renderers import CandidateMaterializationError, render_dgd

        backend = str(candidate.config.get("backend"))
        try:
            options = self._options(config, backend)
            return str(
                render_dgd(candidate, workload, options, dgd_name=name, renderer=config.generator)
            )
        except CandidateMaterializationError as error:
            model = str(candidate.config.get("model_name"))
            raise CandidateRenderError(_explain(str(error), model)) from error

    def workload(self, result: Any) -> Any:
        """Return the workload of the search configuration in the result's provenance."""
        from aisimulate.sweeper.config import SmartSearchConfig

        return SmartSearchConfig.model_validate(result.provenance.config).workload

    def finished(self) -> bool:
        """Look for recommendation.json in the command's output directory, cleared at its start."""
        arguments = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        arguments.add_argument("--output-dir", default="./aisimulate-output")
        directory = arguments.parse_known_args()[0].output_dir
        return (Path(directory) / "recommendation.json").is_file()

    def _options(self, config: DgdrRunConfig, backend: str) -> Any:
        from dynamo.aisimulate.output.dgd.renderers import DGDGenerationOptions

        return DGDGenerationOptions(
            runtime_image=config.image_for(backend),
            runtime_version_override=config.runtime_version_override,
            namespace=config.namespace,
            num_gpus_per_node=config.num_gpus_per_node,
        )


def short(error: object) -> str:
    """Return a text in one line of at most 500 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."


def _explain(error: str, model: str) -> str:
    """Name the ways out where the model's config.json could not be read."""
    if "trust-remote-code" not in error:
        return error
    try:
        from huggingface_hub import hf_hub_download

        hf_hub_download(repo_id=model, filename="config.json")
    except Exception as cause:  # noqa: BLE001 # whatever kept the renderer from reading it
        return (
            f"config.json of model {model} cannot be read ({type(cause).__name__}): let the "
            "planner's envFromSecret name a Secret with HF_TOKEN, or its cachePVC a Hugging Face "
            "cache that holds the model"
        )
    return error


def _round_of(directory: Path) -> int:
    """Return the round that an earlier process reported."""
    try:
        data = read_snapshot(directory)
        return parse_snapshot(data).progress.round if data is not None else 0
    except SnapshotError:
        return 0


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


ADAPTER = DgdrRunAdapter()
