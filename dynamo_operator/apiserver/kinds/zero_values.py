"""What Go shows of a built-in kind's fields that nobody set.

A struct is there even when it is empty, and so is a list, a map or a scalar without `omitempty`.
Whoever creates an object therefore does not own these as such, only what is in them. Taken from the
real server's OpenAPI document: structs default to {} there, the others are required.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_POD_SPEC: Final = {"containers": None}
_TEMPLATE: Final = {"metadata": {}, "spec": _POD_SPEC}
_NAMES: Final = {"kind": "", "plural": ""}
_JOB: Final = {"template": _TEMPLATE}
_NODE_INFO: Final = dict.fromkeys(
    (
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ),
    "",
)
_DAEMON_NUMBERS: Final = (
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberMisscheduled",
    "numberReady",
)
_CHANGED: Final = [{"lastTransitionTime": None}]
_PROBED: Final = [{"lastProbeTime": None, "lastTransitionTime": None}]
_UPDATED: Final = [{"lastUpdateTime": None, "lastTransitionTime": None}]
_BEATEN: Final = [{"lastHeartbeatTime": None, "lastTransitionTime": None}]
_CONTAINER_STATUSES: Final = [
    {
        "name": "",
        "state": {},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }
]
_POD_STATUS: Final = {
    "conditions": _PROBED,
    "containerStatuses": _CONTAINER_STATUSES,
    "initContainerStatuses": _CONTAINER_STATUSES,
    "ephemeralContainerStatuses": _CONTAINER_STATUSES,
}
_WORKLOAD: Final = {"selector": None, "template": _TEMPLATE}

_ZERO: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("", "Namespace"): {"spec": {}, "status": {"conditions": _CHANGED}},
    ("", "Node"): {
        "spec": {},
        "status": {
            "conditions": _BEATEN,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": _NODE_INFO,
        },
    },
    ("", "Pod"): {"spec": _POD_SPEC, "status": _POD_STATUS},
    ("", "Service"): {"spec": {}, "status": {"loadBalancer": {}}},
    ("", "Event"): {
        "involvedObject": {},
        "source": {},
        "eventTime": None,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    ("", "PersistentVolume"): {"spec": {}, "status": {}},
    ("", "PersistentVolumeClaim"): {
        "spec": {"resources": {}},
        "status": {"conditions": _PROBED},
    },
    ("", "ReplicationController"): {
        "spec": {},
        "status": {"replicas": 0, "conditions": _CHANGED},
    },
    ("", "ResourceQuota"): {"spec": {}, "status": {}},
    ("", "LimitRange"): {"spec": {"limits": None}},
    ("", "PodTemplate"): {"template": _TEMPLATE},
    ("apps", "Deployment"): {
        "spec": {**_WORKLOAD, "strategy": {}},
        "status": {"conditions": _UPDATED},
    },
    ("apps", "ReplicaSet"): {
        "spec": {"selector": None, "template": {"metadata": {}, "spec": _POD_SPEC}},
        "status": {"replicas": 0, "conditions": _CHANGED},
    },
    ("apps", "StatefulSet"): {
        "spec": {**_WORKLOAD, "serviceName": "", "updateStrategy": {}},
        "status": {"replicas": 0, "availableReplicas": 0, "conditions": _CHANGED},
    },
    ("apps", "DaemonSet"): {
        "spec": {**_WORKLOAD, "updateStrategy": {}},
        "status": {**dict.fromkeys(_DAEMON_NUMBERS, 0), "conditions": _CHANGED},
    },
    ("apps", "ControllerRevision"): {"data": None},
    ("batch", "Job"): {"spec": _JOB, "status": {"conditions": _PROBED}},
    ("batch", "CronJob"): {
        "spec": {"jobTemplate": {"metadata": {}, "spec": _JOB}, "schedule": ""},
        "status": {},
    },
    ("rbac.authorization.k8s.io", "Role"): {"rules": None},
    ("rbac.authorization.k8s.io", "ClusterRole"): {"rules": None},
    ("rbac.authorization.k8s.io", "RoleBinding"): {"roleRef": {"kind": "", "name": ""}},
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): {"roleRef": {"kind": "", "name": ""}},
    ("coordination.k8s.io", "Lease"): {"spec": {}},
    ("events.k8s.io", "Event"): {
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "eventTime": None,
        "regarding": {},
    },
    ("discovery.k8s.io", "EndpointSlice"): {"addressType": "", "endpoints": [{"conditions": {}}]},
    ("policy", "PodDisruptionBudget"): {"spec": {}, "status": {}},
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "spec": {"group": "", "names": _NAMES, "scope": "", "versions": None},
        "status": {"acceptedNames": _NAMES},
    },
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): {"spec": {}, "status": {}},
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): {"spec": {}},
    ("networking.k8s.io", "NetworkPolicy"): {"spec": {"podSelector": {}}},
    ("scheduling.k8s.io", "PriorityClass"): {},
    ("storage.k8s.io", "StorageClass"): {"provisioner": ""},
}


def zero_value(group: str, kind: str) -> Mapping[str, Any]:
    """Return what an empty object of the kind shows besides apiVersion, kind and metadata."""
    return _ZERO.get((group, kind), {})


def filled(value: Any, zero: Any) -> Any:
    """Return the value with what `zero` has and it lacks."""
    if not isinstance(zero, Mapping) or not zero or not isinstance(value, dict):
        return value
    shown = dict(value)
    for name, default in zero.items():
        if isinstance(default, list):  # what each item shows
            if name in shown:
                shown[name] = [filled(item, default[0]) for item in shown[name] or ()]
        elif shown.get(name) is None:
            shown[name] = filled({}, default) if isinstance(default, Mapping) else default
        else:
            shown[name] = filled(shown[name], default)
    return shown
