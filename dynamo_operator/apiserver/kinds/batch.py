"""This module holds Job and CronJob."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from dynamo_operator.apiserver.kinds import columns
from dynamo_operator.apiserver.kinds.job_status import validate_job_status
from dynamo_operator.apiserver.kinds.openapi import (
    BOOLEAN,
    CONDITION,
    INT32,
    INT64,
    LABEL_SELECTOR,
    OBJECT_META,
    OBJECT_REFERENCE,
    STRING,
    TIME,
    array,
    kind,
    record,
    set_of,
)
from dynamo_operator.apiserver.kinds.pod_defaults import default_pod_spec
from dynamo_operator.apiserver.kinds.pod_schema import POD_TEMPLATE
from dynamo_operator.apiserver.kinds.pod_validation import (
    label_selector_errors,
    selector_matches,
    validate_pod_template,
)
from dynamo_operator.apiserver.kinds.pod_warnings import (
    cron_job_warnings,
    name_warnings,
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

_UID_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")
_UNLIMITED: Final = 2**31 - 1
_SCHEDULING: Final = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
"""Fields of the template's spec that may change while the Job is suspended and never ran."""

_FIXED: Final = (
    "completionMode",
    "selector",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)

_FAILURE_RULE: Final = record(
    action=STRING,
    onExitCodes=record(containerName=STRING, operator=STRING, values=set_of(INT32)),
    onPodConditions=array(record(type=STRING, status=STRING)),
)
_JOB_SPEC: Final = record(
    parallelism=INT32,
    completions=INT32,
    activeDeadlineSeconds=INT64,
    podFailurePolicy=record(rules=array(_FAILURE_RULE)),
    successPolicy=record(rules=array(record(succeededIndexes=STRING, succeededCount=INT32))),
    backoffLimit=INT32,
    backoffLimitPerIndex=INT32,
    maxFailedIndexes=INT32,
    selector=LABEL_SELECTOR,
    manualSelector=BOOLEAN,
    template=POD_TEMPLATE,
    ttlSecondsAfterFinished=INT32,
    completionMode=STRING,
    suspend=BOOLEAN,
    podReplacementPolicy=STRING,
    managedBy=STRING,
)
_JOB_CONDITIONS: Final = {
    **array(CONDITION),
    "x-kubernetes-patch-strategy": "merge",
    "x-kubernetes-patch-merge-key": "type",
}
JOB: Final = kind(
    spec=_JOB_SPEC,
    status=record(
        conditions=_JOB_CONDITIONS,
        startTime=TIME,
        completionTime=TIME,
        active=INT32,
        ready=INT32,
        terminating=INT32,
        succeeded=INT32,
        failed=INT32,
        completedIndexes=STRING,
        failedIndexes=STRING,
        uncountedTerminatedPods=record(succeeded=set_of(STRING), failed=set_of(STRING)),
    ),
)
CRON_JOB: Final = kind(
    spec=record(
        schedule=STRING,
        timeZone=STRING,
        startingDeadlineSeconds=INT64,
        concurrencyPolicy=STRING,
        suspend=BOOLEAN,
        jobTemplate=record(metadata=OBJECT_META, spec=_JOB_SPEC),
        successfulJobsHistoryLimit=INT32,
        failedJobsHistoryLimit=INT32,
    ),
    status=record(active=array(OBJECT_REFERENCE), lastScheduleTime=TIME, lastSuccessfulTime=TIME),
)


def _default_job(job: Object) -> None:
    spec = job.setdefault("spec", {})
    _default_job_spec(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _default_job_spec(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _UNLIMITED if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("manualSelector", False)
    spec.setdefault("suspend", False)
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _create_job(job: Object) -> None:
    """The selector, and the labels it selects by, are the server's unless manual."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector") or not metadata.get("uid"):
        return
    template = spec["template"].setdefault("metadata", {})
    given = template.get("labels") or {}
    labels = {**given, **dict.fromkeys(_UID_LABELS, metadata["uid"])}
    labels |= dict.fromkeys(_NAME_LABELS, metadata.get("name", ""))
    template["labels"] = labels
    if given and metadata.get("labels") == given:  # one map in a real server: the default's
        metadata["labels"] = dict(labels)
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {
        **(selector.get("matchLabels") or {}),
        _UID_LABELS[0]: metadata["uid"],
    }


def _validate_job(job: Object) -> Errors:
    yield from _job_spec_errors(job["spec"], "spec")
    spec = job["spec"]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from label_selector_errors(selector, "spec.selector")
    if not spec.get("manualSelector") and set(selector.get("matchLabels") or ()) - set(_UID_LABELS):
        yield invalid("spec.selector", selector, "`selector` not auto-generated")
    elif not selector_matches(selector, labels):
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, detail)


def _job_spec_errors(spec: Object, path: str) -> Errors:
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "ttlSecondsAfterFinished",
    ):
        yield from at_least(f"{path}.{field}", spec.get(field), 0)
    mode = spec.get("completionMode")
    yield from supported(f"{path}.completionMode", mode, ("Indexed", "NonIndexed"))
    if mode == "Indexed" and spec.get("completions") is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if mode != "Indexed" and spec.get("backoffLimitPerIndex") is not None:
        detail = "requires indexed completion mode"
        yield invalid(f"{path}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], detail)
    replacement = spec.get("podReplacementPolicy")
    policies = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    yield from supported(f"{path}.podReplacementPolicy", replacement, policies)
    template = spec.get("template") or {}
    yield from validate_pod_template(template, f"{path}.template")
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy == "Always":
        where = f"{path}.template.spec.restartPolicy"
        yield required(where, 'valid values: "OnFailure", "Never"')
    elif policy != "Never" and spec.get("podFailurePolicy"):
        where = f"{path}.template.spec.restartPolicy"
        yield invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _validate_job_update(new: Object, old: Object) -> Errors:
    before, after = old["spec"], new["spec"]
    for field in _FIXED:
        yield from immutable(f"spec.{field}", after.get(field), before.get(field))
    if before.get("completions") != after.get("completions") and not _is_elastic(before, after):
        yield from immutable(
            "spec.completions", after.get("completions"), before.get("completions")
        )
    movable = before.get("suspend") and not (old.get("status") or {}).get("startTime")
    if _fixed_template(before, movable=bool(movable)) != _fixed_template(
        after, movable=bool(movable)
    ):
        yield invalid("spec.template", after.get("template"), "field is immutable")


def _is_elastic(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """An indexed Job whose parallelism follows its completions may be resized."""
    return before.get("completionMode") == "Indexed" and all(
        spec.get("completions") == spec.get("parallelism") for spec in (before, after)
    )


def _fixed_template(spec: Mapping[str, Any], *, movable: bool) -> str:
    template = copy.deepcopy(spec.get("template") or {})
    if movable:
        template.pop("metadata", None)
        for field in _SCHEDULING:
            template.get("spec", {}).pop(field, None)
    return json.dumps(template, sort_keys=True)


def _default_cron_job(cron_job: Object) -> None:
    spec = cron_job.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    # A Job gets its own defaults when it is made; until then only its Pods' are written down.
    job = spec.setdefault("jobTemplate", {})
    template = job.setdefault("spec", {}).setdefault("template", {})
    job.setdefault("metadata", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def _validate_cron_job(cron_job: Object) -> Errors:
    spec = cron_job["spec"]
    schedule = spec.get("schedule")
    if not schedule:
        yield required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        fields = schedule.split()
        found = f"found {len(fields)}: [{' '.join(fields)}]"
        yield invalid("spec.schedule", schedule, f"expected exactly 5 fields, {found}")
    policies = ("Allow", "Forbid", "Replace")
    yield from supported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies)
    job = copy.deepcopy(spec["jobTemplate"]["spec"])
    _default_job_spec(job)
    yield from _job_spec_errors(job, "spec.jobTemplate.spec")
    if job.get("manualSelector"):
        yield forbidden("spec.jobTemplate.spec.manualSelector", "must be unset")


def _validate_cron_job_name(cron_job: Object) -> Errors:
    """Its Jobs' names are longer by a dash and a number of ten digits."""
    name = cron_job["metadata"].get("name", "")
    if len(name) > 52:
        yield invalid("metadata.name", name, "must be no more than 52 characters")


KINDS: Final[Kinds] = {
    ("batch", "Job"): KindRules(
        schema=JOB,
        has_status=True,
        has_generation=True,
        default=_default_job,
        created=_create_job,
        validate=_validate_job,
        validate_update=_validate_job_update,
        validate_status=validate_job_status,
        warn=workload_warnings,
        warn_new=name_warnings,
        columns=columns.JOB,
        selectable={"status.successful": "0"},
    ),
    ("batch", "CronJob"): KindRules(
        schema=CRON_JOB,
        has_status=True,
        has_generation=True,
        default=_default_cron_job,
        validate=_validate_cron_job,
        validate_new=_validate_cron_job_name,
        warn=cron_job_warnings,
        warn_new=name_warnings,
        columns=columns.CRON_JOB,
    ),
}
