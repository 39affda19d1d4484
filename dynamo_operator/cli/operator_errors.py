"""What ends an operator that runs, in a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dynamo_operator.cli.errors import CliError
from dynamo_operator.runtime import LeaderElectionError, LeadershipLostError, ShutdownTimeoutError
from dynamo_operator.runtime.cache import CacheError


@contextmanager
def operator_errors() -> Iterator[None]:
    """Raise as a CliError what a manager ends with inside the block."""
    try:
        yield
    except LeaderElectionError as error:
        raise CliError(f"{error} with --leader-election.namespace") from error
    except (CacheError, LeadershipLostError, ShutdownTimeoutError) as error:
        raise CliError(str(error)) from error
