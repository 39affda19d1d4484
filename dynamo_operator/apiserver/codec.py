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
        return _plain(yaml.load(data.decode("utf-8")))
    except (YAMLError, UnicodeDecodeError, ValueError) as error:
        first = str(error).replace("\n", " ")
        raise status.bad_request(f"error decoding YAML: {first}") from None


def to_yaml(value: Any) -> bytes:
    """Encode as block-style YAML."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    stream = io.BytesIO()
    yaml.dump(value, stream)
    return stream.getvalue()


def _plain(value: Any) -> Any:
    """Turn what only YAML has (dates, non-string keys) into JSON values."""
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else str(value)


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"invalid character in literal {name}")
