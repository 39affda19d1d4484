"""This module warns about parts of Pods that Kubernetes no longer acts on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dynamo_operator.apiserver.kinds.pod_defaults import containers_of
from dynamo_operator.apiserver.resources import Object

_POD_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_VOLUMES: Final = {
    "photonPersistentDisk": "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "scaleIO: deprecated in v1.16, non-functional in v1.22+",
    "flocker": "flocker: deprecated in v1.22, non-functional in v1.25+",
    "storageos": "storageOS: deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "quobyte: deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "glusterfs: deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "cephfs: deprecated in v1.28, non-functional in v1.31+",
    "rbd": "rbd: deprecated in v1.28, non-functional in v1.31+",
}


def pod_warnings(pod: Object) -> list[str]:
    """Return what to warn about in a Pod."""
    return list(_warnings(pod, ""))


def workload_warnings(workload: Object) -> list[str]:
    """Return what to warn about in the Pod template of a workload."""
    return list(_warnings(workload["spec"].get("template") or {}, "spec.template."))


def cron_job_warnings(cron_job: Object) -> list[str]:
    """Return what to warn about in the Pod template of a CronJob."""
    template = cron_job["spec"]["jobTemplate"]["spec"].get("template") or {}
    return list(_warnings(template, "spec.jobTemplate.spec.template."))


def _warnings(pod: Object, below: str) -> Iterator[str]:
    spec = pod.get("spec") or {}
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    for position, volume in enumerate(spec.get("volumes") or ()):
        for source, text in _VOLUMES.items():
            if source in volume:
                yield f"{below}spec.volumes[{position}].{text}"
    holders = {_POD_SECCOMP: spec}
    for _, container in containers_of(spec):
        holders[_CONTAINER_SECCOMP + container.get("name", "")] = container
    for key, holder in holders.items():
        if key in annotations and not (holder.get("securityContext") or {}).get("seccompProfile"):
            words = 'non-functional in v1.27+; use the "seccompProfile" field instead'
            yield f"{below}metadata.annotations[{key}]: {words}"
