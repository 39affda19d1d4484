"""Request paths, selectors and queries of the API, encoded so that no name can alter them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from informers.objects import ObjectKey, ResourceType

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")

Labels = Mapping[str, str] | str | None
Fields = Mapping[str, str] | str | None
"""Dotted paths and the text that they must have, or selector text."""


def resource_path(resource_type: ResourceType, namespace: str = "", *suffix: str) -> str:
    """Return the path of a collection, or of an object (suffix: name, then subresource).

    Raises:
        ValueError: a segment is empty or could be taken for another path.
    """
    prefix = f"/apis/{resource_type.group}" if resource_type.group else "/api"
    segments = [f"{prefix}/{resource_type.version}"]
    if namespace and resource_type.namespaced:
        segments += ["namespaces", _segment(namespace, "namespace", resource_type)]
    segments.append(resource_type.plural)
    segments += (_segment(part, "name", resource_type) for part in suffix)
    return "/".join(segments)


def object_path(resource_type: ResourceType, key: ObjectKey, subresource: str = "") -> str:
    """Return the path of an object or of its subresource."""
    refuse_other_cluster(key)
    if resource_type.namespaced and not key.namespace:
        raise ValueError(f"{resource_type} {key}: a namespaced kind needs a namespace")
    suffix = (key.name, *subresource.split("/")) if subresource else (key.name,)
    return resource_path(resource_type, key.namespace, *suffix)


def refuse_other_cluster(key: ObjectKey) -> None:
    """Refuse a key of a named cluster: whoever is asked knows one cluster, and not by name.

    Raises:
        ValueError: it is one.
    """
    if key.cluster:
        raise ValueError(
            f"{key}: is an object of cluster {key.cluster!r}: ask that cluster's reader or client, "
            "for key.local"
        )


def selector_query(labels: Labels, fields: Fields) -> list[tuple[str, str]]:
    """Return the query items that select by labels and fields (mappings, or selector text)."""
    query = []
    label_text = labels if isinstance(labels, str) else _equalities(labels)
    if label_text:
        query.append(("labelSelector", label_text))
    field_text = fields if isinstance(fields, str) else _field_equalities(fields)
    if field_text:
        query.append(("fieldSelector", field_text))
    return query


def _equalities(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted((labels or {}).items()))


def _field_equalities(fields: Mapping[str, str] | None) -> str:
    return ",".join(
        f"{name}={_escape_field_value(value)}" for name, value in sorted((fields or {}).items())
    )


def _escape_field_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _segment(text: str, what: str, resource_type: ResourceType) -> str:
    if not text or text in (".", "..") or "/" in text or "%" in text:
        raise ValueError(
            f"{resource_type}: {what} {text!r} must not be empty, '.', '..' or contain '/' or '%'"
        )
    # Almost every name is one of those that need no quoting.
    return text if _PLAIN.fullmatch(text) else quote(text, safe=":@!$&'()*+,;=~")
