"""The executable `dgdr-run-publisher`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dynamo_operator.api.planner_contract import PLANNER_CONTAINER
from dynamo_operator.api.publisher_contract import (
    DEFAULT_POLL_INTERVAL,
    NAMESPACE_VARIABLE,
    PLANNER_CONTAINER_FLAG,
    POD_NAME_VARIABLE,
    POLL_INTERVAL_FLAG,
    PUBLISHER_FIELD_MANAGER,
    RUN_NAME_FLAG,
    RUN_UID_FLAG,
    SNAPSHOT_DIR_FLAG,
    TERMINATION_MESSAGE_PATH,
    TerminationMessage,
)
from dynamo_operator.publisher import outcome
from dynamo_operator.publisher.apply import Publication
from dynamo_operator.publisher.follow import PodSearch, Stop, follow
from dynamo_operator.runtime.client import Client, ClientConfig, ClientError
from informers.clock import SystemClock
from informers.objects import ObjectKey

_TERMINATION_MESSAGE_VARIABLE = "TERMINATION_MESSAGE_PATH"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class UsageError(Exception):
    """A flag or a variable is wrong; names it and what would be right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the publisher is told."""

    snapshot_dir: Path
    run: ObjectKey
    run_uid: str
    pod: ObjectKey
    planner_container: str
    poll_seconds: float

    @classmethod
    def parse(cls, arguments: Sequence[str], environ: Mapping[str, str]) -> Settings:
        """Read flags and variables.

        Raises:
            UsageError: one is missing or wrong.
        """
        parser = _Parser(prog="dgdr-run-publisher", allow_abbrev=False)
        parser.add_argument(SNAPSHOT_DIR_FLAG, required=True, dest="snapshot_dir")
        parser.add_argument(RUN_NAME_FLAG, required=True, dest="run_name")
        parser.add_argument(RUN_UID_FLAG, required=True, dest="run_uid")
        parser.add_argument(PLANNER_CONTAINER_FLAG, default=PLANNER_CONTAINER, dest="planner")
        parser.add_argument(POLL_INTERVAL_FLAG, default=DEFAULT_POLL_INTERVAL, dest="poll")
        flags = parser.parse_args(arguments)
        for name in (NAMESPACE_VARIABLE, POD_NAME_VARIABLE):
            if not environ.get(name):
                raise UsageError(f"environment variable {name} is not set; must be the Pod's")
        namespace = environ[NAMESPACE_VARIABLE]
        return cls(
            snapshot_dir=Path(flags.snapshot_dir),
            run=ObjectKey(namespace, flags.run_name),
            run_uid=flags.run_uid,
            pod=ObjectKey(namespace, environ[POD_NAME_VARIABLE]),
            planner_container=flags.planner,
            poll_seconds=_seconds(flags.poll),
        )


def main() -> NoReturn:
    """Run until the search has ended; exit with the code of the outcome."""
    try:
        settings = Settings.parse(sys.argv[1:], os.environ)
        message = asyncio.run(_publish(settings, os.environ))
    except (UsageError, ClientError) as error:
        message = outcome.failed(error)
    except Exception as error:  # noqa: BLE001 # the last words must say why
        message = outcome.failed(f"{type(error).__name__}: {error}")
    _say_last(
        message, Path(os.environ.get(_TERMINATION_MESSAGE_VARIABLE, TERMINATION_MESSAGE_PATH))
    )
    sys.exit(message.outcome.exit_code)


async def _publish(settings: Settings, environ: Mapping[str, str]) -> TerminationMessage:
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config = ClientConfig.load(environ=environ)
    async with Client.connect(config, field_manager=PUBLISHER_FIELD_MANAGER) as client:
        return await follow(
            PodSearch(client, settings.pod, settings.planner_container, settings.snapshot_dir),
            Publication(client, settings.run, settings.run_uid, SystemClock()),
            poll_seconds=settings.poll_seconds,
            stop=stop,
            log=_log,
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
    if match is None or float(match[1]) == 0:
        raise UsageError(f"{POLL_INTERVAL_FLAG} {text}: must be a duration such as 1s or 500ms")
    return float(match[1]) * _UNITS[match[2]]


def _log(event: str) -> None:
    now = SystemClock().now().isoformat(timespec="milliseconds")
    print(json.dumps({"time": now, "logger": "publisher", "event": event}), flush=True)


def _say_last(message: TerminationMessage, path: Path) -> None:
    line = message.to_json()
    print(line, flush=True)
    with suppress(OSError):  # not in a container
        path.write_text(line, encoding="utf-8")


if __name__ == "__main__":
    main()
