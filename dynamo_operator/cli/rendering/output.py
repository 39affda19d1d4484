"""The flag `-o` and what its formats look like; kubectl's words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from dynamo_operator.aisimulate.document import dump_yaml
from informers.objects import ResourceType


class OutputFormat(StrEnum):
    """What a result is printed as."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


OBJECTS = tuple(OutputFormat)
"""Of commands that show objects."""

DOCUMENTS = (OutputFormat.TABLE, OutputFormat.JSON, OutputFormat.YAML)
"""Of commands whose result is no object."""


def add_output_flag(
    parser: argparse.ArgumentParser, formats: Sequence[OutputFormat] = OBJECTS
) -> None:
    """Add -o, with the formats that the command has."""
    parser.add_argument(
        "-o",
        "--output",
        choices=[str(each) for each in formats],
        default=str(OutputFormat.TABLE),
        metavar="FORMAT",
        help="one of %(choices)s; default: %(default)s",
    )


def document_text(document: Any, output: str) -> str:
    """Return JSON or YAML of plain values, ending with a newline."""
    if output == OutputFormat.YAML:
        return dump_yaml(document)
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n"


def objects_text(
    kind: ResourceType, objects: Sequence[Mapping[str, Any]], output: str, *, single: bool = False
) -> str:
    """Return objects as names, JSON or YAML.

    Args:
        kind: their type.
        objects: as the server gave them.
        output: the format.
        single: whether one was asked for by its name, and is no list.
    """
    if output == OutputFormat.NAME:
        return "".join(f"{reference(kind, each['metadata']['name'])}\n" for each in objects)
    listed = {"apiVersion": "v1", "kind": "List", "items": [dict(each) for each in objects]}
    return document_text(objects[0] if single else listed, output)


def reference(kind: ResourceType, name: str) -> str:
    """Return how kubectl writes an object: resource.group/name."""
    group = f".{kind.group}" if kind.group else ""
    return f"{kind.kind.lower()}{group}/{name}"
