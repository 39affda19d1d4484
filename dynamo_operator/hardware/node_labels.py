"""GPUs that node labels tell: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from dynamo_operator.hardware.inventory import LARGEST_MEMORY_MIB, NodeGpus, Survey
from dynamo_operator.hardware.products import is_slice
from dynamo_operator.runtime.builtin_kinds import Node

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
COUNT_LABEL: Final = "nvidia.com/gpu.count"
MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
REPLICAS_LABEL: Final = "nvidia.com/gpu.replicas"
CONTROL_PLANE_LABEL: Final = "node-role.kubernetes.io/control-plane"

_SLICES_LABEL: Final = re.compile(r"nvidia\.com/mig-.+\.count")
_GPU_RESOURCE: Final = "nvidia.com/gpu"
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_SHARED_SUFFIX: Final = "-SHARED"


def survey_nodes(nodes: Iterable[Node]) -> Survey:
    """Return what the labels of all nodes tell; nodes without GPU labels are not worth a word."""
    found: list[NodeGpus] = []
    skipped: list[str] = []
    checked = 0
    for node in nodes:
        checked += 1
        if not any(label in node.labels for label in (PRODUCT_LABEL, COUNT_LABEL, MEMORY_LABEL)):
            continue
        gpus = _read(node)
        if isinstance(gpus, str):
            skipped.append(f"node {node.metadata.name}: {gpus}")
        else:
            found.append(gpus)
    if not found and not skipped:
        labels = f"{PRODUCT_LABEL}, {COUNT_LABEL} and {MEMORY_LABEL}"
        skipped.append(f"none of {checked} nodes has the labels {labels}")
    return Survey(tuple(found), tuple(skipped))


def _read(node: Node) -> NodeGpus | str:
    product = node.labels.get(PRODUCT_LABEL, "").strip()
    if not product:
        return f"has no label {PRODUCT_LABEL}"
    count = _positive(node.labels.get(COUNT_LABEL, ""))
    if count is None:
        return f"label {COUNT_LABEL} is {node.labels.get(COUNT_LABEL, '')!r}, not a number of GPUs"
    if is_slice(product):
        return f"{product} is a slice of a GPU"
    memory, notes = _memory(node.labels.get(MEMORY_LABEL, ""))
    replicas = _positive(node.labels.get(REPLICAS_LABEL, "")) or 1
    if _has_slices(node):
        # The count is that of all cards: what the node offers whole is what was not cut.
        allocatable = node.status.get("allocatable") or {}
        offered = _positive(str(allocatable.get(_GPU_RESOURCE, ""))) or 0
        count = min(count, offered // replicas)
        if count == 0:
            return f"each {product} is cut into slices"
        notes.append("other GPUs of it are cut into slices")
    if replicas > 1 and not product.endswith(_SHARED_SUFFIX):
        notes.append(f"{replicas} Pods share each GPU")
    return NodeGpus(node.metadata.name, product, count, memory, (*notes, *_state(node)))


def _has_slices(node: Node) -> bool:
    return any(
        _SLICES_LABEL.fullmatch(label) and _positive(count) for label, count in node.labels.items()
    )


def _positive(text: str) -> int | None:
    stripped = text.strip()
    number = int(stripped) if _WHOLE_NUMBER.fullmatch(stripped) else 0
    return number if number > 0 else None


def _memory(text: str) -> tuple[int, list[str]]:
    memory = _positive(text)
    if memory is None or memory > LARGEST_MEMORY_MIB:
        return 0, [f"label {MEMORY_LABEL} is {text!r}, not a number of MiB"]
    return memory, []


def _state(node: Node) -> list[str]:
    notes = []
    if node.spec.get("unschedulable"):
        notes.append("is cordoned")
    conditions = node.status.get("conditions") or []
    if any(c.get("type") == "Ready" and c.get("status") != "True" for c in conditions):
        notes.append("is not Ready")
    taints = node.spec.get("taints") or []
    if CONTROL_PLANE_LABEL in node.labels and any(
        taint.get("key") == CONTROL_PLANE_LABEL and taint.get("effect") == "NoSchedule"
        for taint in taints
    ):
        notes.append("is for the control plane only")
    return notes
