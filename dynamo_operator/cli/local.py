"""What plays our images on this machine, for the commands that run a cluster of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import dynamo_operator
from dynamo_operator.api.planner_contract import PLANNER_USER_ID
from dynamo_operator.api.publisher_contract import PUBLISHER_EXECUTABLE
from dynamo_operator.app import OperatorSettings, build_manager
from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.generate.deployment import namespace
from dynamo_operator.generate.layout import IMAGE as OPERATOR_IMAGE
from dynamo_operator.generate.layout import MANAGER, NAME, NAMESPACE
from dynamo_operator.generate.rbac import (
    gpu_discovery_role,
    manager_role,
    role_binding,
    service_account,
)
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE
from dynamo_operator.local_cluster.cluster import LocalCluster
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.local_cluster.node_agent import gpu_labels
from dynamo_operator.planner.environment import PlannerEnvironment
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    Namespace,
    ServiceAccount,
)
from dynamo_operator.runtime.client import Client

_OPERATOR_USER_ID = 65532
# How whoever starts the cluster reaches the Hugging Face hub, which its containers then do, too.
_HUB_VARIABLES = ("HF_ENDPOINT", "HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

GPU_LABELS = gpu_labels("NVIDIA-H200", 8, 143771)
"""The node claims to have eight H200; only the search's bookkeeping ever looks at them."""


def image_map(planner: PlannerEnvironment, *, offline: bool) -> ImageMap:
    """Map the planner's and the operator's images to environments.

    Args:
        planner: the environment with the real AISimulate.
        offline: whether the model configurations that AISimulate ships take the hub's place.
    """
    variables = {
        **planner.variables,
        **(planner.offline_variables() if offline else _hub_variables()),
    }
    environment = ImageEnvironment.for_python(
        planner.python,
        environment=variables,
        readable=[planner.path, planner.hf_home.parent],
        user=PLANNER_USER_ID,
    )
    return ImageMap({PUBLIC_PLANNER_IMAGE: environment, **operator_image()})


def _hub_variables() -> dict[str, str]:
    names = (*_HUB_VARIABLES, *map(str.lower, _HUB_VARIABLES))
    return {name: os.environ[name] for name in names if name in os.environ}


def operator_image() -> dict[str, ImageEnvironment]:
    """Map the operator's own image, which holds the publisher, to this installation."""
    source = Path(dynamo_operator.__file__).parents[1]
    environment = ImageEnvironment.for_python(
        sys.executable,
        commands={PUBLISHER_EXECUTABLE: ["python", "-m", "dynamo_operator.publisher"]},
        readable=[source / name for name in ("informers", "dynamo_operator", "reconcilers")],
        user=_OPERATOR_USER_ID,
    )
    return {OPERATOR_IMAGE: environment}


async def grant_operator(client: Client) -> str:
    """Apply the shipped access manifests and return the user that the operator is by them."""
    for obj in (
        Namespace.model_validate(namespace()),
        ServiceAccount.model_validate(service_account()),
        ClusterRole.model_validate(manager_role()),
        ClusterRole.model_validate(gpu_discovery_role()),
        ClusterRoleBinding.model_validate(role_binding(MANAGER)),
        ClusterRoleBinding.model_validate(role_binding(GPU_DISCOVERY_ROLE)),
    ):
        await client.apply(obj, force=True)
    return f"system:serviceaccount:{NAMESPACE}:{NAME}"


@asynccontextmanager
async def operated(cluster: LocalCluster) -> AsyncGenerator[str]:
    """Run the operator with the rights that a deployed one gets, and no others.

    Yields:
        The user that the operator is.
    """
    await apply_crds(cluster.client)
    user = await grant_operator(cluster.client)
    settings = OperatorSettings(operator_image=OPERATOR_IMAGE)
    async with (
        cluster.connect(user, field_manager="dynamo-operator") as client,
        build_manager(client, settings).running(),
    ):
        yield user
