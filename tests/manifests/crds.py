"""CRDs that are there before a release is, and their end."""

from __future__ import annotations

import json
from functools import partial

from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client import Client
from dynamo_operator.testing.polling import eventually
from informers.objects import ObjectKey

REQUESTS = ObjectKey("", "dynamographdeploymentrequests.nvidia.com")


def upstream_crd(*versions: str) -> CustomResourceDefinition:
    """The Request's CRD as the upstream operator installs it, the last version stored."""
    names = {"kind": "DynamoGraphDeploymentRequest", "plural": "dynamographdeploymentrequests"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return CustomResourceDefinition.new(
        REQUESTS.name,
        spec={
            "group": "nvidia.com",
            "scope": "Namespaced",
            "names": {**names, "shortNames": ["dgdr"]},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[-1],
                    "schema": {"openAPIV3Schema": schema},
                }
                for version in versions
            ],
        },
    )


async def remove_crds(admin: Client) -> None:
    """Delete all CRDs with their objects, and wait until nothing of them is served."""
    definitions = await admin.list(CustomResourceDefinition)
    for definition in definitions:
        # What cleans up gives up for minutes where it is the first to ask for the objects.
        await eventually(partial(admin.request, "GET", _path_of(definition)), timeout=30)
        await admin.delete(CustomResourceDefinition, definition.key)
    groups = {definition.spec["group"] for definition in definitions}

    async def are_gone() -> bool:
        served = json.loads((await admin.request("GET", "/apis")).body)["groups"]
        left = groups & {group["name"] for group in served}
        return not left and not await admin.list(CustomResourceDefinition)

    await eventually(are_gone, timeout=60)


def _path_of(definition: CustomResourceDefinition) -> str:
    spec = definition.spec
    (version,) = (each["name"] for each in spec["versions"] if each["storage"])
    return f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
