"""Cached objects for tests."""

from typing import Any

from informers.objects import CachedObject, ObjectKey, OwnerReference


def cached(name: str = "a", *, namespace: str = "lab", version: int = 1, **fields: Any):
    return CachedObject(
        key=ObjectKey(namespace, name),
        uid=fields.pop("uid", f"uid-{name}"),
        resource_version=str(version),
        **fields,
    )


def owner(name: str, *, kind: str = "Widget", api_version: str = "lab.test/v1", controller=True):
    return OwnerReference(api_version, kind, name, f"uid-{name}", controller=controller)
