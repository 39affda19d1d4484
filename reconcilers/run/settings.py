"""What the operator's administrator decides for all Runs; no Request can choose any of it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from reconcilers.run.execution import (
    ContainerImage,
    PlannerSettings,
    PodSecurity,
    PublisherSettings,
)


class RunSettings(BaseModel):
    """Settings of the Run controller; each Run freezes them when it begins.

    Args:
        planner: image of the planner container.
        publisher: image of the publisher container, the operator's own.
        runtime_image_source: reference from which the backends' runtime images are derived.
        dynamo_version: MAJOR.MINOR.PATCH of Dynamo that the rendered graphs are for.
        image_pull_secrets: Secrets that must exist in each Run's namespace.
        discover_image_pull_secrets: whether Secrets of the Run's namespace that are for the
            registries of the images are used, too.
        planner_settings: of every planner.
        publisher_settings: of every publisher.
        pod_security: of every execution's Pod.
        run_deadline_seconds: `activeDeadlineSeconds` of every Job, or None.
        fallback_gpus_per_node: GPUs per node to assume where no GPU node can be found; None waits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    planner: ContainerImage
    publisher: ContainerImage
    runtime_image_source: str = Field(min_length=1)
    dynamo_version: str = Field(min_length=1)
    image_pull_secrets: tuple[str, ...] = ()
    discover_image_pull_secrets: bool = False
    planner_settings: PlannerSettings = PlannerSettings()
    publisher_settings: PublisherSettings = PublisherSettings()
    pod_security: PodSecurity = PodSecurity()
    run_deadline_seconds: int | None = Field(default=None, ge=1)
    fallback_gpus_per_node: int | None = Field(default=None, ge=1)
