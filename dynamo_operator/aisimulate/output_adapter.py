"""AISimulate's output adapter `dgdr_run`: reports a search, while it runs, to the snapshot file.

Runs inside the `aisimulate recommend` process, in the planner image: of ours it reaches only the
modules about points, reports, snapshots and images; AISimulate and Dynamo are imported when needed.

Newer versions of AISimulate announce the end of a search (`on_complete`, `on_failure`). For the
others it is `write`, or the exit of a process that has stored a result without a candidate.
"""

from __future__ import annotations

import argparse
import atexit
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from dynamo_operator.aisimulate.evaluated_points import Point, point_of
from dynamo_operator.aisimulate.search_report import (
    MAX_RENDER_TRIES,
    NO_FEASIBLE_CANDIDATE,
    CandidateRenderError,
    LiveSearch,
    Manifests,
)
from dynamo_operator.aisimulate.snapshot import (
    SNAPSHOT_FILE,
    Outcome,
    SnapshotCandidate,
    SnapshotError,
    parse_snapshot,
    read_snapshot,
)
from dynamo_operator.images import sibling_image

BACKENDS = ("vllm", "sglang", "trtllm")


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
        def render(point: Point) -> str:
            name = f"{settings.name}-{point.id.rpartition('-')[2]}"
            return self._upstream.render(point.candidate, workload, settings, name)

        return LiveSearch(
            directory,
            Manifests(render),
            limit=settings.max_candidates,
            interval_seconds=settings.snapshot_interval_seconds,
            now=self._now,
        )

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


ADAPTER = DgdrRunAdapter()
