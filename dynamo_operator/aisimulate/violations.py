"""What is wrong with an effective document, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that AISimulate would refuse.

    Args:
        path: where, in the effective document.
        reason: what is wrong and what would be right; continues a sentence about the path.
        rivals: members of a union that exclude each other, when that is what is wrong: one of them
            has to go.
    """

    path: Path
    reason: str
    rivals: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.reason}"


def dotted(path: Iterable[str | int]) -> str:
    """Return a path as people write it, e.g. `engine.workers.prefill` or `paths[0]`, in one line.

    A key that cannot be printed as it is, is quoted.

    Example:
        >>> dotted(("traffic", "source", "paths", 0))
        'traffic.source.paths[0]'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if part.isprintable() else repr(part)
            text += f".{shown}" if text else shown
    return text or "the document"


def at(document: Any, *path: str) -> Any:
    """Return the value at a path, or None where there is none."""
    for key in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def shown(value: Any) -> str:
    """Return a value as it looks in YAML, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
