"""Product names of GPUs and their names in the catalogue: whole tokens, never substrings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from dynamo_operator.api.sku_catalog import SKUS

_TOKEN: Final = re.compile(r"[^0-9A-Z]+")
_VIRTUAL_PROFILE: Final = re.compile(r"[0-9]+[ABCQ]")
_SERVER_CARD: Final = ("RTX", "PRO", "6000")

Tokens = tuple[str, ...]


def catalogue_name(product: str) -> str | None:
    """Return the catalogue's name of a whole GPU of that product, or None.

    Example:
        >>> catalogue_name("NVIDIA-H100-80GB-HBM3"), catalogue_name("NVIDIA GH200 480GB")
        ('h100_sxm', None)
    """
    tokens = _tokens(product)
    if is_slice(product):
        return None
    matches = {
        name for token in tokens if (family := _FAMILIES.get(token)) for name in family(tokens)
    }
    if _contains(tokens, _SERVER_CARD) and "SERVER" in tokens:
        matches.add("rtx_pro_6000_server")
    found = matches.pop() if len(matches) == 1 else None
    return found if found in SKUS else None


def is_shared(product: str) -> bool:
    """Whether the name says that several Pods share each card."""
    return "SHARED" in _tokens(product)


def is_slice(product: str) -> bool:
    """Whether the name is that of a part of a GPU: MIG, or a virtual GPU's profile."""
    tokens = _tokens(product)
    return (
        "MIG" in tokens
        or "GRID" in tokens
        or any(_VIRTUAL_PROFILE.fullmatch(token) for token in tokens)
    )


def _tokens(product: str) -> Tokens:
    return tuple(token for token in _TOKEN.split(product.upper()) if token)


def _contains(tokens: Tokens, wanted: Tokens) -> bool:
    return any(tokens[i : i + len(wanted)] == wanted for i in range(len(tokens)))


def _only(name: str) -> Callable[[Tokens], list[str]]:
    return lambda tokens: [name]


def _sxm_only(name: str) -> Callable[[Tokens], list[str]]:
    """A product that the catalogue knows as a module: a card of that name is another product."""
    return lambda tokens: [] if _is_card(tokens) else [f"{name}_sxm"]


def _sxm_or_pcie(name: str, *, module_memory: str = "") -> Callable[[Tokens], list[str]]:
    def form(tokens: Tokens) -> list[str]:
        if "NVL" in tokens:
            return []
        if not _is_card(tokens) and (_is_module(tokens) or module_memory in tokens):
            return [f"{name}_sxm"]
        return [f"{name}_pcie"]

    return form


def _is_card(tokens: Tokens) -> bool:
    return "PCIE" in tokens or "NVL" in tokens


def _is_module(tokens: Tokens) -> bool:
    return any(token.startswith("SXM") or token in ("HGX", "DGX") for token in tokens)


_FAMILIES: Final[dict[str, Callable[[Tokens], list[str]]]] = {
    "GB300": _only("gb300"),
    "GB200": _only("gb200"),
    "B300": _sxm_only("b300"),
    "B200": _sxm_only("b200"),
    "H200": _sxm_only("h200"),
    "H100": _sxm_or_pcie("h100", module_memory="HBM3"),
    "A100": _sxm_or_pcie("a100"),
    "A30": _only("a30"),
    "L40S": _only("l40s"),
    "L4": _only("l4"),
    "B60": _only("b60"),
    "E211": _only("b60"),
    "0XE211": _only("b60"),
}
