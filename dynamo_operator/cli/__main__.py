"""The `dynamo-operator` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

_EXIT_INTERRUPTED = 130
_EXIT_UNREAD = 141
"""128 and the number of SIGPIPE, as of programs that this signal ends."""
_PLUGIN = ("kubectl-dgdr", "kubectl dgdr")
"""The plugin's executable, and what people type."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong call or input."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    executable, typed = _PLUGIN
    called = {"program": typed} if Path(sys.argv[0]).name == executable else {}
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what a terminal cannot show is told by its number
            stream.reconfigure(errors="backslashreplace")
    try:
        # Imported here, because imports take long enough to be interrupted.
        code: int = import_module("dynamo_operator.cli.commands").run(words, **called)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:  # whoever read has seen enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - to the end of the process
        return _EXIT_UNREAD
    return code


if __name__ == "__main__":
    sys.exit(main())
