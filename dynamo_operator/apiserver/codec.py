"""Bodies in and out: JSON, and YAML read as the JSON values it stands for."""

from __future__ import annotations

import io
import json
import math
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.messages import to_json

# Far below what Python's recursion takes, so that whatever walks an object gets through it.
MAX_DEPTH = 250
_MOST_EXPANDED = 4 * 1024 * 1024
_NODE_SIZE = 8
_INT64_LENGTH = len(str(-(2**63)))


class Parsed(NamedTuple):
    """A body's value, and what strict decoding says of the keys that it repeats."""

    value: Any
    repeated: list[str]


def parse_json(data: bytes, *, merging: bool = False) -> Parsed:
    """Decode JSON.

    Args:
        data: the text.
        merging: whether objects under a repeated key are merged, as into a Go struct; otherwise the
            last counts.

    Raises:
        StatusError: 400.
    """
    found: list[_Repeating] = []

    def as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) == len(pairs):
            return result
        found.append(_Repeating(pairs))
        return found[-1]

    try:
        value = json.loads(
            data,
            object_pairs_hook=as_object,
            parse_constant=_refuse_constant,
            parse_float=_number,
            parse_int=_whole_number,
        )
        check_depth(value)
    except (ValueError, RecursionError) as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    repeated: list[str] = []
    if found:
        value = _without_repeated(value, "", repeated, merging=merging)
    if b"\\ud" in data.lower():
        value = json.loads(to_json(value))  # half a surrogate pair becomes U+FFFD
    return Parsed(value, list(dict.fromkeys(repeated)))


def parse_yaml(data: bytes) -> Parsed:
    """Decode one YAML document; JSON is YAML too, and is read as such.

    Raises:
        StatusError: 400.
    """
    if _is_json(data):
        parsed = parse_json(data)
        return Parsed(parsed.value, _yaml(data)[1] if parsed.repeated else [])
    value, repeated = _yaml(data)
    return Parsed(value, repeated)


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


class _Repeating(dict[str, Any]):
    """An object of which a key occurs twice, and all its pairs."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _without_repeated(value: Any, path: str, repeated: list[str], *, merging: bool) -> Any:
    """Return the value as plain objects; notes what was repeated, in the order of the text."""

    def below(child: Any, where: str) -> Any:
        return _without_repeated(child, where, repeated, merging=merging)

    if isinstance(value, list):
        return [below(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key, item in value.pairs if isinstance(value, _Repeating) else value.items():
        where = f"{path}.{key}" if path else key
        if key in result:
            repeated.append(f'duplicate field "{where}"')
        child = below(item, where)
        result[key] = _merged(result.get(key), child) if merging else child
    return result


def _merged(first: Any, second: Any) -> Any:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    return {**first, **{key: _merged(first.get(key), item) for key, item in second.items()}}


def _yaml(data: bytes) -> tuple[Any, list[str]]:
    """Return the JSON value of a YAML document, and what Go says of each repeated key in it."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)  # kubernetes reads `yes` and `on` as booleans
    try:
        constructor, parser = yaml.get_constructor_parser(data.decode("utf-8"))
        try:
            node = constructor.composer.get_single_node()
            repeated = _drop_repeated(node, set())
            value = None if node is None else constructor.construct_document(node)
        finally:
            parser.dispose()
        check_depth(value)
        return _Plain().of(value), repeated
    except (YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        first = str(error).replace("\n", " ")
        raise status.bad_request(f"error decoding YAML: {first}") from None


def _drop_repeated(node: Any, seen: set[int]) -> list[str]:
    """Leave of each repeated key the last, and return what was told of the others."""
    if id(node) in seen:  # an alias
        return []
    seen.add(id(node))
    if isinstance(node, SequenceNode):
        return [line for item in node.value for line in _drop_repeated(item, seen)]
    if not isinstance(node, MappingNode):
        return []
    lines: list[str] = []
    kept: dict[object, Any] = {}
    for key, value in node.value:
        lines += _drop_repeated(value, seen)
        name = key.value if isinstance(key, ScalarNode) and key.value != "<<" else id(key)
        if name in kept:
            lines.append(f'line {value.start_mark.line + 1}: key "{name}" already set in map')
        kept[name] = (key, value)
    node.value = list(kept.values())
    return lines


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
        if value is None or isinstance(value, (str, bool)):
            return value
        if isinstance(value, (int, float)):
            return _as_json_number(value)
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


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return value


def _whole_number(text: str) -> int | float:
    """Return what Go makes of it: an int64, or else a float64."""
    if len(text) <= _INT64_LENGTH and -(2**63) <= (value := int(text)) < 2**63:
        return value
    return _number(text)


def _as_json_number(value: float) -> int | float:
    """Return a number of YAML as JSON has it, which knows no NaN and no infinity."""
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"json: unsupported value: {number}")
    return number
