"""OpenAPI documents: v3 for each group and version, and v2 for everything."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from dynamo_operator.apiserver import openapi_protobuf, status
from dynamo_operator.apiserver.messages import JSON_TYPE, Response, to_json
from dynamo_operator.apiserver.negotiation import negotiate_media_type
from dynamo_operator.apiserver.resources import Resource
from dynamo_operator.apiserver.schema import OBJECT_META_SCHEMA

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_OBJECT_META = f"{_META}.ObjectMeta"
_LIST_META = f"{_META}.ListMeta"
_LIST_META_SCHEMA = {
    "type": "object",
    "properties": {
        "continue": {"type": "string"},
        "remainingItemCount": {"type": "integer", "format": "int64"},
        "resourceVersion": {"type": "string"},
        "selfLink": {"type": "string"},
    },
}
_API_VERSION = {
    "type": "string",
    "description": "APIVersion defines the versioned schema of this representation of an object.",
}
_KIND = {"type": "string", "description": "Kind names the REST resource this object represents."}
_V3_ONLY = frozenset({"nullable", "oneOf", "anyOf", "allOf", "not"})
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_WRITES = {"post": "post", "put": "put", "patch": "patch"}


def document(
    path: str, accept: str, resources: Iterable[Resource], git_version: str
) -> Response | None:
    """Answer a request for an OpenAPI document, or None where the path is not one.

    Raises:
        StatusError: 404 for a group and version that is not served, 406.
    """
    served = list(resources)
    match [part for part in path.split("/") if part]:
        case ["openapi", "v2"]:
            media_type = negotiate_media_type(accept, (JSON_TYPE, *openapi_protobuf.MEDIA_TYPES))
            swagger = _v2(served, git_version)
            if media_type == JSON_TYPE:
                return Response(200, {"content-type": media_type}, to_json(swagger))
            body = openapi_protobuf.encode_document(swagger)
            # Asked for with an "@", which no Content-Type may contain; answered without.
            return Response(200, {"content-type": openapi_protobuf.MEDIA_TYPES[0]}, body)
        case ["openapi", "v3"]:
            negotiate_media_type(accept, (JSON_TYPE,))
            return Response(200, {"content-type": JSON_TYPE}, to_json(_v3_index(served)))
        case ["openapi", "v3", *rest]:
            negotiate_media_type(accept, (JSON_TYPE,))
            chosen = [r for r in served if _group_path(r) == "/".join(rest)]
            if not chosen:
                raise status.no_such_path()
            body = to_json(_v3(chosen, git_version))
            return Response(200, {"content-type": JSON_TYPE}, body)
    return None


def _v3_index(resources: list[Resource]) -> dict[str, Any]:
    groups = dict.fromkeys(_group_path(resource) for resource in resources)
    paths = {}
    for group in groups:
        chosen = [r for r in resources if _group_path(r) == group]
        digest = hashlib.sha256(to_json(_v3(chosen, ""))).hexdigest().upper()
        paths[group] = {"serverRelativeURL": f"/openapi/v3/{group}?hash={digest}"}
    return {"paths": paths}


def _v3(resources: list[Resource], git_version: str) -> dict[str, Any]:
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": git_version},
        "paths": _paths(resources, v3=True),
        "components": {"schemas": _definitions(resources, "#/components/schemas/")},
    }


def _v2(resources: list[Resource], git_version: str) -> dict[str, Any]:
    definitions = _definitions(resources, "#/definitions/")
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": git_version},
        "paths": _paths(resources, v3=False),
        "definitions": {name: _as_v2(schema) for name, schema in definitions.items()},
    }


def _definitions(resources: list[Resource], prefix: str) -> dict[str, Any]:
    schemas: dict[str, Any] = {
        _OBJECT_META: OBJECT_META_SCHEMA,
        _LIST_META: _LIST_META_SCHEMA,
    }
    for resource in resources:
        name = schema_name(resource)
        schemas[name] = _object_schema(resource, prefix)
        schemas[f"{name}List"] = _list_schema(resource, name, prefix)
    return schemas


def _object_schema(resource: Resource, prefix: str) -> dict[str, Any]:
    schema = resource.strategy.schema
    source: Mapping[str, Any] = schema.source if schema is not None else {"type": "object"}
    properties = {
        **(source.get("properties") or {}),
        "apiVersion": _API_VERSION,
        "kind": _KIND,
        "metadata": {"allOf": [{"$ref": prefix + _OBJECT_META}], "default": {}},
    }
    return {
        **source,
        "properties": properties,
        "x-kubernetes-group-version-kind": [_gvk(resource)],
    }


def _list_schema(resource: Resource, name: str, prefix: str) -> dict[str, Any]:
    kind = resource.list_kind or f"{resource.kind}List"
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _API_VERSION,
            "kind": _KIND,
            "metadata": {"allOf": [{"$ref": prefix + _LIST_META}], "default": {}},
            "items": {"type": "array", "items": {"allOf": [{"$ref": prefix + name}]}},
        },
        "x-kubernetes-group-version-kind": [{**_gvk(resource), "kind": kind}],
    }


def schema_name(resource: Resource) -> str:
    """Return the name of a kind's schema."""
    if resource.custom:
        reverse = ".".join(reversed(resource.group.split(".")))
        return f"{reverse}.{resource.version}.{resource.kind}"
    group = resource.group.split(".")[0] or "core"
    return f"io.k8s.api.{group}.{resource.version}.{resource.kind}"


def _paths(resources: list[Resource], *, v3: bool) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for resource in resources:
        scope = "namespaces/{namespace}/" if resource.namespaced else ""
        collection = f"/{_group_path(resource)}/{scope}{resource.plural}"
        paths[collection] = {
            "get": _operation(resource, "list", v3=v3),
            "post": _operation(resource, "post", v3=v3),
        }
        paths[f"{collection}/{{name}}"] = {
            method: _operation(resource, method, v3=v3)
            for method in ("get", "put", "patch", "delete")
        }
    return paths


def _operation(resource: Resource, action: str, *, v3: bool) -> dict[str, Any]:
    names = _WRITE_PARAMETERS if action in _WRITES else ("dryRun",) if action == "delete" else ()
    parameters = [_parameter(name, v3=v3) for name in names]
    if action == "patch":
        parameters.append(_parameter("force", v3=v3, kind="boolean"))
    return {
        "operationId": f"{action}{resource.version.capitalize()}{resource.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(resource),
    }


def _parameter(name: str, *, v3: bool, kind: str = "string") -> dict[str, Any]:
    typed: dict[str, Any] = (
        {"schema": {"type": kind, "uniqueItems": True}} if v3 else {"type": kind}
    )
    return {"name": name, "in": "query", **typed}


def _as_v2(schema: Any) -> Any:
    """Drop what OpenAPI v2 cannot say; a reference wrapped in allOf becomes the bare reference."""
    if isinstance(schema, list):
        return [_as_v2(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    wrapped = schema.get("allOf")
    if wrapped and "$ref" in wrapped[0]:
        return dict(wrapped[0])
    result = {}
    for key, value in schema.items():
        if key in _V3_ONLY:
            continue
        if key == "properties":
            result[key] = {name: _as_v2(item) for name, item in value.items()}
        else:
            result[key] = _as_v2(value)
    return result


def _gvk(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _group_path(resource: Resource) -> str:
    if not resource.group:
        return f"api/{resource.version}"
    return f"apis/{resource.group}/{resource.version}"
