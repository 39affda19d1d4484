"""All checks, in the order in which one mends what they find."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from dynamo_operator.cli.diagnosis.findings import Check, Finding, Severity, Subject
from dynamo_operator.cli.diagnosis.installation import Installation, find_installation
from dynamo_operator.cli.diagnosis.kinds import check_kinds
from dynamo_operator.cli.diagnosis.operator import check_api_server, check_operator
from dynamo_operator.cli.diagnosis.rights import check_rights
from dynamo_operator.cli.diagnosis.searching import (
    check_gpus,
    check_graphs,
    check_policy,
    check_pull_secrets,
)
from dynamo_operator.cli.diagnosis.webhooks import (
    check_admission,
    check_certificate,
    check_webhooks,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError, ForbiddenError
from informers.clock import Clock

CHECKS: Final[dict[str, Check]] = {
    "server": check_api_server,
    "kinds": check_kinds,
    "operator": check_operator,
    "rights": check_rights,
    "webhooks": check_webhooks,
    "certificate": check_certificate,
    "admission": check_admission,
    "policy": check_policy,
    "graphs": check_graphs,
    "gpus": check_gpus,
    "pull-secrets": check_pull_secrets,
}
_ALLOW: Final = "ask as somebody who may"


async def examine(
    client: Client,
    *,
    namespace: str,
    operator_namespace: str | None,
    clock: Clock,
    only: Collection[str] = (),
) -> list[Finding]:
    """Return what all checks find; one that the server refuses does not hide the others.

    Args:
        client: of the person who asks.
        namespace: where Requests are to be made.
        operator_namespace: where the operator is; None: it is looked for everywhere.
        clock: the present.
        only: these checks, by their names in CHECKS; all by default.

    Raises:
        TransportError: the server cannot be reached.
    """
    findings: list[Finding] = []
    installation: Installation | None = None
    try:
        installation = await find_installation(client, operator_namespace)
    except ForbiddenError as error:
        told = f"cannot be looked for: {error.message}"
        mend = "name its namespace with --operator-namespace, or ask as somebody who may"
        findings.append(Finding("operator", Severity.UNKNOWN, told, mend))
    subject = Subject(client, namespace, installation, clock)
    for name, check in CHECKS.items():
        if only and name not in only:
            continue
        if name == "operator" and findings and findings[0].check == name:
            continue
        try:
            findings += [finding async for finding in check(subject)]
        except ForbiddenError as error:
            findings.append(Finding(name, Severity.UNKNOWN, error.message, _ALLOW))
        except ApiError as error:
            findings.append(Finding(name, Severity.PROBLEM, str(error)))
    return findings
