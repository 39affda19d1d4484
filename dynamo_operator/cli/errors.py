"""What the command line says instead of a traceback."""

from __future__ import annotations

USAGE = 2
FAILURE = 1


class CliError(Exception):
    """Ends the command with one line on standard error.

    Args:
        message: what was wrong, where, and what would be right.
        exit_code: 1 for a failure, 2 for a wrong call or input.
    """

    def __init__(self, message: str, *, exit_code: int = FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
