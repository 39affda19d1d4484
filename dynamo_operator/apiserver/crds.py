"""This module defaults CustomResourceDefinitions, and says what they serve."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from dynamo_operator.apiserver.crd_keywords import normalized, unknown_keywords
from dynamo_operator.apiserver.custom_resources import CustomResourceStrategy, printer_column
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.resources import Object, Resource, ScalePaths
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.validation_rules import RuleSet


def with_defaults(crd: Object) -> Object:
    """Return the CRD with what the server fills in."""
    spec = dict(crd.get("spec") or {})
    names = dict(spec.get("names") or {})
    kind = names.get("kind")
    if isinstance(kind, str) and kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    if names:
        spec["names"] = names
    conversion = spec.setdefault("conversion", {"strategy": "None"}) or {}
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service:
        service.setdefault("port", 443)
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]
    if isinstance(spec.get("versions"), list):
        spec["versions"] = [_with_version_defaults(version) for version in spec["versions"]]
    return {**crd, "spec": spec}


def _with_version_defaults(version: Any) -> Any:
    """A version with its flags, and its schema as the server keeps it."""
    if not isinstance(version, dict):
        return version
    result = {**version, "served": version.get("served", False)}
    result["storage"] = version.get("storage", False)
    schema = version.get("schema")
    if isinstance(schema, dict) and schema.get("openAPIV3Schema") is not None:
        path = "spec.versions.schema.openAPIV3Schema"
        kept = normalized(schema["openAPIV3Schema"], path)
        result["schema"] = {**schema, "openAPIV3Schema": kept}
    scale = (version.get("subresources") or {}).get("scale")
    if isinstance(scale, dict):
        paths = {"specReplicasPath": "", "statusReplicasPath": "", **scale}
        result["subresources"] = {**version["subresources"], "scale": paths}
    return result


def unknown_fields(crd: Object) -> Iterator[str]:
    """Yield the paths of unknown keywords in the schemas; other fields are typed."""
    spec = crd.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for position, version in enumerate(versions if isinstance(versions, list) else ()):
        path = f"spec.versions[{position}].schema.openAPIV3Schema"
        schema = version.get("schema") if isinstance(version, dict) else None
        if isinstance(schema, dict):
            yield from unknown_keywords(schema.get("openAPIV3Schema"), path)


def with_accepted_names(crd: Object, now: datetime) -> Object:
    """Return the CRD with the status that the naming and establishing controllers write."""
    status = crd.get("status") or {}
    stored = list(status.get("storedVersions") or ())
    storage = [v["name"] for v in crd["spec"]["versions"] if v.get("storage")]
    conditions = _conditions(
        status.get("conditions") or (),
        now,
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    return {
        **crd,
        "status": {
            **status,
            "conditions": conditions,
            "acceptedNames": dict(crd["spec"]["names"]),
            "storedVersions": [*stored, *(name for name in storage if name not in stored)],
        },
    }


def served_resources(crd: Object) -> list[Resource]:
    """Return one resource for each served version, most preferred first."""
    spec = crd["spec"]
    versions = sorted(spec["versions"], key=lambda v: version_priority(v["name"]))
    served = [version for version in versions if version.get("served")]
    return [_resource(spec, v, preferred=position == 0) for position, v in enumerate(served)]


def version_priority(name: str) -> tuple[int, int, int, str]:
    """Return the sort key that puts v2 before v1 before v1beta1 before v1alpha1 before others."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", name)
    if match is None:
        return (3, 0, 0, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[match.group(2)]
    return (stage, -int(match.group(1)), -int(match.group(3) or 0), name)


def _resource(spec: Mapping[str, Any], version: Mapping[str, Any], *, preferred: bool) -> Resource:
    names, subresources = spec["names"], version.get("subresources") or {}
    scale = subresources.get("scale")
    schema, rules = _compiled(to_json(version["schema"]["openAPIV3Schema"]))
    strategy = CustomResourceStrategy(
        schema,
        rules=rules,
        has_status="status" in subresources,
        columns=[printer_column(c) for c in version.get("additionalPrinterColumns") or ()],
        selectable=[field["jsonPath"] for field in version.get("selectableFields") or ()],
    )
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        strategy=strategy,
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        subresources=frozenset(subresources),
        scale=_scale_paths(scale) if scale else None,
        storage_api_version=f"{spec['group']}/{storage}",
        custom=True,
        deprecation_warning=_deprecation(spec, version),
        preferred=preferred,
    )


@lru_cache(maxsize=64)
def _compiled(data: bytes) -> tuple[Schema, RuleSet]:
    """Compile a schema, once for all servers of this process: nobody changes the result."""
    schema = Schema.compile(json.loads(data), root=True)
    return schema, RuleSet(schema)


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return str(version.get("deprecationWarning") or default)


def _scale_paths(scale: Mapping[str, Any]) -> ScalePaths:
    return ScalePaths(
        spec_replicas=scale["specReplicasPath"],
        status_replicas=scale["statusReplicasPath"],
        label_selector=scale.get("labelSelectorPath", ""),
    )


def _conditions(
    existing: Sequence[Mapping[str, Any]], now: datetime, *wanted: tuple[str, str, str]
) -> list[dict[str, Any]]:
    """Conditions that are True, their times kept where they were already."""
    result = {condition["type"]: dict(condition) for condition in existing}
    for kind, reason, message in wanted:
        before = result.get(kind)
        if before is None or before["status"] != "True":
            time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            result[kind] = {
                "type": kind,
                "status": "True",
                "lastTransitionTime": time,
                "reason": reason,
                "message": message,
            }
    return list(result.values())
