"""What a Run is executed with: the operator's settings, and their frozen copy beside the input.

The copy is the restart boundary: once a Run's ConfigMap is recorded in its status, every later pass
reads it and never today's settings.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from dynamo_operator.api.planner_contract import PLANNER_USER_ID, SNAPSHOT_DIRECTORY
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from reconcilers.run.errors import InvalidExecutionError

EXECUTION_KEY = "execution.json"
SCHEMA_VERSION: Final = 1

PullPolicy = Literal["Always", "IfNotPresent", "Never"]


class _Settings(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class ContainerImage(_Settings):
    """An image reference and when the kubelet pulls it."""

    image: str = Field(min_length=1)
    pull_policy: PullPolicy = "IfNotPresent"


class ContainerResources(_Settings):
    """Requests and limits of one container.

    Args:
        requests: quantities by resource name that the container is sure to get.
        limits: quantities by resource name that it may not exceed.
    """

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class PlannerSettings(_Settings):
    """What the operator's administrator decides for every planner.

    Args:
        env_from_secret: optional Secret of the Run's namespace whose keys become environment
            variables (gated models need a Hugging Face token); null for none.
        node_selector: labels of the nodes that may run the execution.
        tolerations: of the execution's Pod.
        resources: of the planner container.
        cache_pvc: PersistentVolumeClaim of the Run's namespace to keep model files in; null for
            none.
    """

    env_from_secret: str | None = "hf-token-secret"
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    resources: ContainerResources = ContainerResources(
        requests={"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"},
        limits={"cpu": "4", "memory": "8Gi", "ephemeral-storage": "8Gi"},
    )
    cache_pvc: str | None = None


class PublisherSettings(_Settings):
    """What the operator's administrator decides for every publisher."""

    resources: ContainerResources = ContainerResources(
        requests={"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
        limits={"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "64Mi"},
    )


class PodSecurity(_Settings):
    """Identity of the execution's Pod.

    Args:
        run_as_user: UID of the planner; null leaves it and the fsGroup to the cluster, for clusters
            that assign ids by namespace (the image must then run under any UID).
    """

    run_as_user: int | None = Field(default=PLANNER_USER_ID, ge=1)


class Execution(_Settings):
    """Everything but the input that a Run's execution depends on."""

    schema_version: Literal[1] = SCHEMA_VERSION
    planner: ContainerImage
    publisher: ContainerImage
    runtime_image_source: str = Field(min_length=1)
    dynamo_version: str = Field(min_length=1)
    gpus_per_node: int = Field(ge=1)
    snapshot_path: str = SNAPSHOT_DIRECTORY
    image_pull_secrets: tuple[str, ...] = ()
    planner_settings: PlannerSettings = PlannerSettings()
    publisher_settings: PublisherSettings = PublisherSettings()
    pod_security: PodSecurity = PodSecurity()
    run_deadline_seconds: int | None = Field(default=None, ge=1)

    def to_json(self) -> str:
        """Return the canonical text: sorted keys, one line."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), sort_keys=True)


def digest(data: dict[str, str]) -> str:
    """Return the lower-case hex SHA-256 of a ConfigMap's data, independent of the keys' order."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def read_frozen(config_map: ConfigMap, *, uid: str, sha256: str) -> Execution:
    """Read the frozen execution back.

    Args:
        config_map: as read from the API server.
        uid: what the Run's status recorded.
        sha256: likewise.

    Raises:
        InvalidExecutionError: it is another object, was changed, or has an unknown version.
    """
    where = f"ConfigMap {config_map.key}"
    if config_map.uid != uid:
        raise InvalidExecutionError(f"{where} has uid {config_map.uid}, the Run recorded {uid}")
    found = digest(config_map.data)
    if found != sha256:
        raise InvalidExecutionError(f"{where} has sha256 {found}, the Run recorded {sha256}")
    try:
        content = json.loads(config_map.data[EXECUTION_KEY])
        version = content.get("schemaVersion")
        if version != SCHEMA_VERSION:
            raise InvalidExecutionError(
                f"{where} key {EXECUTION_KEY}: schemaVersion {version} is not {SCHEMA_VERSION},"
                " the only one this operator reads"
            )
        return Execution.model_validate(content)
    except KeyError:
        raise InvalidExecutionError(f"{where} has no key {EXECUTION_KEY}") from None
    except (ValueError, AttributeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise InvalidExecutionError(
            f"{where} key {EXECUTION_KEY} cannot be read: {first}"
        ) from None
