"""The objects that a Run owns beside its Job, and the rule by which one may be taken for ours.

An owner reference can be forged by whoever may write in the namespace, so a matching UID alone is
believed only where the content is rewritten whole or compared byte for byte.
"""

from __future__ import annotations

from dynamo_operator.api.labels import MANAGED_BY, MANAGED_BY_LABEL, RUN_UID_LABEL
from dynamo_operator.api.names import input_config_map_name, publisher_name
from dynamo_operator.api.planner_contract import INPUT_FILE
from dynamo_operator.api.publisher_contract import publisher_role_rules
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Role, RoleBinding, ServiceAccount
from informers.objects import KubeObject, controller_ref
from reconcilers.run.errors import OwnershipConflictError
from reconcilers.run.execution import EXECUTION_KEY, Execution


def render_config_map(
    run: DynamoGraphDeploymentRun, input_yaml: str, execution: Execution
) -> ConfigMap:
    """Build the frozen copy of what the Run is executed with."""
    return ConfigMap.new(
        input_config_map_name(run.key.name, run.uid),
        namespace=run.key.namespace,
        labels=child_labels(run),
        data={INPUT_FILE: input_yaml, EXECUTION_KEY: execution.to_json()},
        immutable=True,
    )


def render_service_account(run: DynamoGraphDeploymentRun) -> ServiceAccount:
    """Build the publisher's identity; only its own projected token is ever used."""
    return ServiceAccount.new(
        publisher_name(run.uid),
        namespace=run.key.namespace,
        labels=child_labels(run),
        automountServiceAccountToken=False,
    )


def render_role(run: DynamoGraphDeploymentRun) -> Role:
    """Build what the publisher may do: its own Run, and Candidates."""
    return Role.new(
        publisher_name(run.uid),
        namespace=run.key.namespace,
        labels=child_labels(run),
        rules=publisher_role_rules(run.key.name),
    )


def render_role_binding(run: DynamoGraphDeploymentRun) -> RoleBinding:
    """Bind that Role to that identity and nobody else."""
    name = publisher_name(run.uid)
    return RoleBinding.new(
        name,
        namespace=run.key.namespace,
        labels=child_labels(run),
        roleRef={"apiGroup": Role.resource_type.group, "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": run.key.namespace}],
    )


def is_owned_by(obj: KubeObject, run: KubeObject) -> bool:
    """Whether the object's controller is that very Run, by UID."""
    reference = controller_ref(obj)
    return reference is not None and reference.uid == run.uid


def require_owned(kind: str, obj: KubeObject, run: KubeObject) -> None:
    """Refuse an object that is not the Run's.

    Raises:
        OwnershipConflictError: it has no controller, or another one.
    """
    if is_owned_by(obj, run):
        return
    reference = controller_ref(obj)
    owner = f"belongs to {reference.kind} {reference.name}" if reference else "has no controller"
    raise OwnershipConflictError(
        f"{kind} {obj.key} {owner}; it stays untouched: delete or rename it, then run again"
    )


def child_labels(run: KubeObject) -> dict[str, str]:
    """Return the labels that all children of a Run carry."""
    return {RUN_UID_LABEL: run.uid, MANAGED_BY_LABEL: MANAGED_BY}
