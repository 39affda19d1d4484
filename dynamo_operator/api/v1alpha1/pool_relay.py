"""DynamoPoolRelay: active-active KV-event relays beside one DynamoGraphDeployment."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from dynamo_operator.api.conditions import Condition, ConditionType
from dynamo_operator.api.labels import GROUP
from dynamo_operator.api.relay_contract import OWNED_VARIABLES
from dynamo_operator.api.schema import (
    Integer,
    Presentation,
    PrinterColumn,
    Quantity,
    Rule,
    Schema,
    columns,
    condition_column,
    reason_column,
)
from dynamo_operator.runtime.models import KubeModel, KubeStruct
from informers.objects import ResourceType


def _map_list(*keys: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class _KeyRef(KubeStruct):
    name: Annotated[str, Schema("Name of the object.", minLength=1, maxLength=253)]
    key: Annotated[str, Schema("Key in its data.", minLength=1, maxLength=253)]
    optional: Annotated[bool | None, Schema("Whether it may be missing.")] = None


class ConfigMapKeyRef(_KeyRef):
    """A key of a ConfigMap in the relay's namespace."""


class SecretKeyRef(_KeyRef):
    """A key of a Secret in the relay's namespace."""


class FieldRef(KubeStruct):
    """A field of the relay's Pod."""

    api_version: Annotated[str | None, Schema("Version of the path.", maxLength=64)] = None
    field_path: Annotated[str, Schema("Path of the field.", minLength=1, maxLength=512)]


class ResourceFieldRef(KubeStruct):
    """A request or limit of the relay's container."""

    container_name: Annotated[str | None, Schema("Name of the container.", maxLength=63)] = None
    resource: Annotated[str, Schema("Which one.", minLength=1, maxLength=316)]
    divisor: Annotated[Quantity | None, Schema("The unit that the value is given in.")] = None


class ValueFrom(KubeStruct):
    """Where the value of a variable comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef),"
            " has(self.resourceFieldRef)].filter(given, given).size() == 1",
            "exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef"
            " must be set",
        ),
    )

    config_map_key_ref: Annotated[
        ConfigMapKeyRef | None, Schema("A key of a ConfigMap in the relay's namespace.")
    ] = None
    secret_key_ref: Annotated[
        SecretKeyRef | None, Schema("A key of a Secret in the relay's namespace.")
    ] = None
    field_ref: Annotated[FieldRef | None, Schema("A field of the relay's Pod.")] = None
    resource_field_ref: Annotated[
        ResourceFieldRef | None, Schema("A request or limit of the relay's container.")
    ] = None


class EnvironmentVariable(KubeStruct):
    """One variable of the relay's environment."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!(self.name in [{', '.join(repr(name) for name in OWNED_VARIABLES)}])",
            f"the operator sets this variable; it owns {', '.join(OWNED_VARIABLES)}",
            ".name",
        ),
        Rule("!(has(self.value) && has(self.valueFrom))", "value and valueFrom exclude each other"),
    )

    name: Annotated[
        str,
        Schema("Name of the variable.", minLength=1, maxLength=253, pattern=r"^[^=\x00-\x1f]+$"),
    ]
    value: Annotated[str | None, Schema("Its value.", maxLength=32768)] = None
    value_from: Annotated[ValueFrom | None, Schema("Where its value comes from.")] = None


class PullSecret(KubeStruct):
    """A Secret of the relay's namespace to pull its image with."""

    name: Annotated[str, Schema("Name of the Secret.", minLength=1, maxLength=253)]


class Resources(KubeStruct):
    """Requests and limits of the relay's container."""

    requests: Annotated[
        dict[str, Quantity] | None, Schema("What it is sure to get.", maxProperties=32)
    ] = None
    limits: Annotated[
        dict[str, Quantity] | None, Schema("What it may not exceed.", maxProperties=32)
    ] = None


class PoolRelaySpec(KubeStruct):
    """What is asked for. The graph that is served has the relay's own name."""

    image: Annotated[
        str,
        Schema("Image of the relay.", minLength=1, maxLength=1024, pattern=r"^\S+$"),
    ]
    cluster_id: Annotated[
        str,
        Schema(
            "How this cluster is called by those who subscribe; a change rolls the relays.",
            Rule("self == self.trim()", "clusterID must have no blanks at its ends"),
            minLength=1,
            maxLength=253,
        ),
        Field(alias="clusterID"),
    ]
    replicas: Annotated[
        Integer | None, Schema("Relays at a time; default 2.", minimum=0, maximum=100)
    ] = None
    env: Annotated[
        list[EnvironmentVariable] | None,
        Schema("Further variables of the relay.", maxItems=64, **_map_list("name")),
    ] = None
    image_pull_secrets: Annotated[
        list[PullSecret] | None,
        Schema("Secrets to pull the image with.", maxItems=16, **_map_list("name")),
    ] = None
    resources: Annotated[
        Resources | None,
        Schema("Requests and limits of a relay; default 1 CPU and 1Gi, at most 4Gi."),
    ] = None


class PoolRelayStatus(KubeStruct):
    """What has become of the relays."""

    observed_generation: Annotated[
        Integer | None, Schema("Generation that was judged.", minimum=0, format="int64")
    ] = None
    endpoint: Annotated[
        str | None, Schema("Where subscribers connect, while it is published.", maxLength=512)
    ] = None
    replicas: Annotated[Integer | None, Schema("Relays that exist.", minimum=0)] = None
    ready_replicas: Annotated[Integer | None, Schema("Relays that are Ready.", minimum=0)] = None
    connection_revision: Annotated[
        str | None, Schema("What the relays run with; a change rolls them.", maxLength=64)
    ] = None
    source_revision: Annotated[
        str | None, Schema("Hash of the published source document.", maxLength=64)
    ] = None
    sources: Annotated[Integer | None, Schema("Worker namespaces that are relayed.", minimum=0)] = (
        None
    )
    conditions: Annotated[
        list[Condition],
        Schema(
            "Ready: subscribers are served. Published: the Service exists and the sources are"
            " current.",
            **_map_list("type"),
        ),
    ] = []


class DynamoPoolRelay(KubeModel):
    """Relays of the KV events of the DynamoGraphDeployment of the same name and namespace."""

    resource_type = ResourceType(GROUP, "v1alpha1", "DynamoPoolRelay", "dynamopoolrelays")
    presentation: ClassVar[Presentation] = Presentation(
        description="Active-active relays of the KV events of the DynamoGraphDeployment of the"
        " same name and namespace.",
        short_name="dpr",
        columns=columns(
            condition_column(ConditionType.READY),
            PrinterColumn("Replicas", "integer", ".status.replicas"),
            PrinterColumn("Endpoint", "string", ".status.endpoint"),
            reason_column(ConditionType.READY),
            PrinterColumn("Sources", "integer", ".status.sources", wide=True),
        ),
    )

    spec: Annotated[PoolRelaySpec, Schema("What is asked for.")]
    status: Annotated[PoolRelayStatus, Schema("What has become of the relays.")] = PoolRelayStatus()
