"""Table columns of the built-in kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dynamo_operator.apiserver.resources import Column, Object
from dynamo_operator.apiserver.tables import AGE, age_since, human_duration

_NONE = "<none>"
Cell = Callable[[Object, datetime], Any]


def builtin_columns(group: str, kind: str) -> Sequence[Column]:
    """Return the columns after Name; empty where the kind has only an age."""
    return _COLUMNS.get((group, kind), ())


def pod_state(pod: Object) -> str:
    """Return what the STATUS column says about a Pod."""
    pod_status = pod.get("status", {})
    state = pod_status.get("reason") or pod_status.get("phase") or "Unknown"
    for condition in pod_status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            state = "SchedulingGated"
    initializing = _init_state(pod)
    if initializing:
        state = initializing
    else:
        state = _container_state(pod_status.get("containerStatuses") or (), state)
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if pod_status.get("reason") == "NodeLost" else "Terminating"
    return str(state)


def _init_state(pod: Object) -> str:
    declared = {c["name"]: c for c in pod.get("spec", {}).get("initContainers") or ()}
    statuses = pod.get("status", {}).get("initContainerStatuses") or ()
    for index, container in enumerate(statuses):
        state = container.get("state", {})
        terminated, waiting = state.get("terminated"), state.get("waiting")
        restarts_always = declared.get(container.get("name"), {}).get("restartPolicy") == "Always"
        if terminated is not None and terminated.get("exitCode") == 0:
            continue
        if restarts_always and container.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_terminated(terminated)}"
        if waiting is not None and waiting.get("reason") not in {None, "", "PodInitializing"}:
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(declared)}"
    return ""


def _container_state(statuses: Sequence[Mapping[str, Any]], state: str) -> str:
    has_running = False
    for container in reversed(statuses):
        current = container.get("state", {})
        waiting, terminated = current.get("waiting"), current.get("terminated")
        if waiting is not None and waiting.get("reason"):
            state = waiting["reason"]
        elif terminated is not None:
            state = _terminated(terminated)
        elif container.get("ready") and "running" in current:
            has_running = True
    return "Running" if state == "Completed" and has_running else state


def _terminated(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _ready_containers(pod: Object, _now: datetime) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    ready = sum(1 for container in statuses if container.get("ready"))
    return f"{ready}/{len(pod.get('spec', {}).get('containers') or ())}"


def _restarts(pod: Object, now: datetime) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    count = sum(container.get("restartCount", 0) for container in statuses)
    ended = [
        container.get("lastState", {}).get("terminated", {}).get("finishedAt")
        for container in statuses
    ]
    last = max(filter(None, ended), default=None)
    return f"{count} ({age_since(last, now)} ago)" if count and last else str(count)


def _job_state(job: Object, _now: datetime) -> str:
    wanted = {"Complete": "Complete", "Failed": "Failed", "Suspended": "Suspended"}
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in wanted:
            return wanted[condition["type"]]
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return "Running"


def _job_completions(job: Object, _now: datetime) -> str:
    spec, succeeded = job.get("spec", {}), job.get("status", {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: datetime) -> str:
    started = job.get("status", {}).get("startTime")
    if not started:
        return ""
    ended = job["status"].get("completionTime")
    until = datetime.fromisoformat(ended) if ended else now
    return human_duration((until - datetime.fromisoformat(started)).total_seconds())


def _node_state(node: Object, _now: datetime) -> str:
    states = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in node.get("status", {}).get("conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if node.get("spec", {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _node_roles(node: Object, _now: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    return ",".join(filter(None, roles)) or _NONE


def _node_address(kind: str) -> Cell:
    def cell(node: Object, _now: datetime) -> str:
        for address in node.get("status", {}).get("addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address"))
        return _NONE

    return cell


def _event_object(event: Object, _now: datetime) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _event_seen(event: Object, now: datetime) -> str:
    series = event.get("series") or {}
    moment = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("deprecatedLastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return age_since(moment, now)


def _event_text(event: Object, _now: datetime) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _service_ports(service: Object, _now: datetime) -> str:
    ports = service.get("spec", {}).get("ports") or ()
    shown = [f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports]
    return ",".join(shown) or _NONE


def _condition_age(path: str) -> Cell:
    def cell(obj: Object, now: datetime) -> str:
        moment = _at(obj, path)
        return age_since(moment, now) if moment else _NONE

    return cell


def _count(path: str) -> Cell:
    def cell(obj: Object, _now: datetime) -> int:
        return len(_at(obj, path) or ())

    return cell


def _field(path: str, default: Any = _NONE) -> Cell:
    def cell(obj: Object, _now: datetime) -> Any:
        value = _at(obj, path)
        return default if value in (None, "") else value

    return cell


def _of(first: str, second: str) -> Cell:
    def cell(obj: Object, _now: datetime) -> str:
        return f"{_at(obj, first) or 0}/{_at(obj, second) or 0}"

    return cell


def _containers(path: str, field: str) -> Cell:
    def cell(obj: Object, _now: datetime) -> str:
        return ",".join(str(c.get(field, "")) for c in _at(obj, path) or ()) or _NONE

    return cell


def _selector(obj: Object, _now: datetime) -> str:
    selector = obj.get("spec", {}).get("selector") or {}
    labels = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _role_ref(binding: Object, _now: datetime) -> str:
    role = binding.get("roleRef", {})
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def cell(binding: Object, _now: datetime) -> str:
        subjects = [s for s in binding.get("subjects") or () if s.get("kind") == kind]
        return ", ".join(
            f"{s['namespace']}/{s['name']}" if s.get("namespace") else s.get("name", "")
            for s in subjects
        )

    return cell


def _at(obj: Any, path: str) -> Any:
    for field in path.split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(field)
    return obj


def _columns(*columns: tuple[str, str, Cell] | tuple[str, str, Cell, int]) -> tuple[Column, ...]:
    return tuple(
        Column(name, kind, cell, priority=rest[0] if rest else 0)
        for name, kind, cell, *rest in columns
    )


_TEMPLATE = "spec.template.spec.containers"
_TEMPLATE_COLUMNS = _columns(
    ("Containers", "string", _containers(_TEMPLATE, "name"), 1),
    ("Images", "string", _containers(_TEMPLATE, "image"), 1),
    ("Selector", "string", _selector, 1),
)
_BINDING_COLUMNS = (
    *_columns(("Role", "string", _role_ref)),
    AGE,
    *_columns(
        ("Users", "string", _subjects("User"), 1),
        ("Groups", "string", _subjects("Group"), 1),
        ("ServiceAccounts", "string", _subjects("ServiceAccount"), 1),
    ),
)


def _event_columns() -> Iterable[Column]:
    return _columns(
        ("Last Seen", "string", _event_seen),
        ("Type", "string", _field("type")),
        ("Reason", "string", _field("reason")),
        ("Object", "string", _event_object),
        ("Message", "string", _event_text),
    )


_COLUMNS: Mapping[tuple[str, str], Sequence[Column]] = {
    ("", "Pod"): (
        *_columns(
            ("Ready", "string", _ready_containers),
            ("Status", "string", lambda pod, _: pod_state(pod)),
            ("Restarts", "string", _restarts),
        ),
        AGE,
        *_columns(
            ("IP", "string", _field("status.podIP"), 1),
            ("Node", "string", _field("spec.nodeName"), 1),
            ("Nominated Node", "string", _field("status.nominatedNodeName"), 1),
            ("Readiness Gates", "string", lambda *_: _NONE, 1),
        ),
    ),
    ("", "Namespace"): (*_columns(("Status", "string", _field("status.phase"))), AGE),
    ("", "Node"): (
        *_columns(("Status", "string", _node_state), ("Roles", "string", _node_roles)),
        AGE,
        *_columns(
            ("Version", "string", _field("status.nodeInfo.kubeletVersion")),
            ("Internal-IP", "string", _node_address("InternalIP"), 1),
            ("External-IP", "string", _node_address("ExternalIP"), 1),
            ("OS-Image", "string", _field("status.nodeInfo.osImage", "<unknown>"), 1),
            ("Kernel-Version", "string", _field("status.nodeInfo.kernelVersion", "<unknown>"), 1),
            (
                "Container-Runtime",
                "string",
                _field("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
                1,
            ),
        ),
    ),
    ("", "ConfigMap"): (*_columns(("Data", "string", _count("data"))), AGE),
    ("", "Secret"): (
        *_columns(("Type", "string", _field("type")), ("Data", "string", _count("data"))),
        AGE,
    ),
    ("", "ServiceAccount"): (*_columns(("Secrets", "string", _count("secrets"))), AGE),
    ("", "Service"): (
        *_columns(
            ("Type", "string", _field("spec.type")),
            ("Cluster-IP", "string", _field("spec.clusterIP")),
            ("External-IP", "string", lambda *_: _NONE),
            ("Port(s)", "string", _service_ports),
        ),
        AGE,
        *_columns(("Selector", "string", _selector, 1)),
    ),
    ("", "Event"): tuple(_event_columns()),
    ("events.k8s.io", "Event"): tuple(_event_columns()),
    ("apps", "Deployment"): (
        *_columns(
            ("Ready", "string", _of("status.readyReplicas", "spec.replicas")),
            ("Up-to-date", "string", _field("status.updatedReplicas", 0)),
            ("Available", "string", _field("status.availableReplicas", 0)),
        ),
        AGE,
        *_TEMPLATE_COLUMNS,
    ),
    ("apps", "ReplicaSet"): (
        *_columns(
            ("Desired", "integer", _field("spec.replicas", 0)),
            ("Current", "integer", _field("status.replicas", 0)),
            ("Ready", "integer", _field("status.readyReplicas", 0)),
        ),
        AGE,
        *_TEMPLATE_COLUMNS,
    ),
    ("apps", "StatefulSet"): (
        *_columns(("Ready", "string", _of("status.readyReplicas", "spec.replicas"))),
        AGE,
        *_TEMPLATE_COLUMNS[:2],
    ),
    ("batch", "Job"): (
        *_columns(
            ("Status", "string", _job_state),
            ("Completions", "string", _job_completions),
            ("Duration", "string", _job_duration),
        ),
        AGE,
        *_TEMPLATE_COLUMNS,
    ),
    ("batch", "CronJob"): (
        *_columns(
            ("Schedule", "string", _field("spec.schedule")),
            ("Timezone", "string", _field("spec.timeZone")),
            ("Suspend", "boolean", lambda job, _: str(bool(_at(job, "spec.suspend")))),
            ("Active", "integer", _count("status.active")),
            ("Last Schedule", "string", _condition_age("status.lastScheduleTime")),
        ),
        AGE,
    ),
    ("coordination.k8s.io", "Lease"): (
        *_columns(("Holder", "string", _field("spec.holderIdentity", ""))),
        AGE,
    ),
    ("policy", "PodDisruptionBudget"): (
        *_columns(
            ("Min Available", "string", _field("spec.minAvailable", "N/A")),
            ("Max Unavailable", "string", _field("spec.maxUnavailable", "N/A")),
            ("Allowed Disruptions", "integer", _field("status.disruptionsAllowed", 0)),
        ),
        AGE,
    ),
    ("rbac.authorization.k8s.io", "Role"): _columns(
        ("Created At", "date", _field("metadata.creationTimestamp"))
    ),
    ("rbac.authorization.k8s.io", "ClusterRole"): _columns(
        ("Created At", "date", _field("metadata.creationTimestamp"))
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING_COLUMNS,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING_COLUMNS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _columns(
        ("Created At", "date", _field("metadata.creationTimestamp"))
    ),
}
