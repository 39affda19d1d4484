"""NetworkPolicies: what the operator's Pods and those of Runs reach, and are reached by."""

from __future__ import annotations

from typing import Any, Final

from dynamo_operator.api.labels import RUN_UID_LABEL
from dynamo_operator.generate.layout import MANAGER, NAME, NAMESPACE, SELECTOR, labels
from dynamo_operator.generate.webhooks import PORT_NAME

RUNS: Final = f"{NAME}-runs"

Rule = dict[str, Any]

_EXPORTER_PORT: Final = 9400
_HTTPS_PORT: Final = 443
_API_SERVER_PORTS: Final = (443, 6443)
_NAMES: Final[Rule] = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}


def operator_ingress() -> list[Rule]:
    """Return who may call the operator: API servers are no Pods, so that none can be selected."""
    return [_ports(PORT_NAME), _ports("metrics"), _ports("health")]


def operator_egress() -> list[Rule]:
    """Return what the operator calls beside the API server: name servers, and GPU exporters."""
    exporters = {"to": [{"namespaceSelector": {}}], **_ports(_EXPORTER_PORT)}
    return [_NAMES, exporters]


def run_egress() -> list[Rule]:
    """Return what a Run's Pod calls beside the API server: name servers, and the model hub."""
    return [_NAMES, _ports(_HTTPS_PORT)]


def operator_policy() -> dict[str, Any]:
    """Return the policy of the operator's Pods."""
    return _policy(
        {"name": MANAGER, "namespace": NAMESPACE, "labels": labels("network-policy")},
        {"matchLabels": dict(SELECTOR)},
        ingress=operator_ingress(),
        egress=operator_egress(),
    )


def run_policy() -> dict[str, Any]:
    """Return the policy of the Pods of Runs, for each namespace that has any."""
    return _policy(
        {"name": RUNS, "labels": labels("network-policy")},
        run_selector(),
        ingress=[],
        egress=run_egress(),
    )


def run_selector() -> dict[str, Any]:
    """Return the selector of the Pods of Runs."""
    return {"matchExpressions": [{"key": RUN_UID_LABEL, "operator": "Exists"}]}


def _policy(
    metadata: dict[str, Any], selector: dict[str, Any], *, ingress: list[Rule], egress: list[Rule]
) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": [*egress, _ports(*_API_SERVER_PORTS)],
        },
    }


def _ports(*ports: int | str) -> Rule:
    return {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
