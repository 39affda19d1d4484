"""The port through which informers reach a cluster; a transport implements it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from informers.events import WatchEvent
from informers.objects import CachedObject, ResourceType


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list."""

    items: Sequence[CachedObject]
    resource_version: str
    continue_token: str = ""


class ListWatch(Protocol):
    """Lists and watches the objects of one type within one scope (namespace, selectors), decoded.

    Both calls raise ListWatchError (ExpiredError for 410) when the server refuses, and
    ConnectionLostError when the
    connection fails. Neither retries: that is the reflector's.
    """

    @property
    def resource_type(self) -> ResourceType:
        """The type that is listed."""

    async def list(
        self,
        *,
        resource_version: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ListPage:
        """Fetch one page.

        Args:
            resource_version: "" for the most recent, "0" for any, else at least this one.
            limit: most objects in the page; 0 for no limit.
            continue_token: from the page before; the resource version is then left out of the
            request.
        """

    def watch(
        self,
        *,
        resource_version: str,
        timeout_seconds: int,
        send_initial_events: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[WatchEvent]]]:
        """Open a watch, bookmarks requested.

        The iterator yields what arrived together as one batch and ends when the server closes the
        stream. A broken
        stream raises ConnectionLostError from the iterator; a line that is no watch event does too.

        Args:
            resource_version: where to start, exclusive.
            timeout_seconds: when the server should close the stream.
            send_initial_events: WatchList: begin with the present state, ended by a bookmark with
                `initial_events_end`.
        """
