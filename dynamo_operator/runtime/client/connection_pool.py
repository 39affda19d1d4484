"""Connections to one server that are used again."""

from __future__ import annotations

import asyncio
from collections import deque

from dynamo_operator.runtime.client.connecting import Destination
from dynamo_operator.runtime.client.http_connection import HttpConnection

IDLE_SECONDS = 15.0


class ConnectionPool:
    """Connections of which so many are in use at once.

    Args:
        most: how many; 0 for any number.
    """

    def __init__(self, most: int) -> None:
        self._slots = asyncio.Semaphore(most) if most else None
        self._idle: deque[tuple[float, HttpConnection]] = deque()
        self._destinations: dict[HttpConnection, Destination] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def take(self, destination: Destination) -> HttpConnection:
        """Return a connection for one exchange, one that is there already if possible.

        Raises:
            ConnectError: there is none to be had; see `Destination.connect`.
        """
        if self._slots is not None:
            await self._slots.acquire()
        try:
            while self._idle:
                _, connection = self._idle.pop()  # the last one used is the least likely gone
                if self._destinations[connection] is destination and connection.is_open:
                    return connection
                self._drop(connection)
            connection = await destination.connect()
        except BaseException:
            if self._slots is not None:
                self._slots.release()
            raise
        self._destinations[connection] = destination
        if self._closed:
            self._drop(connection)  # whoever sends on it is told
        return connection

    def give(self, connection: HttpConnection, *, is_whole: bool) -> None:
        """Take a connection back after its exchange.

        Args:
            connection: one that was taken.
            is_whole: whether the answer was read to its end.
        """
        if self._slots is not None:
            self._slots.release()
        if not is_whole or not connection.release() or self._closed:
            self._drop(connection)
            return
        loop = asyncio.get_running_loop()
        self._idle.append((loop.time(), connection))
        if self._timer is None:
            self._timer = loop.call_later(IDLE_SECONDS, self._drop_idle)

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._idle.clear()
        for connection in tuple(self._destinations):
            self._drop(connection)
        await asyncio.sleep(0)  # the loop closes their sockets

    def _drop(self, connection: HttpConnection) -> None:
        self._destinations.pop(connection, None)
        connection.close()

    def _drop_idle(self) -> None:
        """Close what nobody has used for a while."""
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._idle and self._idle[0][0] + IDLE_SECONDS <= loop.time():
            self._drop(self._idle.popleft()[1])
        if self._idle:
            self._timer = loop.call_at(self._idle[0][0] + IDLE_SECONDS, self._drop_idle)
