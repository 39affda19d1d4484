"""Label and field selectors, applied to objects that are already here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

LabelMatcher = Callable[[Mapping[str, str]], bool]

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_KEY = rf"(?:{_NAME}/)?{_NAME}"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<absent_key>{_KEY})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_operator>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{_KEY})(?:\s*(?P<operator>==|=|!=)\s*(?P<value>{_NAME})?)?)\s*(?:,|$)"
)


def label_matcher(selector: Mapping[str, str] | str | None) -> LabelMatcher | None:
    """Compile a selector: a mapping of labels that must be equal, or kubectl's `-l` syntax.

    Returns:
        A function over an object's labels, or None when everything matches.

    Raises:
        ValueError: the text is no selector.
    """
    if not selector:
        return None
    if isinstance(selector, str):
        requirements = _parse(selector)
        return lambda labels: all(requirement(labels) for requirement in requirements)
    wanted = tuple(selector.items())
    return lambda labels: all(labels.get(name) == value for name, value in wanted)


def fields_match(obj: Mapping[str, Any], fields: Mapping[str, str]) -> bool:
    """Whether each dotted path of a decoded object has the wanted text; an absent field is ""."""
    return all(_field_text(obj, path) == value for path, value in fields.items())


def _parse(text: str) -> list[LabelMatcher]:
    requirements: list[LabelMatcher] = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise ValueError(
                f"label selector {text!r}: cannot read {text[position:].strip()!r}; "
                "wanted key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
            )
        requirements.append(_requirement(match))
        position = match.end()
    return requirements


def _requirement(match: re.Match[str]) -> LabelMatcher:
    if match["absent"]:
        return _absent(match["absent_key"])
    if match["set_key"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        return _one_of(match["set_key"], values, wanted=match["set_operator"] == "in")
    if match["operator"] is None:
        return _present(match["key"])
    return _one_of(
        match["key"], frozenset({match["value"] or ""}), wanted=match["operator"] != "!="
    )


def _present(key: str) -> LabelMatcher:
    return lambda labels: key in labels


def _absent(key: str) -> LabelMatcher:
    return lambda labels: key not in labels


def _one_of(key: str, values: frozenset[str], *, wanted: bool) -> LabelMatcher:
    # An object without the label satisfies `!=` and `notin`, as the API server has it.
    if wanted:
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


def _field_text(obj: Mapping[str, Any], path: str) -> str:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
