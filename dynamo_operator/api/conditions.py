"""Conditions of our kinds: the model, the types and the reasons that they carry."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from dynamo_operator.api.schema import Integer, Schema
from dynamo_operator.runtime.conditions import find_condition as find_condition
from dynamo_operator.runtime.conditions import is_condition_true as is_condition_true
from dynamo_operator.runtime.models import KubeStruct


class Condition(KubeStruct):
    """One entry of `status.conditions`."""

    type: Annotated[str, Schema("What the condition is about.", maxLength=316, minLength=1)]
    status: Annotated[str, Schema("True, False or Unknown.", enum=("True", "False", "Unknown"))]
    reason: Annotated[str, Schema("One CamelCase word why.", maxLength=1024)] = ""
    message: Annotated[str, Schema("A sentence for people.", maxLength=32768)] = ""
    last_transition_time: Annotated[
        str, Schema("When status last changed.", format="date-time")
    ] = ""
    observed_generation: Annotated[
        Integer | None, Schema("Generation that was judged.", minimum=0, format="int64")
    ] = None


class ConditionType(StrEnum):
    """Types of our conditions."""

    ACCEPTED = "Accepted"
    COMPLETED = "Completed"
    EVALUATED = "Evaluated"
    READY = "Ready"
    PUBLISHED = "Published"


class AcceptedReason(StrEnum):
    """Reasons of a Request's `Accepted`."""

    RUN_CREATED = "RunCreated"
    RUN_DELETED = "RunDeleted"
    WAITING_FOR_ACTIVE_RUN = "WaitingForActiveRun"
    WAITING_FOR_OLD_RUN = "WaitingForOldRun"
    WAITING_FOR_HARDWARE = "WaitingForHardware"
    INVALID_INPUT = "InvalidInput"
    NAME_CONFLICT = "NameConflict"


class CompletedReason(StrEnum):
    """Reasons of a Run's `Completed` (and of the Request's, which mirrors it)."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    NO_FEASIBLE_CANDIDATE = "NoFeasibleCandidate"
    PROTOCOL_VIOLATION = "ProtocolViolation"
    PUBLISHER_FAILED = "PublisherFailed"
    INVALID_INPUT = "InvalidInput"
    INVALID_EXECUTION = "InvalidExecution"
    OWNERSHIP_CONFLICT = "OwnershipConflict"
    SUPERSEDED = "Superseded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    PENDING = "Pending"
    RUNNING = "Running"
    WAITING_FOR_HARDWARE = "WaitingForHardware"
    WAITING_FOR_IMAGE_PULL_SECRETS = "WaitingForImagePullSecrets"
    CANDIDATE_API_UNAVAILABLE = "CandidateAPIUnavailable"


class EvaluatedReason(StrEnum):
    """Reasons of a Candidate's `Evaluated`."""

    EVALUATED = "Evaluated"


class ReadyReason(StrEnum):
    """Reasons of a DynamoPoolRelay's `Ready`, and of its `Published` while that is False."""

    READY = "Ready"
    PUBLISHED = "Published"
    DGD_NOT_FOUND = "DGDNotFound"
    INCOMPATIBLE_DISCOVERY = "IncompatibleDiscovery"
    NO_WORKERS = "NoWorkers"
    INVALID_NAME = "InvalidName"
    OWNERSHIP_CONFLICT = "OwnershipConflict"
    APPLY_FAILED = "ApplyFailed"
    ROLLING_OUT = "RollingOut"
    NO_AVAILABLE_RELAY = "NoAvailableRelay"
    SCALED_TO_ZERO = "ScaledToZero"
