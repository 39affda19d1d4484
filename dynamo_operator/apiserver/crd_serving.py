"""Keeps what is served in step with the stored CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dynamo_operator.apiserver import crds
from dynamo_operator.apiserver.calls import World
from dynamo_operator.apiserver.crd_conversion import WebhookConversion
from dynamo_operator.apiserver.deletion import CRD_FINALIZER, DeleteOptions, plan_deletion
from dynamo_operator.apiserver.resources import Object, Resource
from dynamo_operator.apiserver.storage import Change, StorageKey
from dynamo_operator.apiserver.webhook_client import Webhooks

CRDS: StorageKey = ("apiextensions.k8s.io", "customresourcedefinitions")


class CrdServing:
    """Plays the server's own controllers for definitions: names, establishing, serving, cleanup.

    Definitions change state only between requests (`settle`), so that a write's answer and its
    first event show what was written and the controllers' part follows as changes of its own.

    Args:
        world: what it acts on.
        end_watches: ends the watches of a resource, whose storage is torn down whenever its
            definition changes.
        webhooks: converts where definitions say so.
    """

    def __init__(
        self, world: World, end_watches: Callable[[StorageKey], None], webhooks: Webhooks
    ) -> None:
        self._world = world
        self._webhooks = webhooks
        self._end_watches = end_watches
        self._changed = False
        self._served_specs: dict[str, Object] = {}
        world.storage.on_commit(self._committed)

    def settle(self) -> None:
        """Do what the controllers would do now."""
        while self._changed:
            self._changed = False
            for stored in self._world.storage.objects(CRDS):
                self._settle(stored.value)

    def _committed(self, key: StorageKey, change: Change) -> None:
        if key != CRDS:
            # The last object of a definition that is being deleted may have gone.
            self._changed = self._changed or change.type == "DELETED"
            return
        self._changed = True
        if change.type == "DELETED":
            self._unserve(change.object.value)
        elif _is_established(change.object.value):
            self._serve(change.object.value)

    def _settle(self, crd: Object) -> None:
        storage = self._world.storage
        if crd["metadata"].get("deletionTimestamp"):
            if CRD_FINALIZER in crd["metadata"].get("finalizers", ()):
                self._clean_up(crd)
            return
        settled = crds.with_accepted_names(crd, self._world.now())
        if settled != crd:
            storage.put(CRDS, settled)

    def _clean_up(self, crd: Object) -> None:
        """Delete the objects of a deleted definition, and let it go when none is left."""
        storage = self._world.storage
        for resource in crds.served_resources(crd)[:1]:
            self._delete_all(resource)
            if storage.objects(resource.storage_key):
                return
        metadata = dict(crd["metadata"])
        metadata["finalizers"] = [f for f in metadata["finalizers"] if f != CRD_FINALIZER]
        if not metadata["finalizers"]:
            storage.remove(CRDS, crd)
            return
        storage.put(CRDS, {**crd, "metadata": metadata})

    def _delete_all(self, resource: Resource) -> None:
        storage, key = self._world.storage, resource.storage_key
        for stored in storage.objects(key):
            plan = plan_deletion(resource, stored.value, DeleteOptions(), self._world.now())
            last = stored
            if plan.obj != stored.value:
                last = storage.put(key, plan.obj)
            if plan.removes:
                storage.remove(key, last.value)

    def _serve(self, crd: Object) -> None:
        name, spec = crd["metadata"]["name"], crd["spec"]
        if self._served_specs.get(name) == spec:
            return
        if name in self._served_specs:
            self._unserve(crd)
        self._served_specs[name] = spec
        for resource in self._converting(crd, crds.served_resources(crd)):
            self._world.registry.add(resource)

    def _converting(self, crd: Object, resources: Sequence[Resource]) -> Sequence[Resource]:
        """Return the resources with what converts between them."""
        decoders = {resource.api_version: resource.strategy.decoded for resource in resources}
        if (crd["spec"].get("conversion") or {}).get("strategy") == "Webhook":
            conversion = WebhookConversion(crd, self._webhooks, decoders)
            convert, prefetch = conversion.convert, conversion.prefetch
            return [
                replace(
                    _converted_by(resource, convert),
                    prefetch=partial(prefetch, api_version=resource.api_version),
                )
                for resource in resources
            ]
        if len(resources) == 1:
            return resources
        return [_converted_by(resource, partial(_relabelled, decoders)) for resource in resources]

    def _unserve(self, crd: Object) -> None:
        spec = self._served_specs.pop(crd["metadata"]["name"], crd["spec"])
        group, plural = spec["group"], spec["names"]["plural"]
        self._world.registry.remove(group, plural)
        self._end_watches((group, plural))


def _converted_by(resource: Resource, convert: Callable[..., Object]) -> Resource:
    return replace(
        resource,
        to_storage=partial(convert, api_version=resource.storage_api_version),
        from_storage=partial(convert, api_version=resource.api_version),
    )


def _relabelled(
    decoders: Mapping[str, Callable[[Object], Object]], obj: Object, api_version: str
) -> Object:
    """Return the object in another version, which keeps only what the schema of that one has."""
    if obj["apiVersion"] == api_version:
        return obj
    relabelled = {**obj, "apiVersion": api_version}
    decode = decoders.get(api_version)  # there is none for a version that is not served
    return decode(relabelled) if decode is not None else relabelled


def _is_established(crd: Object) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
