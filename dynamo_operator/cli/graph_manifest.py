"""The DynamoGraphDeployment that a Candidate describes, and whether it could ever run."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from pydantic import ValidationError

from dynamo_operator.api.names import graph_name
from dynamo_operator.api.v1beta1 import POD_NAME_LIMIT, DynamoGraphDeployment
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import AlreadyExistsError, ApiError, NotFoundError
from informers.objects import controller_ref

_GRAPH: Final = DynamoGraphDeployment.resource_type
_CANDIDATE: Final = DynamoGraphDeploymentCandidate.resource_type
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_ORIGIN = "nvidia.com/dgdr-candidate"
_SHORTEST = 6
"""Characters that a made name needs at least, so that two deployments hardly get the same."""


async def deploy(client: Client, manifest: dict[str, Any], *, namespace: str | None) -> None:
    """Create a deployment; one of its name that is there is left as it is.

    Raises:
        CliError: one of its name is there, its kind is not served, or the server refuses it.
    """
    name = manifest["metadata"]["name"]
    if namespace:
        manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    try:
        await client.create(manifest, kind=_GRAPH)
    except AlreadyExistsError as error:
        raise CliError(
            f"{_GRAPH.kind} {name}: exists already; choose another with --name"
        ) from error
    except NotFoundError as error:
        if error.details:
            raise CliError(f"{_GRAPH.kind} {name}: {error.message}") from error
        raise CliError(
            f"the cluster does not serve {_GRAPH.api_version} {_GRAPH.kind}: install the Dynamo"
            " operator there, or name another cluster with --context and --from-context"
        ) from error
    except ApiError as error:
        raise CliError(f"{_GRAPH.kind} {name}: {' '.join(error.message.split())}") from error


def graph_manifest(candidate: DynamoGraphDeploymentCandidate, *, name: str) -> dict[str, Any]:
    """Return the DynamoGraphDeployment that a Candidate stands for: its spec without parameters."""
    spec = {field: value for field, value in candidate.spec.items() if field != "parameters"}
    origin = f"{candidate.key.namespace}/{candidate.key.name}"
    return {
        "apiVersion": _GRAPH.api_version,
        "kind": _GRAPH.kind,
        "metadata": {"name": name, "annotations": {_ORIGIN: origin}},
        "spec": spec,
    }


def default_name(candidate: DynamoGraphDeploymentCandidate) -> str:
    """Return a name that is always the same for a Candidate, and fits its Pods' names if one can.

    It begins like the names of its Run's graphs, and is shorter where a component's name is long.
    """
    owner = controller_ref(candidate)
    digest = hashlib.sha256(candidate.uid.encode()).hexdigest()
    name = f"{graph_name(owner.uid if owner else candidate.uid)}-{digest[:12]}"
    room = _room(graph_manifest(candidate, name=name))[0]
    return name if len(name) <= room else f"r{digest}"[: max(room, _SHORTEST)]


def check_graph(manifest: dict[str, Any]) -> None:
    """Refuse a deployment that could never run.

    Raises:
        CliError: its spec or its name is not one, or its Pods could not be named.
    """
    name = manifest["metadata"]["name"]
    if not _NAME.fullmatch(name):
        raise CliError(
            f"--name {name}: must be letters a to z, digits and hyphens, and begin with a letter",
            exit_code=USAGE,
        )
    room, longest, length = _room(manifest)
    if len(name) > room:
        raise CliError(
            f"{_GRAPH.kind} {name} with component {longest}: {len(name)} + {length} ="
            f" {len(name) + length} characters in the names of Pods; at most {POD_NAME_LIMIT}"
            + (f", so --name may have {room}" if room > 0 else "; no name is short enough"),
            exit_code=USAGE,
        )


def _room(manifest: dict[str, Any]) -> tuple[int, str, int]:
    """Return what is left for the graph's name, and the component that leaves so little."""
    try:
        graph = DynamoGraphDeployment.model_validate(manifest)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        path = ".".join(map(str, problem["loc"]))
        raise CliError(f"the Candidate is no deployment: {path}: {problem['msg']}") from None
    longest = max(graph.spec.components, key=lambda component: component.pod_name_length)
    return POD_NAME_LIMIT - longest.pod_name_length, longest.name, longest.pod_name_length
