"""What a server says of itself: discovery, versions, health, schemas; and Tables of its kinds."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.asking import TABLE, get
from tests.conformance.requests import Case, Request

_NAMESPACED = (
    "pods configmaps secrets services serviceaccounts persistentvolumeclaims resourcequotas "
    "limitranges endpoints events podtemplates replicationcontrollers"
)
_GROUPED = {
    "apps/v1": "deployments replicasets statefulsets daemonsets controllerrevisions",
    "batch/v1": "jobs cronjobs",
    "autoscaling/v2": "horizontalpodautoscalers",
    "policy/v1": "poddisruptionbudgets",
    "networking.k8s.io/v1": "networkpolicies ingresses",
    "rbac.authorization.k8s.io/v1": "roles rolebindings",
    "coordination.k8s.io/v1": "leases",
    "discovery.k8s.io/v1": "endpointslices",
    "events.k8s.io/v1": "events",
}
_CLUSTER = {
    "api/v1": "nodes persistentvolumes",
    "apis/storage.k8s.io/v1": "storageclasses csidrivers",
    "apis/scheduling.k8s.io/v1": "runtimeclasses",
    "apis/admissionregistration.k8s.io/v1": (
        "validatingwebhookconfigurations mutatingwebhookconfigurations "
        "validatingadmissionpolicies validatingadmissionpolicybindings"
    ),
}
_SHOWN = ("columnDefinitions[name type format priority]", "rows")
"""Of a Table; descriptions are Go's own comments."""
_NOT_THERE = (
    *("/api/v2", "/apis/apps/v2", "/apis/none.test", "/apis/none.test/v1", "/nowhere"),
    *("/apis/apps/v1/nothing", "/api/v1/namespaces/$ns/nothing", "/openapi/v3/none"),
)


def _tables() -> Iterator[Request]:
    yield from (
        get(f"/api/v1/namespaces/$ns/{each}", accept=TABLE, keep=_SHOWN)
        for each in _NAMESPACED.split()
    )
    for group, plurals in _GROUPED.items():
        for each in plurals.split():
            path = f"/apis/{group}/namespaces/$ns/{each}"
            yield get(path, accept=TABLE, keep=_SHOWN)
    for group, plurals in _CLUSTER.items():
        for each in plurals.split():
            yield get(f"/{group}/{each}", accept=TABLE, keep=_SHOWN[:1])


def _discovery() -> Iterator[Request]:
    yield get("/api", keep=("kind", "versions"))
    for group in ("apps", "batch", "policy", "nvidia.com", "rbac.authorization.k8s.io"):
        yield get(f"/apis/{group}")
    for version in ("batch/v1", "policy/v1", "coordination.k8s.io/v1"):
        yield get(f"/apis/{version}")
    yield get("/version", keep=("major", "minor", "gitVersion"))
    for path in _NOT_THERE:
        yield get(path)


def _health() -> Iterator[Request]:
    for path in ("/healthz", "/livez", "/readyz", "/healthz/ping", "/livez/ping", "/readyz/none"):
        yield get(path)
    yield get("/livez/etcd")


CASES = (
    Case("tables", tuple(_tables())),
    Case("discovery", tuple(_discovery())),
    Case("health", tuple(_health())),
)
