"""This module makes the Table columns of built-in kinds: what `kubectl get` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from dynamo_operator.apiserver.json_paths import JsonPath
from dynamo_operator.apiserver.kinds import pod_summary
from dynamo_operator.apiserver.resources import Column, Object
from dynamo_operator.apiserver.tables import AGE, age_since, human_duration

Cell = Callable[[Object], Any]


def column(name: str, cell: Cell | str, *, type: str = "string", wide: bool = False) -> Column:
    """A column whose cell is a function of the object, or the value at a JSON path."""
    read = _value_at(cell) if isinstance(cell, str) else cell
    return Column(name, type, lambda obj, _now: read(obj), priority=1 if wide else 0)


def created_at(name: str = "Created At") -> Column:
    """The time of creation, as a time."""
    return Column(name, "date", lambda obj, _now: obj["metadata"].get("creationTimestamp"))


def _value_at(path: str) -> Cell:
    compiled = JsonPath(path)
    return lambda obj: compiled.first(obj)


def _or(cell: Cell, otherwise: Any) -> Cell:
    def read(obj: Object) -> Any:
        value = cell(obj)
        return otherwise if value in (None, "") else value

    return read


def _count(path: str) -> Cell:
    compiled = JsonPath(path)
    return lambda obj: sum(len(found) for found in compiled.find(obj) if found)


def _node_status(node: Object) -> str:
    conditions = {
        c.get("type"): c.get("status") for c in (node.get("status") or {}).get("conditions") or ()
    }
    ready = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    cordoned = (node.get("spec") or {}).get("unschedulable")
    return f"{ready},SchedulingDisabled" if cordoned else ready


def _node_roles(node: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))
    return ",".join(filter(None, roles)) or "<none>"


def _service_ports(service: Object) -> str:
    def text(port: Mapping[str, Any]) -> str:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"

    return ",".join(map(text, service["spec"].get("ports") or ())) or "<none>"


def _selector(obj: Object) -> str:
    selector = (obj.get("spec") or {}).get("selector") or {}
    labels = selector.get("matchLabels") if "matchLabels" in selector else selector
    return ",".join(f"{k}={v}" for k, v in sorted((labels or {}).items())) or "<none>"


def _ready_of_replicas(obj: Object) -> str:
    ready = (obj.get("status") or {}).get("readyReplicas") or 0
    return f"{ready}/{obj['spec'].get('replicas', 0)}"


def _job_status(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    held = {c.get("type") for c in conditions if c.get("status") == "True"}
    if "Complete" in held or "Failed" in held:
        return "Complete" if "Complete" in held else "Failed"
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next(
        (c for c in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if c in held), "Running"
    )


def _job_completions(job: Object) -> str:
    succeeded = (job.get("status") or {}).get("succeeded") or 0
    wanted = job["spec"].get("completions")
    return f"{succeeded}/{wanted}" if wanted is not None else f"{succeeded}/1 of 1"


def _job_duration(job: Object, now: datetime) -> str:
    status = job.get("status") or {}
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    if not end:
        return age_since(start, now)
    return human_duration((_moment(end) - _moment(start)).total_seconds())


def _used(quota: Object, *, limits: bool) -> str:
    status = quota.get("status") or {}
    used, hard = status.get("used") or {}, status.get("hard") or {}
    return ", ".join(
        f"{name}: {used.get(name, 0)}/{hard[name]}"
        for name in sorted(hard)
        if name.startswith("limits.") is limits
    )


def _last_scheduled(cron_job: Object, now: datetime) -> str:
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    return age_since(last, now) if last else "<none>"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _images(path: str) -> Cell:
    compiled = JsonPath(path)
    return lambda obj: ",".join(str(found) for found in compiled.find(obj))


def _last_seen(event: Object, now: datetime) -> str:
    series = event.get("series") or {}
    for time in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
    ):
        if time:
            return age_since(time, now)
    return age_since(event["metadata"].get("creationTimestamp"), now)


def _event_object(event: Object) -> str:
    subject = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(subject.get('kind', '')).lower()}/{subject.get('name', '')}"


def _param_kind(policy: Object) -> str:
    kind = policy["spec"].get("paramKind")
    return f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"


def _role_ref(binding: Object) -> str:
    role = binding.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _subjects(kind: str) -> Cell:
    def read(binding: Object) -> str:
        return ",".join(
            f"{s['namespace']}/{s['name']}" if s.get("namespace") else s.get("name", "")
            for s in binding.get("subjects") or ()
            if s.get("kind") == kind
        )

    return read


_TEMPLATE = ".spec.template.spec.containers[*]"
_CRON_JOB_WIDE: Final = (
    column("Containers", _images(f".spec.jobTemplate{_TEMPLATE}.name"), wide=True),
    column("Images", _images(f".spec.jobTemplate{_TEMPLATE}.image"), wide=True),
    column("Selector", lambda _: "<none>", wide=True),
)
_WORKLOAD_WIDE: Final = (
    column("Containers", _images(f"{_TEMPLATE}.name"), wide=True),
    column("Images", _images(f"{_TEMPLATE}.image"), wide=True),
    column("Selector", _selector, wide=True),
)

POD: Final = (
    column("Ready", pod_summary.ready),
    column("Status", pod_summary.state),
    Column("Restarts", "string", pod_summary.restarts),
    AGE,
    column("IP", _or(_value_at(".status.podIP"), "<none>"), wide=True),
    column("Node", _or(_value_at(".spec.nodeName"), "<none>"), wide=True),
    column("Nominated Node", _or(_value_at(".status.nominatedNodeName"), "<none>"), wide=True),
    column("Readiness Gates", lambda pod: "<none>", wide=True),
)
NODE: Final = (
    column("Status", _node_status),
    column("Roles", _node_roles),
    AGE,
    column("Version", ".status.nodeInfo.kubeletVersion"),
    column(
        "Internal-IP",
        _or(_value_at(".status.addresses[?(@.type=='InternalIP')].address"), "<none>"),
        wide=True,
    ),
    column(
        "External-IP",
        _or(_value_at(".status.addresses[?(@.type=='ExternalIP')].address"), "<none>"),
        wide=True,
    ),
    *(
        column(name, _or(_value_at(f".status.nodeInfo.{field}"), "<unknown>"), wide=True)
        for name, field in (
            ("OS-Image", "osImage"),
            ("Kernel-Version", "kernelVersion"),
            ("Container-Runtime", "containerRuntimeVersion"),
        )
    ),
)
NAMESPACE: Final = (column("Status", ".status.phase"), AGE)
CONFIG_MAP: Final = (
    column("Data", lambda c: _count(".data")(c) + _count(".binaryData")(c)),
    AGE,
)
SECRET: Final = (column("Type", ".type"), column("Data", _count(".data")), AGE)
SERVICE_ACCOUNT: Final = (AGE,)
RESOURCE_QUOTA: Final = (
    column("Request", lambda quota: _used(quota, limits=False)),
    column("Limit", lambda quota: _used(quota, limits=True)),
    AGE,
)
SERVICE: Final = (
    column("Type", ".spec.type"),
    column("Cluster-IP", _or(_value_at(".spec.clusterIP"), "<none>")),
    column("External-IP", _or(_value_at(".spec.externalName"), "<none>")),
    column("Port(s)", _service_ports),
    AGE,
    column("Selector", _selector, wide=True),
)
CLAIM: Final = (
    column("Status", ".status.phase"),
    column("Volume", _or(_value_at(".spec.volumeName"), "")),
    column("Capacity", _or(_value_at(".status.capacity.storage"), "")),
    column("Access Modes", _images(".status.accessModes[*]")),
    column("StorageClass", _or(_value_at(".spec.storageClassName"), "")),
    column("VolumeAttributesClass", _or(_value_at(".spec.volumeAttributesClassName"), "<unset>")),
    AGE,
    column("VolumeMode", _or(_value_at(".spec.volumeMode"), "<unset>"), wide=True),
)
EVENT: Final = (
    Column("Last Seen", "string", _last_seen),
    column("Type", ".type"),
    column("Reason", ".reason"),
    column("Object", _event_object),
    column("Message", lambda e: e.get("message") or e.get("note") or ""),
)
DEPLOYMENT: Final = (
    column("Ready", _ready_of_replicas),
    column("Up-to-date", _or(_value_at(".status.updatedReplicas"), 0)),
    column("Available", _or(_value_at(".status.availableReplicas"), 0)),
    AGE,
    *_WORKLOAD_WIDE,
)
REPLICA_SET: Final = (
    column("Desired", ".spec.replicas", type="integer"),
    column("Current", _or(_value_at(".status.replicas"), 0), type="integer"),
    column("Ready", _or(_value_at(".status.readyReplicas"), 0), type="integer"),
    AGE,
    *_WORKLOAD_WIDE,
)
JOB: Final = (
    column("Status", _job_status),
    column("Completions", _job_completions),
    Column("Duration", "string", _job_duration),
    AGE,
    *_WORKLOAD_WIDE,
)
CRON_JOB: Final = (
    column("Schedule", ".spec.schedule"),
    column("Timezone", _or(_value_at(".spec.timeZone"), "<none>")),
    column(
        "Suspend",
        lambda cron_job: "True" if cron_job["spec"].get("suspend") else "False",
        type="boolean",
    ),
    column("Active", _count(".status.active"), type="integer"),
    Column("Last Schedule", "string", _last_scheduled),
    AGE,
    *_CRON_JOB_WIDE,
)
LEASE: Final = (column("Holder", ".spec.holderIdentity"), AGE)
ROLE: Final = (created_at(),)
ROLE_BINDING: Final = (
    column("Role", _role_ref),
    AGE,
    column("Users", _subjects("User"), wide=True),
    column("Groups", _subjects("Group"), wide=True),
    column("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)
ENDPOINT_SLICE: Final = (
    column("AddressType", ".addressType"),
    column("Ports", _or(_images(".ports[*].port"), "<unset>")),
    column("Endpoints", _or(_images(".endpoints[*].addresses[0]"), "<unset>")),
    AGE,
)
DISRUPTION_BUDGET: Final = (
    column("Min Available", _or(_value_at(".spec.minAvailable"), "N/A")),
    column("Max Unavailable", _or(_value_at(".spec.maxUnavailable"), "N/A")),
    column("Allowed Disruptions", _or(_value_at(".status.disruptionsAllowed"), 0), type="integer"),
    AGE,
)
WEBHOOKS: Final = (column("Webhooks", _count(".webhooks"), type="integer"), AGE)
POLICY: Final = (
    column("Validations", _count(".spec.validations"), type="integer"),
    column("ParamKind", _param_kind),
    AGE,
)
