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
from informers.objects import ResourceType

_ESTABLISHED_SECONDS = 30.0
_LOOK_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `crds`."""
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    apply_parser = subcommands.add_parser(
        "apply", help="create or update them", description=__doc__
    )
    apply_parser.add_argument(
        "--take-over",
        action="store_true",
        help="replace definitions of these names that do not serve our versions; only when no"
        " object of them exists",
    )
    add_connection_flags(apply_parser, namespaced=False)
    apply_parser.set_defaults(run=run_apply)


async def run_apply(arguments: argparse.Namespace) -> int:
    """Apply all CRDs and wait until they are served."""
    async with connect(arguments) as client:
        for name, verb in (await apply_crds(client, take_over=arguments.take_over)).items():
            print(f"customresourcedefinition.apiextensions.k8s.io/{name} {verb}")
    return 0


async def apply_crds(client: Client, *, take_over: bool = False) -> dict[str, str]:
    """Apply our CRDs by server-side apply, and wait until they are established.

    One that serves our version beside others is somebody else's, and used as it is. Nothing is
    changed unless all of them can be served.

    Args:
        client: an administrator's.
        take_over: delete and replace a CRD that does not serve our version; only when no object of
            it exists.

    Returns:
        What became of each: "applied", or "left as it is".

    Raises:
        CliError: a CRD of that name serves other versions only, or one is not established in time.
    """
    definitions = [
        CustomResourceDefinition.model_validate(each) for each in custom_resource_definitions()
    ]
    present = {each.key.name: await client.find(type(each), each.key) for each in definitions}
    replaced = []
    for definition in definitions:
        found = present[definition.key.name]
        if found is None or _versions(definition) <= _served(found):
            continue
        if not take_over:
            raise CliError(_foreign(definition, found))
        await _refuse_used(client, found)
        replaced.append(found)
    for found in replaced:
        await _delete(client, found)
    verbs = {}
    for definition in definitions:
        found = present[definition.key.name]
        if found is not None and found not in replaced and _versions(definition) < _versions(found):
            verbs[definition.key.name] = "left as it is: it serves our version beside others"
            continue
        await client.apply(definition, force=True)
        verbs[definition.key.name] = "applied"
    for name in verbs:
        await wait_established(client, name)
    return verbs


def _versions(definition: CustomResourceDefinition) -> set[str]:
    return {version["name"] for version in definition.spec["versions"]}


def _served(definition: CustomResourceDefinition) -> set[str]:
    return {version["name"] for version in definition.spec["versions"] if version.get("served")}


def _foreign(definition: CustomResourceDefinition, found: CustomResourceDefinition) -> str:
    ours, theirs = (", ".join(sorted(names)) for names in (_versions(definition), _served(found)))
    return (
        f"CRD {found.key.name} serves {theirs or 'nothing'}, not {ours}; it is left as it is:"
        " search in a cluster without that CRD and deploy the Candidates into this one, or replace"
        " it with --take-over when no object of it exists"
    )


async def _refuse_used(client: Client, found: CustomResourceDefinition) -> None:
    """Refuse to delete a CRD whose objects would go with it."""
    version = min(_served(found), default="")  # an object is there in every version
    if not version:
        raise CliError(f"CRD {found.key.name} serves no version: its objects cannot be seen")
    names, is_namespaced = found.spec["names"], found.spec["scope"] == "Namespaced"
    kind = ResourceType(
        found.spec["group"], version, names["kind"], names["plural"], namespaced=is_namespaced
    )
    if some := await client.list(kind):
        metadata = some[0]["metadata"]
        where = f"{metadata['namespace']}/" if is_namespaced else ""
        raise CliError(
            f"CRD {found.key.name} has objects, e.g. {where}{metadata['name']}, which would be"
            " lost: delete them first, or do without --take-over"
        )


async def _delete(client: Client, found: CustomResourceDefinition) -> None:
    await client.delete(
        CustomResourceDefinition,
        found.key,
        uid=found.uid,
        resource_version=found.resource_version,
    )
    for _ in range(int(_ESTABLISHED_SECONDS / _LOOK_SECONDS)):
        if await client.find(CustomResourceDefinition, found.key) is None:
            return
        await asyncio.sleep(_LOOK_SECONDS)
    raise CliError(
        f"CRD {found.key.name} was not deleted within {_ESTABLISHED_SECONDS:.0f} s;"
        " its conditions say why"
    )


async def wait_established(client: Client, name: str) -> None:
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


def _is_established(data: bytes) -> bool:
    conditions = json.loads(data).get("status", {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
