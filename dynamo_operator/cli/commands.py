"""The commands, and how each of them ends."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

from dynamo_operator.cli.errors import FAILURE, USAGE, CliError, role_that_is_missing
from dynamo_operator.runtime.client.errors import ClientError, ForbiddenError
from informers.errors import InformerError

PROGRAM = "dynamo-operator"

_ASK = "__complete"
"""What the completion scripts call; no command for people."""

# One that is ignored from the start stays so: nohup and a shell's & mean it.
_ENDING_SIGNALS = ("SIGHUP", "SIGINT", "SIGTERM")
_SIGNAL_EXIT = 128  # plus the signal's number

# What the extra `local` brings, which the commands with a cluster of their own need.
_LOCAL_MODULES = ("cryptography", "grpclib")

# Each is the module of its name in this package, imported only when it is asked for: a command does
# not pay for what the others need.
COMMANDS = {
    "start": "run the operator, in a cluster or against a kubeconfig",
    "demo": "search for the best deployment of a model on a cluster of its own",
    "cluster": "run a cluster of one node",
    "planner": "the real AISimulate, installed for local runs",
    "request": "work with DynamoGraphDeploymentRequests",
    "run": "follow and end searches",
    "candidate": "compare and deploy what a search has found",
    "report": "write a search as one HTML page",
    "crds": "install and remove our CustomResourceDefinitions",
    "doctor": "find what is wrong with an installation, and how to mend it",
    "completion": "print what completes commands in bash, zsh or fish",
    "simulate": "run an operator again and again under faults, on virtual time",
}


EXPECTED_ERRORS = (CliError, ClientError, InformerError, OSError, ValueError)
"""What a command may end with: a line for the person who called it, no defect."""


def run(words: Sequence[str], *, program: str = PROGRAM) -> int:
    """Run one command and return its exit code; what went wrong is said in a line.

    Args:
        words: what follows the program's name.
        program: how it was called.

    Raises:
        KeyboardInterrupt: it was interrupted before it began, or after it ended.
        BrokenPipeError: nobody reads its output any more.
    """
    debug = False
    if words[:1] == [_ASK]:
        return _answer(words)
    try:
        parsed = parser(words, program=program).parse_args(words)
        debug = parsed.debug
        if not inspect.iscoroutinefunction(parsed.run):
            code: int = parsed.run(parsed)
            return code
        return asyncio.run(_until_signalled(parsed))
    except ModuleNotFoundError as error:
        if debug or error.name not in _LOCAL_MODULES:
            raise
        need = f"{error.name} is not installed: pip install 'dynamo-operator[local]'"
        print(f"dynamo-operator: {need}", file=sys.stderr)
        return FAILURE
    except EXPECTED_ERRORS as error:
        if debug or isinstance(error, BrokenPipeError):
            raise
        return told(error)


def _answer(words: Sequence[str]) -> int:
    """Answer a shell, which shows nothing of what goes wrong."""
    _, dashes, *asked = [*words, *[""] * (2 - len(words))]
    run_ask: Callable[[Sequence[str]], int]
    run_ask = import_module("dynamo_operator.cli.completion").run_ask
    return run_ask(asked if dashes == "--" else [dashes, *asked])


def told(error: Exception) -> int:
    """Say on standard error how a command ended, and return its exit code."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    if isinstance(error, ForbiddenError) and (role := role_that_is_missing(text)):
        text = f"{text}: {role}"
    for line in text.splitlines() or [type(error).__name__]:
        print(f"dynamo-operator: {line}", file=sys.stderr)
    return error.exit_code if isinstance(error, CliError) else FAILURE


async def _until_signalled(parsed: argparse.Namespace) -> int:
    """Run the command; the first signal cancels it, and none disturbs how it then ends in order."""
    task = asyncio.current_task()
    assert task is not None  # a coroutine run by asyncio.run always is a task
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    with _handled_signals(end):
        try:
            code: int = await parsed.run(parsed)
        except asyncio.CancelledError:
            if not received:
                raise
            return 0 if parsed.ends_on_signal else _SIGNAL_EXIT + received[0]
    return code


@contextmanager
def _handled_signals(handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    present = [getattr(signal, name) for name in _ENDING_SIGNALS if hasattr(signal, name)]
    handled = [number for number in present if signal.getsignal(number) != signal.SIG_IGN]
    with suppress(NotImplementedError):  # a loop without signals, as on Windows
        for number in handled:
            loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            for number in handled:
                loop.remove_signal_handler(number)


class _Parser(argparse.ArgumentParser):
    """Tells a wrong call in one line; the usage of a command with many flags is a page."""

    command = ""
    """Whose help is of use, where it is not this parser's own."""

    def error(self, message: str) -> NoReturn:
        see = f"see `{' '.join(filter(None, (self.prog, self.command)))} --help`"
        self.exit(USAGE, f"{self.prog}: {message}; {see}\n")


def parser(words: Sequence[str] | None, *, program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the parser of a call: only the command that it names is complete.

    Args:
        words: of the call; None: all commands are complete.
        program: how it was called.
    """
    made = _Parser(
        prog=program, description="Search for the best deployment of a model, on Kubernetes."
    )
    made.add_argument("--version", action="version", version=version("dynamo-operator"))
    made.add_argument("--debug", action="store_true", help="show tracebacks")
    made.set_defaults(ends_on_signal=False)
    chosen = next((word for word in words or () if not word.startswith("-")), "")
    if chosen in COMMANDS:
        made.command = chosen  # unknown flags of it are told by this parser
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        sentence = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(name, help=summary, description=sentence)
        if words is None or name == chosen:
            import_module(f"dynamo_operator.cli.{name}").configure(command)
    return made
