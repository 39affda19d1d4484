"""What API servers warn of, e.g. a deprecated version or an unknown field, in the log."""

from __future__ import annotations

import structlog

_MOST_REMEMBERED = 1000

_log = structlog.get_logger(__name__)


class ServerWarnings:
    """Logs each warning once, however many answers bring it."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def log(self, warning: str) -> None:
        """Log a warning, unless it was logged before."""
        if warning in self._logged:
            return
        if len(self._logged) >= _MOST_REMEMBERED:
            self._logged.clear()
        self._logged.add(warning)
        _log.warning("warned by the API server", warning=warning)
