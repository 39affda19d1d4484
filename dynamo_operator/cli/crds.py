"""`dynamo-operator crds`: put our CustomResourceDefinitions into a cluster, and take them out."""

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
        "apply",
        help="create or update them",
        description="Create or update our CustomResourceDefinitions, and wait for their kinds.",
    )
    apply_parser.add_argument(
        "--take-over",
        action="store_true",
        help="replace definitions of these names that do not serve our versions; only when no"
        " object of them exists",
    )
    add_connection_flags(apply_parser, namespaced=False)
    apply_parser.set_defaults(run=run_apply)

    delete_parser = subcommands.add_parser(
        "delete",
        help="delete them",
        description="Delete our CustomResourceDefinitions; nothing is deleted while an object of"
        " one of them exists, and never what serves versions of others.",
    )
    delete_parser.add_argument(
        "--with-objects",
        action="store_true",
        help="delete all Requests, Runs, Candidates and DynamoPoolRelays with them",
    )
    add_connection_flags(delete_parser, namespaced=False)
    delete_parser.set_defaults(run=run_delete)


async def run_apply(arguments: argparse.Namespace) -> int:
    """Apply all CRDs and wait until they are served."""
    async with connect(arguments) as client:
        for name, verb in (await apply_crds(client, take_over=arguments.take_over)).items():
            print(f"customresourcedefinition.apiextensions.k8s.io/{name} {verb}")
    return 0


async def run_delete(arguments: argparse.Namespace) -> int:
    """Delete our CRDs, all or none."""
    async with connect(arguments) as client:
        verbs = await delete_crds(client, with_objects=arguments.with_objects)
    for name, verb in verbs.items():
        print(f"customresourcedefinition.apiextensions.k8s.io/{name} {verb}")
    if not verbs:
        print("none of our CRDs is there")
    return 0


async def delete_crds(client: Client, *, with_objects: bool = False) -> dict[str, str]:
    """Delete our CRDs and wait until they are gone; those of others are left as they are.

    Args:
        client: an administrator's.
        with_objects: whether their objects may go with them.

    Returns:
        What became of each that is there: "deleted", or "left as it is".

    Raises:
        CliError: one of them has objects, and nothing was deleted; or one is not gone in time.
    """
    verbs: dict[str, str] = {}
    doomed: list[CustomResourceDefinition] = []
    for each in custom_resource_definitions():
        definition = CustomResourceDefinition.model_validate(each)
        found = await client.find(CustomResourceDefinition, definition.key)
        if found is None:
            continue
        if versions(found) != versions(definition):
            verbs[found.key.name] = "left as it is: it has versions of others"
            continue
        if not with_objects:
            await _refuse_used(client, found, way_out="do it with --with-objects")
        doomed.append(found)
    for found in doomed:
        await _delete(client, found)
        verbs[found.key.name] = "deleted"
    return verbs


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
        if found is None or versions(definition) <= served_versions(found):
            continue
        if not take_over:
            problem, ways_out = foreign_definition(definition, found)
            raise CliError(f"{problem}; it is left as it is: {ways_out}")
        await _refuse_used(client, found)
        replaced.append(found)
    for found in replaced:
        await _delete(client, found)
    verbs = {}
    for definition in definitions:
        found = present[definition.key.name]
        if found is not None and found not in replaced and versions(definition) < versions(found):
            verbs[definition.key.name] = "left as it is: it serves our version beside others"
            continue
        await client.apply(definition, force=True)
        verbs[definition.key.name] = "applied"
    for name in verbs:
        await wait_established(client, name)
    return verbs


def versions(definition: CustomResourceDefinition) -> set[str]:
    """Return the versions that a CRD has."""
    return {version["name"] for version in definition.spec["versions"]}


def served_versions(definition: CustomResourceDefinition) -> set[str]:
    """Return the versions that a CRD serves."""
    return {version["name"] for version in definition.spec["versions"] if version.get("served")}


def foreign_definition(
    definition: CustomResourceDefinition, found: CustomResourceDefinition
) -> tuple[str, str]:
    """Say why a CRD of our name cannot be used, and the ways out."""
    ours = ", ".join(sorted(versions(definition)))
    theirs = ", ".join(sorted(served_versions(found))) or "nothing"
    return (
        f"CRD {found.key.name} serves {theirs}, not {ours}",
        "install with dgdrV1Beta2.enabled=false for DynamoPoolRelays only, or search in a cluster"
        " without that CRD and deploy the Candidates into this one, or replace"
        " it with --take-over when no object of it exists",
    )


async def _refuse_used(
    client: Client, found: CustomResourceDefinition, *, way_out: str = "do without --take-over"
) -> None:
    """Refuse to delete a CRD whose objects would go with it."""
    version = min(served_versions(found), default="")  # an object is there in every version
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
            f" lost: delete them first, or {way_out}"
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
