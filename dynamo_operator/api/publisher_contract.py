"""What the Run controller and the publisher agree on: flags, exit codes, rights, last words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final, Self

from dynamo_operator.api.conditions import CompletedReason
from dynamo_operator.api.labels import GROUP
from dynamo_operator.api.planner_contract import PLANNER_CONTAINER, SNAPSHOT_DIRECTORY

PUBLISHER_CONTAINER: Final = "publisher"
PUBLISHER_EXECUTABLE: Final = "/dgdr-run-publisher"
PUBLISHER_FIELD_MANAGER: Final = "dgdr-run-publisher"

PUBLISHER_STATUS_FIELDS: Final = ("progress", "candidateRefs", "lastProgressTime", "message")
"""What of a Run's status is the publisher's; the shipped policy keeps it from the rest."""

SNAPSHOT_DIR_FLAG: Final = "--snapshot-dir"
RUN_NAME_FLAG: Final = "--run-name"
RUN_UID_FLAG: Final = "--run-uid"
PLANNER_CONTAINER_FLAG: Final = "--planner-container"
POLL_INTERVAL_FLAG: Final = "--poll-interval"
DEFAULT_POLL_INTERVAL: Final = "1s"

NAMESPACE_VARIABLE: Final = "POD_NAMESPACE"
POD_NAME_VARIABLE: Final = "POD_NAME"

TERMINATION_MESSAGE_PATH: Final = "/dev/termination-log"
TERMINATION_MESSAGE_LIMIT: Final = 4096


class PublisherExit(IntEnum):
    """Exit codes of the publisher."""

    ACKNOWLEDGED = 0
    RECONCILE_FAILED = 1
    PROTOCOL_VIOLATION = 3
    RUN_FAILED = 4


class PublisherOutcome(StrEnum):
    """`outcome` of the termination message; one for each exit code."""

    ACKNOWLEDGED = "Acknowledged"
    RECONCILE_FAILED = "ReconcileFailed"
    PROTOCOL_VIOLATION = "ProtocolViolation"
    RUN_FAILED = "RunFailed"

    @property
    def exit_code(self) -> PublisherExit:
        """The exit code that goes with it."""
        return PublisherExit[self.name]


@dataclass(frozen=True, slots=True)
class TerminationMessage:
    """The publisher's last words: one JSON line of at most 4096 bytes."""

    outcome: PublisherOutcome
    reason: str
    """A `CompletedReason`."""
    message: str = ""

    def to_json(self) -> str:
        """Return the line; a message too long for it is cut."""
        encoded = self._encode(self.message)
        length = len(self.message)
        while len(encoded.encode()) > TERMINATION_MESSAGE_LIMIT and length:
            excess = len(encoded.encode()) - TERMINATION_MESSAGE_LIMIT
            length = max(0, length - max(1, excess // 6))
            encoded = self._encode(f"{self.message[:length]}...")
        return encoded

    def _encode(self, message: str) -> str:
        message = message.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
        fields = {"outcome": self.outcome, "reason": self.reason, "message": message}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the message that the text holds, or None for anything else, e.g. a log's tail."""
        try:
            fields = json.loads(text)
            return cls(
                PublisherOutcome(fields["outcome"]),
                str(CompletedReason(fields["reason"])),
                str(fields.get("message", "")),
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


def publisher_command(
    run_name: str, run_uid: str, *, snapshot_dir: str = SNAPSHOT_DIRECTORY
) -> list[str]:
    """Return the publisher container's command."""
    return [
        PUBLISHER_EXECUTABLE,
        f"{SNAPSHOT_DIR_FLAG}={snapshot_dir}",
        f"{RUN_NAME_FLAG}={run_name}",
        f"{RUN_UID_FLAG}={run_uid}",
        f"{PLANNER_CONTAINER_FLAG}={PLANNER_CONTAINER}",
        f"{POLL_INTERVAL_FLAG}={DEFAULT_POLL_INTERVAL}",
    ]


def publisher_role_rules(run_name: str) -> list[dict[str, Any]]:
    """Return the rules of the publisher's Role: its own Run by name, Candidates, Pods."""

    def rule(resource: str, *verbs: str, group: str = GROUP, names: tuple[str, ...] = ()) -> Any:
        named = {"resourceNames": list(names)} if names else {}
        return {"apiGroups": [group], "resources": [resource], **named, "verbs": list(verbs)}

    return [
        rule("dynamographdeploymentruns", "get", names=(run_name,)),
        rule("dynamographdeploymentruns/status", "patch", names=(run_name,)),
        rule("dynamographdeploymentcandidates", "get", "list", "create", "delete"),
        rule("dynamographdeploymentcandidates/status", "update"),
        rule("pods", "get", group=""),
    ]
