"""Requests as people write them: what is wrong with a manifest, and how it reaches the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.cli.manifests import read_manifests
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import AlreadyExistsError
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


def read_requests(source: str) -> list[dict[str, Any]]:
    """Return the Requests of a file.

    Raises:
        CliError: it cannot be read, or a document is no Request of ours; all problems are named.
    """
    manifests = read_manifests(source)
    where = "standard input" if source == "-" else source
    problems = [
        f"{where}: document {index + 1}: {problem}"
        for index, manifest in enumerate(manifests)
        for problem in check_manifest(manifest)
    ]
    if problems:
        raise CliError("\n".join(problems), exit_code=USAGE)
    return manifests


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


def _key_of(obj: Mapping[str, Any]) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _has(manifest: Mapping[str, Any], path: str) -> bool:
    node: Any = manifest
    for name in path.split("."):
        if not isinstance(node, Mapping) or name not in node:
            return False
        node = node[name]
    return True
