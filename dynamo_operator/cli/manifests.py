"""Reading manifests that people wrote."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from dynamo_operator.cli.errors import USAGE, CliError


def read_manifests(source: str) -> list[dict[str, Any]]:
    """Return the documents of a YAML or JSON file, or of standard input for `-`.

    Raises:
        CliError: the file cannot be read, is no YAML (line and column are named), or a document
            is not an object.
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
    for index, document in enumerate(documents):
        if not isinstance(document, dict):
            message = f"{where}: document {index + 1} is not an object with apiVersion and kind"
            raise CliError(message, exit_code=USAGE)
    if not documents:
        raise CliError(f"{where}: holds no document", exit_code=USAGE)
    return documents
