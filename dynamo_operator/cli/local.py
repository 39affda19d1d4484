"""Control plane, images and operator of the commands that run a cluster of their own."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dynamo_operator
from dynamo_operator.api.planner_contract import PLANNER_USER_ID
from dynamo_operator.api.publisher_contract import PUBLISHER_EXECUTABLE
from dynamo_operator.app import build_manager
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.generate.deployment import namespace
from dynamo_operator.generate.layout import IMAGE as OPERATOR_IMAGE
from dynamo_operator.generate.layout import MANAGER, NAME, NAMESPACE
from dynamo_operator.generate.policy import publisher_policy, publisher_policy_binding
from dynamo_operator.generate.rbac import (
    gpu_discovery_role,
    leader_election_role,
    leader_election_role_binding,
    manager_role,
    role_binding,
    service_account,
    webhook_certificate_role_bindings,
    webhook_certificate_roles,
)
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE
from dynamo_operator.local_cluster.cluster import LocalCluster
from dynamo_operator.local_cluster.control_plane import ControlPlane
from dynamo_operator.local_cluster.embedded_control_plane import EmbeddedControlPlane
from dynamo_operator.local_cluster.images import ImageEnvironment, ImageMap
from dynamo_operator.local_cluster.node_agent import gpu_labels
from dynamo_operator.planner.environment import PlannerEnvironment
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    Namespace,
    Role,
    RoleBinding,
    ServiceAccount,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.testing.control_plane_binaries import (
    ControlPlaneBinaries,
    ControlPlaneMissingError,
)
from dynamo_operator.testing.real_control_plane import RealControlPlane
from informers.objects import ResourceType

_OPERATOR_USER_ID = 65532
# How whoever starts the cluster reaches the Hugging Face hub, which its containers then do, too.
_HUB_VARIABLES = ("HF_ENDPOINT", "HF_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

_REGISTRATION = ("admissionregistration.k8s.io", "v1")
_POLICY = ResourceType(
    *_REGISTRATION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
_POLICY_BINDING = ResourceType(
    *_REGISTRATION,
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)

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


async def grant_operator(client: Client, *, image_pull_secrets: Sequence[str] = ()) -> str:
    """Apply the shipped access manifests, policy included; return the user that the operator is.

    Args:
        client: an administrator's.
        image_pull_secrets: as in the operator's settings.
    """
    secret_role, configuration_role = webhook_certificate_roles()
    secret_binding, configuration_binding = webhook_certificate_role_bindings()
    for obj in (
        Namespace.model_validate(namespace()),
        ServiceAccount.model_validate(service_account()),
        ClusterRole.model_validate(manager_role(image_pull_secrets=image_pull_secrets)),
        ClusterRole.model_validate(gpu_discovery_role()),
        ClusterRoleBinding.model_validate(role_binding(MANAGER)),
        ClusterRoleBinding.model_validate(role_binding(GPU_DISCOVERY_ROLE)),
        Role.model_validate(leader_election_role()),
        RoleBinding.model_validate(leader_election_role_binding()),
        Role.model_validate(secret_role),
        RoleBinding.model_validate(secret_binding),
        ClusterRole.model_validate(configuration_role),
        ClusterRoleBinding.model_validate(configuration_binding),
    ):
        await client.apply(obj, force=True)
    await client.apply(publisher_policy(), kind=_POLICY, force=True)
    await client.apply(publisher_policy_binding(), kind=_POLICY_BINDING, force=True)
    return f"system:serviceaccount:{NAMESPACE}:{NAME}"


def add_control_plane_flag(parser: argparse.ArgumentParser) -> None:
    """Add the choice between the embedded control plane and a real one."""
    parser.add_argument(
        "--control-plane",
        choices=("embedded", "real"),
        default="embedded",
        help="API server and controllers: our own in this process, or the real ones, which"
        " hack/control_plane/build makes; default: %(default)s",
    )


def find_control_plane(name: str) -> ControlPlaneBinaries | None:
    """Return the programs of the control plane of that name; None: it is the embedded one.

    Raises:
        CliError: they are not here; says how to get them.
    """
    if name == "embedded":
        return None
    try:
        return ControlPlaneBinaries.find(os.environ, with_controllers=True)
    except ControlPlaneMissingError as error:
        raise CliError(f"--control-plane {name}: {error}", exit_code=USAGE) from None


def make_control_plane(
    binaries: ControlPlaneBinaries | None, directory: Path, audit_file: Path, *, port: int = 0
) -> ControlPlane:
    """Make a control plane, not started yet.

    Args:
        binaries: as `find_control_plane` returned them.
        directory: of the cluster.
        audit_file: where each request is logged as a JSON line.
        port: of the API server; 0 for a free one.
    """
    if binaries is None:
        return EmbeddedControlPlane(port=port, audit_file=audit_file)
    return RealControlPlane.complete(
        binaries, port=port, directory=directory / "control-plane", audit_file=audit_file
    )


@asynccontextmanager
async def operated(cluster: LocalCluster, **settings: Any) -> AsyncGenerator[str]:
    """Run the operator with the rights that a deployed one gets, and no others.

    Args:
        cluster: has our CRDs.
        settings: of the operator, beside its image.

    Yields:
        The user that the operator is.
    """
    made = OperatorSettings.model_validate({"operator_image": OPERATOR_IMAGE, **settings})
    user = await grant_operator(cluster.client, image_pull_secrets=made.image_pull_secrets)
    async with (
        cluster.connect(user, field_manager="dynamo-operator") as client,
        build_manager(client, made).running(),
    ):
        yield user
