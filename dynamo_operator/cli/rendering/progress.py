"""Live progress of a Run: one line that is rewritten on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun


class ProgressLine:
    """Shows the newest state; elsewhere than on a terminal only when it differs."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._terminal = self._stream.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._terminal:
            # A line that wraps could not be cleared.
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[2K{text[:width]}")
        elif text != self._shown:
            self._stream.write(f"{text}\n")
        self._shown = text
        self._stream.flush()

    def end(self) -> None:
        """Leave the last state standing."""
        if self._terminal and self._shown:
            self._stream.write("\n")
            self._stream.flush()
        self._shown = ""


def describe(
    request: DynamoGraphDeploymentRequest | None,
    run: DynamoGraphDeploymentRun | None,
    *,
    best_score: float | None = None,
) -> str:
    """Say in a line how far a search is.

    Args:
        request: says why there is no Run yet, and the best score.
        run: the Run, if there is one.
        best_score: what the Candidates say, which comes before what the Request does.
    """
    if run is None:
        conditions = request.status.conditions if request else []
        accepted = next((c for c in conditions if c.type == "Accepted"), None)
        if accepted is None:
            return "waiting for the operator"
        return f"{accepted.reason}: {accepted.message}" if accepted.message else accepted.reason
    parts = [run.status.phase or "Pending"]
    progress = run.status.progress
    if progress is not None:
        parts.append(f"round {progress.round}")
        parts.append(f"{progress.evaluated} evaluated")
        parts.append(f"{progress.published} published")
    best = request.status.best if request else None
    score = best_score if best_score is not None else best.score if best else None
    if score is not None:
        parts.append(f"best score {score:.1f}")
    if run.status.execution_message:
        parts.append(run.status.execution_message)
    return ", ".join(parts)
