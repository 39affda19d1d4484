"""The canonical YAML of a document: one form, which two YAML dialects read alike."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from dynamo_operator.api.schema import canonical_number

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS_OF_SOME_DIALECT: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
)
_NO_FOLDING: Final = 2**20


def canonical(value: Any) -> Any:
    """Return the value as the API server would give it back, with keys in order.

    Integral floats become integers; nothing of the argument is shared with the result.

    Raises:
        ValueError: a number is not finite, so that JSON cannot hold it.
    """
    if isinstance(value, Mapping):
        return {str(key): canonical(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return str(value) if isinstance(value, str) else canonical_number(value)


def dump_document(document: Mapping[str, Any]) -> str:
    """Return the canonical YAML; dumping what it parses to gives the same text."""
    return dump_yaml(canonical(document))


def dump_yaml(value: Any) -> str:
    """Return the value as block-style YAML, keys in the order that they have."""
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = _NO_FOLDING
    yaml.allow_unicode = True
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment] # declared None
    yaml.Representer = _CanonicalRepresenter
    yaml.dump(value, stream)
    return stream.getvalue()


def load_document(text: str) -> Any:
    """Return what a YAML text holds.

    Raises:
        ruamel.yaml.error.YAMLError: the text is not YAML.
    """
    return YAML(typ="safe", pure=True).load(text)


class _CanonicalRepresenter(SafeRepresenter):
    """Quotes what YAML 1.1 and 1.2 read differently, e.g. `on`, `1e3` and `0123`."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, data: str) -> ScalarNode:
        plain = _PLAIN.fullmatch(data) and data.lower() not in _WORDS_OF_SOME_DIALECT
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=None if plain else '"')

    def represent_real(self, data: float) -> ScalarNode:
        text = repr(data)
        if "e" in text and "." not in text:
            text = text.replace("e", ".0e")
        return self.represent_scalar("tag:yaml.org,2002:float", text)


_CanonicalRepresenter.add_representer(str, _CanonicalRepresenter.represent_text)
_CanonicalRepresenter.add_representer(float, _CanonicalRepresenter.represent_real)
