"""What the operator has to be allowed, right by right, and which of it is denied."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dynamo_operator.app import metrics_permissions, permissions
from dynamo_operator.generate.layout import LEADER_ELECTION, MANAGER, WEBHOOK_CERTIFICATE
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.codec import decode_json
from dynamo_operator.runtime.leader_election import lease_permissions
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.runtime.webhooks import configuration_permissions, secret_permissions
from dynamo_operator.settings import OperatorSettings, WebhookMode
from informers.objects import ObjectKey

RESTORE_ROLES: Final = (
    "kubectl apply --server-side -k manifests/rbac, or helm upgrade, restores the role"
)

_GROUP: Final = "authorization.k8s.io/v1"
_MOST_AT_ONCE: Final = 16
_MOST_LISTED: Final = 3


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource, and the role that ought to grant it.

    Args:
        role: its name.
        verb: e.g. list.
        resource: plural and subresource.
        group: of the API; empty for the core.
        name: of the only object that is meant; empty for all.
        namespace: where; empty for all, or none.
    """

    role: str
    verb: str
    resource: str
    group: str
    name: str = ""
    namespace: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """The `resourceAttributes` of an access review."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "name": self.name,
            "namespace": self.namespace,
        }
        return {key: word for key, word in attributes.items() if word}

    @property
    def what(self) -> str:
        """All of it but the verb, in words."""
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.resource}{group}{name}{where}"


def operator_rights(
    settings: OperatorSettings, *, lease: ObjectKey | None, webhook_namespace: str
) -> Iterator[Right]:
    """Yield what an operator of these settings cannot work without.

    Args:
        settings: the operator's.
        lease: that it competes for; None for none.
        webhook_namespace: where webhooks auto have their Secret.
    """
    gate, namespaces = settings.feature_gates.dgdr_v1_beta2, settings.watch_namespaces
    declared = permissions(
        image_pull_secrets=settings.image_pull_secrets,
        discover_image_pull_secrets=settings.discover_image_pull_secrets,
        dgdr_v1_beta2=gate,
    )
    for namespace in namespaces or ("",):
        # Restricted to namespaces it does without what only the whole cluster grants.
        granted = [each for each in declared if not (namespaces and each.cluster_wide)]
        yield from rights_of(MANAGER, granted, namespace)
    if settings.server.metrics.port is not None and settings.server.metrics.secure:
        yield from rights_of("of the metrics", metrics_permissions())
    if lease is not None:
        yield from rights_of(LEADER_ELECTION, lease_permissions(lease.name), lease.namespace)
    if gate and settings.webhooks is WebhookMode.AUTO:
        webhook = settings.server.webhook
        secret = secret_permissions(webhook.secret_name)
        yield from rights_of(WEBHOOK_CERTIFICATE, secret, webhook_namespace)
        names = [webhook.configuration_name]
        configurations = configuration_permissions(mutating=names, validating=names)
        yield from rights_of(WEBHOOK_CERTIFICATE, configurations)


def rights_of(role: str, declared: Iterable[Permission], namespace: str = "") -> Iterator[Right]:
    """Yield what permissions mean, verb by verb, in one namespace."""
    for permission in declared:
        for resource in permission.resources:
            for verb in permission.verbs:
                for name in permission.names or ("",):
                    yield Right(role, verb, resource, permission.group, name, namespace)


async def denied_rights(
    client: Client, rights: Iterable[Right], *, account: str = ""
) -> list[Right]:
    """Ask the API server which of the rights are denied.

    Args:
        client: asks.
        rights: asked for, each once.
        account: the user name of the ServiceAccount that needs them; empty for the client itself.
    """
    kind, whose = "SelfSubjectAccessReview", {}
    if account:
        kind, whose = "SubjectAccessReview", _service_account(account)
    gate = asyncio.Semaphore(_MOST_AT_ONCE)

    async def ask(right: Right) -> bool:
        async with gate:
            return await is_allowed(client, kind, {**whose, "resourceAttributes": right.attributes})

    async with asyncio.TaskGroup() as group:
        asked = [(right, group.create_task(ask(right))) for right in dict.fromkeys(rights)]
    return [right for right, answer in asked if not answer.result()]


async def is_allowed(client: Client, kind: str, spec: Mapping[str, Any]) -> bool:
    """Return what an access review of that kind answers."""
    body = {"apiVersion": _GROUP, "kind": kind, "spec": spec}
    path = f"/apis/{_GROUP}/{kind.lower()}s"
    answer = await client.request("POST", path, body=json.dumps(body).encode())
    document = decode_json(answer.body)
    status = document.get("status") if isinstance(document, dict) else None
    return isinstance(status, dict) and status.get("allowed") is True


def listed_rights(rights: Iterable[Right]) -> str:
    """Return rights in words, those to one resource together, and of many only a few."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.what, []).append(right.verb)
    listed = [f"{', '.join(each)} {what}" for what, each in verbs.items()]
    more = f" and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
    return "; ".join(listed[:_MOST_LISTED]) + more


def _service_account(user: str) -> dict[str, Any]:
    _, _, namespace, _ = user.split(":")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return {"user": user, "groups": [*groups, "system:authenticated"]}
