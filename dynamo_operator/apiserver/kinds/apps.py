"""This module holds what makes Pods of a template, and goes on to keep them."""

from __future__ import annotations

from typing import Any, Final

from dynamo_operator.apiserver.kinds import columns
from dynamo_operator.apiserver.kinds.core import CLAIM
from dynamo_operator.apiserver.kinds.openapi import (
    CONDITIONS,
    FREE_OBJECT,
    INT32,
    INT64,
    INT_OR_STRING,
    LABEL_SELECTOR,
    OBJECT_META,
    STRING,
    STRINGS,
    OpenAPI,
    array,
    atomic,
    kind,
    record,
)
from dynamo_operator.apiserver.kinds.pod_defaults import default_pod_spec
from dynamo_operator.apiserver.kinds.pod_schema import POD_TEMPLATE
from dynamo_operator.apiserver.kinds.pod_validation import (
    label_selector_errors,
    selector_matches,
    validate_pod_template,
)
from dynamo_operator.apiserver.kinds.pod_warnings import (
    name_warnings,
    pod_warnings,
    workload_warnings,
)
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    KindRules,
    Kinds,
    at_least,
    forbidden,
    immutable,
    invalid,
    required,
    supported,
)
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.value_checks import same

_ROLLING_UPDATE: Final = record(
    maxUnavailable=INT_OR_STRING, maxSurge=INT_OR_STRING, partition=INT32
)
_STRATEGY: Final = record(type=STRING, rollingUpdate=_ROLLING_UPDATE)
_RETAINED_STRATEGY: Final = {**_STRATEGY, "x-kubernetes-patch-strategy": "retainKeys"}
_COUNTS: Final[dict[str, OpenAPI]] = {
    name: INT32
    for name in (
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "fullyLabeledReplicas",
        "currentReplicas",
        "collisionCount",
    )
}
_STATUS: Final = record(
    **_COUNTS,
    observedGeneration=INT64,
    conditions=CONDITIONS,
    currentRevision=STRING,
    updateRevision=STRING,
)
DEPLOYMENT: Final = kind(
    spec=record(
        replicas=INT32,
        selector=LABEL_SELECTOR,
        template=POD_TEMPLATE,
        strategy=_RETAINED_STRATEGY,
        minReadySeconds=INT32,
        revisionHistoryLimit=INT32,
        paused={"type": "boolean"},
        progressDeadlineSeconds=INT32,
    ),
    status=_STATUS,
)
REPLICA_SET: Final = kind(
    spec=record(
        replicas=INT32, minReadySeconds=INT32, selector=LABEL_SELECTOR, template=POD_TEMPLATE
    ),
    status=_STATUS,
)
STATEFUL_SET: Final = kind(
    spec=record(
        replicas=INT32,
        selector=LABEL_SELECTOR,
        template=POD_TEMPLATE,
        volumeClaimTemplates=array(
            {
                **CLAIM,
                "properties": {
                    **CLAIM["properties"],
                    "apiVersion": STRING,
                    "kind": STRING,
                    "metadata": OBJECT_META,
                },
            }
        ),
        serviceName=STRING,
        podManagementPolicy=STRING,
        updateStrategy=_STRATEGY,
        revisionHistoryLimit=INT32,
        minReadySeconds=INT32,
        persistentVolumeClaimRetentionPolicy=record(whenDeleted=STRING, whenScaled=STRING),
        ordinals=record(start=INT32),
    ),
    status=_STATUS,
)
DAEMON_SET: Final = kind(
    spec=record(
        selector=LABEL_SELECTOR,
        template=POD_TEMPLATE,
        updateStrategy=_STRATEGY,
        minReadySeconds=INT32,
        revisionHistoryLimit=INT32,
    ),
    status=FREE_OBJECT,
)
REPLICATION_CONTROLLER: Final = kind(
    spec=record(
        replicas=INT32,
        minReadySeconds=INT32,
        selector={**STRINGS, "x-kubernetes-map-type": "atomic"},
        template=POD_TEMPLATE,
    ),
    status=_STATUS,
)
REVISION: Final = kind(data=atomic(FREE_OBJECT), revision=INT64)
TEMPLATE: Final = kind(template=POD_TEMPLATE)
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _default_template(spec: Object) -> None:
    template = spec.setdefault("template", {})
    default_pod_spec(template.setdefault("spec", {}))


def _default_deployment(deployment: Object) -> None:
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _default_strategy(spec.setdefault("strategy", {}), surge="25%", unavailable="25%")
    _default_template(spec)


def _default_strategy(strategy: dict[str, Any], *, surge: Any, unavailable: Any) -> None:
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", unavailable)
        rolling.setdefault("maxSurge", surge)


def _default_replica_set(replica_set: Object) -> None:
    spec = replica_set.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)


def _default_stateful_set(stateful_set: Object) -> None:
    spec = stateful_set.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("partition", 0)
        rolling.setdefault("maxUnavailable", 1)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    _default_template(spec)


def _default_daemon_set(daemon_set: Object) -> None:
    daemon_set["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "0")
    spec = daemon_set.setdefault("spec", {})
    spec.setdefault("revisionHistoryLimit", 10)
    _default_strategy(spec.setdefault("updateStrategy", {}), surge=0, unavailable=1)
    _default_template(spec)


def _default_replication_controller(controller: Object) -> None:
    spec = controller.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if spec.get("template"):
        _default_template(spec)
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        if labels and not spec.get("selector"):
            spec["selector"] = dict(labels)
        if labels and not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


def _validate_replication_controller(controller: Object) -> Errors:
    spec = controller["spec"]
    yield from at_least("spec.replicas", spec.get("replicas"), 0)
    if not spec.get("selector"):
        yield required("spec.selector")
    if not spec.get("template"):
        yield required("spec.template")
        return
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if not selector_matches({"matchLabels": spec.get("selector") or {}}, labels):
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, detail)
    yield from validate_pod_template(spec["template"], "spec.template")
    policy = (spec["template"].get("spec") or {}).get("restartPolicy")
    yield from supported("spec.template.spec.restartPolicy", policy, ("Always",))


def _validate_template(obj: Object) -> Errors:
    return validate_pod_template(obj.get("template") or {}, "template")


def _validate_workload(obj: Object) -> Errors:
    spec = obj["spec"]
    yield from at_least("spec.replicas", spec.get("replicas"), 0)
    yield from at_least("spec.minReadySeconds", spec.get("minReadySeconds"), 0)
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is None:
        yield required("spec.selector")
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid("spec.selector", selector, "empty selector is invalid for deployment")
    else:
        yield from label_selector_errors(selector, "spec.selector")
        if not selector_matches(selector, labels):
            detail = "`selector` does not match template `labels`"
            yield invalid("spec.template.metadata.labels", labels, detail)
    yield from validate_pod_template(template, "spec.template")
    policy = (template.get("spec") or {}).get("restartPolicy")
    yield from supported("spec.template.spec.restartPolicy", policy, ("Always",))


def _validate_deployment(deployment: Object) -> Errors:
    yield from _validate_workload(deployment)
    strategy = deployment["spec"].get("strategy") or {}
    types = ("Recreate", "RollingUpdate")
    yield from supported("spec.strategy.type", strategy.get("type"), types)
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate") is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", detail)


def _status_errors(*counts: str, below: str = "", words: str = "status.readyReplicas") -> Any:
    """Return the check of a status: counts are none below zero, some none above `replicas`."""

    def validate(new: Object, _old: Object) -> Errors:
        status = new.get("status") or {}
        for field in counts:
            yield from at_least(f"status.{field}", status.get(field), 0)
        replicas = status.get("replicas") or 0
        for field in below.split():
            if (status.get(field) or 0) > replicas:
                detail = "cannot be greater than status.replicas"
                yield invalid(f"status.{field}", status.get(field) or 0, detail)
        available, ready = status.get("availableReplicas") or 0, status.get("readyReplicas") or 0
        if below and available > ready:
            yield invalid("status.availableReplicas", available, f"cannot be greater than {words}")

    return validate


def _create_daemon_set(daemon_set: Object) -> None:
    daemon_set["metadata"]["annotations"][_TEMPLATE_GENERATION] = "1"


def _carry_template_generation(new: Object, old: Object) -> None:
    """An annotation tells how often the template has changed."""
    known = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "1")
    if known.isdigit() and not same(new["spec"].get("template"), old["spec"].get("template")):
        known = str(int(known) + 1)
    annotations = {**(new["metadata"].get("annotations") or {}), _TEMPLATE_GENERATION: known}
    new["metadata"]["annotations"] = annotations


def _validate_selector_update(new: Object, old: Object) -> Errors:
    return immutable("spec.selector", new["spec"].get("selector"), old["spec"].get("selector"))


def _workload(schema: OpenAPI, **rules: Any) -> KindRules:
    return KindRules(
        schema=schema,
        has_status=True,
        has_generation=True,
        validate_update=_validate_selector_update,
        warn=workload_warnings,
        **rules,
    )


_REPLICA_STATUS_ERRORS: Final = _status_errors(
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
    below="fullyLabeledReplicas readyReplicas availableReplicas",
    words="readyReplicas",
)
KINDS: Final[Kinds] = {
    ("apps", "Deployment"): _workload(
        DEPLOYMENT,
        # Its controller copies annotations to ReplicaSets.
        generation_fields=("spec", "metadata.annotations"),
        kept_by_status=("labels",),
        validate_status=_status_errors(
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
            below="updatedReplicas readyReplicas availableReplicas",
            words="readyReplicas",
        ),
        default=_default_deployment,
        validate=_validate_deployment,
        warn_new=name_warnings,
        columns=columns.DEPLOYMENT,
    ),
    ("apps", "ReplicaSet"): _workload(
        REPLICA_SET,
        default=_default_replica_set,
        validate=_validate_workload,
        validate_status=_REPLICA_STATUS_ERRORS,
        warn_new=name_warnings,
        columns=columns.REPLICA_SET,
    ),
    ("apps", "StatefulSet"): _workload(
        STATEFUL_SET,
        default=_default_stateful_set,
        validate=_validate_workload,
        validate_status=_status_errors(
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
            below="readyReplicas currentReplicas updatedReplicas availableReplicas",
        ),
    ),
    ("apps", "DaemonSet"): _workload(
        DAEMON_SET,
        created=_create_daemon_set,
        carry=_carry_template_generation,
        default=_default_daemon_set,
        validate=_validate_workload,
        validate_status=_status_errors(
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ),
    ),
    ("apps", "ControllerRevision"): KindRules(schema=REVISION),
    ("", "ReplicationController"): KindRules(
        schema=REPLICATION_CONTROLLER,
        has_status=True,
        has_generation=True,
        default=_default_replication_controller,
        validate=_validate_replication_controller,
        validate_status=_REPLICA_STATUS_ERRORS,
        warn=workload_warnings,
        warn_new=name_warnings,
        selectable={"status.replicas": "0"},
    ),
    ("", "PodTemplate"): KindRules(
        schema=TEMPLATE,
        has_generation=True,
        generation_fields=("template",),
        default=_default_template,
        validate=_validate_template,
        warn=lambda obj: pod_warnings(obj.get("template") or {}),
    ),
}
