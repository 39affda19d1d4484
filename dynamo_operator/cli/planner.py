"""`dynamo-operator planner`: the environment that plays the planner image locally."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from dynamo_operator.cli.errors import FAILURE, CliError
from dynamo_operator.planner.environment import (
    PlannerEnvironment,
    PlannerError,
    PlannerMissingError,
    describe,
    status,
)
from dynamo_operator.planner.install import install
from dynamo_operator.planner.programs import Programs


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `planner`."""
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    for name, run, summary in (
        ("install", run_install, "make the environment, once for each version"),
        ("status", run_status, "say what is installed where, and which models it knows"),
    ):
        description = f"{summary[0].upper()}{summary[1:]}."
        subcommand = subcommands.add_parser(name, help=summary, description=description)
        subcommand.add_argument("--python", metavar="PATH", help="Python 3.11, 3.12 or 3.13")
        subcommand.set_defaults(run=run)


async def run_install(arguments: argparse.Namespace) -> int:
    """Install what is missing and say where it is."""
    planner = await install_planner(arguments.python)
    print(f"planner environment: {planner.path} ({listed_versions(planner)})")
    return 0


async def run_status(arguments: argparse.Namespace) -> int:
    """Say what is installed, and list the models that need no hub; fails if nothing is there."""
    try:
        facts = status(os.environ, python=arguments.python)
        print("\n".join(f"{label}: {text}" for label, text in facts.items()))
        planner = describe(os.environ, python=arguments.python)
    except PlannerMissingError:
        return FAILURE  # it is among the facts
    except PlannerError as error:
        raise CliError(str(error)) from None
    hub = planner.hf_home / "hub"
    print("\n  ".join([f"in {hub}, searched without the hub:", *planner.models]))
    return 0


async def install_planner(python: str | None = None) -> PlannerEnvironment:
    """Return the planner environment, made now if it is not there.

    Raises:
        CliError: it cannot be made.
    """

    def report(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    programs = Programs()
    try:
        return await asyncio.to_thread(
            install, os.environ, python=python, report=report, programs=programs
        )
    except PlannerError as error:
        raise CliError(str(error)) from None
    except asyncio.CancelledError:
        programs.stop()
        raise


def listed_versions(planner: PlannerEnvironment) -> str:
    """Return the versions of what matters in it, in a line."""
    return ", ".join(f"{name} {version}" for name, version in planner.versions.items())
