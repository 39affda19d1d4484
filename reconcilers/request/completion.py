"""What admission does with a spec, done here as well: webhooks may be off."""

from __future__ import annotations

from dynamo_operator.admission.defaulting import Discovery, complete_discovering
from dynamo_operator.admission.denials import Denial
from dynamo_operator.admission.validation import validate
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, SearchSpec


class InvalidInputError(Exception):
    """Admission would refuse the spec; the text is its denial."""


class HardwareUnknownError(Exception):
    """The spec leaves hardware open, and none can be discovered for now."""


class Completion:
    """Defaults and validates a Request's spec with admission's own functions.

    Args:
        discovery: finds the cluster's GPUs for what the spec leaves open.
    """

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    async def complete(self, request: DynamoGraphDeploymentRequest) -> SearchSpec:
        """Return the completed spec, which is what the Run will hold.

        Raises:
            InvalidInputError: admission would refuse it.
            HardwareUnknownError: hardware is open and cannot be discovered; worth another try.
        """
        try:
            spec = await complete_discovering(request.spec, self._discovery)
        except Denial as denial:
            raise HardwareUnknownError(str(denial)) from denial
        try:
            validate(spec).raise_first()
        except Denial as denial:
            raise InvalidInputError(str(denial)) from denial
        return spec
