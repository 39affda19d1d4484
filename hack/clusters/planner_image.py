"""The planner image, by Dockerfile.planner, from the planner environment of this machine."""

from __future__ import annotations

import os

from dynamo_operator.planner.environment import DYNAMO_VERSION, cache_root
from dynamo_operator.planner.install import install
from dynamo_operator.planner.interpreter import Interpreter
from hack.clusters import image_checks
from hack.clusters.base_image import BaseImage
from hack.clusters.buildah import Buildah
from hack.clusters.errors import ClusterError
from hack.go_programs import ROOT

USER = "1000:1000"


def build(buildah: Buildah, base: BaseImage, name: str, *, offline: bool) -> None:
    """Build it.

    Args:
        buildah: builds it.
        base: what it is built on.
        name: what it is called.
        offline: whether the model configurations that AISimulate ships take the hub's place.

    Raises:
        ClusterError: it could not be built.
        PlannerError: the environment could not be made.
    """
    environment = install(os.environ, report=print)
    root = cache_root(os.environ)
    interpreter = Interpreter.find(str(environment.python))
    if not interpreter.prefix.is_relative_to(root):
        raise ClusterError(
            f"the planner environment runs on {interpreter.executable}, which is not beside it;"
            " make it as root with a Python of your home directory (pyenv, uv)"
        )
    variables = environment.offline_variables() if offline else {}
    arguments = {
        "BASE_IMAGE": base.reference,
        "ROOT": str(root),
        "INTERPRETER": interpreter.prefix.name,
        "UPSTREAM": environment.hf_home.parent.name,
        "ENVIRONMENT": environment.path.name,
        "LIBRARIES": str(interpreter.library_directory),
        "HUB_CACHE": variables.get("HF_HUB_CACHE", ""),
        "HUB_IS_OFFLINE": variables.get("HF_HUB_OFFLINE", "0"),
        "VERSION": DYNAMO_VERSION,
    }
    buildah.make(root, ROOT / "Dockerfile.planner", name=name, arguments=arguments)


def check(buildah: Buildah, name: str) -> str:
    """Check its user, and that AISimulate and the relay start with a read-only root.

    Raises:
        ClusterError: something of it does not hold.
    """
    image_checks.check_user(buildah, name, USER)
    said = image_checks.check_command(buildah, name, ["aisimulate", "recommend", "--help"])
    if "--output-dir" not in said:
        raise ClusterError(f"{name}: aisimulate recommend --help does not know --output-dir")
    image_checks.check_command(buildah, name, ["python3", "-c", "import dynamo.kv_dc_relay"])
    return f"Dynamo {DYNAMO_VERSION}"
