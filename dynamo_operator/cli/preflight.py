"""What a cluster must have before the operator works in it: our kinds, and its rights."""

from __future__ import annotations

import json
from typing import Final

from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.operator_rights import (
    RESTORE_ROLES,
    denied_rights,
    listed_rights,
    operator_rights,
)
from dynamo_operator.generate.crds import KINDS
from dynamo_operator.generate.layout import LEADER_ELECTION
from dynamo_operator.runtime import LeaderElection
from dynamo_operator.runtime.client import Client, ClientError, TransportError
from dynamo_operator.runtime.client.discovery import Discovery
from dynamo_operator.settings import OperatorSettings

_GATE_FLAG: Final = "--feature-gates.dgdr-v1-beta2=false"
_WATCHING: Final = ("list", "watch")


async def check_kinds(client: Client, settings: OperatorSettings, *, host: str) -> None:
    """Look whether the cluster serves what the operator works on.

    Args:
        client: the operator's.
        settings: say which kinds.
        host: of the API server, for errors.

    Raises:
        CliError: the API server does not answer, or does not serve a kind.
    """
    discovery = Discovery(client)
    kinds = KINDS if settings.feature_gates.dgdr_v1_beta2 else (DynamoPoolRelay,)
    try:
        unserved = [kind for kind in kinds if not await discovery.supports(kind)]
    except TransportError as error:
        raise CliError(f"the API server {host} cannot be reached: {error}") from error
    if unserved:
        types = (kind.resource_type for kind in unserved)
        named = ", ".join(f"{each.api_version} {each.kind}" for each in types)
        without = "" if DynamoPoolRelay in unserved else f"; {_GATE_FLAG} does without"
        raise CliError(
            f"the cluster does not serve {named}: `dynamo-operator crds apply` installs the kinds"
            f"{without}"
        )


async def check_rights(
    client: Client, settings: OperatorSettings, election: LeaderElection | None
) -> None:
    """Look whether the operator may do what it is going to.

    Args:
        client: the operator's.
        settings: say what that is, and where.
        election: of the Lease that it competes for; None for none.

    Raises:
        CliError: a right is denied; names verb, resource and the role that ought to grant it.
    """
    needed = operator_rights(
        settings,
        lease=None if election is None else election.key,
        webhook_namespace=settings.server.webhook.namespace,
    )
    # A candidate that may not watch the Lease looks at it now and then.
    insisted = (r for r in needed if r.role != LEADER_ELECTION or r.verb not in _WATCHING)
    denied = await denied_rights(client, insisted)
    if denied:
        role = denied[0].role
        listed = listed_rights(right for right in denied if right.role == role)
        user = await _user(client)
        raise CliError(f"{user} may not {listed}: the role {role} is to grant it; {RESTORE_ROLES}")


async def _user(client: Client) -> str:
    """Return who the API server takes us for."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    try:
        answer = await client.request("POST", path, body=json.dumps(review).encode())
    except ClientError:
        return "the operator"
    return str(json.loads(answer.body)["status"]["userInfo"]["username"])
