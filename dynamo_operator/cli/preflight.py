"""What a cluster must have before the operator works in it: our kinds, and its permissions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.app import metrics_permissions, permissions
from dynamo_operator.cli.errors import CliError
from dynamo_operator.generate.layout import LEADER_ELECTION, MANAGER, WEBHOOK_CERTIFICATE
from dynamo_operator.runtime import LeaderElection
from dynamo_operator.runtime.client import Client, ClientError, NotFoundError, TransportError
from dynamo_operator.runtime.leader_election import lease_permissions
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.runtime.webhooks import configuration_permissions, secret_permissions
from dynamo_operator.settings import OperatorSettings, WebhookMode
from informers.objects import ResourceType

_SEARCH_KINDS: Final = tuple(
    kind.resource_type
    for kind in (
        DynamoGraphDeploymentRequest,
        DynamoGraphDeploymentRun,
        DynamoGraphDeploymentCandidate,
    )
)
_GATE_FLAG: Final = "--feature-gates.dgdr-v1-beta2=false"
_WATCHING: Final = ("list", "watch")
_AT_ONCE: Final = 8
_TOLD: Final = 3


async def check_kinds(client: Client, settings: OperatorSettings, *, host: str) -> None:
    """Look whether the cluster serves what the operator works on.

    Args:
        client: the operator's.
        settings: say which kinds.
        host: of the API server, for errors.

    Raises:
        CliError: the API server does not answer, or does not serve a kind.
    """
    searches = settings.feature_gates.dgdr_v1_beta2
    kinds = (*(_SEARCH_KINDS if searches else ()), DynamoPoolRelay.resource_type)
    try:
        unserved = await unserved_kinds(client, kinds)
    except TransportError as error:
        raise CliError(f"the API server {host} cannot be reached: {error}") from error
    if unserved:
        named = ", ".join(f"{kind.api_version} {kind.kind}" for kind in unserved)
        without = f"; {_GATE_FLAG} does without" if set(unserved) <= set(_SEARCH_KINDS) else ""
        raise CliError(
            f"the cluster does not serve {named}: `dynamo-operator crds apply` installs the kinds"
            f"{without}"
        )


async def check_permissions(
    client: Client, settings: OperatorSettings, election: LeaderElection | None
) -> None:
    """Look whether the operator may do what it is going to.

    Args:
        client: the operator's.
        settings: say what that is, and where.
        election: of the Lease that it competes for; None for none.

    Raises:
        CliError: a permission is denied; names verb, resource and the role that would grant it.
    """
    for need in _needs(settings, election):
        denied = await denied_permissions(client, need.permissions, namespaces=need.namespaces)
        if denied:
            user = await _user(client)
            raise CliError(f"{user} may not {_listed(denied)}: it needs {need.grant}")


@dataclass(frozen=True, slots=True)
class _Need:
    """Permissions for one purpose, where they are needed, and what grants them."""

    permissions: Sequence[Permission]
    namespaces: Sequence[str]
    grant: str


def _needs(settings: OperatorSettings, election: LeaderElection | None) -> Iterator[_Need]:
    gates, watched = settings.feature_gates, settings.watch_namespaces
    declared = permissions(
        image_pull_secrets=settings.image_pull_secrets,
        discover_image_pull_secrets=settings.discover_image_pull_secrets,
        dgdr_v1_beta2=gates.dgdr_v1_beta2,
    )
    if watched:
        grant = f"a Role with the rules of ClusterRole {MANAGER} in {', '.join(watched)}"
    else:
        grant = f"ClusterRole {MANAGER} (manifests/rbac) bound to it"
    yield _Need(declared, watched, grant)
    if election is not None:
        # A candidate that may not watch the Lease looks at it now and then.
        needed = [
            replace(each, verbs=tuple(verb for verb in each.verbs if verb not in _WATCHING))
            for each in lease_permissions(election.name)
        ]
        where = election.namespace
        yield _Need(needed, [where], f"Role {LEADER_ELECTION} (manifests/rbac) in {where}")
    if settings.server.metrics.secure and settings.server.metrics.port is not None:
        grant = "a ClusterRole that grants create of both, or server.metrics.secure: false"
        yield _Need(metrics_permissions(), (), grant)
    if settings.webhooks is WebhookMode.AUTO and gates.dgdr_v1_beta2:
        webhook = settings.server.webhook
        role = f"{WEBHOOK_CERTIFICATE} (manifests/webhook_certificate)"
        secret = secret_permissions(webhook.secret_name)
        yield _Need(secret, [webhook.namespace], f"Role {role} in {webhook.namespace}")
        name = webhook.configuration_name
        configurations = configuration_permissions(mutating=[name], validating=[name])
        yield _Need(configurations, (), f"ClusterRole {role}")


async def unserved_kinds(client: Client, kinds: Iterable[ResourceType]) -> list[ResourceType]:
    """Return those of the kinds that the cluster does not serve in their version."""
    served: dict[str, set[str]] = {}
    unserved = []
    for kind in kinds:
        if kind.api_version not in served:
            served[kind.api_version] = await _served_plurals(client, kind.api_version)
        if kind.plural not in served[kind.api_version]:
            unserved.append(kind)
    return unserved


async def _served_plurals(client: Client, api_version: str) -> set[str]:
    try:
        answer = await client.request("GET", f"/apis/{api_version}")
    except NotFoundError:
        return set()
    return {each.get("name", "") for each in json.loads(answer.body).get("resources") or ()}


@dataclass(frozen=True, slots=True)
class Access:
    """One verb on one resource in one namespace ("": in all, or in none)."""

    verb: str
    resource: str
    group: str
    name: str
    namespace: str

    @classmethod
    def of(cls, permission: Permission, namespaces: Sequence[str]) -> list[Access]:
        """Return what a permission means, verb by verb.

        Args:
            permission: declared.
            namespaces: where it is needed; none for all of them.
        """
        if permission.cluster_wide and namespaces:
            return []  # who watches a few namespaces does without
        return [
            cls(verb, resource, permission.group, name, namespace)
            for namespace in namespaces or ("",)
            for resource in permission.resources
            for verb in permission.verbs
            for name in permission.names or ("",)
        ]

    @property
    def review(self) -> dict[str, Any]:
        """The SelfSubjectAccessReview that asks for it."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "name": self.name,
            "namespace": self.namespace,
        }
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: word for key, word in attributes.items() if word}},
        }


async def denied_permissions(
    client: Client, needed: Iterable[Permission], *, namespaces: Sequence[str] = ()
) -> list[Access]:
    """Ask the API server what of the permissions the client's identity does not have."""
    wanted = list(
        dict.fromkeys(each for permission in needed for each in Access.of(permission, namespaces))
    )
    allowed: dict[Access, bool] = {}
    waiting = iter(wanted)

    async def ask() -> None:
        for access in waiting:
            allowed[access] = await _is_allowed(client, access)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(ask())
    return [access for access in wanted if not allowed[access]]


async def _is_allowed(client: Client, access: Access) -> bool:
    body = json.dumps(access.review).encode()
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await client.request("POST", path, body=body)
    return bool((json.loads(answer.body).get("status") or {}).get("allowed"))


def _listed(denied: Sequence[Access]) -> str:
    verbs: dict[tuple[str, str], list[str]] = {}
    for access in denied:
        resource = f"{access.resource}.{access.group}" if access.group else access.resource
        named = f"{resource} {access.name!r}" if access.name else resource
        verbs.setdefault((named, access.namespace), []).append(access.verb)
    lines = [
        f"{', '.join(each)} {resource}{f' in {namespace}' if namespace else ''}"
        for (resource, namespace), each in verbs.items()
    ]
    more = f" and {len(lines) - _TOLD} more" if len(lines) > _TOLD else ""
    return "; ".join(lines[:_TOLD]) + more


async def _user(client: Client) -> str:
    """Return who the API server takes us for."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    try:
        answer = await client.request("POST", path, body=json.dumps(review).encode())
    except ClientError:
        return "the operator"
    return str(json.loads(answer.body)["status"]["userInfo"]["username"])
