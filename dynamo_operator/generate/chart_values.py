"""The schema of the chart's values: what is unknown, or of a wrong type, is refused by its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic.alias_generators import to_camel

from dynamo_operator.settings import OperatorSettings

Schema = dict[str, Any]

_KNOWN_BETTER: Final = {
    "discovery",
    "featureGates",
    "gpu",
    "operatorImage",
    "server",
    "watchNamespaces",
    "webhooks",
}
"""Settings that follow from other values."""

_TEXT: Final[Schema] = {"type": "string"}
_SWITCH: Final[Schema] = {"type": "boolean"}
_CHOICE: Final[Schema] = {"type": ["boolean", "null"]}
_PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
_FREE: Final[Schema] = {"type": "object"}
_FREE_LIST: Final[Schema] = {"type": "array", "items": _FREE}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}
_TEXT_BY_NAME: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_NAME: Final[Schema] = {
    "type": "string",
    "pattern": r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
    "maxLength": 253,
}
_NAMESPACE: Final[Schema] = {
    "type": "string",
    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    "maxLength": 63,
}
_DURATION: Final[Schema] = {"type": "string", "pattern": "^([0-9]+(h|m|s))+$"}


def values_schema() -> Schema:
    """Return the JSON Schema of the values; `config` is the operator's own settings."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_object(
            {
                "global": _FREE,
                "nameOverride": _NAMESPACE,
                "fullnameOverride": _NAMESPACE,
                "dgdrV1Beta2": _object({"enabled": _SWITCH}),
                "upgradeCRD": _SWITCH,
                "namespaceRestriction": _object(
                    {
                        "enabled": _SWITCH,
                        "targetNamespace": _NAMESPACE,
                        "targetNamespaces": {
                            "type": "array",
                            "items": {**_NAMESPACE, "minLength": 1},
                            "uniqueItems": True,
                        },
                    }
                ),
                "publisherPolicy": _object({"enabled": _SWITCH}),
                "gpuDiscovery": _object({"enabled": _CHOICE}),
                "discoveryBackend": {"enum": ["kubernetes", "etcd"]},
                "imagePullSecrets": {
                    "type": "array",
                    "items": {**_object({"name": _NAME}), "required": ["name"]},
                },
                "controllerManager": _controller_manager(),
                "webhook": _webhook(),
                "metrics": _object(
                    {
                        "enabled": _CHOICE,
                        "port": _PORT,
                        "serviceMonitor": _object(
                            {"enabled": _SWITCH, "labels": _TEXT_BY_NAME, "interval": _DURATION}
                        ),
                    }
                ),
                "networkPolicy": _object(
                    {
                        "enabled": _SWITCH,
                        "apiServer": _object(
                            {"cidrs": _TEXTS, "ports": {"type": "array", "items": _PORT}}
                        ),
                        "runs": _object({"namespaces": _TEXTS}),
                    }
                ),
                "config": _settings(),
            }
        ),
    }


def _controller_manager() -> Schema:
    image = {
        "repository": {"type": "string", "minLength": 1},
        "tag": {},  # a number is refused by a template, which can say to quote it
        "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    }
    return _object(
        {
            "replicas": {"type": "integer", "minimum": 1},
            "leaderElection": _object({"id": _NAME, "namespace": _NAMESPACE}),
            "manager": _object(
                {
                    "image": _object(image),
                    "resources": _object({"requests": _FREE, "limits": _FREE}),
                    "env": _FREE_LIST,
                }
            ),
            "runAsUser": {"type": ["integer", "null"], "minimum": 1},
            "serviceAccount": _object(
                {"create": _SWITCH, "name": _NAME, "annotations": _TEXT_BY_NAME}
            ),
            "podAnnotations": _TEXT_BY_NAME,
            "podLabels": _TEXT_BY_NAME,
            "nodeSelector": _TEXT_BY_NAME,
            "tolerations": _FREE_LIST,
            "affinity": _FREE,
            "topologySpreadConstraints": _FREE_LIST,
            "priorityClassName": _NAME,
            "podDisruptionBudget": _object(
                {"enabled": _CHOICE, "minAvailable": {"type": ["integer", "string"]}}
            ),
        }
    )


def _webhook() -> Schema:
    lifetime = {"duration": _DURATION, "renewBefore": _DURATION}
    return _object(
        {
            "enabled": _SWITCH,
            "failurePolicy": {"enum": ["Fail", "Ignore"]},
            "timeoutSeconds": {"type": "integer", "minimum": 1, "maximum": 30},
            "namespaceSelector": _FREE,
            "caBundle": _TEXT,
            "certificateSecret": _object({"name": _NAME, "external": _SWITCH}),
            "certManager": _object(
                {
                    "enabled": _SWITCH,
                    "issuerRef": _TEXT_BY_NAME,
                    "certificate": _object({**lifetime, "rootCA": _object(lifetime)}),
                }
            ),
        }
    )


def _settings() -> Schema:
    """Return the schema of the operator's configuration file, without what the chart fills in."""
    declared = OperatorSettings.model_json_schema(by_alias=True)
    schema = _inlined(declared, declared.get("$defs", {}))
    for name in _KNOWN_BETTER:
        del schema["properties"][name]
    for name in ("enabled", "id", "namespace"):
        del schema["properties"]["leaderElection"]["properties"][name]
    return {key: value for key, value in schema.items() if key != "required"}


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema without references, titles and defaults, properties in camelCase."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    kept = {}
    for key, value in node.items():
        if key == "properties":
            kept[key] = {to_camel(name): _inlined(it, definitions) for name, it in value.items()}
        elif key not in ("title", "default", "description", "$defs"):
            kept[key] = _inlined(value, definitions)
    return kept


def _object(properties: Mapping[str, Any]) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}
