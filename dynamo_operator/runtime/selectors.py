"""Label and field selectors: read from text, and applied to objects that are already here.

Both are written as `kubectl -l` and `--field-selector` take them; fields know `in` and `notin` too,
which API servers do not: whoever reads objects then filters them itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from informers.indexers import Index
from informers.objects import CachedObject, ObjectKey

if TYPE_CHECKING:  # the client itself selects with what is here
    from dynamo_operator.runtime.client.paths import Fields

LabelMatcher = Callable[[Mapping[str, str]], bool]

_decode: Final = msgspec.json.Decoder().decode

KEY_FIELDS: Final = ("metadata.name", "metadata.namespace")
"""The fields that every API server selects every kind by."""

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_KEY = rf"(?:{_NAME}/)?{_NAME}"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<absent_key>{_KEY})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_operator>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{_KEY})(?:\s*(?P<operator>==|=|!=)\s*(?P<value>{_NAME})?)?)\s*(?:,|$)"
)
_PATH = r"[A-Za-z_][\w.-]*"
_VALUE = r"(?:[^\\,=!()]|\\.)*"
_FIELD_REQUIREMENT = re.compile(
    rf"\s*(?P<path>{_PATH})\s*(?:(?P<operator>==|=|!=)(?P<value>{_VALUE})"
    rf"|\s(?P<set_operator>in|notin)\s*\((?P<values>[^()]*)\))\s*(?:,|$)"
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


def label_text(selector: Mapping[str, str] | str | None) -> str:
    """Return a label selector as text."""
    if isinstance(selector, str):
        return selector
    return ",".join(f"{name}={value}" for name, value in sorted((selector or {}).items()))


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition of a field selector: the text at a path is among some values, or is not.

    A field that an object does not have is the empty text, as for the API server.
    """

    path: str
    values: tuple[str, ...]
    wanted: bool = True

    @property
    def is_servable(self) -> bool:
        """Whether it can be said in an API server's words: `=` and `!=`."""
        return len(self.values) == 1 or not self.wanted

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether a decoded object meets it."""
        return (field_text(obj, self.path) in self.values) is self.wanted

    def __str__(self) -> str:
        operator = "=" if self.wanted else "!="
        return ",".join(f"{self.path}{operator}{_escaped(value)}" for value in self.values)


def parse_fields(fields: Fields) -> tuple[FieldRequirement, ...]:
    r"""Read a field selector.

    Args:
        fields: a mapping of dotted paths to the text that they must have, or selector text: `=`,
            `==`, `!=`, `in (a, b)`, `notin (a, b)`, joined by commas; in a value `\\`, `\\,` and
            `\\=` stand for the second character.

    Raises:
        ValueError: the text is no selector.
    """
    if not fields:
        return ()
    if not isinstance(fields, str):
        return tuple(FieldRequirement(path, (value,)) for path, value in sorted(fields.items()))
    requirements: list[FieldRequirement] = []
    position = 0
    while position < len(fields):
        match = _FIELD_REQUIREMENT.match(fields, position)
        if match is None:
            raise ValueError(
                f"field selector {fields!r}: cannot read {fields[position:].strip()!r}; "
                "wanted path=value, path!=value, path in (a,b) or path notin (a,b)"
            )
        requirements.append(_field_requirement(match))
        position = match.end()
    return tuple(requirements)


def server_field_text(fields: Fields) -> str:
    """Return a field selector in an API server's words.

    Raises:
        ValueError: it cannot be read, or has `in`, which no API server knows.
    """
    requirements = parse_fields(fields)
    for requirement in requirements:
        if not requirement.is_servable:
            raise ValueError(
                f"field selector {fields!r}: API servers select by = and != only; "
                f"watch without {requirement.path} and filter with a predicate"
            )
    return ",".join(str(requirement) for requirement in requirements)


def fields_match(obj: Mapping[str, Any], fields: Fields) -> bool:
    """Whether each dotted path of a decoded object has the wanted text; an absent field is ""."""
    return all(requirement.matches(obj) for requirement in parse_fields(fields))


def meets(obj: CachedObject, requirements: Sequence[FieldRequirement]) -> bool:
    """Whether a whole cached object meets all of some requirements."""
    decoded = _decode(obj.data)
    return all(requirement.matches(decoded) for requirement in requirements)


def names_match(key: ObjectKey, fields: Fields) -> bool:
    """Whether a selector that looks at nothing but names surely selects that key."""
    names = {"metadata": {"name": key.name, "namespace": key.namespace}}
    return all(r.path in KEY_FIELDS and r.matches(names) for r in parse_fields(fields))


def by_field(path: str) -> Index:
    """Return the index of the text at a dotted path; lists by that field then look nothing else up.

    Each change of an object is decoded for it, so that it pays where lists are frequent and the
    objects many.
    """

    def values(obj: CachedObject) -> tuple[str, ...]:
        return (field_text(_decode(obj.data), path),)

    return Index(field_index_name(path), values)


def field_index_name(path: str) -> str:
    """Return how the index of a field is called."""
    return f"field:{path}"


def field_text(obj: Mapping[str, Any], path: str) -> str:
    """Return what is at a dotted path of a decoded object, as text."""
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(text: str) -> Sequence[LabelMatcher]:
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


def _field_requirement(match: re.Match[str]) -> FieldRequirement:
    if match["set_operator"]:
        values = tuple(sorted({value.strip() for value in match["values"].split(",")}))
        return FieldRequirement(match["path"], values, wanted=match["set_operator"] == "in")
    value = re.sub(r"\\(.)", r"\1", match["value"].strip())
    return FieldRequirement(match["path"], (value,), wanted=match["operator"] != "!=")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _present(key: str) -> LabelMatcher:
    return lambda labels: key in labels


def _absent(key: str) -> LabelMatcher:
    return lambda labels: key not in labels


def _one_of(key: str, values: frozenset[str], *, wanted: bool) -> LabelMatcher:
    # An object without the label satisfies `!=` and `notin`, as the API server has it.
    if wanted:
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values
