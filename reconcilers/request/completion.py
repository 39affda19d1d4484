"""What admission does with a spec, done here as well: webhooks may be off."""

from __future__ import annotations

from dataclasses import dataclass

from dynamo_operator.admission.defaulting import Discovery, complete_discovering
from dynamo_operator.admission.denials import Denial
from dynamo_operator.admission.validation import EffectiveInputPolicy, validate
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, SearchSpec


class InvalidInputError(Exception):
    """Admission would refuse the spec; the text is its denial."""


class HardwareUnknownError(Exception):
    """The spec leaves hardware open, and none can be discovered for now."""


@dataclass(frozen=True, slots=True)
class CompletedSpec:
    """What a Run will hold, and what a person should know of it, a line each."""

    spec: SearchSpec
    warnings: tuple[str, ...] = ()


class Completion:
    """Defaults and validates a Request's spec with admission's own functions.

    Args:
        discovery: finds the cluster's GPUs for what the spec leaves open.
        policy: what becomes of violations in the effective input, as at admission.
    """

    def __init__(
        self,
        discovery: Discovery,
        policy: EffectiveInputPolicy = EffectiveInputPolicy.DENY,
    ) -> None:
        self._discovery = discovery
        self._policy = policy

    async def complete(
        self, request: DynamoGraphDeploymentRequest, *, previous: SearchSpec | None = None
    ) -> CompletedSpec:
        """Return the completed spec, which is what the Run will hold.

        Args:
            request: whose spec.
            previous: the spec of the Run before: what was wrong with that only warns.

        Raises:
            InvalidInputError: admission would refuse it.
            HardwareUnknownError: hardware is open and cannot be discovered; worth another try.
        """
        try:
            completion = await complete_discovering(request.spec, self._discovery)
        except Denial as denial:
            raise HardwareUnknownError(str(denial)) from denial
        findings = validate(completion.spec, previous=previous, policy=self._policy)
        if findings.refusal:
            raise InvalidInputError(findings.refusal)
        return CompletedSpec(completion.spec, (*completion.notes, *findings.warnings))
