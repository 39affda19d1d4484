"""The GPU products that AISimulate ships data for; made by hack/import_aisimulate."""

from __future__ import annotations

from typing import Final

AISIMULATE_VERSION: Final = "0.13.0.dev202610160000000073"

SKUS: Final = (
    "a100_pcie",
    "a100_sxm",
    "a30",
    "b200_sxm",
    "b300_sxm",
    "b60",
    "gb200",
    "gb300",
    "h100_pcie",
    "h100_sxm",
    "h200_sxm",
    "l4",
    "l40s",
    "rtx_pro_6000_server",
)
