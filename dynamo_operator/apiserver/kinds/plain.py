"""Kinds that are taken in any form: what the server fills in, and little else."""

from __future__ import annotations

from typing import Any, Final

from dynamo_operator.apiserver.kinds import columns
from dynamo_operator.apiserver.kinds.openapi import ANYTHING, CONDITIONS, LABEL_SELECTOR, record
from dynamo_operator.apiserver.kinds.rules import KindRules, Kinds
from dynamo_operator.apiserver.resources import Object

FREE_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"status": {**record(conditions=CONDITIONS), **ANYTHING}},
    **ANYTHING,
}
_NETWORK_POLICY: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"spec": {**record(podSelector={**LABEL_SELECTOR, **ANYTHING}), **ANYTHING}},
    **ANYTHING,
}


def _default_volume(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if isinstance(spec.get("hostPath"), dict):
        spec["hostPath"].setdefault("type", "")


def _default_priority_class(priority_class: Object) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _default_storage_class(storage_class: Object) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _default_network_policy(policy: Object) -> None:
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _default_endpoints(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


KINDS: Final[Kinds] = {
    ("", "ResourceQuota"): KindRules(
        schema=FREE_FORM, has_status=True, columns=columns.RESOURCE_QUOTA
    ),
    ("", "LimitRange"): KindRules(schema=FREE_FORM),
    ("", "Endpoints"): KindRules(schema=FREE_FORM, default=_default_endpoints),
    ("", "PersistentVolume"): KindRules(schema=FREE_FORM, has_status=True, default=_default_volume),
    ("networking.k8s.io", "NetworkPolicy"): KindRules(
        schema=_NETWORK_POLICY, has_generation=True, default=_default_network_policy
    ),
    ("scheduling.k8s.io", "PriorityClass"): KindRules(
        schema=FREE_FORM,
        has_generation=True,
        generation_fields=("value", "globalDefault", "preemptionPolicy"),
        default=_default_priority_class,
    ),
    ("storage.k8s.io", "StorageClass"): KindRules(schema=FREE_FORM, default=_default_storage_class),
}
