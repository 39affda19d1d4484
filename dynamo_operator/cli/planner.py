"""`dynamo-operator planner install`: the environment that plays the planner image locally."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from dynamo_operator.cli.errors import CliError
from dynamo_operator.planner.environment import PlannerError
from dynamo_operator.planner.install import install


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `planner`."""
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    install_parser = subcommands.add_parser(
        "install", help="make the environment, once for each version", description=__doc__
    )
    install_parser.add_argument("--python", metavar="PATH", help="Python 3.11, 3.12 or 3.13")
    install_parser.set_defaults(run=run_install)


async def run_install(arguments: argparse.Namespace) -> int:
    """Install what is missing and say where it is."""
    try:
        planner = await asyncio.to_thread(
            install,
            os.environ,
            python=arguments.python,
            report=lambda line: print(line, file=sys.stderr, flush=True),
        )
    except PlannerError as error:
        raise CliError(str(error)) from None
    versions = ", ".join(f"{name} {version}" for name, version in planner.versions.items())
    print(f"planner environment: {planner.path} ({versions})")
    return 0
