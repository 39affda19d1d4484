"""The objects that a relay owns: pure functions of the relay, the settings and the sources.

They carry only the fields that are ours, so that what the API server fills in is no difference.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from dynamo_operator.api.labels import (
    DISCOVERY_BACKEND,
    DISCOVERY_ENABLED_LABEL,
    GROUP,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    RELAY_REVISION_LABEL,
    RELAY_UID_LABEL,
)
from dynamo_operator.api.names import pool_relay_name, pool_relay_sources_name
from dynamo_operator.api.relay_contract import (
    GRPC_PORT,
    REVISION_VARIABLE,
    SOURCES_FILE,
    SYSTEM_PORT,
    SourceDocument,
)
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.runtime.builtin_kinds import (
    ConfigMap,
    Deployment,
    PodDisruptionBudget,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
)
from reconcilers.pool_relay.settings import RelaySettings

DEFAULT_REPLICAS: Final = 2
CONTAINER: Final = "relay"
SOURCES_DIRECTORY: Final = "/etc/dynamo/pool-relay"
REVISION_DIGITS: Final = 16

_GRACE_SECONDS: Final = 60
_DEFAULT_RESOURCES: Final = {
    "requests": {"cpu": "1", "memory": "1Gi"},
    "limits": {"memory": "4Gi"},
}

# Also what the controller itself must be allowed, to be able to grant it.
ROLE_RULES: Final[tuple[dict[str, Any], ...]] = (
    {
        "apiGroups": [GROUP],
        "resources": ["dynamoworkermetadatas"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
)


def replicas_of(relay: DynamoPoolRelay) -> int:
    """Return how many relays are wanted."""
    wanted = relay.spec.replicas
    return DEFAULT_REPLICAS if wanted is None else wanted


def endpoint_of(relay: DynamoPoolRelay) -> str:
    """Return where subscribers in the cluster connect."""
    return f"{pool_relay_name(relay.key.name)}.{relay.key.namespace}.svc:{GRPC_PORT}"


def connection_revision(relay: DynamoPoolRelay) -> str:
    """Return the hash of all that a relay's process is started with, but for its image.

    A change of it is a rollout; relays take only documents of their own revision.
    """
    started_with = {"args": _arguments(relay), "env": _environment(relay)}
    text = json.dumps(started_with, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def render_service_account(relay: DynamoPoolRelay) -> ServiceAccount:
    """Build the relays' identity; their Pods ask for its token themselves."""
    return ServiceAccount.new(
        pool_relay_name(relay.key.name),
        namespace=relay.key.namespace,
        labels=_labels(relay),
        automountServiceAccountToken=False,
    )


def render_role(relay: DynamoPoolRelay) -> Role:
    """Build what a relay may do: find workers, and register itself."""
    return Role.new(
        pool_relay_name(relay.key.name),
        namespace=relay.key.namespace,
        labels=_labels(relay),
        rules=list(ROLE_RULES),
    )


def render_role_binding(relay: DynamoPoolRelay) -> RoleBinding:
    """Bind that Role to that identity and nobody else."""
    name = pool_relay_name(relay.key.name)
    return RoleBinding.new(
        name,
        namespace=relay.key.namespace,
        labels=_labels(relay),
        roleRef={"apiGroup": Role.resource_type.group, "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": relay.key.namespace}],
    )


def render_sources(relay: DynamoPoolRelay, document: SourceDocument) -> ConfigMap:
    """Build what tells the relays which namespaces to watch; a change of it rolls nothing."""
    return ConfigMap.new(
        pool_relay_sources_name(relay.key.name),
        namespace=relay.key.namespace,
        labels=_labels(relay),
        data={SOURCES_FILE: document.to_json()},
    )


def render_service(relay: DynamoPoolRelay) -> Service:
    """Build where subscribers find the Ready relays."""
    return Service.new(
        pool_relay_name(relay.key.name),
        namespace=relay.key.namespace,
        labels={**_labels(relay), **_discovery_labels()},
        spec={
            "type": "ClusterIP",
            "selector": _selector(relay),
            "ports": [{"name": "grpc", "port": GRPC_PORT, "protocol": "TCP", "targetPort": "grpc"}],
        },
    )


def render_disruption_budget(relay: DynamoPoolRelay) -> PodDisruptionBudget:
    """Build what keeps a drained node from taking more than one relay at a time."""
    return PodDisruptionBudget.new(
        pool_relay_name(relay.key.name),
        namespace=relay.key.namespace,
        labels=_labels(relay),
        spec={"maxUnavailable": 1, "selector": {"matchLabels": _selector(relay)}},
    )


def render_deployment(relay: DynamoPoolRelay, settings: RelaySettings) -> Deployment:
    """Build the relays themselves: a new one is Ready before an old one goes."""
    revision = connection_revision(relay)
    return Deployment.new(
        pool_relay_name(relay.key.name),
        namespace=relay.key.namespace,
        labels=_labels(relay),
        spec={
            "replicas": replicas_of(relay),
            "selector": {"matchLabels": _selector(relay)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "template": {
                "metadata": {
                    "labels": {
                        **_labels(relay),
                        **_discovery_labels(),
                        RELAY_REVISION_LABEL: revision[:REVISION_DIGITS],
                    },
                    "annotations": {RELAY_REVISION_LABEL: revision},
                },
                "spec": _pod_spec(relay, settings, revision),
            },
        },
    )


def _pod_spec(relay: DynamoPoolRelay, settings: RelaySettings, revision: str) -> dict[str, Any]:
    return {
        "serviceAccountName": pool_relay_name(relay.key.name),
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": _pod_security(settings),
        "affinity": {"podAntiAffinity": _apart(relay)},
        "containers": [_container(relay, settings, revision)],
        "volumes": [
            {
                "name": "sources",
                "configMap": {"name": pool_relay_sources_name(relay.key.name)},
            },
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
        **_if_any("imagePullSecrets", [s.to_dict() for s in relay.spec.image_pull_secrets or ()]),
        **_if_any("nodeSelector", settings.node_selector),
        **_if_any("tolerations", list(settings.tolerations)),
    }


def _container(relay: DynamoPoolRelay, settings: RelaySettings, revision: str) -> dict[str, Any]:
    probe = {"grpc": {"port": GRPC_PORT, "service": settings.health_service}}
    resources = relay.spec.resources
    return {
        "name": CONTAINER,
        "image": relay.spec.image,
        "command": ["python3", "-m", settings.module],
        "args": _arguments(relay),
        "env": [*_environment(relay), {"name": REVISION_VARIABLE, "value": revision}],
        "ports": [
            {"name": "grpc", "containerPort": GRPC_PORT, "protocol": "TCP"},
            {"name": "system", "containerPort": SYSTEM_PORT, "protocol": "TCP"},
        ],
        "resources": resources.to_dict() if resources is not None else _DEFAULT_RESOURCES,
        "startupProbe": {**probe, "periodSeconds": 5, "failureThreshold": 60},
        "readinessProbe": {**probe, "periodSeconds": 10},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            # The directory, not the file by subPath: that would never be updated.
            {"name": "sources", "mountPath": SOURCES_DIRECTORY, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _arguments(relay: DynamoPoolRelay) -> list[str]:
    # With =, because a value may begin with a dash; $$, because $(NAME) would be a reference.
    cluster = relay.spec.cluster_id.replace("$", "$$")
    return [
        f"--dc-id={cluster}",
        f"--sources-file={SOURCES_DIRECTORY}/{SOURCES_FILE}",
        f"--bind=$(POD_IP):{GRPC_PORT}",
    ]


def _environment(relay: DynamoPoolRelay) -> list[dict[str, Any]]:
    return [
        {"name": "DYN_DISCOVERY_BACKEND", "value": "kubernetes"},
        {"name": "DYN_KUBE_DISCOVERY_MODE", "value": "pod"},
        _from_pod("POD_IP", "status.podIP"),
        # Listeners are the Pod's own, also where Pods share their machine's network.
        {"name": "DYN_SYSTEM_HOST", "value": "$(POD_IP)"},
        {"name": "DYN_SYSTEM_PORT", "value": str(SYSTEM_PORT)},
        _from_pod("POD_NAME", "metadata.name"),
        _from_pod("POD_NAMESPACE", "metadata.namespace"),
        _from_pod("POD_UID", "metadata.uid"),
        *(variable.to_dict() for variable in relay.spec.env or ()),
    ]


def _from_pod(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _pod_security(settings: RelaySettings) -> dict[str, Any]:
    user = settings.run_as_user
    identity = {} if user is None else {"runAsUser": user, "runAsGroup": user, "fsGroup": user}
    return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **identity}


def _apart(relay: DynamoPoolRelay) -> dict[str, Any]:
    term = {
        "labelSelector": {"matchLabels": _selector(relay)},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term}
        ]
    }


def _labels(relay: DynamoPoolRelay) -> dict[str, str]:
    return {MANAGED_BY_LABEL: MANAGED_BY, **_selector(relay)}


def _selector(relay: DynamoPoolRelay) -> dict[str, str]:
    return {NAME_LABEL: pool_relay_name(relay.key.name), RELAY_UID_LABEL: relay.uid}


def _discovery_labels() -> dict[str, str]:
    return {DISCOVERY_BACKEND: "kubernetes", DISCOVERY_ENABLED_LABEL: "true"}


def _if_any(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}
