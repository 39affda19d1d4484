"""This module names places inside objects the way the API server's messages do."""

from __future__ import annotations

from typing import Any


def join(path: str, name: str) -> str:
    """Return the path of a field below `path`."""
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    """Return the path of a list item."""
    return f"{path}[{position}]"


def key(path: str, name: str) -> str:
    """Return the path of an entry in a free map."""
    return f"{path}[{name}]"


def shown(path: str) -> str:
    """Return the path as a message shows it: the whole object is `<nil>`."""
    return path or "<nil>"


def lookup(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path of map keys, or None when some part is absent."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
