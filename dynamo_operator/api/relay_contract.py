"""What the relay's process is given: variables, files, ports and the source document.

Source: Dynamo's `kv_dc_relay` (renamed PoolRelay), its configuration reference and its namespace
source file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

REVISION_VARIABLE: Final = "DYN_RELAY_CONNECTION_REVISION"
OWNED_VARIABLES: Final = (
    "DYN_DC_ID",
    "DYN_DISCOVERY_BACKEND",
    "DYN_KUBE_DISCOVERY_MODE",
    "DYN_RELAY_BIND",
    REVISION_VARIABLE,
    "DYN_RELAY_ENDPOINT_PREFIXES",
    "DYN_RELAY_NAMESPACES",
    "DYN_RELAY_WATCH_ALL",
    "DYN_SYSTEM_HOST",
    "DYN_SYSTEM_PORT",
    "POD_IP",
    "POD_NAME",
    "POD_NAMESPACE",
    "POD_UID",
)
"""Variables that only the operator sets: identity, what is watched, where is listened."""

GRPC_PORT: Final = 5561
SYSTEM_PORT: Final = 8081
HEALTH_SERVICE: Final = "dynamo.kvrelay.v1.KvEventRelay"
SOURCES_FILE: Final = "sources.json"

SOURCES_LIMIT: Final = 4096
_NAMESPACE = re.compile(r"[A-Za-z0-9_-]{1,512}")
# As Go's encoding/json writes them.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "&<>\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """What the relays are to watch: the content of their sources file.

    Args:
        connection_revision: of the relays that may use it; others keep what they have.
        namespaces: Dynamo namespaces, sorted, each once.
    """

    connection_revision: str
    namespaces: tuple[str, ...]

    def to_json(self) -> str:
        """Return the canonical text: compact, sources by namespace, escaped as Go does.

        Example:
            >>> SourceDocument("", ()).to_json()
            '{"version":1,"sources":[]}'
        """
        connection = (
            {"connectionRevision": self.connection_revision} if self.connection_revision else {}
        )
        sources = [{"namespace": namespace} for namespace in self.namespaces]
        document = {"version": 1, **connection, "sources": sources}
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        return text.translate(_ESCAPES)

    @property
    def revision(self) -> str:
        """The hash by which the relays call the document: SHA-256 of its canonical text, in hex."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def watchable(namespaces: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split Dynamo namespaces into those that a relay can watch and the others; both sorted.

    One bad namespace, or more than 4096, would make the relay refuse the document as a whole.
    """
    wanted = sorted(set(namespaces))
    good = [namespace for namespace in wanted if _NAMESPACE.fullmatch(namespace)]
    bad = [namespace for namespace in wanted if not _NAMESPACE.fullmatch(namespace)]
    return good[:SOURCES_LIMIT], bad + good[SOURCES_LIMIT:]
