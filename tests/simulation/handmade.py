"""Histories made by hand, call by call."""

from __future__ import annotations

import json
from typing import Any

from dynamo_operator.apiserver.storage import Storage, StorageKey
from dynamo_operator.runtime.client.http import HttpRequest
from dynamo_operator.simulation.history import Call, History, Reconcile
from dynamo_operator.simulation.invariants import Invariant, Rest
from informers.objects import ObjectKey

WIDGETS: StorageKey = ("example.com", "widgets")
JOBS: StorageKey = ("batch", "jobs")
LEASES: StorageKey = ("coordination.k8s.io", "leases")
_METHODS = {
    "get": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "PATCH",
    "delete": "DELETE",
}


class Play:
    """A history that is written down, and what an invariant says of it as it goes."""

    def __init__(self, invariant: Invariant) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self._storage = Storage()
        self.history = History(lambda: self.now)
        self.history.follow(self._storage)
        self._invariant = invariant
        self.history.subscribe(
            lambda commit: self.said.extend(invariant.on_commit(commit, self.history)),
            lambda call: self.said.extend(invariant.on_call(call, self.history)),
        )

    def rest(self, **fields: Any) -> list[str]:
        """Come to rest, and return all that was said."""
        rest = Rest(self.history, quiet_since=fields.pop("quiet_since", self.now), **fields)
        self.said += self._invariant.at_rest(rest)
        return self.said

    def put(self, resource: StorageKey, obj: dict[str, Any], actor: str = "", **call: Any) -> None:
        """Commit an object, in a call of an actor if there is one."""
        if not actor:
            self._storage.put(resource, obj)
            return
        name = obj["metadata"]["name"]
        exists = ObjectKey("default", name) in self.history.objects(resource)
        asked = self.call(
            resource, name, actor, call.pop("verb", "update" if exists else "create"), **call
        )
        with self.history.calling(asked):
            self._storage.put(resource, obj)
        self.history.answered(asked, 200 if exists else 201)

    def remove(self, resource: StorageKey, obj: dict[str, Any], actor: str = "") -> None:
        """Commit that an object is gone."""
        if not actor:
            self._storage.remove(resource, obj)
            return
        asked = self.call(
            resource, obj["metadata"]["name"], actor, "delete", uid=obj["metadata"]["uid"]
        )
        with self.history.calling(asked):
            self._storage.remove(resource, obj)
        self.history.answered(asked, 200)

    def ask(
        self, resource: StorageKey, name: str, actor: str, verb: str, code: int, **call: Any
    ) -> None:
        """Make a call that commits nothing."""
        headers = call.pop("headers", None)
        reason = json.dumps({"reason": call.pop("reason", "")}).encode()
        asked = self.call(resource, name, actor, verb, **call)
        self.history.answered(asked, code, headers=headers, body=reason)

    def call(
        self,
        resource: StorageKey,
        name: str,
        actor: str,
        verb: str,
        *,
        body: dict[str, Any] | None = None,
        uid: str = "",
        manager: str = "",
        reconcile: tuple[str, str] | None = None,
        incarnation: int = 1,
    ) -> Call:
        """Send a call."""
        group, plural = resource
        path = f"/apis/{group}/v1/namespaces/default/{plural}"
        if verb == "create":
            body = body or {"metadata": {"name": name}}
        else:
            path = f"{path}/{name}"
        if uid:
            body = {"preconditions": {"uid": uid}}
        request = HttpRequest(
            _METHODS[verb],
            path,
            query=[("fieldManager", manager)] if manager else [],
            headers={"content-type": "application/apply-patch+yaml"} if verb == "apply" else {},
            body=json.dumps(body).encode() if body is not None else None,
        )
        of = None
        if reconcile is not None:
            of = Reconcile("widget", ObjectKey("default", reconcile[0]), reconcile[1])
        return self.history.called(request, actor=actor, incarnation=incarnation, reconcile=of)


def obj(
    name: str,
    *,
    uid: str = "",
    owner: str = "",
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """An object, controlled by the owner of that UID if one is given."""
    about = {"name": name, "namespace": "default", "uid": uid or f"uid of {name}", **metadata}
    if owner:
        reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "any", "uid": owner}
        about["ownerReferences"] = [{**reference, "controller": True}]
    parts = {"spec": spec, "status": status}
    return {
        "apiVersion": "v1",
        "kind": "Any",
        "metadata": about,
        **{name: part for name, part in parts.items() if part is not None},
    }


def condition(kind: str, status: str, since: str = "2030-01-01T00:00:00Z") -> dict[str, str]:
    """A condition."""
    return {
        "type": kind,
        "status": status,
        "reason": "R",
        "message": "",
        "lastTransitionTime": since,
    }


def managed(manager: str, **fields: Any) -> list[dict[str, Any]]:
    """The `managedFields` of an object of which a manager owns metadata fields."""
    own: Any = {f"f:{part}": {f"f:{name}": {} for name in names} for part, names in fields.items()}
    return [{"manager": manager, "operation": "Update", "fieldsV1": {"f:metadata": own}}]
