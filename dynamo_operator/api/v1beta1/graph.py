"""DynamoGraphDeployment as a result must have it: `spec.components` is checked strictly."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from dynamo_operator.api.labels import GROUP
from dynamo_operator.api.schema import Integer
from dynamo_operator.runtime.models import KubeModel, KubeStruct
from informers.objects import ResourceType

COMPONENT_LIMIT = 25
POD_NAME_LIMIT = 45
"""Characters that a graph's name and one component's may have together, so that Pods can be named.

What the upstream operator's admission takes where Grove places the Pods. A component over several
nodes counts twice: as a scaling group, and as a clique with its role's suffix.
"""
_ROLE_SUFFIX = "-ldr"  # as long as -wkr
_MAIN_CONTAINER = "main"

ComponentName = Annotated[
    str,
    StringConstraints(
        strict=True,
        min_length=1,
        max_length=63,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$",
    ),
]


class Multinode(KubeStruct):
    """One engine over several nodes."""

    node_count: Annotated[Integer, Field(ge=2)] = 2


class Component(KubeStruct):
    """One entry of `spec.components`."""

    name: ComponentName
    type: Literal["frontend", "worker", "prefill", "decode", "planner", "epp"] | None = None
    runtime_version_override: (
        Annotated[
            str, Field(pattern=r"^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$")
        ]
        | None
    ) = None
    replicas: Annotated[Integer, Field(ge=0)] | None = None
    min_available: Annotated[Integer, Field(ge=1)] | None = None
    multinode: Multinode | None = None
    pod_template: dict[str, Any] | None = None

    @property
    def pod_name_length(self) -> int:
        """How many of `POD_NAME_LIMIT` characters this component takes."""
        if self.multinode is None:
            return len(self.name)
        return 2 * len(self.name) + len(_ROLE_SUFFIX)

    @model_validator(mode="after")
    def _has_a_main_image(self) -> Self:
        if self.pod_template is None:
            return self
        spec = self.pod_template.get("spec", {})
        containers = spec.get("containers", []) if isinstance(spec, dict) else None
        if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
            raise ValueError("podTemplate.spec.containers must be a list of containers")
        main = next((c for c in containers if c.get("name") == _MAIN_CONTAINER), None)
        if containers and (main is None or not isinstance(main.get("image"), str)):
            raise ValueError("podTemplate.spec.containers needs a container main with an image")
        return self


class GraphSpec(KubeStruct):
    """`spec` of a DynamoGraphDeployment."""

    components: Annotated[list[Component], Field(min_length=1, max_length=COMPONENT_LIMIT)]
    backend_framework: Literal["sglang", "vllm", "trtllm"] | None = None
    env: list[dict[str, Any]] | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        seen: set[str] = set()
        for component in self.components:
            name = component.name.lower()
            if name in seen:
                raise ValueError(f"components: the name {component.name!r} occurs twice")
            seen.add(name)
        if sum(component.type == "epp" for component in self.components) > 1:
            raise ValueError("components: at most one may have the type epp")
        return self


class DynamoGraphDeployment(KubeModel):
    """The graph that the upstream Dynamo operator deploys."""

    resource_type = ResourceType(
        GROUP, "v1beta1", "DynamoGraphDeployment", "dynamographdeployments"
    )

    spec: GraphSpec
    status: dict[str, Any] = {}
