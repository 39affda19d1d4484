"""Judges a completed spec: lowering, AISimulate's own rules, and what storage can hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.aisimulate.document import dump_document
from dynamo_operator.aisimulate.input import violations
from dynamo_operator.aisimulate.lowering import Lowered, lower
from dynamo_operator.aisimulate.overrides import OVERRIDES_FIELD, LoweringError, OriginKind
from dynamo_operator.aisimulate.violations import Path, Violation, dotted
from dynamo_operator.api.v1beta2 import SearchSpec

OBJECT_LIMIT: Final = 1536 * 1024
"""Bytes of one stored object (etcd's default request limit)."""

CONFIG_MAP_LIMIT: Final = 1024 * 1024
"""Bytes of a ConfigMap's data."""

_RUN_RESERVE: Final = 64 * 1024
"""For a Run's metadata, conditions and up to 100 candidate references."""

_CONFIG_MAP_RESERVE: Final = 16 * 1024
"""For the execution settings beside the input."""

_MANAGED_FIELD_OVERHEAD: Final = len('"f:":{},')

_INDENT: Final = 2
_PUNCTUATION: Final = len('"": "",\n- ')
"""What a line of a dump has beside its value."""

_MOST_LINES: Final = 20
"""Of denials, and of warnings: what a person reads, and what fits into an answer."""

NULLS_HINT: Final = (
    "plain kubectl apply drops nulls: use kubectl apply --server-side, create or replace, "
    "or dynamo-operator request submit"
)


class EffectiveInputPolicy(StrEnum):
    """What becomes of violations in the effective input (`--validate-effective-input`)."""

    OFF = "off"
    WARN = "warn"
    DENY = "deny"


@dataclass(slots=True)
class Findings:
    """What is wrong with a spec: lines that refuse it, and lines that only warn; the first few."""

    denials: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def refusal(self) -> str:
        """The denials as one line; empty when the spec is accepted."""
        return "; ".join(self.denials)


def validate(
    spec: SearchSpec,
    *,
    previous: SearchSpec | None = None,
    policy: EffectiveInputPolicy = EffectiveInputPolicy.DENY,
) -> Findings:
    """Return what is wrong with a completed spec.

    Args:
        spec: the spec as defaulting left it.
        previous: the spec before an update: a violation that its effective input had already only
            warns.
        policy: what becomes of violations in the effective input.
    """
    findings = Findings()
    try:
        lowered = lower(spec)
    except LoweringError as error:
        findings.denials.append(str(error))
        return findings
    findings.denials.extend(_size_denials(spec, lowered))
    if policy is EffectiveInputPolicy.OFF:
        return findings
    known = _known_violations(previous, spec)
    denied: list[Violation] = []
    warned: list[Violation] = []
    for violation in violations(lowered.document):
        ratcheted = (violation.path, violation.reason) in known
        only_warns = policy is EffectiveInputPolicy.WARN or ratcheted
        (warned if only_warns else denied).append(violation)
    findings.denials.extend(_described(denied, lowered))
    findings.warnings.extend(_described(warned, lowered))
    return findings


def _described(found: Sequence[Violation], lowered: Lowered) -> Iterator[str]:
    yield from (describe(violation, lowered) for violation in found[:_MOST_LINES])
    if len(found) > _MOST_LINES:
        yield f"effective input: {len(found) - _MOST_LINES} more of this kind"


def describe(violation: Violation, lowered: Lowered) -> str:
    """Return a violation as one line: path in the effective input, origin, what would be right.

    Of members that exclude each other it names those that the caller did not write and can delete.
    """
    origin = lowered.origin_of(_names(violation.path))
    where = f"effective input {dotted(violation.path)}"
    told = f" ({origin})" if origin else ""
    return f"{where}{told}: {violation.reason}{_leftover_hint(violation, lowered)}"


def _leftover_hint(violation: Violation, lowered: Lowered) -> str:
    if not violation.rivals or not _has_overrides(lowered):
        return ""
    leftovers = [path for path in violation.rivals if not _is_overridden(path, lowered)]
    if leftovers:
        return f"; set {_override_keys(leftovers, ' and ')} to null ({NULLS_HINT})"
    return f"; remove {_override_keys(violation.rivals, ' or ')}"


def _override_keys(paths: Sequence[Path], conjunction: str) -> str:
    return conjunction.join(f"{OVERRIDES_FIELD}.{dotted(path)}" for path in paths)


def _is_overridden(path: Path, lowered: Lowered) -> bool:
    origin = lowered.origin_of(_names(path))
    return origin is not None and origin.kind is OriginKind.OVERRIDE


def _has_overrides(lowered: Lowered) -> bool:
    return lowered.layers.has_any(OriginKind.OVERRIDE)


def _names(path: Path) -> list[str]:
    return [str(part) for part in path]


def _known_violations(previous: SearchSpec | None, spec: SearchSpec) -> frozenset[tuple[Path, str]]:
    if previous is None:
        return frozenset()
    try:  # what was made without webhooks was never completed
        document = lower(complete(previous, previous=spec)).document
    except LoweringError:
        return frozenset()
    return frozenset((violation.path, violation.reason) for violation in violations(document))


def _size_denials(spec: SearchSpec, lowered: Lowered) -> Iterator[str]:
    """A Request whose Run or ConfigMap could not be stored would be retried forever."""
    plain = spec.to_dict()
    run = sum(_json_size(part) + _managed_size(part) for part in (plain, lowered.document))
    if run + _RUN_RESERVE > OBJECT_LIMIT:
        yield (
            f"spec: its Run would take {run + _RUN_RESERVE} bytes, more than the {OBJECT_LIMIT} "
            f"that an object may have: shorten {OVERRIDES_FIELD}"
        )
        return
    if _longest_dump(lowered.document) + _CONFIG_MAP_RESERVE <= CONFIG_MAP_LIMIT:
        return
    config_map = len(dump_document(lowered.document).encode())
    if config_map + _CONFIG_MAP_RESERVE > CONFIG_MAP_LIMIT:
        yield (
            f"spec: its input would take {config_map + _CONFIG_MAP_RESERVE} bytes, more than the "
            f"{CONFIG_MAP_LIMIT} that a ConfigMap may have: shorten {OVERRIDES_FIELD}"
        )


def _longest_dump(value: Any, depth: int = 1) -> int:
    """A bound of the canonical dump that costs little: dumping a megabyte takes seconds."""
    if isinstance(value, Mapping):
        parts = (_longest_dump(key) + _longest_dump(item, depth + 1) for key, item in value.items())
    elif isinstance(value, list):
        parts = (_longest_dump(item, depth + 1) for item in value)
    else:
        return len(json.dumps(value)) + _INDENT * depth + _PUNCTUATION
    return sum(parts) + _INDENT * depth + _PUNCTUATION


def _json_size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _managed_size(value: Any) -> int:
    """What `managedFields` adds: every key of every object once more."""
    if not isinstance(value, Mapping):
        return 0
    return sum(
        len(str(key).encode()) + _MANAGED_FIELD_OVERHEAD + _managed_size(item)
        for key, item in value.items()
    )
