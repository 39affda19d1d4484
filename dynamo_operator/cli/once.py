"""`dynamo-operator start --once KIND/NAMESPACE/NAME`: reconcile one object."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun
from dynamo_operator.app import build_manager
from dynamo_operator.cli.election import refuse_beside_another
from dynamo_operator.cli.errors import FAILURE, USAGE, CliError
from dynamo_operator.cli.exchanges import Exchange, Exchanges
from dynamo_operator.cli.operator_errors import operator_errors
from dynamo_operator.cli.preflight import check_rights
from dynamo_operator.cli.rendering.output import (
    DOCUMENTS,
    OutputFormat,
    add_output_flag,
    document_text,
)
from dynamo_operator.runtime import LeaderElection, Result
from dynamo_operator.runtime.cached_reader import CachedRead
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.http import Transport
from dynamo_operator.runtime.defects import DEFECTS
from dynamo_operator.runtime.leader_elector import LeaderElector
from dynamo_operator.runtime.runnables import first_leaf
from dynamo_operator.runtime.running_controller import RunningController
from dynamo_operator.runtime.single_reconcile import prepared
from dynamo_operator.settings import OperatorSettings, ServerSettings, WebhookMode
from informers.clock import SystemClock, system_random
from informers.objects import ObjectKey, ResourceType

AGAIN: Final = 3
"""Exit code of a reconcile that wants to be repeated later."""

_FORM: Final = "KIND/NAMESPACE/NAME"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be reconciled, and how that is told."""

    kind: str
    key: ObjectKey
    dry_run: bool
    output: str


def add_once_flags(parser: argparse.ArgumentParser) -> None:
    """Add --once, --dry-run and -o."""
    group = parser.add_argument_group(
        "one object",
        "Serves nothing, and logs warnings only. Exit code 0: done; 3: it wants to be reconciled"
        " again later; 1: it failed.",
    )
    group.add_argument(
        "--once",
        metavar=_FORM,
        help="reconcile that object once, say what was read, written and decided, and end",
    )
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="with --once: the API server checks writes and stores none; takes no Lease",
    )
    add_output_flag(parser, DOCUMENTS)


def wanted_object(arguments: argparse.Namespace) -> Wanted | None:
    """Return what --once names, if it is given.

    Raises:
        CliError: it names nothing, or what belongs to it is given without it.
    """
    if arguments.once is None:
        if arguments.dry_run:
            raise CliError("--dry-run: goes with --once only", exit_code=USAGE)
        return None
    kind, *rest = arguments.once.split("/")
    if len(rest) != 2 or not all((kind, *rest)):
        raise CliError(f"--once: {arguments.once!r}: must be {_FORM}", exit_code=USAGE)
    return Wanted(kind, ObjectKey(*rest), arguments.dry_run, arguments.output)


async def reconcile_object(
    client: Client, settings: OperatorSettings, election: LeaderElection, wanted: Wanted
) -> int:
    """Reconcile one object once, print what was done, and return the exit code.

    Args:
        client: the operator's.
        settings: the operator's; what they serve is not served.
        election: of the Lease that the operator takes; held meanwhile, but in a dry run.
        wanted: the object.

    Raises:
        CliError: there is no such kind or object, another operator works, or a permission is
            denied.
    """
    kind = _kind(wanted.kind, settings)
    if await client.find(kind, wanted.key) is None:
        raise CliError(f"--once: there is no {kind.kind} {wanted.key}")
    elects = settings.leader_election.enabled and not wanted.dry_run
    nothing_served = {"server": ServerSettings(), "webhooks": WebhookMode.OFF}
    settings = settings.model_copy(update=nothing_served)
    await check_rights(client, settings, election if elects else None)
    if not wanted.dry_run:
        await refuse_beside_another(client, election, "give --dry-run")
    with operator_errors():
        return await _reconcile(client, settings, election if elects else None, kind, wanted)


async def _reconcile(
    client: Client,
    settings: OperatorSettings,
    election: LeaderElection | None,
    kind: ResourceType,
    wanted: Wanted,
) -> int:
    exchanges: list[Exchanges] = []

    def observed(transport: Transport) -> Exchanges:
        exchanges.append(Exchanges(transport))
        return exchanges[0]

    async with _leading(client, election) as leader:
        seen_client = leader.with_transport(observed)
        used = seen_client.with_dry_run() if wanted.dry_run else seen_client
        manager = build_manager(used, settings)
        controllers = manager.controllers.values()
        controller = next(each for each in controllers if each.resource_type == kind)
        account = _Account(wanted, kind.kind, exchanges[0])
        manager.reader.observe(account.read)
        async with prepared(manager, controller):
            await account.take(controller)
    print(account.text(), end="")
    return account.exit_code


@asynccontextmanager
async def _leading(client: Client, election: LeaderElection | None) -> AsyncGenerator[Client]:
    """Hold the Lease for the length of the block; yields a client that writes only meanwhile."""
    if election is None:
        yield client
        return
    elector = LeaderElector(election, client, clock=SystemClock(), random=system_random())
    try:
        async with elector.watching():
            await elector.acquire()
            async with elector.term(lambda: None):
                yield client.with_fence(elector.leadership)
    except BaseExceptionGroup as failures:
        raise first_leaf(failures) from None


def _kind(word: str, settings: OperatorSettings) -> ResourceType:
    """Return the kind of that name, plural or short name, if the operator reconciles it."""
    searches = (DynamoGraphDeploymentRequest, DynamoGraphDeploymentRun)
    kinds = (*(searches if settings.feature_gates.dgdr_v1_beta2 else ()), DynamoPoolRelay)
    for kind in kinds:
        of_type: ResourceType = kind.resource_type
        if word.lower() in (of_type.kind.lower(), of_type.plural, kind.presentation.short_name):
            return of_type
    known = ", ".join(kind.resource_type.kind for kind in kinds)
    raise CliError(f"--once: {word!r}: must be one of {known}", exit_code=USAGE)


class _Account:
    """What a reconcile read, wrote and decided.

    Args:
        wanted: what is reconciled.
        kind: of it.
        exchanges: what goes to the API server.
    """

    def __init__(self, wanted: Wanted, kind: str, exchanges: Exchanges) -> None:
        self._wanted = wanted
        self._kind = kind
        self._exchanges = exchanges
        self._reads: list[CachedRead] = []
        self._result: Result | Exception = Result.done()

    def read(self, read: CachedRead) -> None:
        """Note a read of the cache."""
        self._reads.append(read)

    async def take(self, controller: RunningController) -> None:
        """Reconcile, and keep what came of it."""
        self._exchanges.is_on = True
        try:
            self._result = await controller.reconcile(self._wanted.key)
        except Exception as error:  # noqa: BLE001 - whatever it raises is what came of it
            self._result = error

    @property
    def exit_code(self) -> int:
        """0 done, 3 again later, 1 failed."""
        if isinstance(self._result, Exception):
            return FAILURE
        return 0 if self._result == Result.done() else AGAIN

    def text(self) -> str:
        """Return it as lines, or as the document that was asked for."""
        if self._wanted.output != OutputFormat.TABLE:
            return document_text(self._document(), self._wanted.output)
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        exchanges = self._exchanges.all
        reads = [self._cached_line(each) for each in self._reads]
        reads += [self._line(each) for each in exchanges if not each.is_write]
        yield from dict.fromkeys(reads)  # what is read again says nothing new
        yield from (self._line(each) for each in exchanges if each.is_write)
        yield f"decided  {self._decision()}"

    def _cached_line(self, read: CachedRead) -> str:
        found = ", ".join(map(str, read.found)) or "none"
        return f"read     {read.resource_type.plural} {read.wanted}: {found}"

    def _line(self, exchange: Exchange) -> str:
        words = ["wrote   " if exchange.is_write else "read    "]
        if exchange.is_refused:
            words = ["refused "]
        if exchange.is_write and self._wanted.dry_run:
            words.append("(dry run)")
        words += [exchange.verb, exchange.resource, exchange.name, f"({exchange.status})"]
        return " ".join(filter(None, words)) + (f" {exchange.note}" if exchange.note else "")

    def _decision(self) -> str:
        result = self._result
        if isinstance(result, Exception):
            defect = "a defect, " if isinstance(result, DEFECTS) else ""
            return f"failed: {defect}{type(result).__name__}: {' '.join(str(result).split())}"
        if result.backoff_reason is not None:
            return f"again with a growing delay: {result.backoff_reason}"
        if result.requeue_after is not None:
            return f"again after {result.requeue_after:g} s"
        return "done, until something changes"

    def _document(self) -> dict[str, Any]:
        outcomes = {0: "done", AGAIN: "again", FAILURE: "failed"}
        return {
            "kind": self._kind,
            "namespace": self._wanted.key.namespace,
            "name": self._wanted.key.name,
            "dryRun": self._wanted.dry_run,
            "cachedReads": [
                {
                    "resource": read.resource_type.plural,
                    "wanted": read.wanted,
                    "found": list(map(str, read.found)),
                }
                for read in self._reads
            ],
            "requests": [asdict(each) for each in self._exchanges.all],
            "outcome": outcomes[self.exit_code],
            "decision": self._decision(),
        }
