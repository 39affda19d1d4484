"""DynamoGraphDeploymentCandidate: one deployable result of a Run."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from dynamo_operator.api.conditions import Condition, ConditionType
from dynamo_operator.api.labels import GROUP
from dynamo_operator.api.schema import (
    IMMUTABLE_SPEC,
    Presentation,
    PrinterColumn,
    Schema,
    columns,
    condition_column,
)
from dynamo_operator.runtime.models import KubeModel, KubeStruct
from informers.objects import ResourceType


class CandidateStatus(KubeStruct):
    """What the search measured."""

    metrics: Annotated[
        dict[str, Any] | None, Schema("score, usedGpus and AISimulate's metrics.")
    ] = None
    conditions: Annotated[
        list[Condition],
        Schema(
            "Evaluated.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []


class DynamoGraphDeploymentCandidate(KubeModel):
    """A deployable result: the spec of a DynamoGraphDeployment and the parameters it stands for.

    Its rank is its place in the Run's `status.candidateRefs`.
    """

    resource_type = ResourceType(
        GROUP, "v1beta2", "DynamoGraphDeploymentCandidate", "dynamographdeploymentcandidates"
    )
    presentation: ClassVar[Presentation] = Presentation(
        description="A deployable result of a search; ranked by its Run's status.candidateRefs.",
        short_name="dgdc",
        columns=columns(
            PrinterColumn("Score", "number", ".status.metrics.score"),
            PrinterColumn("GPUs", "integer", ".status.metrics.usedGpus"),
            PrinterColumn("Backend", "string", ".spec.parameters.backend"),
            condition_column(ConditionType.EVALUATED),
            PrinterColumn("Mode", "string", ".spec.parameters.deployment_mode", wide=True),
            PrinterColumn(
                "Tokens/s",
                "number",
                ".status.metrics.performance.output_throughput_tok_s",
                wide=True,
            ),
            PrinterColumn(
                "TTFT ms", "number", ".status.metrics.performance.mean_ttft_ms", wide=True
            ),
            PrinterColumn("Run", "string", ".metadata.ownerReferences[0].name", wide=True),
        ),
        rules=(IMMUTABLE_SPEC,),
    )

    spec: Annotated[
        dict[str, Any],
        Schema("The spec of a v1beta1 DynamoGraphDeployment, and `parameters`; immutable."),
    ]
    status: Annotated[CandidateStatus, Schema("What the search measured.")] = CandidateStatus()
