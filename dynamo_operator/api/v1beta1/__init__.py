"""The v1beta1 kinds, as far as we read them: DynamoGraphDeployment.

The kind belongs to the upstream Dynamo operator; its CRD is never installed by us.
"""

from dynamo_operator.api.v1beta1.graph import (
    POD_NAME_LIMIT,
    Component,
    DynamoGraphDeployment,
    GraphSpec,
    Multinode,
)

__all__ = ["POD_NAME_LIMIT", "Component", "DynamoGraphDeployment", "GraphSpec", "Multinode"]
