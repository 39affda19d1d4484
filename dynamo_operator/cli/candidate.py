"""`dynamo-operator candidate`: what a search has found, compared, and deployed."""

from __future__ import annotations

import argparse
import json

from dynamo_operator.api.v1beta1 import DynamoGraphDeployment
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.connection import add_connection_flags, connect
from dynamo_operator.cli.graph_manifest import check_graph, default_name, deploy, graph_manifest
from dynamo_operator.cli.objects import add_list_flags, objects_shown
from dynamo_operator.cli.rendering.candidates import (
    candidate_differences,
    candidate_facts,
    candidate_table,
    differences_table,
    facts_table,
)
from dynamo_operator.cli.rendering.output import (
    DOCUMENTS,
    OutputFormat,
    add_output_flag,
    document_text,
    objects_text,
)
from dynamo_operator.cli.searches import find_candidate, find_run, ranked_candidates

_GRAPH = DynamoGraphDeployment.resource_type
_TYPE = DynamoGraphDeploymentCandidate.resource_type
_NAME_HELP = "a Candidate, or SEARCH/RANK: of a Run or Request, 1 is the best"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `candidate`."""
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")

    listing = subcommands.add_parser(
        "list",
        help="list Candidates; those of a search best first",
        description="List Candidates; those of a search best first.",
    )
    listing.add_argument(
        "search", nargs="?", metavar="SEARCH", help="a Run, or a Request: its current Run's"
    )
    add_list_flags(listing)
    add_output_flag(listing)
    add_connection_flags(listing)
    listing.set_defaults(run=run_list)

    show = subcommands.add_parser(
        "show",
        help="show what was measured of one, and how it is built",
        description="Show what was measured of a Candidate, and how it is built.",
    )
    show.add_argument("candidate", metavar="NAME", help=_NAME_HELP)
    add_output_flag(show, (*DOCUMENTS, OutputFormat.NAME))
    add_connection_flags(show)
    show.set_defaults(run=run_show)

    diff = subcommands.add_parser(
        "diff",
        help="show in what two of them differ",
        description="Show in what two Candidates differ: what was measured, how they are built,"
        " and the spec that would be deployed.",
    )
    diff.add_argument("candidate", metavar="NAME", help=_NAME_HELP)
    diff.add_argument("other", metavar="OTHER", help="the one to compare with")
    add_output_flag(diff, DOCUMENTS)
    add_connection_flags(diff)
    diff.set_defaults(run=run_diff)

    deploy_parser = subcommands.add_parser(
        "deploy",
        help="create the DynamoGraphDeployment of a Candidate",
        description="Create the DynamoGraphDeployment that a Candidate describes.",
    )
    deploy_parser.add_argument("candidate", metavar="NAME", help=_NAME_HELP)
    deploy_parser.add_argument(
        "--name", metavar="GRAPH", help="of the deployment; default: one that fits its Pods' names"
    )
    deploy_parser.add_argument(
        "--from-context",
        metavar="CONTEXT",
        help="where the Candidate is, if not in the cluster that it is deployed to",
    )
    deploy_parser.add_argument(
        "--dry-run", action="store_true", help="print the deployment as JSON and create nothing"
    )
    add_connection_flags(deploy_parser)
    deploy_parser.set_defaults(run=run_deploy)


async def run_list(arguments: argparse.Namespace) -> int:
    """List Candidates."""
    async with connect(arguments) as client:
        if not arguments.search:
            print(await objects_shown(client, _TYPE, arguments), end="")
            return 0
        run = await find_run(client, arguments.namespace, arguments.search)
        found = await ranked_candidates(client, run)
    is_wide = arguments.output == OutputFormat.WIDE
    if arguments.output == OutputFormat.TABLE or is_wide:
        print(candidate_table(found, with_names=is_wide))
    else:
        print(objects_text(_TYPE, [each.to_dict() for each in found], arguments.output), end="")
    return 0


async def run_show(arguments: argparse.Namespace) -> int:
    """Show one Candidate."""
    found = await _find(arguments, arguments.candidate)
    if arguments.output == OutputFormat.TABLE:
        print(facts_table(candidate_facts(found)))
    else:
        shown = objects_text(_TYPE, [found.to_dict()], arguments.output, single=True)
        print(shown, end="")
    return 0


async def run_diff(arguments: argparse.Namespace) -> int:
    """Show in what two Candidates differ."""
    one = await _find(arguments, arguments.candidate)
    other = await _find(arguments, arguments.other)
    differences = candidate_differences(one, other)
    if arguments.output == OutputFormat.TABLE:
        print(differences_table(differences, names=(arguments.candidate, arguments.other)))
    else:
        listed = [each.to_dict() for each in differences]
        print(document_text(listed, arguments.output), end="")
    return 0


async def run_deploy(arguments: argparse.Namespace) -> int:
    """Create the deployment, or say why it could never run before anything is written."""
    candidate = await _find(arguments, arguments.candidate, context=arguments.from_context)
    name = arguments.name or default_name(candidate)
    manifest = graph_manifest(candidate, name=name)
    check_graph(manifest)
    if arguments.dry_run:
        print(json.dumps(manifest, indent=2))
        return 0
    async with connect(arguments) as client:
        await deploy(client, manifest, namespace=arguments.namespace)
    print(f"{_GRAPH.plural}.{_GRAPH.group}/{name} created")
    return 0


async def _find(
    arguments: argparse.Namespace, name: str, *, context: str | None = None
) -> DynamoGraphDeploymentCandidate:
    source = argparse.Namespace(**vars(arguments))
    source.context = context or arguments.context
    async with connect(source) as client:
        return await find_candidate(client, arguments.namespace, name)
