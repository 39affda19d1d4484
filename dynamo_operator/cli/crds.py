"""`dynamo-operator crds apply`: put our CustomResourceDefinitions into a cluster."""

from __future__ import annotations

import argparse
import asyncio
import json

from dynamo_operator.cli.connection import add_connection_flags, connect
from dynamo_operator.cli.errors import CliError
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client import Client

_ESTABLISHED_SECONDS = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `crds`."""
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    apply_parser = subcommands.add_parser(
        "apply", help="create or update them", description=__doc__
    )
    add_connection_flags(apply_parser, namespaced=False)
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
    for name in names:
        await _wait_established(client, name)
    return names


async def _wait_established(client: Client, name: str) -> None:
    """Watch the CRD until it is served."""
    fields = {"metadata.name": name}
    list_watch = client.list_watch(CustomResourceDefinition, fields=fields)
    try:
        async with (
            asyncio.timeout(_ESTABLISHED_SECONDS),
            list_watch.watch(resource_version="0", timeout_seconds=60) as batches,
        ):
            async for batch in batches:
                for event in batch:
                    if event.object is not None and _is_established(event.object.data):
                        return
    except TimeoutError:
        pass
    raise CliError(f"CRD {name} was not established within {_ESTABLISHED_SECONDS:.0f} s")


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


def _is_established(data: bytes) -> bool:
    conditions = json.loads(data).get("status", {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
