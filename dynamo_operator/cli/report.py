"""`dynamo-operator report`: a search as one HTML page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dynamo_operator.aisimulate.document import dump_yaml
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.connection import add_connection_flags, connect
from dynamo_operator.cli.effective_input import explain_run
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.graph_manifest import default_name, graph_manifest
from dynamo_operator.cli.rendering.page import Report, report_page
from dynamo_operator.cli.searches import find_run, ranked_candidates


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what `report` takes."""
    parser.description = (
        "Write a search as one HTML page: its Candidates, charts of score against GPUs and latency"
        " with their frontier, the effective input, and the manifest of the best deployment."
    )
    parser.add_argument(
        "name", metavar="NAME", help="a Run, or a Request, of which it is the current one"
    )
    parser.add_argument(
        "--file",
        metavar="FILE",
        help="where to write it, - for standard output; default: the Run's name with .html",
    )
    add_connection_flags(parser)
    parser.set_defaults(run=run_report)


async def run_report(arguments: argparse.Namespace) -> int:
    """Write the page, and say where."""
    async with connect(arguments) as client:
        run = await find_run(client, arguments.namespace, arguments.name)
        candidates = await ranked_candidates(client, run)
    manifest = _manifest(candidates[0]) if candidates else ""
    page = report_page(Report(run, candidates, explain_run(run), manifest))
    if arguments.file == "-":
        sys.stdout.write(page)
    else:
        print(_written(page, Path(arguments.file or f"{run.key.name}.html")))
    return 0


def _manifest(candidate: DynamoGraphDeploymentCandidate) -> str:
    try:
        return dump_yaml(graph_manifest(candidate, name=default_name(candidate)))
    except CliError as error:
        return f"# {error}\n"


def _written(page: str, path: Path) -> Path:
    path.write_text(page, encoding="utf-8")
    return path
