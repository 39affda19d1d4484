"""What the GPUs of several nodes add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dynamo_operator.api.sku_catalog import SKUS
from dynamo_operator.hardware.products import catalogue_name, is_shared

DISCOVERED_BUDGET_LIMIT: Final = 32
"""The most GPUs that a discovered budget asks for."""

LARGEST_MEMORY_MIB: Final = 10**7
"""No GPU has more: a larger number is bytes, or stands for none."""


class GpuDiscoveryError(Exception):
    """No usable GPUs were found; one line says what was looked at and what to do."""


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The whole GPUs of one product on one node.

    Args:
        node: its name.
        product: the product's name, as its source spells it.
        count: physical GPUs, whatever sharing makes of them.
        memory_mib: of one GPU; 0 when unknown.
        notes: what a person should know before counting on them.
    """

    node: str
    product: str
    count: int
    memory_mib: int = 0
    notes: tuple[str, ...] = ()

    @property
    def sku(self) -> str | None:
        """The product's name in the catalogue, or None."""
        return catalogue_name(self.product)


@dataclass(frozen=True, slots=True)
class Survey:
    """What one source told: the nodes, and what it skipped and why."""

    nodes: tuple[NodeGpus, ...]
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuInventory:
    """GPUs of one product.

    Args:
        sku: the product's name in the catalogue; None when it is not there.
        product: the product's name, as its source spells it.
        total: GPUs that really exist.
        gpus_per_node: of the nodes that have most.
        notes: what a person should know before counting on them.
    """

    sku: str | None
    product: str
    total: int
    gpus_per_node: int
    notes: tuple[str, ...] = ()

    @property
    def budget(self) -> int:
        """The GPU budget of a Request that names none."""
        return min(self.total, DISCOVERED_BUDGET_LIMIT)


def take_inventory(survey: Survey, *, sku: str | None = None) -> GpuInventory:
    """Return the GPUs of the best node's product: most GPUs, then most memory.

    Products of the catalogue come first, whatever else there is.

    Args:
        survey: what was found.
        sku: count only this product of the catalogue.

    Raises:
        GpuDiscoveryError: there is no GPU, or none of that product.
    """
    if not survey.nodes:
        raise GpuDiscoveryError(_listed("no node with GPUs was found", survey.skipped))
    candidates = [node for node in survey.nodes if sku is None or node.sku == sku]
    if not candidates:
        seen = ", ".join(sorted({node.product for node in survey.nodes}))
        raise GpuDiscoveryError(f"no node has GPUs of the product {sku}; found {seen}")
    best = max(candidates, key=_preference)
    same = [node for node in candidates if _product(node) == _product(best)]
    return GpuInventory(
        sku=best.sku,
        product=best.product,
        total=sum(node.count for node in same),
        gpus_per_node=best.count,
        notes=_notes(best, same, survey),
    )


def topology(survey: Survey) -> int:
    """Return the GPUs of the best node, whatever its product.

    Raises:
        GpuDiscoveryError: there is no GPU.
    """
    if not survey.nodes:
        raise GpuDiscoveryError(_listed("no node with GPUs was found", survey.skipped))
    return max(node.count for node in survey.nodes)


def unknown_product_message(inventory: GpuInventory) -> str:
    """Return the line for a product that the catalogue does not have."""
    return f"the GPUs found are {inventory.product}, which is none of {', '.join(SKUS)}"


def _preference(node: NodeGpus) -> tuple[bool, int, int, tuple[int, ...]]:
    by_name = tuple(-ord(character) for character in node.node)
    return (node.sku is not None, node.count, node.memory_mib, by_name)


def _product(node: NodeGpus) -> str:
    return node.sku or node.product


def _notes(best: NodeGpus, same: Sequence[NodeGpus], survey: Survey) -> tuple[str, ...]:
    notes: list[str] = []
    fewer = [node for node in same if node.count < best.count]
    if fewer:
        subject = "1 node has" if len(fewer) == 1 else f"{len(fewer)} nodes have"
        notes.append(f"{subject} fewer than {best.count} GPUs")
    others = {node.product for node in survey.nodes if _product(node) != _product(best)}
    notes.extend(f"{product} is not counted" for product in sorted(others))
    if any(is_shared(node.product) for node in same):
        notes.append("GPUs are shared: what is measured is not the whole card")
    for node in same:
        notes.extend(f"node {node.node}: {note}" for note in node.notes)
    return (*notes, *survey.skipped)


def _listed(what: str, details: Sequence[str]) -> str:
    return f"{what}: {'; '.join(details)}" if details else what
