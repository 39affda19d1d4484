"""Values as Go prints them, in what the server says of them."""

from __future__ import annotations

from typing import Any


def go_text(value: Any) -> str:
    """Return a JSON value as Go's %v shows it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{go_text(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)
