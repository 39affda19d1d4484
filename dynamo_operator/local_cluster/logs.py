"""Container logs on disk, as CRI writes them: `<time> stdout|stderr F|P <text>` a line."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from informers.clock import Clock

_LONGEST_ENTRY = 16 * 1024
_POLL_SECONDS = 0.5  # only a bound: writers wake their followers


class LogFile:
    """The log of one run of one container.

    At `max_bytes` the file becomes `<name>.1` and a new one begins, so that a container cannot fill
    the disk; the last one to two times `max_bytes` stay readable.
    """

    def __init__(self, path: Path, clock: Clock, *, max_bytes: int = 10 << 20) -> None:
        self.path = path
        self._clock = clock
        self._max_bytes = max_bytes
        self._partial: dict[str, bytes] = {}
        self._file: BinaryIO | None = None
        self._size = 0
        self._changed = asyncio.Event()
        self.is_open = True

    def write(self, stream: str, data: bytes) -> None:
        """Append what the container wrote to `stdout` or `stderr`."""
        lines = (self._partial.pop(stream, b"") + data).split(b"\n")
        for line in lines[:-1]:
            self._append(stream, line, full=True)
        if lines[-1]:
            self._partial[stream] = self._append_long(stream, lines[-1])
        self._flush()

    def close(self) -> None:
        """Write what is left without a final newline; wake the followers for the last time."""
        for stream, rest in self._partial.items():
            self._append(stream, rest, full=True)
        self._partial.clear()
        self._flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        self.is_open = False
        self._changed.set()

    async def wait_changed(self) -> None:
        """Wait until something was written or the log was closed."""
        self._changed.clear()
        if self.is_open:
            try:
                await asyncio.wait_for(self._changed.wait(), _POLL_SECONDS)
            except TimeoutError:
                return

    def tail(self, *, lines: int, limit_bytes: int) -> str:
        """Return the last lines as text: what a termination message falls back to."""
        last = deque((entry.text for entry in read_entries(self.path)), maxlen=lines)
        return b"".join(last)[-limit_bytes:].decode(errors="replace")

    def _append_long(self, stream: str, rest: bytes) -> bytes:
        while len(rest) > _LONGEST_ENTRY:
            self._append(stream, rest[:_LONGEST_ENTRY], full=False)
            rest = rest[_LONGEST_ENTRY:]
        return rest

    def _append(self, stream: str, line: bytes, *, full: bool) -> None:
        line = self._append_long(stream, line)
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
            self._size = self._file.tell()
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        entry = f"{stamp} {stream} {'F' if full else 'P'} ".encode() + line + b"\n"
        self._file.write(entry)
        self._size += len(entry)

    def _flush(self) -> None:
        if self._file is not None:
            self._file.flush()
            if self._size >= self._max_bytes:
                self._file.close()
                self.path.replace(_rotated(self.path))
                self._file = None
        self._changed.set()


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry; `text` ends with a newline unless the line goes on in the next entry."""

    time: bytes
    stream: str
    text: bytes


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What of a log is wanted, in the words of the Pod log subresource."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: datetime | None = None


def since_seconds(clock: Clock, seconds: float) -> datetime:
    """The time that `sinceSeconds` means."""
    return clock.now() - timedelta(seconds=seconds)


def read_entries(path: Path) -> Iterator[LogEntry]:
    """Read the entries of a log, the rotated part first."""
    for part in (_rotated(path), path):
        if part.exists():
            with part.open("rb") as file:
                yield from filter(None, map(_parse, file))


async def read_log(path: Path, query: LogQuery, live: LogFile | None) -> AsyncIterator[bytes]:
    """Yield a log as `kubectl logs` shows it.

    Args:
        path: the log.
        query: what is wanted of it.
        live: the log while it is being written, to follow it.
    """
    left = query.limit_bytes
    reader = _Reader(path)
    chunk = b"".join(_render(e, query) for e in _selected(reader.read(), query))
    while True:
        if left is not None:
            chunk = chunk[:left]
            left -= len(chunk)
        if chunk:
            yield chunk
        if not query.follow or live is None or left == 0:
            return
        was_open = live.is_open
        await live.wait_changed()
        chunk = b"".join(_render(entry, query) for entry in reader.read())
        if not was_open and not chunk:
            return


class _Reader:
    """Reads a growing log, over its rotations."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._position = 0

    def read(self) -> list[LogEntry]:
        entries: list[LogEntry] = []
        rotated = _rotated(self._path)
        started = self._inode != 0
        for part in (rotated, self._path):
            if not part.exists():
                continue
            inode = part.stat().st_ino
            if part == rotated and started and inode != self._inode:
                continue  # read to its end already
            if inode != self._inode:
                self._inode, self._position = inode, 0
            entries += self._read_part(part)
        return entries

    def _read_part(self, part: Path) -> list[LogEntry]:
        with part.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        return [e for line in complete.splitlines(keepends=True) if (e := _parse(line))]


def _selected(entries: list[LogEntry], query: LogQuery) -> list[LogEntry]:
    if query.since is not None:
        since = query.since.strftime("%Y-%m-%dT%H:%M:%S.%f000Z").encode()
        entries = [entry for entry in entries if entry.time >= since]
    if query.tail_lines is None:
        return entries
    lines = 0
    for index in range(len(entries) - 1, -1, -1):
        lines += entries[index].text.endswith(b"\n")
        if lines > query.tail_lines:
            return entries[index + 1 :]
    return entries


def _render(entry: LogEntry, query: LogQuery) -> bytes:
    return entry.time + b" " + entry.text if query.timestamps else entry.text


def _parse(line: bytes) -> LogEntry | None:
    parts = line.split(b" ", 3)
    if len(parts) != 4:
        return None
    time, stream, tag, text = parts
    return LogEntry(time, stream.decode(), text if tag == b"F" else text[:-1])


def _rotated(path: Path) -> Path:
    return path.with_name(path.name + ".1")
