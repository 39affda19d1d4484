"""Bodies in and out: JSON, and YAML read as the JSON values it stands for."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.messages import to_json

# Far below what Python's recursion takes, so that whatever walks an object gets through it.
MAX_DEPTH = 250
_MOST_EXPANDED = 4 * 1024 * 1024
_NODE_SIZE = 8


def parse_json(data: bytes, duplicate: Callable[[str], None] = lambda _: None) -> Any:
    """Decode JSON, reporting keys that occur twice in one object.

    Raises:
        StatusError: 400.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    duplicate(key)
                seen.add(key)
        return result

    try:
        value = json.loads(data, object_pairs_hook=pairs, parse_constant=_refuse_constant)
        if b"\\ud" in data.lower():
            value = json.loads(to_json(value))  # half a surrogate pair becomes U+FFFD
        check_depth(value)
        return value
    except (ValueError, RecursionError) as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from None


def parse_yaml(data: bytes, duplicate: Callable[[str], None] = lambda _: None) -> Any:
    """Decode one YAML document; JSON is YAML too, and is read as such.

    Raises:
        StatusError: 400.
    """
    if _is_json(data):
        return parse_json(data, duplicate)
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # kubernetes reads `yes` and `on` as booleans
    try:
        value = yaml.load(data.decode("utf-8"))
        check_depth(value)
        return _Plain().of(value)
    except (YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        first = str(error).replace("\n", " ")
        raise status.bad_request(f"error decoding YAML: {first}") from None


def check_depth(value: Any) -> None:
    """Refuse a value that is nested too deeply to be walked.

    Raises:
        StatusError: 400.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: dict[int, Any] = {}  # what YAML's aliases repeat is looked at once
        for node in level:
            if isinstance(node, (dict, list)):
                children = node.values() if isinstance(node, dict) else node
                inner.update((id(child), child) for child in children)
        if not inner:
            return
        level = list(inner.values())
    raise status.bad_request(f"the data is nested deeper than {MAX_DEPTH} levels")


def with_whole_numbers(value: Any) -> Any:
    """Return a copy in which 8.0 is 8: YAML does not tell them apart on the way to the server."""
    if isinstance(value, dict):
        return {name: with_whole_numbers(child) for name, child in value.items()}
    if isinstance(value, list):
        return [with_whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def to_yaml(value: Any) -> bytes:
    """Encode as block-style YAML."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    stream = io.BytesIO()
    yaml.dump(value, stream)
    return stream.getvalue()


class _Plain:
    """Turns what only YAML has (dates, non-string keys, aliases) into JSON values."""

    def __init__(self) -> None:
        self._left = _MOST_EXPANDED

    def of(self, value: Any) -> Any:
        self._left -= _NODE_SIZE + (len(value) if isinstance(value, str) else 0)
        if self._left < 0:
            raise ValueError(f"its aliases stand for more than {_MOST_EXPANDED} bytes")
        if isinstance(value, dict):
            return {_key(key): self.of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if value is None or isinstance(value, (str, int, float, bool)):
            return value
        if hasattr(value, "isoformat"):
            return value.isoformat().replace("+00:00", "Z")
        return str(value)


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    except RecursionError:  # only what is JSON so far gets that deep
        return True
    return True


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"invalid character in literal {name}")
