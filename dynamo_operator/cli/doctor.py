"""`dynamo-operator doctor`: what is wrong with an installation, and how to mend it."""

from __future__ import annotations

import argparse
import os
import sys

from dynamo_operator.cli.connection import add_connection_flags, connect
from dynamo_operator.cli.diagnosis.examination import CHECKS, examine
from dynamo_operator.cli.diagnosis.findings import Severity
from dynamo_operator.cli.errors import FAILURE
from dynamo_operator.cli.rendering.diagnosis import finding_lines, summary
from dynamo_operator.cli.rendering.output import (
    DOCUMENTS,
    OutputFormat,
    add_output_flag,
    document_text,
)
from dynamo_operator.cli.rendering.terminal import Terminal
from informers.clock import SystemClock

_EPILOG = "Ends with exit code 1 when there is a problem; what only warns is none."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what `doctor` takes."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--operator-namespace",
        metavar="NAMESPACE",
        help="where the operator is; default: wherever one is found",
    )
    parser.add_argument(
        "--only",
        type=_checks,
        default=(),
        metavar="CHECKS",
        help=f"some of {','.join(CHECKS)}; default: all",
    )
    add_output_flag(parser, DOCUMENTS)
    add_connection_flags(parser)
    parser.set_defaults(run=run_doctor)


async def run_doctor(arguments: argparse.Namespace) -> int:
    """Examine the installation, a line for each finding."""
    async with connect(arguments) as client:
        findings = await examine(
            client,
            namespace=arguments.namespace or client.default_namespace,
            operator_namespace=arguments.operator_namespace,
            clock=SystemClock(),
            only=arguments.only,
        )
    if arguments.output == OutputFormat.TABLE:
        terminal = Terminal.of(sys.stdout, os.environ)
        for finding in findings:
            print("\n".join(finding_lines(finding, terminal)))
        print(summary(findings))
    else:
        print(document_text([each.to_dict() for each in findings], arguments.output), end="")
    return FAILURE if any(each.severity is Severity.PROBLEM for each in findings) else 0


def _checks(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if unknown := [name for name in names if name not in CHECKS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(CHECKS)}")
    return names
