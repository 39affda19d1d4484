"""Reading manifests that people wrote."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from dynamo_operator.cli.errors import USAGE, CliError

_MOST_VALUES = 200_000
"""Values of a document, aliases expanded: more than an object that a cluster stores can hold."""
_DEEPEST = 500


def read_manifests(source: str, *, may_be_empty: bool = False) -> list[dict[str, Any]]:
    """Return the documents of a YAML or JSON file, or of standard input for `-`.

    Args:
        source: the file.
        may_be_empty: whether a file without any document will do.

    Raises:
        CliError: the file cannot be read, is no YAML (line and column are named), or a document
            is not an object or holds what JSON cannot.
    """
    where = "standard input" if source == "-" else source
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise CliError(f"{where}: cannot be read: {error.strerror}", exit_code=USAGE) from None
    except UnicodeDecodeError as error:
        message = f"{where}: byte {error.start} is not UTF-8 text; save the file as UTF-8"
        raise CliError(message, exit_code=USAGE) from None
    try:
        documents = [each for each in YAML(typ="safe", pure=True).load_all(text) if each]
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise CliError(f"{where}: {place}{error.problem}", exit_code=USAGE) from None
    except YAMLError as error:
        raise CliError(f"{where}: {str(error).splitlines()[0]}", exit_code=USAGE) from None
    except RecursionError:
        raise CliError(
            f"{where}: is nested too deeply; at most {_DEEPEST} levels", exit_code=USAGE
        ) from None
    for index, document in enumerate(documents):
        if not isinstance(document, dict):
            message = f"{where}: document {index + 1} is not an object, but {document!r:.40}"
            raise CliError(message, exit_code=USAGE)
        if (problem := _not_json(document)) is not None:
            raise CliError(f"{where}: document {index + 1}: {problem}", exit_code=USAGE)
    if not documents and not may_be_empty:
        raise CliError(f"{where}: holds no document", exit_code=USAGE)
    return documents


def _not_json(document: dict[str, Any]) -> str | None:
    """Say what of a document has no JSON form, or would be too much once aliases are expanded."""
    for count, (path, value) in enumerate(_values(document)):
        if count == _MOST_VALUES:
            return f"its aliases expand to more than {_MOST_VALUES} values"
        if len(path) > _DEEPEST:
            return f"is nested too deeply at {'.'.join(path[:3])}; at most {_DEEPEST} levels"
        if isinstance(value, float) and not math.isfinite(value):
            return f"{'.'.join(path)}: is {value}; must be a finite number"
        if isinstance(value, dict) and (odd := [k for k in value if isinstance(k, tuple | bytes)]):
            return f"{'.'.join((*path, repr(odd[0])))}: is no key; must be text"
    return None


def _values(document: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value with its path, as often as aliases repeat it; a cycle never ends."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, dict):
            waiting += [((*path, str(key)), each) for key, each in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [((*path, str(index)), each) for index, each in enumerate(value)][::-1]
