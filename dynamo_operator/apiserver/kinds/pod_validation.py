"""This module refuses what the API server refuses in Pods and Pod templates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dynamo_operator.apiserver.go_texts import go_text
from dynamo_operator.apiserver.kinds.ephemeral_containers import (
    validate_ephemeral_containers,
    validate_none_at_first,
)
from dynamo_operator.apiserver.kinds.pod_confinement import (
    validate_annotations,
    validate_app_armor_agreement,
    validate_context,
    validate_seccomp_agreement,
    validate_sharing,
)
from dynamo_operator.apiserver.kinds.pod_defaults import containers_of
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    at_least,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_found,
    problems,
    required,
    supported,
)
from dynamo_operator.apiserver.object_metadata import (
    dns_label,
    dns_subdomain,
    qualified_name,
    validate_labels,
)
from dynamo_operator.apiserver.quantities import parse_quantity
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.value_checks import same

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_FILE_SOURCES: Final = ("configMap", "secret", "downwardAPI")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_ENV_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f=]+")
_PORT_NAME: Final = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?")
_CHANGEABLE: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_MUTABLE_WORDS: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def validate_pod(pod: Object) -> Errors:
    """Check a Pod."""
    yield from validate_annotations(pod, "metadata.annotations")
    yield from validate_pod_spec(pod.get("spec") or {}, "spec")
    yield from validate_seccomp_agreement(pod, "spec")
    yield from validate_ephemeral_containers(pod)


def validate_new_pod(pod: Object) -> Errors:
    """Check what may not be in a Pod at first."""
    yield from validate_app_armor_agreement(pod, "spec")
    yield from validate_none_at_first(pod)


def validate_pod_template(template: Object, path: str) -> Errors:
    """Check a Pod template, its labels included."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    yield from validate_labels(labels, f"{path}.labels")
    yield from validate_annotations(template, f"{path}.annotations")
    spec = template.get("spec") or {}
    yield from validate_pod_spec(spec, f"{path}.spec")
    yield from validate_seccomp_agreement(template, f"{path}.spec")
    yield from validate_app_armor_agreement(template, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        yield forbidden(f"{path}.spec.ephemeralContainers", detail)


def validate_pod_spec(spec: Object, path: str) -> Errors:
    """Check a Pod spec at a path."""
    yield from _volume_errors(spec.get("volumes") or (), f"{path}.volumes")
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for below, container in containers_of(spec):
        where = f"{path}.{below}"
        name = container.get("name") or ""
        if name and name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        yield from _container_errors(container, where, volumes)
        context, host_users = container.get("securityContext") or {}, spec.get("hostUsers", True)
        yield from validate_context(context, f"{where}.securityContext", host_users=host_users)
    yield from _host_port_errors(spec, path)
    yield from _windows_errors(spec, path)
    yield from supported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    yield from supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    yield from validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from at_least(f"{path}.activeDeadlineSeconds", spec.get("activeDeadlineSeconds"), 1)
    for field, rule in (
        ("serviceAccountName", dns_subdomain),
        ("nodeName", dns_subdomain),
        ("hostname", dns_label),
        ("subdomain", dns_label),
    ):
        if spec.get(field):
            yield from problems(f"{path}.{field}", spec[field], rule(spec[field]))
    yield from _toleration_errors(spec.get("tolerations") or (), f"{path}.tolerations")
    yield from validate_context(spec.get("securityContext") or {}, f"{path}.securityContext")
    yield from validate_sharing(spec, path)


def _host_port_errors(spec: Object, path: str) -> Errors:
    """Each port of the node is somebody's: a protocol, an address and a number."""
    taken = set()
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            address = (
                f"{port.get('protocol', '')}/{port.get('hostIP') or ''}/{port.get('hostPort')}"
            )
            if port.get("hostPort") and address in taken:
                where = f"{path}.containers[{index}].ports[{number}].hostPort"
                yield duplicate(where, address)
            taken.add(address)


def _windows_errors(spec: Object, path: str) -> Errors:
    holders = [(path, spec), *((f"{path}.{below}", c) for below, c in containers_of(spec))]
    options = [
        (where, (holder.get("securityContext") or {}).get("windowsOptions") or {})
        for where, holder in holders
    ]
    for where, given in options:
        name = given.get("gmsaCredentialSpecName")
        field = f"{where}.securityContext.windowsOptions.gmsaCredentialSpecName"
        yield from problems(field, name, dns_subdomain(name) if name is not None else ())
    if any(given.get("hostProcess") for _, given in options) and not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{path}.hostNetwork", False, detail)


def validate_pod_update(new: Object, old: Object) -> Errors:
    """Check that only what may change of a Pod's spec changed."""
    if len(new["spec"].get("containers") or ()) != len(old["spec"].get("containers") or ()):
        yield forbidden("spec.containers", "pod updates may not add or remove containers")
        return
    deadline, before = (o["spec"].get("activeDeadlineSeconds") for o in (new, old))
    if before is not None and (deadline is None or deadline > before):
        words = f"must be less than or equal to previous value {before}"
        yield invalid("spec.activeDeadlineSeconds", deadline, words)
    kept = [t for t in old["spec"].get("tolerations") or () if not _tolerated(t, new)]
    if kept:
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", detail)
    gates = [gate.get("name") for gate in old["spec"].get("schedulingGates") or ()]
    for index, gate in enumerate(new["spec"].get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", detail)
    if not same(_fixed_part(new), _fixed_part(old)):
        change = f"from {go_text(_fixed_part(old))} to {go_text(_fixed_part(new))}"
        yield forbidden("spec", f"{_MUTABLE_WORDS}\n{change}")


def validate_pod_status(new: Object, old: Object) -> Errors:
    """Check that finished containers do not start again where the policy forbids it."""
    new_status, old_status = new.get("status") or {}, old.get("status") or {}
    policy = old["spec"].get("restartPolicy")
    for field in ("containerStatuses", "initContainerStatuses"):
        now = {s.get("name"): s for s in new_status.get(field) or ()}
        for position, before in enumerate(old_status.get(field) or ()):
            terminated = (before.get("state") or {}).get("terminated")
            final = terminated and _is_final(policy, terminated, init=field.startswith("init"))
            after = now.get(before.get("name"))
            if final and after and not (after.get("state") or {}).get("terminated"):
                detail = "may not be transitioned to non-terminated state"
                yield forbidden(f"status.{field}[{position}].state", detail)
    yield from immutable("status.qosClass", new_status.get("qosClass"), old_status.get("qosClass"))


def label_selector_errors(selector: Mapping[str, Any], path: str) -> Errors:
    """Check a label selector."""
    yield from validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for position, expression in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{position}]"
        operator, values = expression.get("operator"), expression.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            yield required(f"{where}.values", detail)
        elif operator in ("Exists", "DoesNotExist") and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{where}.values", detail)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid(f"{where}.operator", operator, "not a valid selector operator")
        key = expression.get("key") or ""
        yield from problems(f"{where}.key", key, qualified_name(key))


def selector_matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a label selector's equalities and sets."""
    if any(labels.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
    return key not in labels


def _container_errors(container: Mapping[str, Any], path: str, volumes: set[Any]) -> Errors:
    name = container.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        yield from problems(f"{path}.name", name, dns_label(name))
    image = container.get("image") or ""
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    policy = container.get("imagePullPolicy")
    yield from supported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES)
    message_policy = container.get("terminationMessagePolicy")
    yield from supported(
        f"{path}.terminationMessagePolicy", message_policy, ("FallbackToLogsOnError", "File")
    )
    yield from _port_errors(container.get("ports") or (), f"{path}.ports")
    yield from _env_errors(container.get("env") or (), f"{path}.env")
    yield from _mount_errors(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    yield from _resource_errors(container.get("resources") or {}, f"{path}.resources")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            yield from _probe_errors(container[probe], f"{path}.{probe}", probe)


def _port_errors(ports: Any, path: str) -> Errors:
    names = set()
    for position, port in enumerate(ports):
        where, name, number = f"{path}[{position}]", port.get("name"), port.get("containerPort")
        if number is None:
            yield required(f"{where}.containerPort")
        elif not 1 <= number <= 65535:
            yield invalid(
                f"{where}.containerPort", number, "must be between 1 and 65535, inclusive"
            )
        host = port.get("hostPort")
        if host is not None and not 1 <= host <= 65535:
            yield invalid(f"{where}.hostPort", host, "must be between 1 and 65535, inclusive")
        if name:
            if _PORT_NAME.fullmatch(name) is None:
                detail = (
                    "must be at most 15 lower case alphanumeric characters or '-', with a letter"
                )
                yield invalid(f"{where}.name", name, detail)
            if name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        yield from supported(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)


def _env_errors(variables: Any, path: str) -> Errors:
    for position, variable in enumerate(variables):
        where, name = f"{path}[{position}]", variable.get("name") or ""
        if not name:
            yield required(f"{where}.name")
        elif _ENV_NAME.fullmatch(name) is None:
            detail = (
                "a valid environment variable name must consist only of printable characters "
                "other than '='"
            )
            yield invalid(f"{where}.name", name, detail)
        source = variable.get("valueFrom")
        if source is None:
            continue
        if not source:
            detail = (
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
                "`secretKeyRef`"
            )
            yield invalid(f"{where}.valueFrom", "", detail)
        elif variable.get("value"):
            detail = "may not be specified when `value` is not empty"
            yield invalid(f"{where}.valueFrom", "", detail)
        elif len(source) > 1:
            detail = "may not have more than one field specified at a time"
            yield invalid(f"{where}.valueFrom", "", detail)
        for reference in ("configMapKeyRef", "secretKeyRef"):
            if reference in source and not source[reference].get("key"):
                yield required(f"{where}.valueFrom.{reference}.key")


def _mount_errors(mounts: Any, path: str, volumes: set[Any]) -> Errors:
    seen = set()
    for position, mount in enumerate(mounts):
        where = f"{path}[{position}]"
        name, mount_path = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{where}.name")
        elif name not in volumes:
            yield not_found(f"{where}.name", name)
        if not mount_path:
            yield required(f"{where}.mountPath")
        elif mount_path in seen:
            yield invalid(f"{where}.mountPath", mount_path, "must be unique")
        seen.add(mount_path)
        sub_path = mount.get("subPath") or ""
        if sub_path.startswith("/"):
            yield invalid(f"{where}.subPath", sub_path, "must be a relative path")
        elif ".." in sub_path.split("/"):
            yield invalid(f"{where}.subPath", sub_path, "must not contain '..'")


def _resource_errors(resources: Mapping[str, Any], path: str) -> Errors:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            where = f"{path}.{side}[{name}]"
            if parse_quantity(str(value)) < 0:
                yield invalid(where, value, "must be greater than or equal to 0")
    for name, value in requests.items():
        limit = limits.get(name)
        if limit is not None and parse_quantity(str(value)) > parse_quantity(str(limit)):
            detail = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(f"{path}.requests", value, detail)


def _probe_errors(probe: Mapping[str, Any], path: str, name: str) -> Errors:
    handlers = [h for h in ("exec", "httpGet", "tcpSocket", "grpc") if h in probe]
    if not handlers:
        yield required(path, "must specify a handler type")
    for handler in handlers[1:]:
        yield forbidden(f"{path}.{handler}", "may not specify more than 1 handler type")
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold"):
        yield from at_least(f"{path}.{field}", probe.get(field), 0)
    if name != "readinessProbe" and probe.get("successThreshold") != 1:
        yield invalid(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1")


def _volume_errors(volumes: Any, path: str) -> Errors:
    seen = set()
    for position, volume in enumerate(volumes):
        where, name = f"{path}[{position}]", volume.get("name") or ""
        if not name:
            yield required(f"{where}.name")
        else:
            yield from problems(f"{where}.name", name, dns_label(name))
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        sources = [source for source in volume if source != "name"]
        if not sources:
            yield required(where, "must specify a volume type")
        for source in sources[1:]:
            yield forbidden(f"{where}.{source}", "may not specify more than 1 volume type")
        for source, field in (
            ("configMap", "name"),
            ("secret", "secretName"),
            ("persistentVolumeClaim", "claimName"),
            ("hostPath", "path"),
        ):
            if source in volume and not (volume[source] or {}).get(field):
                yield required(f"{where}.{source}.{field}")
        yield from _file_errors(volume, where)


def _file_errors(volume: Mapping[str, Any], path: str) -> Errors:
    """Check where in the volume each file is to lie."""
    groups = [(path, volume)]
    projected = (volume.get("projected") or {}).get("sources") or ()
    groups += [(f"{path}.projected.sources[{n}]", source) for n, source in enumerate(projected)]
    for where, sources in groups:
        for name in _FILE_SOURCES:
            for position, item in enumerate((sources.get(name) or {}).get("items") or ()):
                place = f"{where}.{name}.items[{position}].path"
                yield from _relative_path_errors(item.get("path") or "", place)
        if token := sources.get("serviceAccountToken"):
            place = f"{where}.serviceAccountToken.path"
            yield from _relative_path_errors(token.get("path") or "", place)


def _relative_path_errors(value: str, path: str) -> Errors:
    if not value:
        yield required(path)
    elif value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    elif ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")
    elif value.startswith(".."):
        yield invalid(path, value, "must not start with '..'")


def _toleration_errors(tolerations: Any, path: str) -> Errors:
    for position, toleration in enumerate(tolerations):
        where = f"{path}[{position}]"
        operator = toleration.get("operator") or "Equal"
        yield from supported(f"{where}.operator", operator, ("Equal", "Exists", "Gt", "Lt"))
        if not toleration.get("key") and operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and '
                'all keys"'
            )
            yield invalid(f"{where}.operator", operator, detail)
        if operator == "Exists" and toleration.get("value"):
            detail = "value must be empty when `operator` is 'Exists'"
            yield invalid(f"{where}.operator", toleration["value"], detail)
        if toleration.get("effect"):
            yield from supported(f"{where}.effect", toleration["effect"], _EFFECTS)
        if (
            toleration.get("tolerationSeconds") is not None
            and toleration.get("effect") != "NoExecute"
        ):
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{where}.effect", toleration.get("effect"), detail)


def _tolerated(toleration: Mapping[str, Any], pod: Object) -> bool:
    def identity(one: Mapping[str, Any]) -> Any:
        return {k: v for k, v in one.items() if k != "tolerationSeconds"}

    return any(identity(t) == identity(toleration) for t in pod["spec"].get("tolerations") or ())


def _fixed_part(pod: Object) -> Object:
    spec = {k: v for k, v in pod["spec"].items() if k not in _CHANGEABLE}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [
                {k: v for k, v in container.items() if k != "image"} for container in spec[field]
            ]
    return spec


def _is_final(policy: Any, terminated: Mapping[str, Any], *, init: bool) -> bool:
    if policy == "Always":
        return False
    return policy == "Never" or (
        policy == "OnFailure" and terminated.get("exitCode") == 0 and not init
    )
