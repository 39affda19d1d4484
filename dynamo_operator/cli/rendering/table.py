"""Plain tables."""

from __future__ import annotations

from collections.abc import Sequence

from dynamo_operator.cli.rendering.terminal import printable


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned table; columns whose cells are all numbers are set to the right."""
    shown = [[printable(cell) for cell in row] for row in rows]
    columns = list(zip(header, *shown, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [bool(rows) and all(_is_number(cell) for cell in column[1:]) for column in columns]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(line(cells) for cells in (header, *shown))


def _is_number(text: str) -> bool:
    return text in ("", "-") or text.replace(".", "", 1).replace(",", "").lstrip("-").isdigit()
