"""An explained effective input as a table, as commented YAML, and as plain values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dynamo_operator.aisimulate.document import dump_yaml
from dynamo_operator.aisimulate.violations import dotted
from dynamo_operator.cli.effective_input import FOR_EACH_RUN, EffectiveInput
from dynamo_operator.cli.rendering.output import OutputFormat, document_text
from dynamo_operator.cli.rendering.table import format_table
from dynamo_operator.cli.rendering.terminal import clipped, printable

_INDENT = "  "
_LONGEST_VALUE = 60
_FURTHEST_COMMENT = 60


def effective_input_text(explained: EffectiveInput, output: str) -> str:
    """Return it in a format: a table of values, commented YAML, or JSON."""
    if output == OutputFormat.YAML:
        return _commented(explained)
    if output == OutputFormat.JSON:
        values = [each.to_dict() for each in explained.values]
        return document_text({"effectiveInput": explained.document, "values": values}, output)
    rows = [
        (dotted(each.path), clipped(value_text(each.value), _LONGEST_VALUE), each.told)
        for each in explained.values
    ]
    return f"{format_table(('VALUE OF', 'IS', 'BECAUSE OF'), rows)}\n"


def value_text(value: Any) -> str:
    """Return a value in one line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _commented(explained: EffectiveInput) -> str:
    """Return YAML that parses to the document, the origin beside each value."""
    told = {each.path: each.told for each in explained.values}
    lines = [*_lines(explained.document, told, ())]
    column = min(max((len(text) for text, _ in lines), default=0), _FURTHEST_COMMENT)
    parts = [
        f"{text.ljust(column)}  # {printable(comment)}" if comment else text
        for text, comment in lines
    ]
    parts += [
        f"# {dotted(each.path)}: {each.told}, for each Run"
        for each in explained.values
        if each.value == FOR_EACH_RUN
    ]
    return "".join(f"{part}\n" for part in parts)


def _lines(
    node: Mapping[str, Any], told: Mapping[tuple[str, ...], str], path: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    indent = _INDENT * len(path)
    for key, value in node.items():
        here = (*path, key)
        dumped = dump_yaml({key: value}).splitlines()
        # A key that is too long for one line has another form, which is left whole.
        if isinstance(value, Mapping) and value and not dumped[0].startswith("? "):
            yield f"{indent}{dumped[0]}", ""
            yield from _lines(value, told, here)
            continue
        yield f"{indent}{dumped[0]}", told.get(here, "")
        yield from ((f"{indent}{line}", "") for line in dumped[1:])
