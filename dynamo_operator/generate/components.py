"""The kustomize components: what a kustomization of users adds to the base or an overlay."""

from __future__ import annotations

from typing import Any, Final

from dynamo_operator.generate.deployment import METRICS_PORT, METRICS_PORT_NAME, deployment_patch
from dynamo_operator.generate.kustomizations import component, folder, kustomization
from dynamo_operator.generate.layout import METRICS, NAMESPACE, SELECTOR, labels
from dynamo_operator.generate.network_policies import operator_policy, run_policy
from dynamo_operator.generate.rbac import metrics_reader_role, metrics_role, role_binding

_COMPONENT: Final = "metrics"


def components() -> dict[str, dict[str, Any]]:
    """Return the files of the components, and of what is applied apart, below `manifests`."""
    return {
        **folder("components/metrics", _metrics()),
        **folder("components/network_policy", _of_operator()),
        **folder("run_network_policy", _of_runs()),
    }


def _metrics() -> dict[str, Any]:
    """Metrics over TLS, for those whom the cluster allows them, and a monitor of them."""
    serving = {
        "env": [{"name": "DYNAMO_OPERATOR_SERVER__METRICS__PORT", "value": str(METRICS_PORT)}],
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": METRICS_PORT}],
    }
    resources = {
        "role.yaml": metrics_role(),
        "role_binding.yaml": role_binding(METRICS),
        "reader_role.yaml": metrics_reader_role(),
        "service.yaml": _service(),
        "service_monitor.yaml": _service_monitor(),
    }
    patches = [{"path": "deployment_patch.yaml"}]
    return {
        "kustomization.yaml": component(sorted(resources), patches=patches),
        "deployment_patch.yaml": deployment_patch(serving),
        **resources,
    }


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": METRICS, "namespace": NAMESPACE, "labels": labels(_COMPONENT)},
        "spec": {
            "selector": dict(SELECTOR),
            "ports": [{"name": "https", "port": METRICS_PORT, "targetPort": METRICS_PORT_NAME}],
        },
    }


def _service_monitor() -> dict[str, Any]:
    """Return what tells the Prometheus operator whom to ask, with its own token.

    The operator makes its certificate at its start: there is nobody to verify it by.
    """
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    endpoint = {
        "port": "https",
        "scheme": "https",
        "path": "/metrics",
        "bearerTokenFile": token,
        "tlsConfig": {"insecureSkipVerify": True},
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": METRICS, "namespace": NAMESPACE, "labels": labels(_COMPONENT)},
        "spec": {
            "selector": {"matchLabels": labels(_COMPONENT)},
            "endpoints": [endpoint],
        },
    }


def _of_operator() -> dict[str, Any]:
    return {
        "kustomization.yaml": component(["operator_policy.yaml"]),
        "operator_policy.yaml": operator_policy(),
    }


def _of_runs() -> dict[str, Any]:
    """What is applied to each namespace that has Runs."""
    return {
        "kustomization.yaml": kustomization(["run_policy.yaml"]),
        "run_policy.yaml": run_policy(),
    }
