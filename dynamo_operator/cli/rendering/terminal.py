"""What a command writes to: a terminal with its width and colours, or a plain stream."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO


class Style(StrEnum):
    """What a text means; the values are terminal codes.

    Colour alone never says anything: there is always a word beside it. None of them is hard to read
    on a light or on a dark ground, as yellow would be.
    """

    GOOD = "32"
    WARNING = "35"
    BAD = "31"
    STRONG = "1"
    FAINT = "2"


@dataclass(frozen=True, slots=True)
class Terminal:
    """A stream, and what may be written to it.

    Args:
        stream: where text goes.
        is_interactive: whether lines may be rewritten.
        has_colour: whether text may be coloured.
    """

    stream: TextIO
    is_interactive: bool = False
    has_colour: bool = False

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> Terminal:
        """Look at a stream: NO_COLOR takes its colours, TERM=dumb also that lines change."""
        is_interactive = stream.isatty() and environ.get("TERM") != "dumb"
        return cls(stream, is_interactive, is_interactive and not environ.get("NO_COLOR"))

    @property
    def width(self) -> int:
        """Columns."""
        return shutil.get_terminal_size().columns

    def painted(self, text: str, *styles: Style) -> str:
        """Return a text in its styles, or as it is where there are no colours."""
        if not (self.has_colour and styles and text):
            return text
        return f"\x1b[{';'.join(styles)}m{text}\x1b[0m"


class Screen:
    """A block of lines that is rewritten in place; elsewhere than on a terminal nothing is.

    Args:
        terminal: interactive, or each block is written below the last.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._height = 0

    def show(self, lines: Sequence[str]) -> None:
        """Replace the block; no line may be wider, and it not be higher, than the terminal."""
        stream = self._terminal.stream
        if self._terminal.is_interactive:  # what has scrolled away could not be rewritten
            lines = lines[: max(shutil.get_terminal_size().lines - 1, 1)]
        if self._terminal.is_interactive and self._height:
            stream.write(f"\x1b[{self._height}F\x1b[J")
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()
        self._height = len(lines)


def printable(text: str) -> str:
    """Return a text in one line that cannot steer a terminal, whoever wrote it."""
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def clipped(text: str, width: int) -> str:
    """Return the beginning of a text that is too wide, with an ellipsis."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"


def _escaped(char: str) -> str:
    return " " if char in "\n\t" else char.encode("unicode_escape").decode()
