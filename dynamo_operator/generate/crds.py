"""CustomResourceDefinitions from the kinds' classes: OpenAPI, CEL, columns, and no default."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from dynamo_operator.api.schema import Presentation, PrinterColumn, Rule, Schema
from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.runtime.models import KubeModel, KubeStruct

KINDS: Final[tuple[type[KubeModel], ...]] = (
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    DynamoGraphDeploymentCandidate,
    DynamoPoolRelay,
)
"""The kinds whose CRDs we install."""

CLIENT_SIDE_APPLY_LIMIT: Final = 262_144
"""Bytes of the annotation in which plain `kubectl apply` keeps the object."""

FREE_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": {"nullable": True, "x-kubernetes-preserve-unknown-fields": True},
}
"""An object of any content. A plain preserve-unknown object would hide renamed keys from CEL."""

_INT32_MAX: Final = 2**31 - 1


def custom_resource_definitions() -> list[dict[str, Any]]:
    """Return the CRDs of all our kinds."""
    return [custom_resource_definition(kind) for kind in KINDS]


def crd_file(definition: Mapping[str, Any]) -> str:
    """Return what the file of a CRD is called."""
    return f"{definition['spec']['group']}_{definition['spec']['names']['plural']}.yaml"


def custom_resource_definition(kind: type[KubeModel]) -> dict[str, Any]:
    """Return the CRD of one kind."""
    resource = kind.resource_type
    presentation = _presentation(kind)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "categories": list(presentation.categories),
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "shortNames": [presentation.short_name],
                "singular": resource.kind.lower(),
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(c) for c in presentation.columns],
                    "schema": {"openAPIV3Schema": _root_schema(kind, presentation)},
                }
            ],
        },
    }


def _presentation(kind: type[KubeModel]) -> Presentation:
    presentation = getattr(kind, "presentation", None)
    if not isinstance(presentation, Presentation):
        raise TypeError(f"{kind.__name__} declares no presentation: it has no CRD of ours")
    return presentation


def _column(column: PrinterColumn) -> dict[str, Any]:
    more: dict[str, Any] = {"description": column.description} if column.description else {}
    if column.wide:
        more["priority"] = 1
    return {"name": column.name, "type": column.type, "jsonPath": column.json_path, **more}


def _root_schema(kind: type[KubeModel], presentation: Presentation) -> dict[str, Any]:
    inherited = set(KubeModel.model_fields)
    own = {name: info for name, info in kind.model_fields.items() if name not in inherited}
    properties: dict[str, Any] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        **_properties(own),
    }
    return {
        "description": presentation.description,
        "type": "object",
        "properties": properties,
        "required": _required(own),
        **_validations(presentation.rules),
    }


def _struct_schema(model: type[KubeStruct]) -> dict[str, Any]:
    fields = model.model_fields
    required = _required(fields)
    return {
        "type": "object",
        "properties": _properties(fields),
        **({"required": required} if required else {}),
        **_validations(getattr(model, "rules", ())),
    }


def _properties(fields: dict[str, FieldInfo]) -> dict[str, Any]:
    return {_wire_name(name, info): _field_schema(info) for name, info in fields.items()}


def _required(fields: dict[str, FieldInfo]) -> list[str]:
    return [_wire_name(name, info) for name, info in fields.items() if info.is_required()]


def _wire_name(name: str, info: FieldInfo) -> str:
    return info.alias or name


def _field_schema(info: FieldInfo) -> dict[str, Any]:
    declared = [entry for entry in info.metadata if isinstance(entry, Schema)]
    return _with_integer_format(_described(_type_schema(info.annotation), declared))


def _described(schema: dict[str, Any], declared: Sequence[Schema]) -> dict[str, Any]:
    """Lay what a field declares over what its type says; rules of both hold."""
    for entry in declared:
        keywords = {
            keyword: list(value) if isinstance(value, tuple) else value
            for keyword, value in entry.keywords.items()
        }
        if "enum" in keywords:
            keywords["enum"] = [str(value) for value in keywords["enum"]]
        description = {"description": entry.description} if entry.description else {}
        rules = [
            *schema.get("x-kubernetes-validations", ()),
            *_validations(entry.rules).get("x-kubernetes-validations", ()),
        ]
        validations = {"x-kubernetes-validations": rules} if rules else {}
        schema = {**description, **schema, **keywords, **validations}
    return schema


def _with_integer_format(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") != "integer" or "format" in schema:
        return schema
    fits_int32 = schema.get("maximum", _INT32_MAX + 1) <= _INT32_MAX
    return {**schema, "format": "int32" if fits_int32 else "int64"}


def _type_schema(annotation: Any) -> dict[str, Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        declared = [entry for entry in arguments[1:] if isinstance(entry, Schema)]
        return _described(_type_schema(arguments[0]), declared)
    if origin in (Union, types.UnionType):
        members = [argument for argument in arguments if argument is not type(None)]
        if set(members) == {int, float}:
            return {"type": "number"}
        if set(members) == {int, str}:
            return {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
            }
        if len(members) == 1:
            return _type_schema(members[0])
    elif origin is list:
        return {"type": "array", "items": _type_schema(arguments[0])}
    elif origin is dict:
        if arguments[1] is Any:
            return dict(FREE_FORM)
        return {"type": "object", "additionalProperties": _type_schema(arguments[1])}
    elif isinstance(annotation, type):
        if issubclass(annotation, KubeStruct):
            return _struct_schema(annotation)
        if annotation in _SCALARS:
            return {"type": _SCALARS[annotation]}
    raise TypeError(f"no OpenAPI schema for the annotation {annotation}")


_SCALARS: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def _validations(rules: Sequence[Rule]) -> dict[str, Any]:
    if not rules:
        return {}
    return {
        "x-kubernetes-validations": [
            {
                "rule": rule.rule,
                "message": rule.message,
                **({"fieldPath": rule.field} if rule.field else {}),
            }
            for rule in rules
        ]
    }
