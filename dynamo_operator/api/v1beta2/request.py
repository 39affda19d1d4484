"""DynamoGraphDeploymentRequest: which deployment of this model is best?"""

from __future__ import annotations

from typing import Annotated, ClassVar

from dynamo_operator.api.conditions import Condition, ConditionType
from dynamo_operator.api.labels import GROUP
from dynamo_operator.api.schema import (
    Integer,
    Number,
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


class RunRef(KubeStruct):
    """The Run of the current generation."""

    name: Annotated[str, Schema("Name of the Run.", maxLength=253)]


class RecentRunRef(KubeStruct):
    """One Run of the Request."""

    name: Annotated[str, Schema("Name of the Run.", maxLength=253)]
    generation: Annotated[Integer, Schema("Generation that it searches.", format="int64")]
    phase: Annotated[str, Schema("Phase of the Run.", maxLength=32)] = ""


class BestCandidate(KubeStruct):
    """The best candidate so far."""

    candidate: Annotated[str, Schema("Name of the Candidate.", maxLength=253)]
    score: Annotated[Number | None, Schema("Its score; higher is better.")] = None


class RequestStatus(KubeStruct):
    """What has become of the Request."""

    observed_generation: Annotated[
        Integer | None, Schema("Generation that was judged.", minimum=0, format="int64")
    ] = None
    phase: Annotated[str | None, Schema("Phase of the active Run.", maxLength=32)] = None
    active_run_ref: Annotated[RunRef | None, Schema("The Run of the current generation.")] = None
    recent_run_refs: Annotated[
        list[RecentRunRef],
        Schema("Runs of the Request, newest first.", **{"x-kubernetes-list-type": "atomic"}),
    ] = []
    best: Annotated[BestCandidate | None, Schema("The best candidate so far.")] = None
    conditions: Annotated[
        list[Condition],
        Schema(
            "Accepted, and Completed of the current Run.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []


class DynamoGraphDeploymentRequest(KubeModel):
    """Asks which deployment of a model is best on given hardware under a given load."""

    resource_type = ResourceType(
        GROUP, "v1beta2", "DynamoGraphDeploymentRequest", "dynamographdeploymentrequests"
    )
    presentation: ClassVar[Presentation] = Presentation(
        description="Asks which deployment of a model is best on given hardware and load.",
        short_name="dgdr",
        columns=columns(
            PrinterColumn("Model", "string", ".spec.model.name"),
            PrinterColumn("Phase", "string", ".status.phase"),
            PrinterColumn("Active Run", "string", ".status.activeRunRef.name"),
            PrinterColumn("Best", "number", ".status.best.score"),
            condition_column(ConditionType.ACCEPTED),
            reason_column(ConditionType.COMPLETED),
            PrinterColumn("Best Candidate", "string", ".status.best.candidate", wide=True),
        ),
    )

    spec: Annotated[SearchSpec, Schema("The search.")]
    status: Annotated[RequestStatus, Schema("What has become of the Request.")] = RequestStatus()
