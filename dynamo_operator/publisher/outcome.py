"""How the publisher's work ended, in the words of its termination message."""

from __future__ import annotations

from dynamo_operator.aisimulate.snapshot import Phase
from dynamo_operator.api.conditions import CompletedReason
from dynamo_operator.api.publisher_contract import PublisherOutcome, TerminationMessage
from dynamo_operator.publisher.observe import Look


def ended(look: Look) -> TerminationMessage:
    """Return the outcome of a last look whose report has been published."""
    report = look.report
    if report is None or not report.is_terminal:
        # The planner's own exit code fails the Job.
        return TerminationMessage(
            PublisherOutcome.ACKNOWLEDGED,
            CompletedReason.FAILED,
            f"the planner exited with {look.planner_exit} before the search ended",
        )
    if report.phase is Phase.SUCCEEDED:
        return TerminationMessage(
            PublisherOutcome.ACKNOWLEDGED, CompletedReason.SUCCEEDED, report.message
        )
    reason = CompletedReason.FAILED
    if report.reason == CompletedReason.NO_FEASIBLE_CANDIDATE:
        reason = CompletedReason.NO_FEASIBLE_CANDIDATE
    return TerminationMessage(PublisherOutcome.RUN_FAILED, reason, report.message)


def violated(error: Exception) -> TerminationMessage:
    """Return the outcome of a search that contradicts itself."""
    return TerminationMessage(
        PublisherOutcome.PROTOCOL_VIOLATION, CompletedReason.PROTOCOL_VIOLATION, str(error)
    )


def failed(message: object) -> TerminationMessage:
    """Return the outcome of a publisher that could not do its work."""
    text = " ".join(str(message).split()) or type(message).__name__
    return TerminationMessage(
        PublisherOutcome.RECONCILE_FAILED, CompletedReason.PUBLISHER_FAILED, text
    )
