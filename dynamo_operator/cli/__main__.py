"""The `dynamo-operator` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

_EXIT_INTERRUPTED = 130
_PLUGIN = ("kubectl-dgdr", "kubectl dgdr")
"""The plugin's executable, and what people type."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong call or input."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    executable, typed = _PLUGIN
    called = {"program": typed} if Path(sys.argv[0]).name == executable else {}
    try:
        # Imported here, because imports take long enough to be interrupted.
        code: int = import_module("dynamo_operator.cli.commands").run(words, **called)
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
