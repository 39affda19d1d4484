"""`dynamo-operator request submit`: create or replace Requests as written, nulls included."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.cli.connection import add_connection_flags, connect
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.cli.manifests import read_manifests
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import AlreadyExistsError, ApiError, NotFoundError
from informers.objects import ObjectKey

_TYPE = DynamoGraphDeploymentRequest.resource_type

# Fields of earlier versions of the API, and what took their place; of some, nothing did.
_REPLACED = {
    "spec.modelRef": "spec.model.name",
    "spec.backend": "spec.backends, a list of vllm, sglang and trtllm",
    "spec.searchStrategy": "spec.search.budget",
    "spec.profilingConfig": "spec.aisimulate.inputOverrides",
    "spec.parameters": "spec.aisimulate.inputOverrides",
    "spec.sla": "spec.objective.sla with ttftMs, itlMs or e2eMs, numbers of milliseconds",
    "spec.features": "spec.aisimulate.inputOverrides",
    "spec.overrides": "spec.aisimulate.inputOverrides",
    "spec.hardware.gpuSku": "spec.hardware.gpu.sku",
    "spec.hardware.totalGpus": "spec.hardware.gpu.budget",
    "spec.workload.isl": "spec.workload.static.inputTokens",
    "spec.workload.osl": "spec.workload.static.outputTokens",
    "spec.workload.concurrency": "spec.workload.static.load.concurrency",
    "spec.workload.requestRate": "spec.workload.static.load.requestsPerSecond",
}
_REMOVED = {
    "spec.image": "the operator chooses the planner image",
    "spec.autoApply": "deploy the Candidate that you choose",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `request`."""
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    submit_parser = subcommands.add_parser(
        "submit",
        help="create or replace Requests from a file, keeping nulls inside inputOverrides",
        description=__doc__,
    )
    submit_parser.add_argument("-f", "--filename", required=True, help="YAML or JSON; - for stdin")
    add_connection_flags(submit_parser)
    submit_parser.set_defaults(run=run_submit)


async def run_submit(arguments: argparse.Namespace) -> int:
    """Submit every Request of a file; nothing is sent unless all of them are Requests of ours."""
    manifests = read_manifests(arguments.filename)
    problems = [
        f"{arguments.filename}: document {index + 1}: {problem}"
        for index, manifest in enumerate(manifests)
        for problem in check_manifest(manifest)
    ]
    if problems:
        raise CliError("\n".join(problems), exit_code=USAGE)
    async with connect(arguments) as client:
        for manifest in manifests:
            try:
                key, verb = await submit(client, manifest, namespace=arguments.namespace)
            except ApiError as error:
                raise CliError(f"{manifest['metadata']['name']}: {_refusal(error)}") from error
            print(f"{_TYPE.plural}.{_TYPE.group}/{key.name} {verb}")
    return 0


def check_manifest(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a manifest before any server is asked."""
    if manifest.get("kind") != _TYPE.kind or manifest.get("apiVersion") != _TYPE.api_version:
        yield (
            f"apiVersion {manifest.get('apiVersion')!r}, kind {manifest.get('kind')!r}:"
            f" only {_TYPE.api_version} {_TYPE.kind} can be submitted"
        )
        return
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping) or not metadata.get("name"):
        yield "metadata.name: is missing"
    if not isinstance(manifest.get("spec"), Mapping):
        yield "spec: is missing; it needs at least model.name"
        return
    if isinstance(manifest["spec"].get("model"), str):
        yield "spec.model: is an object now; write spec.model.name"
    for path, successor in _REPLACED.items():
        if _has(manifest, path):
            yield f"{path}: is not a field of {_TYPE.version}; use {successor}"
    for path, instead in _REMOVED.items():
        if _has(manifest, path):
            yield f"{path}: is not a field of {_TYPE.version}; remove it: {instead}"


async def submit(
    client: Client, manifest: Mapping[str, Any], *, namespace: str | None = None
) -> tuple[ObjectKey, str]:
    """Create the Request, or replace spec, labels and annotations of the one of its name.

    Client-side apply would drop the nulls of a merge patch before the server sees them; create and
    replace keep them.

    Returns:
        Its key, and "created", "configured" or "unchanged".
    """
    metadata = dict(manifest["metadata"])
    if namespace:
        metadata["namespace"] = namespace
    body = {**manifest, "metadata": metadata}
    key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
    found = await client.find(_TYPE, key)
    if found is None:
        try:
            created = await client.create(body, kind=_TYPE)
            return _key_of(created), "created"
        except AlreadyExistsError:
            found = await client.get(_TYPE, key)
    merged = {
        **found,
        "spec": manifest["spec"],
        "metadata": {
            **found["metadata"],
            "labels": {**found["metadata"].get("labels", {}), **metadata.get("labels", {})},
            "annotations": {
                **found["metadata"].get("annotations", {}),
                **metadata.get("annotations", {}),
            },
        },
    }
    replaced = await client.replace(merged, kind=_TYPE)
    changed = replaced["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]
    return _key_of(replaced), "configured" if changed else "unchanged"


def _refusal(error: ApiError) -> str:
    if isinstance(error, NotFoundError) and not error.details:  # no object is meant, but the path
        return (
            f"the cluster does not serve {_TYPE.api_version} {_TYPE.kind};"
            " `dynamo-operator crds apply` installs the kinds"
        )
    return " ".join(error.message.split())


def _key_of(obj: Mapping[str, Any]) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _has(manifest: Mapping[str, Any], path: str) -> bool:
    node: Any = manifest
    for name in path.split("."):
        if not isinstance(node, Mapping) or name not in node:
            return False
        node = node[name]
    return True
