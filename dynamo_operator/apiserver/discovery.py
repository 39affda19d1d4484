"""Discovery: what is served, in the old documents and in the aggregated one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.crds import version_priority
from dynamo_operator.apiserver.messages import JSON_TYPE, Response, to_json
from dynamo_operator.apiserver.negotiation import check_acceptable, negotiate_media_type
from dynamo_operator.apiserver.resources import Resource

_AGGREGATED = f"{JSON_TYPE};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_UPDATES = ("get", "patch", "update")
# Subresource: the kind it takes and gives (None: the resource's own), and its verbs.
_SUBRESOURCES: Mapping[str, tuple[tuple[str, str, str] | None, Sequence[str]]] = {
    "status": (None, _UPDATES),
    "scale": (("autoscaling", "v1", "Scale"), _UPDATES),
    "finalize": (None, ("update",)),
    "log": (None, ("get",)),
    "binding": (("", "v1", "Binding"), ("create",)),
    "eviction": (("policy", "v1", "Eviction"), ("create",)),
    "token": (("authentication.k8s.io", "v1", "TokenRequest"), ("create",)),
}


def discover(path: str, accept: str, resources: Iterable[Resource]) -> Response | None:
    """Answer a discovery request, or None where the path is not one.

    Raises:
        StatusError: 404 for a version that is not served, 406.
    """
    served = list(resources)
    match [part for part in path.split("/") if part]:
        case ["api"]:
            return _root(accept, [r for r in served if not r.group], _core_versions())
        case ["apis"]:
            groups = [r for r in served if r.group]
            return _root(accept, groups, _group_list(groups))
        case ["api", version]:
            return _resource_list(served, "", version)
        case ["apis", group]:
            versions = _versions(served, group)
            if not versions:
                return None
            return _json({**_group(group, versions), "kind": "APIGroup", "apiVersion": "v1"})
        case ["apis", group, version]:
            return _resource_list(served, group, version)
    return None


def _root(accept: str, resources: Sequence[Resource], legacy: Mapping[str, Any]) -> Response:
    check_acceptable(accept, (JSON_TYPE, "application/yaml"))
    media_type = negotiate_media_type(accept, (_AGGREGATED, JSON_TYPE))
    if media_type != _AGGREGATED:
        return _json(legacy)
    groups = dict.fromkeys(resource.group for resource in resources)
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(resources, group) for group in groups],
    }
    return Response(200, {"content-type": _AGGREGATED}, to_json(document))


def _core_versions() -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    }


def _group_list(resources: Sequence[Resource]) -> dict[str, Any]:
    groups = dict.fromkeys(resource.group for resource in resources)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(group, _versions(resources, group)) for group in groups],
    }


def _versions(resources: Iterable[Resource], group: str) -> list[str]:
    """Return a group's versions, most preferred first."""
    names = dict.fromkeys(r.version for r in resources if r.group == group)
    return sorted(names, key=version_priority)


def _group(group: str, versions: Sequence[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(resources: Sequence[Resource], group: str, version: str) -> Response:
    chosen = [r for r in resources if (r.group, r.version) == (group, version)]
    if not chosen:
        raise status.no_such_path()
    entries: list[dict[str, Any]] = []
    for resource in chosen:
        entries.append(_legacy_entry(resource))
        entries += [_legacy_subresource(resource, name) for name in _shown_subresources(resource)]
    return _json(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": chosen[0].api_version,
            "resources": entries,
        }
    )


def _legacy_entry(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _legacy_subresource(resource: Resource, name: str) -> dict[str, Any]:
    kind, verbs = _SUBRESOURCES[name]
    entry: dict[str, Any] = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind[2] if kind else resource.kind,
        "verbs": list(verbs),
    }
    if kind:
        entry |= {"group": kind[0], "version": kind[1]}
    return entry


def _aggregated_group(resources: Sequence[Resource], group: str) -> dict[str, Any]:
    return {
        "metadata": {"name": group, "creationTimestamp": None},
        "versions": [
            {
                "version": version,
                "resources": [
                    _aggregated_entry(resource)
                    for resource in resources
                    if (resource.group, resource.version) == (group, version)
                ],
                "freshness": "Current",
            }
            for version in _versions(resources, group)
        ],
    }


def _aggregated_entry(resource: Resource) -> dict[str, Any]:
    own = (resource.group, resource.version, resource.kind)
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _kind(own),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = [
        {
            "subresource": name,
            "responseKind": _kind(_SUBRESOURCES[name][0] or own),
            "verbs": list(_SUBRESOURCES[name][1]),
        }
        for name in _shown_subresources(resource)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry


def _shown_subresources(resource: Resource) -> list[str]:
    return [name for name in _SUBRESOURCES if name in resource.subresources]


def _kind(kind: tuple[str, str, str]) -> dict[str, str]:
    return {"group": kind[0], "version": kind[1], "kind": kind[2]}


def _json(document: Mapping[str, Any]) -> Response:
    return Response(200, {"content-type": JSON_TYPE}, to_json(document))
