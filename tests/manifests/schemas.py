"""JSON Schemas of every kind that an API server serves, for kubeconform: made from its OpenAPI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dynamo_operator.runtime.client import Client

LOCATION = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
"""Where kubeconform finds a kind below the directory of the schemas."""


async def write_schemas(client: Client, directory: Path) -> None:
    """Write a schema for each kind that the server serves, in each version."""
    index = json.loads((await client.request("GET", "/openapi/v3")).body)["paths"]
    for path, entry in index.items():
        if path == "api/v1" or path.count("/") == 2:  # the document of one group and version
            url, _, query = entry["serverRelativeURL"].partition("?")
            hashed = [("hash", query.removeprefix("hash="))]
            answer = await client.request("GET", url, query=hashed)
            _write(json.loads(answer.body), directory)


def _write(document: dict[str, Any], directory: Path) -> None:
    schemas = {
        name: _closed(schema)
        for name, schema in document.get("components", {}).get("schemas", {}).items()
    }
    for name, schema in schemas.items():
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            group = kind["group"].split(".")[0]
            parts = (kind["kind"].lower(), group, kind["version"])
            target = directory / f"{'-'.join(filter(None, parts))}.json"
            whole = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
            if "properties" in schema and "metadata" in schema["properties"]:
                target.write_text(json.dumps(whole), encoding="utf-8")


def _closed(node: Any) -> Any:
    """Return a schema that knows no other properties than those it names."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    is_open = closed.get("x-kubernetes-preserve-unknown-fields")
    if (
        isinstance(closed.get("properties"), dict)
        and closed.get("type") == "object"
        and not is_open
    ):
        closed.setdefault("additionalProperties", False)
    return closed
