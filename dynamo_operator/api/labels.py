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
