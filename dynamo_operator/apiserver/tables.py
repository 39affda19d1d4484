"""Tables: what `kubectl get` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.resources import Column, Object, Resource

_NAME_DESCRIPTION = "Name must be unique within a namespace."


def table(
    resource: Resource,
    objects: Sequence[Object],
    *,
    now: datetime,
    include_object: str = "",
    headers: bool = True,
    api_version: str = "meta.k8s.io/v1",
) -> dict[str, Any]:
    """Return a Table of the objects.

    Args:
        resource: what the objects are.
        objects: the rows.
        now: what ages count from.
        include_object: None, Metadata (the default) or Object.
        headers: whether to include the column definitions.
        api_version: of the Table, and of the metadata in it.

    Raises:
        StatusError: 400 for another `include_object`.
    """
    if include_object not in {"", "None", "Metadata", "Object"}:
        quoted = json.dumps(include_object)
        detail = f"Invalid value: {quoted}: must be 'Metadata', 'Object', 'None', or empty"
        text = f"Unable to convert to Table as requested: includeObject: {detail}"
        raise status.bad_request(text)
    columns = columns_of(resource)
    rows = [
        {
            "cells": [column.cell(obj, now) for column in columns],
            **_included(obj, include_object, api_version),
        }
        for obj in objects
    ]
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": _list_metadata(objects),
        "columnDefinitions": [_definition(column) for column in columns] if headers else [],
        "rows": rows,
    }


def columns_of(resource: Resource) -> Sequence[Column]:
    """Return all columns of a resource, Name first."""
    name = Column("Name", "string", _name, _NAME_DESCRIPTION, "name")
    return (name, *(resource.strategy.columns or (AGE,)))


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl shows ages: two units at most, coarser with growing length."""
    seconds = int(seconds)
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(hours // 24, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{hours // 24}d"
    if hours < 24 * 365 * 8:
        return _two(hours // 24 // 365, "y", hours // 24 % 365, "d")
    return f"{hours // 24 // 365}y"


def age_since(timestamp: str | None, now: datetime) -> str:
    """Return how long ago an RFC 3339 time was, or `<unknown>`."""
    if not timestamp:
        return "<unknown>"
    try:
        then = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    except ValueError:
        return "<unknown>"
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return human_duration((now - then).total_seconds())


def _creation_age(obj: Object, now: datetime) -> str:
    return age_since(obj["metadata"].get("creationTimestamp"), now)


AGE = Column(
    "Age",
    "string",
    _creation_age,
    "CreationTimestamp is a timestamp representing the server time when this object was created.",
)


def _name(obj: Object, _now: datetime) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _two(first: int, first_unit: str, second: int, second_unit: str) -> str:
    return f"{first}{first_unit}{second}{second_unit}" if second else f"{first}{first_unit}"


def _included(obj: Object, include_object: str, api_version: str) -> dict[str, Any]:
    match include_object:
        case "None":
            return {"object": None}
        case "Object":
            return {"object": obj}
    return {
        "object": {
            "kind": "PartialObjectMetadata",
            "apiVersion": api_version,
            "metadata": obj["metadata"],
        }
    }


def _list_metadata(objects: Sequence[Object]) -> Mapping[str, Any]:
    if len(objects) != 1:
        return {}
    version = objects[0]["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
