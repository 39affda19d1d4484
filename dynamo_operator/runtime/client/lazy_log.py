"""Warnings that the client logs; programs that use it alone load no logging library before one."""

from __future__ import annotations


def log_warning(event: str, **fields: object) -> None:
    """Log a fact that deserves a look."""
    import structlog

    structlog.get_logger(__name__).warning(event, **fields)
