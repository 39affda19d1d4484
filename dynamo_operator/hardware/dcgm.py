"""GPUs that a DCGM exporter's metrics tell: pure."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from dynamo_operator.hardware.inventory import LARGEST_MEMORY_MIB, NodeGpus
from dynamo_operator.hardware.products import is_slice

BODY_LIMIT: Final = 8 * 1024 * 1024
"""Characters of an answer that are looked at."""

_PRESENCE: Final = "DCGM_FI_DEV_GPU_TEMP"
_MEMORY: Final = ("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED")
_WANTED: Final = frozenset({_PRESENCE, *_MEMORY})

_SAMPLE: Final = re.compile(
    r'(?P<name>[A-Za-z_:][\w:]*)\{(?P<labels>(?:[^"{}]|"(?:[^"\\]|\\.)*")*)\}\s+(?P<value>\S+)'
    r"(?:\s+-?[0-9]+)?\s*"
)
_LABEL: Final = re.compile(r'(?P<name>[A-Za-z_]\w*)\s*=\s*"(?P<value>(?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class _Sample:
    name: str
    labels: dict[str, str]
    value: float


@dataclass(slots=True)
class _Gpu:
    host: str = ""
    product: str = ""
    present: bool = False
    sliced: bool = False
    memory: dict[str, float] = field(default_factory=dict)

    @property
    def memory_mib(self) -> int:
        free, used, reserved = (self.memory.get(name, math.nan) for name in _MEMORY)
        total = free + used + (reserved if math.isfinite(reserved) else 0)
        # What could not be measured is NaN, or a number that no card has.
        return int(total) if 0 < total <= LARGEST_MEMORY_MIB else 0


def read_metrics(text: str, *, node: str) -> tuple[NodeGpus, ...]:
    """Return the whole GPUs that an exporter reports, one entry a host and product.

    Lines that are no samples are skipped, and so are slices and GPUs without a model name.

    Args:
        text: the exporter's answer; what is beyond `BODY_LIMIT` is not looked at.
        node: the node of the exporter's Pod, where the metrics name no host.
    """
    gpus: dict[tuple[str, str], _Gpu] = defaultdict(_Gpu)
    for sample in _samples(text):
        host = sample.labels.get("Hostname") or sample.labels.get("hostname") or node
        gpu = gpus[host, sample.labels.get("gpu", "")]
        gpu.host = host
        gpu.product = gpu.product or sample.labels.get("modelName", "")
        if sample.labels.get("GPU_I_PROFILE") or sample.labels.get("GPU_I_ID"):
            gpu.sliced = True
        elif sample.name == _PRESENCE:
            gpu.present = True
        else:
            gpu.memory[sample.name] = sample.value

    whole: dict[tuple[str, str], list[_Gpu]] = defaultdict(list)
    for gpu in gpus.values():
        if gpu.present and gpu.product and not gpu.sliced and not is_slice(gpu.product):
            whole[gpu.host, gpu.product].append(gpu)
    return tuple(
        NodeGpus(host, product, len(found), max(gpu.memory_mib for gpu in found))
        for (host, product), found in sorted(whole.items())
    )


def _samples(text: str) -> Iterator[_Sample]:
    for line in text[:BODY_LIMIT].splitlines():
        name = line.partition("{")[0]
        if name not in _WANTED or not (match := _SAMPLE.fullmatch(line)):
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        labels = {m["name"]: _unescape(m["value"]) for m in _LABEL.finditer(match["labels"])}
        if labels.get("gpu"):
            yield _Sample(name, labels, value)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text)
