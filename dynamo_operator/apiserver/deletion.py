"""Delete and deletecollection: preconditions, grace, finalizers and propagation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dynamo_operator.apiserver import status, transient_kinds
from dynamo_operator.apiserver.admission_requests import DELETE, AdmissionRequest
from dynamo_operator.apiserver.calls import Call, rfc3339
from dynamo_operator.apiserver.incoming import storage_conflict
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.query import Query
from dynamo_operator.apiserver.reads import encoder, page_of
from dynamo_operator.apiserver.remote import after_commit
from dynamo_operator.apiserver.representation import served_value
from dynamo_operator.apiserver.resources import Object, Resource
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.storage import StoredObject
from dynamo_operator.apiserver.writes import finished

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

DeletionCheck = Callable[[AdmissionRequest], None]
"""Raises StatusError for what may not be deleted."""

_IGNORE = "ignoreStoreReadErrorWithClusterBreakingPotential"
_POLICIES = ("Foreground", "Background", "Orphan")
_PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
_ORPHANING_BY_DEFAULT = frozenset({("batch", "Job"), ("", "ReplicationController")})
_ANSWERED_WHOLE = frozenset(
    ("", kind)
    for kind in (
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ResourceQuota",
        "Service",
        "ServiceAccount",
    )
)
_ANSWERED_WHOLE |= {("storage.k8s.io", "StorageClass")}
"""Kinds of which a deletion answers the object and not a Status."""
_WITHOUT_DEPENDENTS = frozenset({("", "Event"), ("events.k8s.io", "Event")})


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a deletion asks for; None is the kind's default."""

    grace_period_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    orphan_dependents: bool | None = None
    ignores_read_errors: bool = False

    @property
    def orphans(self) -> bool | None:
        """Whether dependents are explicitly kept or not."""
        if self.orphan_dependents is not None:
            return self.orphan_dependents
        return self.propagation == "Orphan" if self.propagation else None


def delete(call: Call, admission: Sequence[DeletionCheck] = ()) -> Response:
    """Answer the deletion of one object.

    Args:
        call: the request.
        admission: what has a say in it.
    """
    options = delete_options(call)
    key = call.resource.storage_key
    stored = call.world.storage.get(key, call.namespace, call.info.name)
    if stored is None:
        raise call.not_found()
    call.object_uid = stored.value["metadata"]["uid"]
    check_preconditions(call.resource, stored.value, options)
    if options.ignores_read_errors:
        detail = "unsafe deletion is not allowed because the object is decodable from storage"
        raise storage_conflict(call, detail)
    if _is_kind(call.resource, "", "Namespace") and stored.name in _PROTECTED_NAMESPACES:
        raise status.forbidden("", "namespaces", stored.name, "this namespace may not be deleted")
    _admit(call, stored, admission)
    _warn_orphans(call, options)
    remaining, removed = _delete(call, stored, options)
    if remaining is not None:
        code = 202 if options.orphan_dependents is False else 200
        return after_commit(lambda: call.answer(code, encoder(call).object(remaining)))
    if removed is not None and (call.resource.group, call.resource.kind) in _ANSWERED_WHOLE:
        return call.answer(200, encoder(call).object(removed))
    details = {
        "name": stored.name,
        "group": call.resource.group,
        "kind": call.resource.plural,
        "uid": call.object_uid,
    }
    body = status.success_status({k: v for k, v in details.items() if v})
    return call.answer_value(200, body)


def delete_collection(call: Call, admission: Sequence[DeletionCheck] = ()) -> Response:
    """Answer the deletion of all objects that the selectors match; arguments are `delete`'s."""
    options = delete_options(call)
    page = page_of(call)
    for stored in page.items:  # all before the first is deleted: a deletion happens once only
        _admit(call, stored, admission)
    for stored in page.items:
        check_preconditions(call.resource, stored.value, options)
        delete_stored(call, stored, options)
        _warn_orphans(call, options)
    return call.answer(
        200,
        encoder(call).list(
            page.items, version=page.version, token=page.token, remaining=page.remaining
        ),
    )


def _admit(call: Call, stored: StoredObject, admission: Sequence[DeletionCheck]) -> None:
    if not admission:
        return
    body = call.body() if call.request.body.strip() else {}
    options = {name: v for name, v in body.items() if name not in ("apiVersion", "kind")}
    old = served_value(call.resource, stored)
    for check in admission:
        check(AdmissionRequest(call, DELETE, call.resource, None, old, options))


def delete_stored(call: Call, stored: StoredObject, options: DeleteOptions) -> StoredObject | None:
    """Delete as far as grace period and finalizers allow; return what remains, or None."""
    return _delete(call, stored, options)[0]


def _delete(
    call: Call, stored: StoredObject, options: DeleteOptions
) -> tuple[StoredObject | None, StoredObject | None]:
    """Delete, and return what remains, or what was removed as it was last."""
    storage, key = call.world.storage, call.resource.storage_key
    plan = plan_deletion(call.resource, stored.value, options, call.world.now())
    changed = plan.obj != stored.value
    planned = StoredObject(plan.obj, stored.resource_version)
    if call.dry_run:
        return (None, planned) if plan.removes else (planned, None)
    if changed:
        stored = storage.put(key, plan.obj)
    return (None, storage.remove(key, stored.value)) if plan.removes else (stored, None)


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What a deletion does: the object to store first, and whether it then goes."""

    obj: Object
    removes: bool


def plan_deletion(
    resource: Resource, obj: Object, options: DeleteOptions, now: datetime
) -> DeletionPlan:
    """Decide a deletion without I/O."""
    grace = _grace_period(resource, obj, options)
    metadata = obj["metadata"]
    pending = metadata.get("deletionGracePeriodSeconds")
    if grace is not None and metadata.get("deletionTimestamp") and pending is not None:
        wanted = options.grace_period_seconds
        if wanted is None or wanted >= pending:
            # Already on its way; only a shorter grace period changes anything.
            return DeletionPlan(obj, removes=False)
        moment = datetime.fromisoformat(metadata["deletionTimestamp"])
        moment -= timedelta(seconds=pending - wanted)
        shorter = _with_deletion(obj, moment, wanted)
        return DeletionPlan(shorter, removes=wanted == 0 and not metadata.get("finalizers"))
    finalizers = _finalizers(resource, obj, options)
    obj = _with_finalizers(obj, finalizers)
    if grace is not None:
        marked = _with_deletion(obj, now + timedelta(seconds=grace), grace)
        return DeletionPlan(marked, removes=grace == 0 and not finalizers)
    if _is_kind(resource, "", "Namespace"):
        marked = _with_deletion(obj, now, None)
        marked = {**marked, "status": {**obj.get("status", {}), "phase": "Terminating"}}
        return DeletionPlan(marked, removes=finished(marked))
    if finalizers:
        return DeletionPlan(_with_deletion(obj, now, 0), removes=False)
    return DeletionPlan(obj, removes=True)


def delete_options(call: Call) -> DeleteOptions:
    """Read the options from the body, else from the query.

    Raises:
        StatusError: 400 or 422.
    """
    body = transient_kinds.decode(
        call, "DeleteOptions", call.body() if call.request.body.strip() else {}
    )
    options = checked_options(call, body)
    if body.get("dryRun"):
        call.query = call.query.with_values("dryRun", body["dryRun"])
    return options


def checked_options(call: Call, body: Mapping[str, Any]) -> DeleteOptions:
    """Read the options from a DeleteOptions object, what it leaves out from the query.

    Raises:
        StatusError: 400 or 422.
    """
    options = read_options(body, call.query)
    errors = _validate(options)
    if errors:
        raise status.invalid("meta.k8s.io", "DeleteOptions", "", errors)
    return options


def read_options(body: Mapping[str, Any], query: Query | None = None) -> DeleteOptions:
    """Read the options from a DeleteOptions object, what it leaves out from a query."""
    query = query or Query(())
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace_period_seconds=body.get("gracePeriodSeconds", query.integer("gracePeriodSeconds")),
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=body.get("propagationPolicy") or query.text("propagationPolicy"),
        orphan_dependents=body.get("orphanDependents", query.optional_flag("orphanDependents")),
        ignores_read_errors=body.get(_IGNORE) or query.flag(_IGNORE),
    )


def _validate(options: DeleteOptions) -> list[FieldError]:
    errors = []
    if options.orphan_dependents is not None and options.propagation:
        errors.append(
            FieldError(
                "propagationPolicy",
                FieldErrorKind.INVALID,
                "orphanDependents and deletionPropagation cannot be both set",
                options.propagation,
            )
        )
    if options.propagation and options.propagation not in _POLICIES:
        supported = ", ".join(f'"{policy}"' for policy in (*_POLICIES, "nil"))
        errors.append(
            FieldError(
                "propagationPolicy",
                FieldErrorKind.NOT_SUPPORTED,
                f"supported values: {supported}",
                options.propagation,
            )
        )
    return errors


def check_preconditions(resource: Resource, obj: Object, options: DeleteOptions) -> None:
    """Refuse to delete another object than the one that is meant.

    Raises:
        StatusError: 409.
    """
    metadata = obj["metadata"]
    uid, version = metadata["uid"], metadata["resourceVersion"]
    detail = ""
    if options.uid and options.uid != uid:
        detail = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})"
            ". The object might have been deleted and then recreated"
        )
    elif options.resource_version and options.resource_version != version:
        detail = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified"
        )
    if detail:
        raise status.conflict(resource.group, resource.kind, metadata["name"], detail)


def _warn_orphans(call: Call, options: DeleteOptions) -> None:
    if (
        _is_kind(call.resource, "batch", "Job")
        and options.orphans is None
        and not options.propagation
    ):
        call.warnings.append(
            "child pods are preserved by default when jobs are deleted; set "
            "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to "
            "suppress this warning"
        )


def _grace_period(resource: Resource, obj: Object, options: DeleteOptions) -> int | None:
    """Return the seconds of grace, or None where the kind knows none (all but Pods)."""
    if not _is_kind(resource, "", "Pod"):
        return None
    spec = obj.get("spec", {})
    period = options.grace_period_seconds
    if period is None:
        period = spec.get("terminationGracePeriodSeconds")
    if not spec.get("nodeName") or obj.get("status", {}).get("phase") in {"Failed", "Succeeded"}:
        return 0
    if period is None:
        return 30
    return 1 if period < 0 else period


def _finalizers(resource: Resource, obj: Object, options: DeleteOptions) -> list[str]:
    """Return the finalizers with those of garbage collection as the policy wants them."""
    present: list[str] = obj["metadata"].get("finalizers", [])
    kind = (resource.group, resource.kind)
    if kind in _WITHOUT_DEPENDENTS:
        return present
    kept = [f for f in present if f not in {ORPHAN_FINALIZER, FOREGROUND_FINALIZER}]
    if _is_kind(resource, "apiextensions.k8s.io", "CustomResourceDefinition"):
        kept = list(dict.fromkeys([*kept, CRD_FINALIZER]))
    orphans = options.orphans
    foreground = options.propagation == "Foreground"
    if orphans is None and not options.propagation:
        orphans = ORPHAN_FINALIZER in present or (
            FOREGROUND_FINALIZER not in present and kind in _ORPHANING_BY_DEFAULT
        )
        foreground = FOREGROUND_FINALIZER in present
    if orphans:
        kept.append(ORPHAN_FINALIZER)
    if foreground:
        kept.append(FOREGROUND_FINALIZER)
    return present if set(kept) == set(present) else kept


def _with_finalizers(obj: Object, finalizers: list[str]) -> Object:
    metadata = {**obj["metadata"], "finalizers": finalizers}
    if not finalizers:
        del metadata["finalizers"]
    return {**obj, "metadata": metadata}


def _with_deletion(obj: Object, moment: datetime, grace: int | None) -> Object:
    """Mark as being deleted; the first mark is a new generation, an earlier one stays."""
    metadata = {**obj["metadata"]}
    if not metadata.get("deletionTimestamp") and metadata.get("generation"):
        metadata["generation"] += 1
    text = rfc3339(moment)
    metadata["deletionTimestamp"] = min(metadata.get("deletionTimestamp") or text, text)
    if grace is not None:
        metadata["deletionGracePeriodSeconds"] = grace
    return {**obj, "metadata": metadata}


def _is_kind(resource: Resource, group: str, kind: str) -> bool:
    return (resource.group, resource.kind) == (group, kind)
