"""`dynamo-operator start`: run the operator."""

from __future__ import annotations

import argparse
import errno
import os
from importlib.metadata import version

import structlog

from dynamo_operator.app import build_manager
from dynamo_operator.cli.connection import add_connection_flags, load_config
from dynamo_operator.cli.election import find_election, refuse_beside_another
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.logs import configure_logs
from dynamo_operator.cli.once import add_once_flags, reconcile_object, wanted_object
from dynamo_operator.cli.operator_errors import operator_errors
from dynamo_operator.cli.preflight import check_kinds, check_rights
from dynamo_operator.cli.settings import add_settings_flags, load_settings
from dynamo_operator.generate.layout import NAMESPACE
from dynamo_operator.runtime import Manager
from dynamo_operator.runtime.client import Client, ClientConfig
from dynamo_operator.settings import OperatorSettings

FIELD_MANAGER = "dynamo-operator"

_ENABLED_FLAG = "--leader-election.enabled"

_log = structlog.get_logger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what `start` takes."""
    parser.allow_abbrev = False
    add_connection_flags(parser, namespaced=False)
    add_once_flags(parser)
    add_settings_flags(parser)
    parser.set_defaults(run=run_start, ends_on_signal=True)


async def run_start(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, then stop in order; with --once reconcile one object."""
    settings = load_settings(arguments, os.environ)
    wanted = wanted_object(arguments)
    arguments.ends_on_signal = wanted is None  # one object is not done before its end
    level = "warning" if wanted and settings.logging.level == "info" else settings.logging.level
    configure_logs(level, settings.logging.format)
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
        await check_kinds(client, settings, host=config.host)
        election = await find_election(client, settings.leader_election, config)
        if wanted is not None:
            return await reconcile_object(client, settings, election, wanted)
        elects = settings.leader_election.enabled
        await check_rights(client, settings, election if elects else None)
        if elects:
            await _run(build_manager(client, settings, leader_election=election), settings)
        else:
            stand_by = f"start without {_ENABLED_FLAG}=false and stand by"
            await refuse_beside_another(client, election, stand_by)
            await _run(build_manager(client, settings), settings)
    return 0


async def _run(manager: Manager, settings: OperatorSettings) -> None:
    try:
        with operator_errors():
            await manager.run()
    except OSError as error:
        flag = _flags_of_addresses(settings).get(str(error.filename))
        if flag is None:
            raise
        choose = "choose another" if error.errno == errno.EADDRINUSE else "see"
        raise CliError(f"{error.filename}: {error.strerror}; {choose} with {flag}") from error


def _flags_of_addresses(settings: OperatorSettings) -> dict[str, str]:
    """Return by what each address that is listened on is set."""
    server = settings.server
    addresses = {
        server.metrics.address: "--server.metrics.port",
        server.health_probe.address: "--server.health-probe.port",
        server.webhook.address: "--server.webhook.port",
    }
    return {address: flag for address, flag in addresses.items() if address is not None}


def _in_namespace(settings: OperatorSettings, config: ClientConfig) -> OperatorSettings:
    """Say where the webhooks' Service and Secret are, if the settings do not."""
    if settings.server.webhook.namespace:
        return settings
    namespace = config.namespace if config.is_in_cluster else NAMESPACE
    webhook = settings.server.webhook.model_copy(update={"namespace": namespace})
    server = settings.server.model_copy(update={"webhook": webhook})
    return settings.model_copy(update={"server": server})
