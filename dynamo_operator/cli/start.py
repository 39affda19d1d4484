"""`dynamo-operator start`: run the operator."""

from __future__ import annotations

import argparse
import os
from importlib.metadata import version

import structlog

from dynamo_operator.app import build_manager
from dynamo_operator.cli.connection import add_connection_flags, load_config
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.logs import configure_logs
from dynamo_operator.cli.settings import add_settings_flags, load_settings
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.runtime import LeaderElection, LeaderElectionError, LeadershipLostError
from dynamo_operator.runtime.builtin_kinds import Lease
from dynamo_operator.runtime.client import (
    Client,
    ClientConfig,
    ClientError,
    ForbiddenError,
    NotFoundError,
)
from dynamo_operator.runtime.leader_elector import living_holder
from dynamo_operator.settings import LeaderElectionSettings, OperatorSettings
from informers.clock import SystemClock

FIELD_MANAGER = "dynamo-operator"

_ENABLED_FLAG = "--leader-election.enabled"
_NAMESPACE_FLAG = "--leader-election.namespace"

_log = structlog.get_logger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what `start` takes."""
    add_connection_flags(parser, namespaced=False)
    add_settings_flags(parser)
    parser.set_defaults(run=run_start, ends_on_signal=True)


async def run_start(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, then stop in order."""
    settings = load_settings(arguments, os.environ)
    configure_logs(settings.logging.level, settings.logging.format)
    config = load_config(arguments)
    settings = _in_namespace(settings, config)
    _log.info(
        "operator starts",
        version=version("dynamo-operator"),
        server=config.host,
        namespaces=settings.watch_namespaces or "all",
        webhooks=str(settings.webhooks),
    )
    async with Client.connect(config, field_manager=FIELD_MANAGER) as client:
        chosen = settings.leader_election
        election = await _election(client, chosen, config)
        if not chosen.enabled:
            await _refuse_beside_another(client, election)
        manager = build_manager(
            client, settings, leader_election=election if chosen.enabled else None
        )
        try:
            await manager.run()
        except LeadershipLostError as error:
            raise CliError(str(error)) from error
        except LeaderElectionError as error:
            raise CliError(f"{error} with {_NAMESPACE_FLAG}") from error
    return 0


def _in_namespace(settings: OperatorSettings, config: ClientConfig) -> OperatorSettings:
    """Say where the webhooks' Service and Secret are, if the settings do not."""
    if settings.server.webhook.namespace:
        return settings
    namespace = config.namespace if config.is_in_cluster else NAMESPACE
    webhook = settings.server.webhook.model_copy(update={"namespace": namespace})
    server = settings.server.model_copy(update={"webhook": webhook})
    return settings.model_copy(update={"server": server})


async def _election(
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


async def _refuse_beside_another(client: Client, election: LeaderElection) -> None:
    lease = f"lease {election.key}"
    try:
        holder = await living_holder(client, election, clock=SystemClock())
    except ForbiddenError as error:
        raise CliError(f"{lease}: cannot tell whether another operator works: {error}") from error
    if holder:
        raise CliError(
            f"{lease}: held by {holder}, another operator: stop that one, or start without "
            f"{_ENABLED_FLAG}=false and stand by"
        )
