"""Whether the operator may do what it does, and you may make Requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.cli.diagnosis.findings import Finding, Severity, Subject
from dynamo_operator.cli.diagnosis.installation import Installation
from dynamo_operator.cli.operator_rights import (
    RESTORE_ROLES,
    Right,
    denied_rights,
    is_allowed,
    listed_rights,
    operator_rights,
    rights_of,
)
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.hardware.discovery import PERMISSIONS as DISCOVERY_PERMISSIONS
from dynamo_operator.settings import OperatorSettings
from informers.objects import ObjectKey

_CHECK: Final = "rights"


async def check_rights(subject: Subject) -> AsyncIterator[Finding]:
    """The operator's rights by the roles that grant them, and yours to make a Request."""
    installation = subject.installation
    if installation is not None and installation.settings is not None:
        rights = list(_needed(installation, installation.settings))
        missing = await denied_rights(subject.client, rights, account=installation.account)
        for role in dict.fromkeys(right.role for right in missing):
            yield _told(installation, role, [each for each in missing if each.role == role])
        if not missing:
            told = f"{installation.account} may do all {len(rights)} things that it has to"
            yield Finding(_CHECK, Severity.OK, told)
    kind = DynamoGraphDeploymentRequest.resource_type
    own = {
        "verb": "create",
        "group": kind.group,
        "resource": kind.plural,
        "namespace": subject.namespace,
    }
    if await is_allowed(subject.client, "SelfSubjectAccessReview", {"resourceAttributes": own}):
        told = f"you may create {kind.kind}s in namespace {subject.namespace}"
        yield Finding(_CHECK, Severity.OK, told)
    else:
        yield Finding(
            _CHECK,
            Severity.WARNING,
            f"you may not create {kind.plural}.{kind.group} in namespace {subject.namespace}",
            "ask an administrator for a Role with that verb, or name another namespace with -n",
        )


def _told(installation: Installation, role: str, missing: list[Right]) -> Finding:
    listed = listed_rights(missing)
    told = f"{installation.account} may not {listed}: the role {role} is to grant it"
    if role == GPU_DISCOVERY_ROLE:
        mend = "bind it, or name spec.hardware.gpu.sku and .budget in every Request"
        return Finding(_CHECK, Severity.WARNING, told, mend)
    return Finding(_CHECK, Severity.PROBLEM, told, RESTORE_ROLES)


def _needed(installation: Installation, settings: OperatorSettings) -> Iterator[Right]:
    election = settings.leader_election
    lease = ObjectKey(election.namespace or installation.namespace, election.id)
    yield from operator_rights(
        settings,
        lease=lease if election.enabled else None,
        webhook_namespace=installation.webhook_namespace,
    )
    if settings.feature_gates.dgdr_v1_beta2 and settings.discovers_gpus:
        yield from rights_of(GPU_DISCOVERY_ROLE, DISCOVERY_PERMISSIONS)
