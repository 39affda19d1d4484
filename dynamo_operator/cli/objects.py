"""Objects of one kind as `get` and `list` commands show them: the server's own tables, or whole."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from dynamo_operator.cli.errors import CliError, role_that_is_missing
from dynamo_operator.cli.rendering.output import OutputFormat, objects_text
from dynamo_operator.cli.rendering.table import format_table
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.codec import decode_json
from dynamo_operator.runtime.client.errors import ApiError, ForbiddenError, NotFoundError
from dynamo_operator.runtime.client.paths import object_path, resource_path, selector_query
from informers.objects import ObjectKey, ResourceType

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def add_list_flags(parser: argparse.ArgumentParser) -> None:
    """Add -A and --selector."""
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="those of every namespace"
    )
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="label selector")


async def objects_shown(
    client: Client, kind: ResourceType, arguments: argparse.Namespace, *, name: str | None = None
) -> str:
    """Return one object or those that match, in the format that was asked for.

    Args:
        client: asks.
        kind: their type.
        arguments: have `output`, `namespace`, `all_namespaces` and `selector`.
        name: only that one.

    Raises:
        CliError: there is no object of that name, or the kind is not served.
    """
    everywhere = arguments.all_namespaces and name is None
    namespace = "" if everywhere else arguments.namespace or client.default_namespace
    with_table = arguments.output in (OutputFormat.TABLE, OutputFormat.WIDE)
    try:
        if with_table:
            path = (
                object_path(kind, ObjectKey(namespace, name))
                if name
                else resource_path(kind, namespace)
            )
            query = [] if name else selector_query(arguments.selector, None)
            answer = await client.request("GET", path, query=query, accept=_TABLE)
            table = decode_json(answer.body)
            return _table_text(
                table, wide=arguments.output == OutputFormat.WIDE, everywhere=everywhere
            )
        if name:
            found = [await client.get(kind, ObjectKey(namespace, name))]
        else:
            found = await client.list(kind, namespace=namespace, labels=arguments.selector)
    except ApiError as error:
        raise CliError(refusal(error, kind, name=name or "")) from error
    return objects_text(kind, found, arguments.output, single=bool(name))


def refusal(error: ApiError, kind: ResourceType, *, name: str = "") -> str:
    """Return an answer of the server as the line that a person needs: what, and why not."""
    about = f"{name}: " if name else ""
    if isinstance(error, NotFoundError) and not error.details:  # no object is meant, but the path
        return (
            f"{about}the cluster does not serve {kind.api_version} {kind.kind};"
            " `dynamo-operator crds apply` installs the kinds"
        )
    if isinstance(error, NotFoundError) and error.details.get("name") == name:
        return f"{kind.kind} {name}: is not there; `kubectl get {kind.plural}` lists those that are"
    told = f"{about}{' '.join(error.message.split())}"
    role = role_that_is_missing(told) if isinstance(error, ForbiddenError) else ""
    return f"{told}: {role}" if role else told


def _table_text(table: Mapping[str, Any], *, wide: bool, everywhere: bool) -> str:
    definitions = table.get("columnDefinitions") or []
    rows = table.get("rows") or []
    if not rows:
        return "none found\n"
    shown = [index for index, each in enumerate(definitions) if wide or not each.get("priority")]
    header = [str(definitions[index]["name"]).upper() for index in shown]
    cells = [[_cell(row["cells"][index]) for index in shown] for row in rows]
    if everywhere:
        header.insert(0, "NAMESPACE")
        for row, line in zip(rows, cells, strict=True):
            line.insert(0, str(row["object"]["metadata"].get("namespace", "")))
    return f"{format_table(header, cells)}\n"


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
