"""`dynamo-operator run`: what Runs there are, how one goes on, what it logs, and its end."""

from __future__ import annotations

import argparse
import codecs
import sys

from dynamo_operator.api.labels import REQUEST_UID_LABEL, RUN_UID_LABEL
from dynamo_operator.api.planner_contract import PLANNER_CONTAINER
from dynamo_operator.api.publisher_contract import PUBLISHER_CONTAINER
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.cli.arguments import count, seconds
from dynamo_operator.cli.connection import add_connection_flags, connect
from dynamo_operator.cli.errors import FAILURE, CliError
from dynamo_operator.cli.objects import add_list_flags, objects_shown, refusal
from dynamo_operator.cli.rendering.candidates import candidate_table
from dynamo_operator.cli.rendering.output import OutputFormat, add_output_flag, reference
from dynamo_operator.cli.searches import Search, find_run, find_search
from dynamo_operator.cli.watching import watch_search
from dynamo_operator.runtime.builtin_kinds import Pod
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError
from dynamo_operator.runtime.client.paths import object_path
from informers.objects import ObjectKey

_TYPE = DynamoGraphDeploymentRun.resource_type
_NAME_HELP = "a Run, or a Request, of which it is the current one"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `run`."""
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")

    listing = subcommands.add_parser("list", help="list Runs", description="List Runs.")
    listing.add_argument("request", nargs="?", metavar="REQUEST", help="only the Runs of that one")
    add_list_flags(listing)
    add_output_flag(listing)
    add_connection_flags(listing)
    listing.set_defaults(run=run_list)

    watch = subcommands.add_parser(
        "watch",
        help="show how a search goes on, until it is over",
        description="Show phase, rounds, what was evaluated, the best score over time, and what is"
        " wrong with the Pods. Ends with exit code 0 when the search succeeded, else 1.",
    )
    watch.add_argument("name", metavar="NAME", help=_NAME_HELP)
    watch.add_argument(
        "--interval",
        type=seconds,
        default=1.0,
        metavar="SECONDS",
        help="between two looks; default: %(default)g",
    )
    add_output_flag(watch, (OutputFormat.TABLE, OutputFormat.JSON))
    add_connection_flags(watch)
    watch.set_defaults(run=run_watch)

    logs = subcommands.add_parser(
        "logs", help="print what a search logs", description="Print the log of a Run's Pod."
    )
    logs.add_argument("name", metavar="NAME", help=_NAME_HELP)
    logs.add_argument(
        "-c",
        "--container",
        choices=(PLANNER_CONTAINER, PUBLISHER_CONTAINER),
        default=PLANNER_CONTAINER,
        help="default: %(default)s",
    )
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it is written")
    logs.add_argument("--tail", type=count, metavar="LINES", help="only the last ones")
    add_connection_flags(logs)
    logs.set_defaults(run=run_logs)

    cancel = subcommands.add_parser(
        "cancel",
        help="end a search",
        description="End a search by deleting its Run, and with it its Candidates. Its Request"
        " makes no other until spec.rerun.reason changes.",
    )
    cancel.add_argument("name", metavar="NAME", help=_NAME_HELP)
    cancel.add_argument(
        "--dry-run", action="store_true", help="have the server check it and delete nothing"
    )
    add_connection_flags(cancel)
    cancel.set_defaults(run=run_cancel)


async def run_list(arguments: argparse.Namespace) -> int:
    """List Runs."""
    async with connect(arguments) as client:
        if arguments.request:
            arguments.selector = await _selector_of_request(client, arguments)
        print(await objects_shown(client, _TYPE, arguments), end="")
    return 0


async def run_watch(arguments: argparse.Namespace) -> int:
    """Show a search until it is over."""
    async with connect(arguments) as client:
        search = await find_search(client, arguments.namespace, arguments.name)
        if search.run is not None and search.run.key.name == arguments.name:
            search = Search(None, search.run)
        state = await watch_search(
            client, search, every_seconds=arguments.interval, output=arguments.output
        )
    if arguments.output == OutputFormat.TABLE and not sys.stdout.isatty():
        print(state.failure or candidate_table(state.candidates))
    return FAILURE if state.failure else 0


async def run_logs(arguments: argparse.Namespace) -> int:
    """Print the log of the newest Pod."""
    async with connect(arguments) as client:
        run = await find_run(client, arguments.namespace, arguments.name)
        labels = {RUN_UID_LABEL: run.uid}
        pods = await client.list(Pod, namespace=run.key.namespace, labels=labels)
        if not pods:
            why = run.status.execution_message or run.status.phase or "Pending"
            raise CliError(f"{_TYPE.kind} {run.key.name}: has no Pod: {why}")
        pod = max(pods, key=lambda each: each.metadata.creation_timestamp or "")
        query = [("container", arguments.container)]
        query += [("follow", "true")] if arguments.follow else []
        query += [("tailLines", str(arguments.tail))] if arguments.tail else []
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        path = object_path(Pod.resource_type, pod.key, "log")
        try:
            async with client.stream("GET", path, query=query) as chunks:
                async for chunk in chunks:
                    print(decoder.decode(chunk), end="", flush=True)
        except ApiError as error:
            raise CliError(f"Pod {pod.key.name}: {' '.join(error.message.split())}") from error
    return 0


async def run_cancel(arguments: argparse.Namespace) -> int:
    """Delete a Run that is not over."""
    async with connect(arguments) as client:
        run = await find_run(client, arguments.namespace, arguments.name)
        if run.is_terminal:
            raise CliError(
                f"{_TYPE.kind} {run.key.name}: is over ({run.status.phase}), nothing to cancel;"
                f" `kubectl delete {_TYPE.kind.lower()} {run.key.name}` deletes its Candidates, too"
            )
        try:
            await client.delete(
                DynamoGraphDeploymentRun, run.key, uid=run.uid, dry_run=arguments.dry_run
            )
        except ApiError as error:
            raise CliError(refusal(error, _TYPE, name=run.key.name)) from error
    print(f"{reference(_TYPE, run.key.name)} cancelled{' (dry run)' * arguments.dry_run}")
    return 0


async def _selector_of_request(client: Client, arguments: argparse.Namespace) -> str:
    kind = DynamoGraphDeploymentRequest
    key = ObjectKey(arguments.namespace or client.default_namespace, arguments.request)
    try:
        request = await client.get(kind, key)
    except ApiError as error:
        raise CliError(refusal(error, kind.resource_type, name=key.name)) from error
    asked = [arguments.selector] if arguments.selector else []
    return ",".join([f"{REQUEST_UID_LABEL}={request.uid}", *asked])
