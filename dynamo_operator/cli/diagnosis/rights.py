"""Whether the operator may do what it does, and you may make Requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.app import metrics_permissions, permissions
from dynamo_operator.cli.diagnosis.findings import Finding, Severity, Subject
from dynamo_operator.cli.diagnosis.installation import Installation
from dynamo_operator.generate.layout import LEADER_ELECTION, MANAGER, WEBHOOK_CERTIFICATE
from dynamo_operator.hardware.discovery import GPU_DISCOVERY_ROLE
from dynamo_operator.hardware.discovery import PERMISSIONS as DISCOVERY_PERMISSIONS
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.codec import decode_json
from dynamo_operator.runtime.leader_election import lease_permissions
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.runtime.webhooks import configuration_permissions, secret_permissions
from dynamo_operator.settings import OperatorSettings, WebhookMode

_CHECK: Final = "rights"
_GROUP: Final = "authorization.k8s.io/v1"
_MOST_AT_ONCE: Final = 16
_MEND: Final = "kubectl apply --server-side -k manifests/rbac, or helm upgrade, restores the role"


@dataclass(frozen=True, slots=True)
class _Right:
    """One verb on one resource, and the role that ought to grant it."""

    role: str
    attributes: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        known = dict(self.attributes)
        subresource = f"/{known['subresource']}" if "subresource" in known else ""
        group = f".{known['group']}" if known.get("group") else ""
        name = f" {known['name']}" if "name" in known else ""
        where = f" in namespace {known['namespace']}" if "namespace" in known else ""
        return f"{known['verb']} {known['resource']}{subresource}{group}{name}{where}"


async def check_rights(subject: Subject) -> AsyncIterator[Finding]:
    """The operator's rights by the roles that grant them, and yours to make a Request."""
    installation = subject.installation
    if installation is not None and installation.settings is not None:
        rights = list(_needed(installation, installation.settings))
        missing = await _missing(subject.client, installation.account, rights)
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
    if await _may(subject.client, "SelfSubjectAccessReview", {"resourceAttributes": own}):
        told = f"you may create {kind.kind}s in namespace {subject.namespace}"
        yield Finding(_CHECK, Severity.OK, told)
    else:
        yield Finding(
            _CHECK,
            Severity.WARNING,
            f"you may not create {kind.plural}.{kind.group} in namespace {subject.namespace}",
            "ask an administrator for a Role with that verb, or name another namespace with -n",
        )


def _told(installation: Installation, role: str, missing: list[_Right]) -> Finding:
    listed = ", ".join(map(str, missing[:3]))
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    told = f"{installation.account} may not {listed}{more}: the role {role} is to grant it"
    if role == GPU_DISCOVERY_ROLE:
        mend = "bind it, or name spec.hardware.gpu.sku and .budget in every Request"
        return Finding(_CHECK, Severity.WARNING, told, mend)
    return Finding(_CHECK, Severity.PROBLEM, told, _MEND)


def _needed(installation: Installation, settings: OperatorSettings) -> Iterator[_Right]:
    gate = settings.feature_gates.dgdr_v1_beta2
    namespaces = settings.watch_namespaces
    declared = permissions(
        image_pull_secrets=settings.image_pull_secrets,
        discover_image_pull_secrets=settings.discover_image_pull_secrets,
        dgdr_v1_beta2=gate,
    )
    for namespace in namespaces or ("",):
        # Restricted to namespaces it does without what only the whole cluster grants.
        granted = [each for each in declared if not (namespaces and each.cluster_wide)]
        yield from _rights(MANAGER, granted, namespace)
    if gate and not namespaces:
        yield from _rights(GPU_DISCOVERY_ROLE, DISCOVERY_PERMISSIONS)
    if settings.server.metrics.port is not None and settings.server.metrics.secure:
        yield from _rights("of the metrics", metrics_permissions())
    election = settings.leader_election
    if election.enabled:
        namespace = election.namespace or installation.namespace
        yield from _rights(LEADER_ELECTION, lease_permissions(election.id), namespace)
    if gate and settings.webhooks is WebhookMode.AUTO:
        webhook = settings.server.webhook
        secret = secret_permissions(webhook.secret_name)
        yield from _rights(WEBHOOK_CERTIFICATE, secret, installation.webhook_namespace)
        names = [webhook.configuration_name]
        configurations = configuration_permissions(mutating=names, validating=names)
        yield from _rights(WEBHOOK_CERTIFICATE, configurations)


def _rights(role: str, declared: Iterable[Permission], namespace: str = "") -> Iterator[_Right]:
    for permission in declared:
        for resource in permission.resources:
            plural, _, subresource = resource.partition("/")
            for verb in permission.verbs:
                for name in permission.names or ("",):
                    attributes = {
                        "verb": verb,
                        "group": permission.group,
                        "resource": plural,
                        "subresource": subresource,
                        "name": name,
                        "namespace": namespace,
                    }
                    yield _Right(role, tuple((k, v) for k, v in attributes.items() if v))


async def _missing(client: Client, account: str, rights: list[_Right]) -> list[_Right]:
    _, _, namespace, _ = account.split(":")
    user = {
        "user": account,
        "groups": [
            *("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
            "system:authenticated",
        ],
    }
    gate = asyncio.Semaphore(_MOST_AT_ONCE)

    async def ask(right: _Right) -> bool:
        async with gate:
            spec = {**user, "resourceAttributes": dict(right.attributes)}
            return await _may(client, "SubjectAccessReview", spec)

    async with asyncio.TaskGroup() as group:
        asked = [(right, group.create_task(ask(right))) for right in rights]
    return [right for right, answer in asked if not answer.result()]


async def _may(client: Client, kind: str, spec: Mapping[str, Any]) -> bool:
    body = {"apiVersion": _GROUP, "kind": kind, "spec": spec}
    path = f"/apis/{_GROUP}/{kind.lower()}s"
    answer = await client.request("POST", path, body=json.dumps(body).encode())
    document = decode_json(answer.body)
    status = document.get("status") if isinstance(document, dict) else None
    return isinstance(status, dict) and status.get("allowed") is True
