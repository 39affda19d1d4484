"""An audit log that another process writes to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Unpack

from dynamo_operator.apiserver.audit import AuditEntry, Which, creations_in, writes_in


class AuditFile:
    """Reads the entries of a JSON-lines audit log; the same to tests as the embedded `AuditLog`.

    Args:
        path: the file; it may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[AuditEntry] = []
        self._offset = 0

    @property
    def entries(self) -> list[AuditEntry]:
        """Every request answered so far, and every watch that has begun."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # still being written
                    self._offset += len(line)
                    entry = AuditEntry.from_json(json.loads(line))
                    if (entry.verb, entry.stage) != ("watch", "ResponseComplete"):
                        self._entries.append(entry)
        return self._entries

    def writes(self, **which: Unpack[Which]) -> list[AuditEntry]:
        """Return the writes of that kind, whether they succeeded or not."""
        return writes_in(self.entries, **which)

    def created(self, resource: str, **which: Unpack[Which]) -> list[AuditEntry]:
        """Return the writes that made a new object of a resource, e.g. `created("jobs")`."""
        return creations_in(self.entries, resource, **which)
