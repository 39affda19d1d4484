"""`dynamo-operator request`: Requests from a first file to their state in the cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from dynamo_operator.admission.defaulting import BUDGET_FIELD, SKU_FIELD, complete, missing_hardware
from dynamo_operator.admission.denials import Denial
from dynamo_operator.admission.reading import read_spec
from dynamo_operator.api.sku_catalog import SKUS
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.cli.arguments import gpus, model
from dynamo_operator.cli.connection import add_connection_flags, connect
from dynamo_operator.cli.effective_input import EffectiveInput, explain_run, explain_spec
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.cli.objects import add_list_flags, objects_shown, refusal
from dynamo_operator.cli.rendering.effective_input import effective_input_text
from dynamo_operator.cli.rendering.output import DOCUMENTS, add_output_flag, reference
from dynamo_operator.cli.request_sample import request_sample
from dynamo_operator.cli.searches import find_search
from dynamo_operator.cli.submission import read_requests, submit
from dynamo_operator.runtime.client.errors import ApiError

_TYPE = DynamoGraphDeploymentRequest.resource_type


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `request`."""
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")

    init = subcommands.add_parser(
        "init",
        help="print a commented Request for a model",
        description="Print a Request for a model, with all that it may say in comments.",
    )
    init.add_argument("model", type=model, metavar="MODEL", help="as on the Hugging Face hub")
    init.add_argument("--name", default="", help="of the Request; default: made from the model's")
    _add_hardware_flags(init, "default: left to discovery")
    init.set_defaults(run=run_init)

    validate = subcommands.add_parser(
        "validate",
        help="check Requests of a file without a cluster",
        description="Check Requests as a cluster's API server and our webhooks would, without one.",
    )
    _add_file_flag(validate)
    _add_hardware_flags(validate, "what discovery would find; default: %(default)s", assumed=True)
    validate.set_defaults(run=run_validate)

    explain = subcommands.add_parser(
        "explain",
        help="show what is searched with, and why each value is what it is",
        description="Show the effective input of a search, value by value, and where each comes"
        " from: the static underlay, a typed field, derived, an override, or the operator.",
    )
    explain.add_argument(
        "name", nargs="?", metavar="NAME", help="a Request or Run of the cluster; else -f"
    )
    _add_file_flag(explain, required=False)
    _add_hardware_flags(explain, "of -f: what discovery would find; default: %(default)s", True)
    add_output_flag(explain, DOCUMENTS)
    add_connection_flags(explain)
    explain.set_defaults(run=run_explain)

    submit_parser = subcommands.add_parser(
        "submit",
        help="create or replace Requests from a file, keeping nulls inside inputOverrides",
        description="Create or replace Requests as written, nulls included.",
    )
    _add_file_flag(submit_parser)
    submit_parser.add_argument(
        "--dry-run", action="store_true", help="have the server check them and store nothing"
    )
    add_connection_flags(submit_parser)
    submit_parser.set_defaults(run=run_submit)

    get = subcommands.add_parser(
        "get", help="list Requests, or show one", description="List Requests, or show one."
    )
    get.add_argument("name", nargs="?", metavar="NAME", help="only that one")
    add_list_flags(get)
    add_output_flag(get)
    add_connection_flags(get)
    get.set_defaults(run=run_get)


def run_init(arguments: argparse.Namespace) -> int:
    """Print the sample."""
    sample = request_sample(
        arguments.model, name=arguments.name, sku=arguments.sku, budget=arguments.budget
    )
    print(sample, end="")
    return 0


async def run_validate(arguments: argparse.Namespace) -> int:
    """Judge every Request of a file, and tell all that is wrong."""
    is_refused = False
    for manifest, completed in await _judged(arguments):
        name = reference(_TYPE, manifest["metadata"]["name"])
        if isinstance(completed, str):
            is_refused = True
            print(f"{name} is refused: {completed}")
        else:
            print(f"{name} is valid")
    return USAGE if is_refused else 0


async def run_explain(arguments: argparse.Namespace) -> int:
    """Show the effective input of a file's Request, or of one in the cluster."""
    if (arguments.name is None) == (arguments.filename is None):
        raise CliError("explain: name a Request or Run, or a file with -f", exit_code=USAGE)
    explained = (
        await _explain_object(arguments) if arguments.name else await _explain_file(arguments)
    )
    print(effective_input_text(explained, arguments.output), end="")
    return 0


async def run_submit(arguments: argparse.Namespace) -> int:
    """Submit every Request of a file; nothing is sent unless all of them are Requests of ours."""
    manifests = read_requests(arguments.filename)
    async with connect(arguments) as connected:
        client = connected.with_dry_run() if arguments.dry_run else connected
        client = client.with_warning_observer(lambda text: _warn(f"warning: {text}"))
        for manifest in manifests:
            try:
                key, verb = await submit(client, manifest, namespace=arguments.namespace)
            except ApiError as error:
                raise CliError(refusal(error, _TYPE, name=manifest["metadata"]["name"])) from error
            print(f"{reference(_TYPE, key.name)} {verb}{' (dry run)' * arguments.dry_run}")
    return 0


async def run_get(arguments: argparse.Namespace) -> int:
    """Show Requests."""
    async with connect(arguments) as client:
        print(await objects_shown(client, _TYPE, arguments, name=arguments.name), end="")
    return 0


async def _explain_object(arguments: argparse.Namespace) -> EffectiveInput:
    async with connect(arguments) as client:
        search = await find_search(client, arguments.namespace, arguments.name)
    request, run = search.request, search.run
    if run is not None and (request is None or run.request_generation == request.generation):
        return explain_run(run)
    assert request is not None, "a search has one of them"
    completed = complete(request.spec)
    if missing := missing_hardware(completed):
        raise CliError(
            f"{_TYPE.kind} {request.key.name}: {' and '.join(missing)}: not known before there is a"
            " Run; set them, or explain the file with -f"
        )
    return explain_spec(completed)


async def _explain_file(arguments: argparse.Namespace) -> EffectiveInput:
    first, *more = await _judged(arguments)
    if more:
        raise CliError(f"{arguments.filename}: holds more than one Request", exit_code=USAGE)
    manifest, completed = first
    if isinstance(completed, str):
        raise CliError(f"{manifest['metadata']['name']}: {completed}", exit_code=USAGE)
    return explain_spec(read_spec(completed["spec"]), written=manifest["spec"])


async def _judged(
    arguments: argparse.Namespace,
) -> list[tuple[dict[str, Any], dict[str, Any] | str]]:
    """Return each Request of the file, and what it is completed to or why it is refused."""
    # It brings a whole API server, which the other commands do not need.
    from dynamo_operator.cli.offline_admission import AssumedGpus, offline_admission

    assumed = AssumedGpus(arguments.sku, arguments.budget)
    judged: list[tuple[dict[str, Any], dict[str, Any] | str]] = []
    manifests = read_requests(arguments.filename)
    async with offline_admission(assumed) as admission:
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            judgement = await admission.judge(manifest)
            for warning in judgement.warnings:
                _warn(f"warning: {name}: {warning}")
            for note in _assumptions(manifest, assumed.sku, assumed.count):
                _warn(f"note: {name}: {note}")
            judged.append((manifest, judgement.completed or judgement.refusal))
    return judged


def _assumptions(manifest: Mapping[str, Any], sku: str, count: int) -> Iterator[str]:
    try:
        missing = missing_hardware(read_spec(manifest["spec"]))
    except Denial:  # which the judgement says
        return
    flags = {SKU_FIELD: f"--sku {sku}", BUDGET_FIELD: f"--budget {count}"}
    if missing:
        assumed = " ".join(flags[field] for field in missing)
        yield f"{' and '.join(missing)}: discovered in a cluster; here taken to be {assumed}"


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def _add_file_flag(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "-f", "--filename", metavar="FILE", required=required, help="YAML or JSON; - for stdin"
    )


def _add_hardware_flags(
    parser: argparse.ArgumentParser, meaning: str, assumed: bool = False
) -> None:
    parser.add_argument(
        "--sku",
        choices=SKUS,
        metavar="SKU",
        default="h200_sxm" if assumed else None,
        help=f"GPU product; {meaning}",
    )
    parser.add_argument(
        "--budget",
        type=gpus,
        metavar="GPUS",
        default=8 if assumed else None,
        help=f"number of GPUs; {meaning}",
    )
