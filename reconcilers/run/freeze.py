"""Decides, once, what a Run is executed with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dynamo_operator.aisimulate.lowering import ExecutionValues, lower
from dynamo_operator.aisimulate.overrides import LoweringError
from dynamo_operator.api.conditions import CompletedReason
from dynamo_operator.api.names import graph_name
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import Secret
from dynamo_operator.runtime.client import Reader
from dynamo_operator.runtime.client.errors import ForbiddenError
from informers.objects import ObjectKey
from reconcilers.run.errors import InvalidInputError, WaitingError
from reconcilers.run.execution import Execution
from reconcilers.run.pull_secrets import DOCKER_CONFIG_TYPE, matching_secrets
from reconcilers.run.settings import RunSettings

_SECRET_RETRY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Frozen:
    """The input document and everything else that the execution depends on."""

    document: dict[str, Any]
    execution: Execution


class Freezer:
    """Resolves today's settings and topology into one frozen execution.

    Args:
        live: reads the pull secrets, which are never cached.
        settings: the operator's.
        gpus_per_node: finds the topology; raises WaitingError while it is unknown.
    """

    def __init__(
        self, live: Reader, settings: RunSettings, gpus_per_node: Callable[[], Awaitable[int]]
    ) -> None:
        self._live = live
        self._settings = settings
        self._gpus_per_node = gpus_per_node

    async def freeze(self, run: DynamoGraphDeploymentRun) -> Frozen:
        """Return what the Run will be executed with.

        Raises:
            InvalidInputError: the spec cannot be lowered; no retry helps.
            WaitingError: topology or a pull secret is missing for now.
        """
        _lower(run)  # what can never work is said before anything is waited for
        settings = self._settings
        required = settings.image_pull_secrets
        await self._require_pull_secrets(run)
        discovered = await self._discover_pull_secrets(run)
        execution = Execution(
            planner=settings.planner,
            publisher=settings.publisher,
            runtime_image_source=settings.runtime_image_source,
            dynamo_version=settings.dynamo_version,
            gpus_per_node=await self._gpus_per_node(),
            image_pull_secrets=tuple(dict.fromkeys((*required, *discovered))),
            planner_settings=settings.planner_settings,
            publisher_settings=settings.publisher_settings,
            pod_security=settings.pod_security,
            run_deadline_seconds=settings.run_deadline_seconds,
        )
        values = ExecutionValues(
            name=graph_name(run.uid),
            namespace=run.key.namespace,
            snapshot_dir=execution.snapshot_path,
            runtime_image=execution.runtime_image_source,
            runtime_version_override=execution.dynamo_version,
            num_gpus_per_node=execution.gpus_per_node,
        )
        return Frozen(_lower(run, values), execution)

    async def _require_pull_secrets(self, run: DynamoGraphDeploymentRun) -> None:
        missing = [
            name
            for name in self._settings.image_pull_secrets
            if await self._live.find(Secret, ObjectKey(run.key.namespace, name)) is None
        ]
        if missing:
            raise _waiting(
                f"image pull secret {', '.join(missing)} is not in namespace {run.key.namespace}"
            )

    async def _discover_pull_secrets(self, run: DynamoGraphDeploymentRun) -> tuple[str, ...]:
        settings = self._settings
        if not settings.discover_image_pull_secrets:
            return ()
        try:
            found = await self._live.list(
                Secret, namespace=run.key.namespace, fields={"type": DOCKER_CONFIG_TYPE}
            )
        except ForbiddenError as error:
            raise _waiting(f"image pull secrets cannot be discovered: {error.message}") from error
        images = (settings.planner.image, settings.publisher.image)
        return matching_secrets(found, images)


def _waiting(message: str) -> WaitingError:
    reason = CompletedReason.WAITING_FOR_IMAGE_PULL_SECRETS
    return WaitingError(reason, message, _SECRET_RETRY_SECONDS)


def _lower(run: DynamoGraphDeploymentRun, values: ExecutionValues | None = None) -> dict[str, Any]:
    try:
        return lower(run.spec, values).document
    except LoweringError as error:
        raise InvalidInputError(str(error)) from error
