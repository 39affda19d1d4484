"""How an entry point's logs look: JSON in a cluster, colours on a terminal."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TextIO

import structlog

from dynamo_operator.settings import LogFormat, LogLevel

_LEVELS: dict[LogLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def add_log_flags(parser: argparse.ArgumentParser) -> None:
    """Add --log-level and --log-format."""
    group = parser.add_argument_group("logs")
    group.add_argument(
        "--log-level", choices=sorted(_LEVELS), default="info", help="the least that is told"
    )
    group.add_argument(
        "--log-format",
        choices=("auto", "console", "json"),
        default="auto",
        help="auto is console on a terminal and json elsewhere",
    )


def configure_logs(level: LogLevel, form: LogFormat, stream: TextIO | None = None) -> None:
    """Configure structlog for this process; only an entry point may.

    Args:
        level: the least that is told.
        form: auto is console on a terminal and json elsewhere.
        stream: where to; default standard error.
    """
    stream = stream or sys.stderr
    console = form == "console" or (form == "auto" and stream.isatty())
    # Both renderers' own tracebacks may show local variables, which hold tokens and Secrets' data.
    without_locals = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    renderers: list[structlog.typing.Processor] = (
        [
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
        if console
        else [
            structlog.processors.ExceptionRenderer(without_locals),
            structlog.processors.JSONRenderer(),
        ]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
