"""Labels and annotations of our objects."""

from __future__ import annotations

from typing import Final

GROUP: Final = "nvidia.com"

REQUEST_UID_LABEL: Final = "nvidia.com/dgdr-request-uid"
REQUEST_GENERATION_LABEL: Final = "nvidia.com/dgdr-request-generation"
REQUEST_NAME_ANNOTATION: Final = "nvidia.com/dgdr-request-name"
"""A name may be longer than a label's value."""

RUN_UID_LABEL: Final = "nvidia.com/dgdr-run-uid"
CANDIDATE_ID_LABEL: Final = "nvidia.com/dgdr-candidate-id"

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
MANAGED_BY: Final = "dynamo-operator"

NAME_LABEL: Final = "app.kubernetes.io/name"

RELAY_UID_LABEL: Final = "nvidia.com/dynamo-pool-relay-uid"
RELAY_REVISION_LABEL: Final = "nvidia.com/dynamo-pool-relay-revision"
"""The first 16 digits of the connection revision; the annotation of the same name has all."""

# Of the upstream Dynamo operator; read, and for discovery carried by what we make.
DISCOVERY_BACKEND: Final = "nvidia.com/dynamo-discovery-backend"
DISCOVERY_MODE: Final = "nvidia.com/dynamo-kube-discovery-mode"
DISCOVERY_ENABLED_LABEL: Final = "nvidia.com/dynamo-discovery-enabled"
GRAPH_NAME_LABEL: Final = "nvidia.com/dynamo-graph-deployment-name"
DYNAMO_NAMESPACE_LABEL: Final = "nvidia.com/dynamo-namespace"
WORKER_HASH_LABEL: Final = "nvidia.com/dynamo-worker-hash"
