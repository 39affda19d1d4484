"""The parts of the Helm chart that the code declares; its templates put names and values in.

What is parametrized stands as a call of one of the chart's own templates, which renders these files
with `tpl`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

from dynamo_operator.app import metrics_permissions, permissions
from dynamo_operator.generate.chart_values import values_schema
from dynamo_operator.generate.crds import crd_file, custom_resource_definitions
from dynamo_operator.generate.layout import NAME
from dynamo_operator.generate.network_policies import (
    operator_egress,
    operator_ingress,
    run_egress,
    run_selector,
)
from dynamo_operator.generate.policy import publisher_policy, publisher_policy_binding
from dynamo_operator.generate.rbac import namespaced, role_rules
from dynamo_operator.generate.webhooks import webhook_configurations
from dynamo_operator.hardware.discovery import PERMISSIONS as DISCOVERY_PERMISSIONS
from dynamo_operator.runtime.leader_election import lease_permissions
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.runtime.webhooks import (
    ServiceEndpoint,
    configuration_permissions,
    secret_permissions,
)
from reconcilers import run

CHART: Final = "manifests/chart"
LEAST_KUBERNETES: Final = "1.30.0"
"""Since when ValidatingAdmissionPolicy is v1."""


def chart_files() -> dict[str, Any]:
    """Return the content of the chart's generated files, by path below the chart."""
    crds = {f"crds/{crd_file(crd)}": crd for crd in custom_resource_definitions()}
    rules = {f"rules/{name}.yaml": role_rules(declared) for name, declared in _declared().items()}
    files = {
        **crds,
        **rules,
        **_webhooks(),
        "policy.yaml": _policy(),
        "network_policies.yaml": _network_policies(),
    }
    return {
        "Chart.yaml": _chart(),
        "values.schema.json": values_schema(),
        **{f"files/{path}": content for path, content in files.items()},
    }


def _chart() -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": NAME,
        "description": "NVIDIA Dynamo's deployment search: which deployment of a model is best",
        "type": "application",
        "version": version(NAME),
        "appVersion": version(NAME),
        "kubeVersion": f">={LEAST_KUBERNETES}-0",
        "keywords": ["dynamo", "inference", "operator"],
    }


def _declared() -> dict[str, Iterable[Permission]]:
    """Return what the chart may have to grant, by the name of the file of rules."""
    configuration = [_call("webhookConfiguration")]
    searches, relays = permissions(), permissions(dgdr_v1_beta2=False)
    return {
        "manager": searches,
        "manager_namespaced": namespaced(searches),
        "manager_of_relays": relays,
        "manager_of_relays_namespaced": namespaced(relays),
        "gpu_discovery": DISCOVERY_PERMISSIONS,
        "pull_secret_discovery": run.DISCOVERY_OF_PULL_SECRETS,
        "leader_election": lease_permissions(_call("leaseName")),
        "metrics": metrics_permissions(),
        "webhook_secret": secret_permissions(_call("webhookSecret")),
        "webhook_configurations": configuration_permissions(
            mutating=configuration, validating=configuration
        ),
    }


def _webhooks() -> dict[str, Any]:
    endpoint = ServiceEndpoint(_call("webhookService"), "{{ .Release.Namespace }}")
    mutating, validating = webhook_configurations(endpoint)
    return {
        "webhooks/mutating.yaml": mutating["webhooks"],
        "webhooks/validating.yaml": validating["webhooks"],
    }


def _policy() -> dict[str, Any]:
    return {
        "policy": publisher_policy()["spec"],
        "validationActions": publisher_policy_binding()["spec"]["validationActions"],
    }


def _network_policies() -> dict[str, Any]:
    return {
        "operator": {"ingress": operator_ingress(), "egress": operator_egress()},
        "runs": {"podSelector": run_selector(), "egress": run_egress()},
    }


def _call(template: str) -> str:
    return f"{{{{ include `{NAME}.{template}` . }}}}"
