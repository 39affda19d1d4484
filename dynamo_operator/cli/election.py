"""Which Lease an operator of a cluster takes, and who else may hold it."""

from __future__ import annotations

import structlog

from dynamo_operator.cli.errors import CliError
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.runtime import LeaderElection
from dynamo_operator.runtime.builtin_kinds import Lease
from dynamo_operator.runtime.client import (
    Client,
    ClientConfig,
    ClientError,
    ForbiddenError,
    NotFoundError,
)
from dynamo_operator.runtime.leader_elector import living_holder
from dynamo_operator.settings import LeaderElectionSettings
from informers.clock import SystemClock

_log = structlog.get_logger(__name__)


async def find_election(
    client: Client, chosen: LeaderElectionSettings, config: ClientConfig
) -> LeaderElection:
    """Find the Lease: outside a cluster that of the deployed operator, where there can be one."""
    if config.is_in_cluster:
        return chosen.election(namespace=config.namespace)
    election = chosen.election(namespace=NAMESPACE)
    if not chosen.namespace:
        lease = Lease.new(election.name, namespace=election.namespace)
        try:
            await client.create(lease, dry_run=True)
        except NotFoundError:
            election = chosen.election(namespace=config.namespace)
            _log.warning(
                "no operator is deployed: the lease is another one than it would take",
                missing_namespace=NAMESPACE,
                lease=str(election.key),
            )
        except ClientError as error:  # it exists, or we cannot know
            _log.debug("lease looked for", lease=str(election.key), answer=str(error))
    return election


async def refuse_beside_another(client: Client, election: LeaderElection, instead: str) -> None:
    """End unless nobody holds the Lease.

    Args:
        client: reads the Lease.
        election: names it.
        instead: what whoever called can do, beside stopping the other operator.

    Raises:
        CliError: somebody holds it, or nobody knows.
    """
    lease = f"lease {election.key}"
    try:
        holder = await living_holder(client, election, clock=SystemClock())
    except ForbiddenError as error:
        raise CliError(f"{lease}: cannot tell whether another operator works: {error}") from error
    if holder:
        raise CliError(f"{lease}: held by {holder}, another operator: stop that one, or {instead}")
