"""The `dynamo-operator` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

_EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong call or input."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Imported here, because imports take long enough to be interrupted.
        code: int = import_module("dynamo_operator.cli.commands").run(words)
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
