"""The upstream operator's kinds as CRDs that take anything, for clusters of our own without it.

They are no part of what we install anywhere else.
"""

from __future__ import annotations

from typing import Any, Final

from dynamo_operator.api.labels import GROUP
from dynamo_operator.runtime.models import KubeModel
from informers.objects import ResourceType
from reconcilers.pool_relay.graphs import ServedComponent, ServedGraph


class WorkerMetadata(KubeModel):
    """nvidia.com/v1alpha1 DynamoWorkerMetadata: what workers and relays register."""

    resource_type = ResourceType(GROUP, "v1alpha1", "DynamoWorkerMetadata", "dynamoworkermetadatas")


def _permissive_crd(kind: type[KubeModel]) -> dict[str, Any]:
    resource = kind.resource_type
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


GRAPH_CRDS: Final = [
    _permissive_crd(kind) for kind in (ServedGraph, ServedComponent, WorkerMetadata)
]
