"""DynamoGraphDeploymentRun: one immutable search, executed once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from dynamo_operator.api.conditions import Condition, ConditionType
from dynamo_operator.api.labels import GROUP, REQUEST_GENERATION_LABEL
from dynamo_operator.api.schema import (
    IMMUTABLE_SPEC,
    Integer,
    Presentation,
    PrinterColumn,
    Schema,
    columns,
    condition_column,
    reason_column,
)
from dynamo_operator.api.v1beta2.search_spec import SearchSpec
from dynamo_operator.runtime.models import KubeModel, KubeStruct
from informers.objects import ResourceType


class RunPhase(StrEnum):
    """Where a Run stands; it only moves forward."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class JobRef(KubeStruct):
    """The Run's Job."""

    name: Annotated[str, Schema("Name of the Job.", maxLength=253)]
    uid: Annotated[str, Schema("UID of the Job.", maxLength=128)]


class ExecutionSnapshot(KubeStruct):
    """The ConfigMap that froze what the Job executes."""

    name: Annotated[str, Schema("Name of the ConfigMap.", maxLength=253)]
    uid: Annotated[str, Schema("UID of the ConfigMap.", maxLength=128)]
    sha256: Annotated[str, Schema("Hash of its data.", maxLength=64)]


class AisimulateStatus(KubeStruct):
    """What AISimulate was given."""

    input: Annotated[
        dict[str, Any] | None, Schema("The exact effective document that the Job reads.")
    ] = None


class Progress(KubeStruct):
    """How far the search is."""

    round: Annotated[Integer, Schema("Rounds that were completed.", minimum=0)] = 0
    evaluated: Annotated[Integer, Schema("Candidates that were evaluated.", minimum=0)] = 0
    published: Annotated[Integer, Schema("Candidates that are published.", minimum=0)] = 0


class CandidateRef(KubeStruct):
    """One published Candidate."""

    name: Annotated[str, Schema("Name of the Candidate.", maxLength=253)]


class RunStatus(KubeStruct):
    """What has become of the Run. Two writers share it, each with its own fields.

    The Run controller writes all but `progress`, `candidateRefs`, `lastProgressTime` and `message`,
    which are the publisher's.
    """

    observed_generation: Annotated[
        Integer | None, Schema("Generation that was judged.", minimum=0, format="int64")
    ] = None
    phase: Annotated[str | None, Schema("Where the Run stands.", enum=tuple(RunPhase))] = None
    job_ref: Annotated[JobRef | None, Schema("The Run's Job.")] = None
    aisimulate: Annotated[AisimulateStatus | None, Schema("What AISimulate was given.")] = None
    execution_snapshot: Annotated[
        ExecutionSnapshot | None, Schema("The ConfigMap that froze what the Job executes.")
    ] = None
    start_time: Annotated[str | None, Schema("When the Job started.", format="date-time")] = None
    completion_time: Annotated[str | None, Schema("When the Run ended.", format="date-time")] = None
    execution_message: Annotated[
        str | None, Schema("What the execution waits for, or how it ended.", maxLength=32768)
    ] = None
    progress: Annotated[Progress | None, Schema("How far the search is.")] = None
    candidate_refs: Annotated[
        list[CandidateRef],
        Schema(
            "The published Candidates, best first.",
            maxItems=100,
            **{"x-kubernetes-list-type": "atomic"},
        ),
    ] = []
    last_progress_time: Annotated[
        str | None, Schema("When progress last changed.", format="date-time")
    ] = None
    message: Annotated[str | None, Schema("What the search says.", maxLength=32768)] = None
    conditions: Annotated[
        list[Condition],
        Schema(
            "Completed: True exactly when the phase is terminal, whatever the outcome.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []


class DynamoGraphDeploymentRun(KubeModel):
    """One search: the completed spec of one generation of a Request, executed by one Job."""

    resource_type = ResourceType(
        GROUP, "v1beta2", "DynamoGraphDeploymentRun", "dynamographdeploymentruns"
    )
    presentation: ClassVar[Presentation] = Presentation(
        description="One search: the completed spec of one generation of a Request.",
        short_name="dgdrrun",
        columns=columns(
            PrinterColumn("Phase", "string", ".status.phase"),
            condition_column(ConditionType.COMPLETED),
            PrinterColumn("Candidates", "integer", ".status.progress.published"),
            PrinterColumn("Evaluated", "integer", ".status.progress.evaluated"),
            reason_column(ConditionType.COMPLETED),
            PrinterColumn("Message", "string", ".status.executionMessage", wide=True),
        ),
        rules=(IMMUTABLE_SPEC,),
    )

    spec: Annotated[SearchSpec, Schema("The completed search; immutable.")]
    status: Annotated[RunStatus, Schema("What has become of the Run.")] = RunStatus()

    @property
    def is_terminal(self) -> bool:
        """Whether the Run is over; nothing changes such a Run any more."""
        return self.status.phase in (RunPhase.SUCCEEDED, RunPhase.FAILED)

    @property
    def request_generation(self) -> int:
        """Generation of the Request that the Run searches, 0 when its label does not say."""
        text = self.labels.get(REQUEST_GENERATION_LABEL, "")
        return int(text) if text.isdecimal() else 0
