"""The execution Job: one Pod in which the planner searches and the publisher publishes.

Only the snapshot directory is shared. Only the publisher holds credentials. Both containers are
admitted in a namespace that enforces the restricted Pod Security level.
"""

from __future__ import annotations

from typing import Any

from dynamo_operator.api.names import job_name, publisher_name
from dynamo_operator.api.planner_contract import (
    INPUT_DIRECTORY,
    INPUT_FILE,
    OUTPUT_DIRECTORY,
    PLANNER_COMMAND,
    PLANNER_CONTAINER,
    TRACE_DIRECTORY,
)
from dynamo_operator.api.publisher_contract import (
    NAMESPACE_VARIABLE,
    POD_NAME_VARIABLE,
    PUBLISHER_CONTAINER,
    publisher_command,
)
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRun
from dynamo_operator.runtime.builtin_kinds import Job
from reconcilers.run.execution import ContainerResources, Execution
from reconcilers.run.manifests import child_labels

HOME_DIRECTORY = "/var/run/aisimulate/home"
CACHE_DIRECTORY = "/var/run/aisimulate/cache"
CREDENTIALS_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"

UNRECORDED_FINALIZER = "nvidia.com/dgdr-job-unrecorded"
"""Keeps a Job in sight until its Run's status names it: whoever deletes it before, and an operator
that dies in between, cannot make the next one believe that there never was a Job."""

_TOKEN_SECONDS = 3600
_CONTAINER_SECURITY: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def render_job(run: DynamoGraphDeploymentRun, execution: Execution, config_map: str) -> Job:
    """Build the Job of a Run.

    Args:
        run: its owner.
        execution: the frozen execution, never today's settings.
        config_map: name of the frozen ConfigMap in the Run's namespace.
    """
    name = job_name(run.key.name, run.uid)
    labels = child_labels(run)
    spec: dict[str, Any] = {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "template": {"metadata": {"labels": labels}, "spec": _pod_spec(run, execution, config_map)},
    }
    if execution.run_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = execution.run_deadline_seconds
    job = Job.new(name, namespace=run.key.namespace, labels=labels, spec=spec)
    job.metadata.finalizers = [UNRECORDED_FINALIZER]
    return job


def _pod_spec(
    run: DynamoGraphDeploymentRun, execution: Execution, config_map: str
) -> dict[str, Any]:
    settings = execution.planner_settings
    claim = _trace_claim(run)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [_planner(execution, claim is not None), _publisher(run, execution)],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": _pod_security(execution),
        "serviceAccountName": publisher_name(run.uid),
        "volumes": _volumes(execution, config_map, claim),
    }
    if execution.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in execution.image_pull_secrets]
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        spec["tolerations"] = [dict(toleration) for toleration in settings.tolerations]
    return spec


def _planner(execution: Execution, with_trace: bool) -> dict[str, Any]:
    settings = execution.planner_settings
    mounts = [
        {"name": "input", "mountPath": INPUT_DIRECTORY, "readOnly": True},
        {"name": "snapshot", "mountPath": execution.snapshot_path},
        {"name": "output", "mountPath": OUTPUT_DIRECTORY},
        {"name": "home", "mountPath": HOME_DIRECTORY},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    if with_trace:
        mounts.append({"name": "trace", "mountPath": TRACE_DIRECTORY, "readOnly": True})
    hf_home = f"{HOME_DIRECTORY}/huggingface"
    if settings.cache_pvc:
        mounts.append({"name": "cache", "mountPath": CACHE_DIRECTORY})
        hf_home = CACHE_DIRECTORY
    container: dict[str, Any] = {
        "name": PLANNER_CONTAINER,
        "image": execution.planner.image,
        "imagePullPolicy": execution.planner.pull_policy,
        "command": list(PLANNER_COMMAND),
        "env": [
            {"name": "HOME", "value": HOME_DIRECTORY},
            {"name": "HF_HOME", "value": hf_home},
            {"name": "TMPDIR", "value": "/tmp"},
            {"name": "MPLCONFIGDIR", "value": f"{HOME_DIRECTORY}/matplotlib"},
            {"name": "XDG_CACHE_HOME", "value": f"{HOME_DIRECTORY}/cache"},
        ],
        "resources": _resources(settings.resources),
        "securityContext": _planner_security(execution),
        # The last log line explains a refused input; reading it here needs no pods/log right.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    if settings.env_from_secret:
        container["envFrom"] = [{"secretRef": {"name": settings.env_from_secret, "optional": True}}]
    return container


def _publisher(run: DynamoGraphDeploymentRun, execution: Execution) -> dict[str, Any]:
    return {
        "name": PUBLISHER_CONTAINER,
        "image": execution.publisher.image,
        "imagePullPolicy": execution.publisher.pull_policy,
        "command": publisher_command(run.key.name, run.uid, snapshot_dir=execution.snapshot_path),
        "env": [
            _from_field(NAMESPACE_VARIABLE, "metadata.namespace"),
            _from_field(POD_NAME_VARIABLE, "metadata.name"),
        ],
        "resources": _resources(execution.publisher_settings.resources),
        # No runAsUser: the operator image's own numeric user.
        "securityContext": dict(_CONTAINER_SECURITY),
        "volumeMounts": [
            {"name": "snapshot", "mountPath": execution.snapshot_path, "readOnly": True},
            {"name": "credentials", "mountPath": CREDENTIALS_DIRECTORY, "readOnly": True},
        ],
    }


def _volumes(execution: Execution, config_map: str, claim: str | None) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {
            "name": "input",
            "configMap": {"name": config_map, "items": [{"key": INPUT_FILE, "path": INPUT_FILE}]},
        },
        {"name": "snapshot", "emptyDir": {"sizeLimit": "64Mi"}},
        {"name": "output", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "home", "emptyDir": {"sizeLimit": "4Gi"}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "credentials", "projected": {"sources": _credential_sources()}},
    ]
    if claim is not None:
        source = {"claimName": claim, "readOnly": True}
        volumes.append({"name": "trace", "persistentVolumeClaim": source})
    if execution.planner_settings.cache_pvc:
        source = {"claimName": execution.planner_settings.cache_pvc}
        volumes.append({"name": "cache", "persistentVolumeClaim": source})
    return volumes


def _credential_sources() -> list[dict[str, Any]]:
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]


def _pod_security(execution: Execution) -> dict[str, Any]:
    security: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if execution.pod_security.run_as_user is not None:
        security["fsGroup"] = execution.pod_security.run_as_user
    return security


def _planner_security(execution: Execution) -> dict[str, Any]:
    security = dict(_CONTAINER_SECURITY)
    if execution.pod_security.run_as_user is not None:
        security["runAsUser"] = execution.pod_security.run_as_user
    return security


def _resources(resources: ContainerResources) -> dict[str, Any]:
    return {"requests": dict(resources.requests), "limits": dict(resources.limits)}


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _trace_claim(run: DynamoGraphDeploymentRun) -> str | None:
    workload = run.spec.workload
    if workload is None or workload.trace is None:
        return None
    return workload.trace.source.pvc.claim_name
