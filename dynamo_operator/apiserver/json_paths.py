"""This module evaluates the JSONPath subset of printer columns, scale and selectable fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

Step = Callable[[Any], Iterable[Any]]

_STEP: Final = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)"""
    r"""|\[(?:'(?P<single>(?:\\'|[^'])*)'|"(?P<double>(?:\\"|[^"])*)")\]"""
    r"""|\[(?P<index>-?\d+)\]|\[(?P<all>\*)\]|(?P<any>\.\*)"""
    r"""|\[\?\(@(?P<left>[^=!<>]+?)\s*(?P<operator>[=!]=)\s*(?P<right>'[^']*'|"[^"]*"|[^)]+)\)\]"""
)


class JsonPath:
    """A compiled path such as `.status.conditions[?(@.type=="Ready")].status`.

    Raises:
        ValueError: the text is not of the supported subset.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = list(_compile(text))

    def find(self, value: Any) -> list[Any]:
        """Return every value at the path, in document order."""
        found = [value]
        for step in self._steps:
            found = [child for one in found for child in step(one)]
        return found

    def first(self, value: Any) -> Any:
        """Return the first value at the path, or None."""
        return next(iter(self.find(value)), None)


def simple_fields(text: str) -> Sequence[str] | None:
    """Return the field names of a path of plain fields; None when it is more than that."""
    names = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or match.group("field") in (None, "*"):
            return None
        names.append(_unescape(match.group("field")))
        position = match.end()
    return names


def _compile(text: str) -> Iterable[Step]:
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise ValueError(f"{text!r} is not a JSON path that is understood here, at {position}")
        yield _step(match)
        position = match.end()


def _step(match: re.Match[str]) -> Step:
    names = match.groupdict()
    field = names["field"] or names["single"] or names["double"]
    if names["all"] or names["any"] or names["field"] == "*":
        return _children
    if field is not None:
        return _field(_unescape(field))
    if names["index"] is not None:
        return _item(int(names["index"]))
    return _filter(JsonPath(names["left"]), names["operator"], names["right"].strip())


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _item(index: int) -> Step:
    return lambda value: (
        [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    )


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _filter(left: JsonPath, operator: str, right: str) -> Step:
    wanted = right[1:-1] if right[:1] in ("'", '"') else right

    def matches(item: Any) -> bool:
        found = left.first(item)
        shown = str(found).lower() if isinstance(found, bool) else str(found)
        return (found is not None and shown == wanted) == (operator == "==")

    return lambda value: [item for item in _children(value) if matches(item)]
