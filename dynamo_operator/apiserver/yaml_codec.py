"""YAML bodies in and out; strings, numbers and booleans are read as JSON would have them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dynamo_operator.apiserver import status


def parse_yaml(data: bytes, duplicate: Callable[[str], None] = lambda _: None) -> Any:
    """Decode one YAML document; JSON is YAML too.

    Raises:
        StatusError: 400.
    """
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
