"""What goes into the server and what comes out, free of any transport."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who asks."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ADMIN = UserInfo("admin", groups=("system:masters", "system:authenticated"))
ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Args:
        method: upper case.
        path: decoded, without the query.
        query: names and values in order.
        headers: names in lower case.
        body: empty when there is none.
        user: who asks, where the caller has established that (a client certificate, or a caller in
            this process); None leaves it to the bearer token, else the request is anonymous.
        source_address: where it came from, for the audit log.
    """

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: UserInfo | None = None
    source_address: str = ""


class ByteStream(Protocol):
    """A body that arrives in chunks; whoever takes it closes it."""

    def __aiter__(self) -> ByteStream: ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None:
        """Stop; the next chunk is the end."""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; a ByteStream as body is a watch or a followed log."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | ByteStream = b""


def to_json(value: Any) -> bytes:
    """Encode compactly, as the server does everywhere; half a surrogate pair becomes U+FFFD."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
