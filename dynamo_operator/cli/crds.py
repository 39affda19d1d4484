"""`dynamo-operator crds apply`: put our CustomResourceDefinitions into a cluster."""

from __future__ import annotations

import argparse
import asyncio

from dynamo_operator.cli.connection import add_connection_flags, connect
from dynamo_operator.cli.errors import CliError
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client import Client
from informers.objects import ObjectKey

_ESTABLISHED_SECONDS = 30.0
_POLL_SECONDS = 0.1


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `crds` and its subcommands."""
    parser = commands.add_parser("crds", help="install our CustomResourceDefinitions")
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    apply_parser = subcommands.add_parser("apply", help="create or update them", description=__doc__)
    add_connection_flags(apply_parser)
    apply_parser.set_defaults(run=run_apply)


async def run_apply(arguments: argparse.Namespace) -> int:
    """Apply all CRDs and wait until they are served."""
    async with connect(arguments) as client:
        for name in await apply_crds(client):
            print(f"customresourcedefinition.apiextensions.k8s.io/{name} applied")
    return 0


async def apply_crds(client: Client) -> list[str]:
    """Apply our CRDs by server-side apply, wait until they are established, return their names.

    Raises:
        CliError: a CRD of that name stores other versions and is not overwritten, or one is not
            established in time.
    """
    definitions = [
        CustomResourceDefinition.model_validate(each) for each in custom_resource_definitions()
    ]
    for definition in definitions:
        await _refuse_foreign(client, definition)
    for definition in definitions:
        await client.apply(definition, force=True)
    names = [definition.key.name for definition in definitions]
    try:
        async with asyncio.timeout(_ESTABLISHED_SECONDS):
            for name in names:
                while not await _is_established(client, name):
                    await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise CliError(f"CRD {name} was not established within {_ESTABLISHED_SECONDS:.0f} s") from None
    return names


async def _refuse_foreign(client: Client, definition: CustomResourceDefinition) -> None:
    found = await client.find(CustomResourceDefinition, definition.key)
    if found is None:
        return
    ours = {version["name"] for version in definition.spec["versions"]}
    foreign = set(found.status.get("storedVersions") or ()) - ours
    if foreign:
        raise CliError(
            f"CRD {definition.key.name} exists with stored versions {', '.join(sorted(foreign))},"
            " which this operator does not serve; it is left as it is: search in a cluster without"
            " that CRD and deploy the Candidates into this one"
        )


async def _is_established(client: Client, name: str) -> bool:
    found = await client.find(CustomResourceDefinition, ObjectKey("", name))
    conditions = (found.status.get("conditions") or ()) if found else ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
