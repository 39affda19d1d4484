"""What the operator's logs tell, and how they look."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "console", "json"]


class LoggingSettings(BaseModel):
    """What the operator's logs tell, and how they look.

    Args:
        level: the least that is told.
        format: auto is console on a terminal and json elsewhere.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: LogLevel = "info"
    format: LogFormat = "auto"
