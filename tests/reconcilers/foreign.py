"""Objects in the places of a Run's own, which the operator did not make."""

from __future__ import annotations

from typing import Any

import pytest

from dynamo_operator.api.labels import MANAGED_BY, MANAGED_BY_LABEL, RUN_UID_LABEL
from dynamo_operator.api.names import input_config_map_name, job_name, publisher_name
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Job, Role, RoleBinding, ServiceAccount

Run = DynamoGraphDeploymentRun
JOB_SPEC: dict[str, Any] = {
    "template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.lab/c"}]}
    }
}


def mallory(namespace: str) -> dict[str, str]:
    """A subject that nobody invited."""
    return {"kind": "ServiceAccount", "name": "mallory", "namespace": namespace}


def labels_of(run: Run) -> dict[str, str]:
    """The labels of a Run's children, which anybody can copy."""
    return {RUN_UID_LABEL: run.uid, MANAGED_BY_LABEL: MANAGED_BY}


def config_map(run: Run) -> ConfigMap:
    """A ConfigMap in the place of the frozen one."""
    name = input_config_map_name(run.key.name, run.uid)
    data = {"input.yaml": "engine: {}\n", "execution.json": "{}"}
    return ConfigMap.new(
        name, namespace=run.key.namespace, labels=labels_of(run), data=data, immutable=True
    )


def service_account(run: Run) -> ServiceAccount:
    """A ServiceAccount in the place of the publisher's."""
    return ServiceAccount.new(
        publisher_name(run.uid), namespace=run.key.namespace, labels=labels_of(run)
    )


def role(run: Run) -> Role:
    """A Role in the place of the publisher's, which grants more."""
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    return Role.new(
        publisher_name(run.uid), namespace=run.key.namespace, labels=labels_of(run), rules=rules
    )


def role_binding(run: Run) -> RoleBinding:
    """A RoleBinding in the place of the publisher's, with a subject of its own."""
    name = publisher_name(run.uid)
    return RoleBinding.new(
        name,
        namespace=run.key.namespace,
        labels=labels_of(run),
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        subjects=[mallory(run.key.namespace)],
    )


def job(run: Run) -> Job:
    """A Job in the place of the execution."""
    return Job.new(
        job_name(run.key.name, run.uid),
        namespace=run.key.namespace,
        labels=labels_of(run),
        spec=JOB_SPEC,
    )


def earlier(run: Run) -> Run:
    """A Run of that name that is not there any more."""
    gone = run.model_copy(deep=True)
    gone.metadata.uid = "00000000-0000-4000-8000-00000000dead"
    return gone


CHILDREN = [
    pytest.param(config_map, id="ConfigMap"),
    pytest.param(service_account, id="ServiceAccount"),
    pytest.param(role, id="Role"),
    pytest.param(role_binding, id="RoleBinding"),
    pytest.param(job, id="Job"),
]
