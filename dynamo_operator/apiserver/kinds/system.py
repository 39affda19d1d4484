"""This module holds events, leases, disruption budgets, and the definitions of custom resources."""

from __future__ import annotations

from typing import Final

from dynamo_operator.apiserver import crd_validation, crds
from dynamo_operator.apiserver.kinds import columns
from dynamo_operator.apiserver.kinds.event_validation import (
    validate_core_event,
    validate_event,
    validate_event_update,
    validate_new_event,
)
from dynamo_operator.apiserver.kinds.openapi import (
    CONDITIONS,
    FREE_OBJECT,
    INT32,
    INT64,
    INT_OR_STRING,
    LABEL_SELECTOR,
    OBJECT_REFERENCE,
    STRING,
    TIME,
    OpenAPI,
    array,
    kind,
    mapping,
    record,
)
from dynamo_operator.apiserver.kinds.pod_validation import label_selector_errors
from dynamo_operator.apiserver.kinds.rules import (
    Errors,
    KindRules,
    Kinds,
    invalid,
    supported,
)
from dynamo_operator.apiserver.resources import Object

_OPTIONAL_TIME: Final = {**TIME, "nullable": True}
_SOURCE: Final = record(component=STRING, host=STRING)
_EVENT: Final[dict[str, OpenAPI]] = {
    "eventTime": _OPTIONAL_TIME,
    "series": record(count=INT32, lastObservedTime=_OPTIONAL_TIME),
    "action": STRING,
    "reason": STRING,
    "type": STRING,
    "related": OBJECT_REFERENCE,
}
CORE_EVENT: Final = kind(
    **_EVENT,
    involvedObject=OBJECT_REFERENCE,
    message=STRING,
    source=_SOURCE,
    firstTimestamp=_OPTIONAL_TIME,
    lastTimestamp=_OPTIONAL_TIME,
    count=INT32,
    reportingComponent=STRING,
    reportingInstance=STRING,
)
EVENT: Final = kind(
    **_EVENT,
    regarding=OBJECT_REFERENCE,
    note=STRING,
    deprecatedSource=_SOURCE,
    deprecatedFirstTimestamp=_OPTIONAL_TIME,
    deprecatedLastTimestamp=_OPTIONAL_TIME,
    deprecatedCount=INT32,
    reportingController=STRING,
    reportingInstance=STRING,
)
LEASE: Final = kind(
    spec=record(
        holderIdentity=STRING,
        leaseDurationSeconds=INT32,
        acquireTime=_OPTIONAL_TIME,
        renewTime=_OPTIONAL_TIME,
        leaseTransitions=INT32,
        strategy=STRING,
        preferredHolder=STRING,
    )
)
DISRUPTION_BUDGET: Final = kind(
    spec=record(
        minAvailable=INT_OR_STRING,
        maxUnavailable=INT_OR_STRING,
        selector={**LABEL_SELECTOR, "x-kubernetes-patch-strategy": "replace"},
        unhealthyPodEvictionPolicy=STRING,
    ),
    status=record(
        observedGeneration=INT64,
        disruptedPods=mapping(TIME),
        disruptionsAllowed=INT32,
        currentHealthy=INT32,
        desiredHealthy=INT32,
        expectedPods=INT32,
        conditions=CONDITIONS,
    ),
)
CRD: Final = kind(
    spec=record(
        group=STRING,
        names=record(
            plural=STRING,
            singular=STRING,
            shortNames=array(STRING),
            kind=STRING,
            listKind=STRING,
            categories=array(STRING),
        ),
        scope=STRING,
        versions=array(
            record(
                name=STRING,
                served={"type": "boolean"},
                storage={"type": "boolean"},
                deprecated={"type": "boolean"},
                deprecationWarning=STRING,
                schema=record(openAPIV3Schema=FREE_OBJECT),
                subresources=record(
                    status=record(),
                    scale=record(
                        specReplicasPath=STRING, statusReplicasPath=STRING, labelSelectorPath=STRING
                    ),
                ),
                additionalPrinterColumns=array(
                    record(
                        name=STRING,
                        type=STRING,
                        format=STRING,
                        description=STRING,
                        priority=INT32,
                        jsonPath=STRING,
                    )
                ),
                selectableFields=array(record(jsonPath=STRING)),
            )
        ),
        conversion=record(
            strategy=STRING,
            webhook=record(clientConfig=FREE_OBJECT, conversionReviewVersions=array(STRING)),
        ),
        preserveUnknownFields={"type": "boolean"},
    ),
    status=record(
        observedGeneration=INT64,
        conditions=CONDITIONS,
        acceptedNames=FREE_OBJECT,
        storedVersions=array(STRING),
    ),
)


def _validate_lease(lease: Object) -> Errors:
    spec = lease.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        detail = "must be greater than or equal to 0"
        yield invalid("spec.leaseTransitions", transitions, detail)


def _default_budget(budget: Object) -> None:
    """Counts are never absent, even before a controller has counted."""
    status = budget.setdefault("status", {})
    for count in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        status.setdefault(count, 0)


def _validate_budget(budget: Object) -> Errors:
    spec = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdigit()):
            detail = "a valid percent string must be a numeric string followed by an ending '%'"
            yield invalid(f"spec.{field}", value, detail)
        elif isinstance(value, int) and value < 0:
            yield invalid(f"spec.{field}", value, "must be greater than or equal to 0")
    yield from label_selector_errors(spec.get("selector") or {}, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        allowed = ("AlwaysAllow", "IfHealthyBudget")
        yield from supported("spec.unhealthyPodEvictionPolicy", policy, allowed)


def _default_crd(crd: Object) -> None:
    crd.update(crds.with_defaults(crd))


def _create_crd(crd: Object) -> None:
    versions = (crd.get("spec") or {}).get("versions") or ()
    storing = [version["name"] for version in versions if version.get("storage")]
    crd["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": storing[:1] or None,
    }


def _validate_crd(crd: Object) -> Errors:
    return iter(crd_validation.validate_crd(crd))


def _carry_stored_versions(new: Object, old: Object) -> None:
    """What is stored from now on is a stored version, too."""
    for version in (new.get("spec") or {}).get("versions") or ():
        stored = (new.get("status") or {}).get("storedVersions") or []
        if version.get("storage") and stored and version.get("name") not in stored:
            new["status"]["storedVersions"] = [*stored, version.get("name")]


def _validate_crd_update(new: Object, old: Object) -> Errors:
    return iter(crd_validation.validate_crd(new, old))


KINDS: Final[Kinds] = {
    ("", "Event"): KindRules(
        schema=CORE_EVENT,
        validate=validate_core_event,
        columns=columns.EVENT,
        selectable={
            "involvedObject.kind": "",
            "involvedObject.namespace": "",
            "involvedObject.name": "",
            "involvedObject.uid": "",
            "involvedObject.apiVersion": "",
            "involvedObject.resourceVersion": "",
            "involvedObject.fieldPath": "",
            "reason": "",
            "reportingComponent": "",
            "source": "",
            "type": "",
        },
    ),
    ("events.k8s.io", "Event"): KindRules(
        schema=EVENT,
        validate=validate_event,
        validate_new=validate_new_event,
        validate_update=validate_event_update,
        columns=columns.EVENT,
        selectable={
            "regarding.kind": "",
            "regarding.namespace": "",
            "regarding.name": "",
            "regarding.uid": "",
            "reason": "",
            "reportingController": "",
            "type": "",
        },
    ),
    ("coordination.k8s.io", "Lease"): KindRules(
        schema=LEASE, validate=_validate_lease, columns=columns.LEASE
    ),
    ("policy", "PodDisruptionBudget"): KindRules(
        schema=DISRUPTION_BUDGET,
        has_status=True,
        has_generation=True,
        default=_default_budget,
        validate=_validate_budget,
        columns=columns.DISRUPTION_BUDGET,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): KindRules(
        schema=CRD,
        has_status=True,
        has_generation=True,
        unknown=crds.unknown_fields,
        warn=crd_validation.crd_warnings,
        created=_create_crd,
        carry=_carry_stored_versions,
        default=_default_crd,
        validate=_validate_crd,
        validate_update=_validate_crd_update,
        columns=(columns.created_at(),),
    ),
}
