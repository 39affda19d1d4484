"""What the command line says instead of a traceback."""

from __future__ import annotations

import re
from typing import Final

USAGE = 2
FAILURE = 1

_RIGHT: Final = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


class CliError(Exception):
    """Ends the command with one line on standard error.

    Args:
        message: what was wrong, where, and what would be right.
        exit_code: 1 for a failure, 2 for a wrong call or input.
    """

    def __init__(self, message: str, *, exit_code: int = FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def role_that_is_missing(message: str) -> str:
    """Return which role would grant what an API server forbids, or "" when it does not say.

    Args:
        message: the server's, e.g. `pods is forbidden: User "ann" cannot list resource "pods" ...`.
    """
    found = _RIGHT.search(message)
    if found is None:
        return ""
    resource, _, subresource = found["resource"].partition("/")
    group = f".{found['group']}" if found["group"] else ""
    whole = f"{resource}{group}{f'/{subresource}' if subresource else ''}"
    namespace = found["namespace"]
    role = f"a Role in namespace {namespace}" if namespace else "a ClusterRole"
    return f"{role} with verb {found['verb']} on {whole} has to be bound to that user"
