"""The `dynamo-operator` command."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version

from dynamo_operator.aisimulate.overrides import LoweringError
from dynamo_operator.cli import cluster, crds, demo, planner, request, start
from dynamo_operator.cli.errors import FAILURE, CliError
from dynamo_operator.runtime.client.errors import ClientError
from informers.errors import InformerError

_EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong call or input."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    try:
        return asyncio.run(_until_signalled(parsed))
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except (CliError, ClientError, LoweringError, InformerError, OSError, ValueError) as error:
        if parsed.debug:
            raise
        for line in str(error).splitlines() or [type(error).__name__]:
            print(f"dynamo-operator: {line}", file=sys.stderr)
        return error.exit_code if isinstance(error, CliError) else FAILURE


async def _until_signalled(parsed: argparse.Namespace) -> int:
    """Run the command; SIGTERM cancels it as SIGINT does, so that it ends in order."""
    task = asyncio.current_task()
    assert task is not None  # a coroutine run by asyncio.run always is a task
    with suppress(NotImplementedError):  # a loop without signals, as on Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        code: int = await parsed.run(parsed)
    except asyncio.CancelledError:
        if parsed.ends_on_signal:
            return 0
        raise
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dynamo-operator",
        description="Search for the best deployment of a model, on Kubernetes.",
    )
    parser.add_argument("--version", action="version", version=version("dynamo-operator"))
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.set_defaults(ends_on_signal=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (start, demo, cluster, planner, request, crds):
        module.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
