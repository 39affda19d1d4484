"""Create, update and patch.

Nothing here awaits, so that a read, its checks and the commit are one step for everybody else; what
takes an answer from outside is asked between two attempts (`remote`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from dynamo_operator.apiserver import apply, status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.incoming import (
    check_name,
    check_namespace,
    check_uid_precondition,
    check_version,
    decode,
    named,
    placed,
    with_metadata,
    with_owners_once,
)
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.object_metadata import validate_metadata, validate_metadata_update
from dynamo_operator.apiserver.patch_bodies import (
    APPLY_PATCH,
    Transform,
    applied_configuration,
    patch_transform,
    patched,
    report_repeated,
)
from dynamo_operator.apiserver.reads import encoder
from dynamo_operator.apiserver.remote import after_commit
from dynamo_operator.apiserver.representation import served_value
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.storage import StoredObject

_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


class Admission(Protocol):
    """Decides about, and may change, what is written; `old` is None on create."""

    def admit(self, call: Call, new: Object, old: Object | None) -> Object:
        """Return the object to go on with, or raise StatusError."""


class ValidatingAdmission(Protocol):
    """Decides about what is written as it will be stored; `old` is None on create."""

    def validate(self, call: Call, new: Object, old: Object | None) -> None:
        """Raise StatusError for what may not be."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write did."""

    stored: StoredObject
    created: bool = False


class Writes:
    """The writing verbs, each through the same chain of admission."""

    def __init__(
        self, admission: Sequence[Admission], validating: Sequence[ValidatingAdmission] = ()
    ) -> None:
        self._admission = admission
        self._validating = validating

    def create(self, call: Call) -> Response:
        """Answer a POST to a collection."""
        obj = decode(call, call.object_body())
        return respond(call, self.create_object(call, obj))

    def update(self, call: Call) -> Response:
        """Answer a PUT."""
        body = with_owners_once(call, decode(call, call.object_body()))
        check_namespace(call, body)
        check_name(call, body)

        def take_body(old: Object) -> Object:
            check_uid_precondition(call, body, old)
            return body

        return respond(call, self.update_object(call, take_body, requires_version=True))

    def patch(self, call: Call) -> Response:
        """Answer a PATCH of any content type."""
        if call.content_type == APPLY_PATCH:
            return respond(call, self._apply(call))
        schema = call.resource.strategy.schema
        transform = patch_transform(call, schema, strategic=not call.resource.custom)

        def changed(old: Object) -> Object:
            new = patched(call, transform(old), partial(decode, call, patched=True))
            check_name(call, new)
            moment = new["metadata"].get("deletionTimestamp")
            if moment and moment != old["metadata"].get("deletionTimestamp"):
                where, detail = "metadata.deletionTimestamp", "field is immutable"
                error = FieldError(where, FieldErrorKind.INVALID, detail, moment)
                resource = call.resource
                raise status.invalid(resource.error_group, resource.kind, call.info.name, [error])
            return new

        return respond(call, self.update_object(call, changed))

    def create_object(self, call: Call, obj: Object, *, applied: bool = False) -> Outcome:
        """Store a new object.

        Args:
            call: the request.
            obj: decoded, with its metadata checked for types.
            applied: whether a server-side apply made it, so that managedFields are complete.
        """
        resource, world = call.resource, call.world
        obj = placed(call, obj)
        if obj["metadata"].get("resourceVersion"):
            raise status.StatusError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        # What cannot be decoded is refused before anybody is asked about it.
        sent = resource.strategy.decoded(obj) if resource.strategy.completes_new else obj
        call.object_name = obj["metadata"].get("name", "")
        sent = with_owners_once(call, sent)
        admitted = self._admit(call, sent, None)
        obj = named(call, with_owners_once(call, admitted, admitted=True))
        call.object_name = name = obj["metadata"].get("name", "")
        metadata = _new_metadata(call, obj["metadata"].get("managedFields"))
        if resource.strategy.has_generation:
            metadata["generation"] = 1
        obj = resource.strategy.prepare_create(with_metadata(obj, **metadata))
        call.warnings += resource.strategy.warnings_at_once(obj)
        errors = [
            *validate_metadata(resource, obj["metadata"]),
            *(resource.strategy.nulls_written(admitted) if admitted is not sent else ()),
        ]
        errors += resource.strategy.validate_create(obj, errors)
        if errors:
            raise status.invalid(resource.error_group, resource.kind, name, errors)
        call.warnings += resource.strategy.warnings(obj, None)
        self._validate(call, obj, None)
        there = world.storage.get(resource.storage_key, call.namespace, name)
        if there is not None:
            going = bool(there.value["metadata"].get("deletionTimestamp"))
            raise status.already_exists(resource.group, resource.plural, name, going=going)
        if not applied:
            written = obj
            if admitted is not sent or resource.strategy.completes_new:
                written = with_metadata(sent, **metadata)
                if not resource.strategy.completes_new:
                    written = resource.strategy.decoded(written)
            obj = _with_managers(call, obj, written, None)
        kept = resource.kept(resource.strategy.as_read(obj))
        if call.dry_run:
            return Outcome(StoredObject(kept, 0), created=True)
        return Outcome(world.storage.put(resource.storage_key, kept), created=True)

    def update_object(
        self,
        call: Call,
        transform: Transform,
        *,
        requires_version: bool = False,
        applied: bool = False,
    ) -> Outcome:
        """Store a changed object, or delete it when its last finalizer has gone.

        Args:
            call: the request, whose path names the object.
            transform: makes the new object out of the present one; must not change it in place.
            requires_version: whether a custom resource must carry its resourceVersion (PUT).
            applied: whether `transform` is a server-side apply, so that managedFields are complete.
        """
        resource, world = call.resource, call.world
        stored = world.storage.get(resource.storage_key, call.namespace, call.info.name)
        if stored is None:
            raise call.not_found()
        old = served_value(resource, stored)
        call.object_uid = old["metadata"]["uid"]
        sent = transform(old)
        check_version(call, sent, old, requires_version=requires_version and resource.custom)
        sent = placed(call, _with_system_fields(sent, old))
        admitted = self._admit(call, sent, old)
        new = with_owners_once(call, self._prepared(call, admitted, sent, old), admitted=True)
        errors = [
            *validate_metadata_update(new["metadata"], old["metadata"], resource),
            *(resource.strategy.nulls_written(admitted) if admitted is not sent else ()),
        ]
        errors += resource.strategy.validate_update(new, old, call.info.subresource, errors)
        if errors:
            raise status.invalid(resource.error_group, resource.kind, call.info.name, errors)
        call.warnings += resource.strategy.warnings(new, old)
        self._validate(call, new, old)
        if not applied:
            written = new if admitted is sent else self._prepared(call, sent, sent, old)
            new = _with_managers(call, new, written, old)
        return self._commit(call, stored, new, old)

    def _commit(self, call: Call, stored: StoredObject, new: Object, old: Object) -> Outcome:
        storage, key = call.world.storage, call.resource.storage_key
        if new == old:
            return Outcome(stored)
        kept = call.resource.kept(new)
        if call.dry_run:
            return Outcome(StoredObject(kept, stored.resource_version))
        if finished(kept):
            removed = storage.remove(key, stored.value)
            return Outcome(StoredObject(kept, removed.resource_version))
        return Outcome(storage.put(key, kept))

    def _prepared(self, call: Call, new: Object, sent: Object, old: Object) -> Object:
        strategy, subresource = call.resource.strategy, call.info.subresource
        managed = sent["metadata"].get("managedFields")
        new = _with_system_fields(strategy.prepare_update(new, old, subresource), old)
        generation = old["metadata"].get("generation")
        if (
            strategy.has_generation
            and subresource != "status"
            and strategy.bumps_generation(new, old)
        ):
            generation = (generation or 0) + 1
        return with_metadata(new, managedFields=managed, generation=generation)

    def _apply(self, call: Call) -> Outcome:
        sent = applied_configuration(call)
        apply.check_identity(sent, call.resource.api_version, call.resource.kind)
        apply.check_configuration(sent, call.resource.strategy.schema)
        report_repeated(call)
        configuration = decode(call, sent, reports=False)
        check_name(call, configuration)
        force, schema = call.query.flag("force"), call.resource.strategy.schema
        storage, key = call.world.storage, call.resource.storage_key
        if storage.get(key, call.namespace, call.info.name) is None:
            return self._apply_create(call, configuration)

        def merge(old: Object) -> Object:
            return apply.apply(old, configuration, schema, writer_of(call), force=force)

        return self.update_object(call, merge, applied=True)

    def _apply_create(self, call: Call, configuration: Object) -> Outcome:
        resource, info = call.resource, call.info
        if info.subresource:
            raise call.not_found()
        uid = configuration["metadata"].get("uid")
        if uid:
            raise status.conflict(
                resource.group,
                resource.plural,
                info.name,
                f"uid mismatch: the provided object specified uid {uid}, and no existing object "
                "was found",
            )
        create = replace(info, verb="create")
        if not call.allowed(create):
            raise status.forbidden(
                resource.group,
                resource.plural,
                info.name,
                f'User "{call.user.name}" cannot create resource "{resource.plural}" in API group '
                f'"{resource.group}"',
            )
        configuration = with_metadata(configuration, resourceVersion=None)
        obj = apply.apply(None, configuration, resource.strategy.schema, writer_of(call))
        return self.create_object(call, obj, applied=True)

    def _admit(self, call: Call, new: Object, old: Object | None) -> Object:
        for plugin in self._admission:
            new = plugin.admit(call, new, old)
        return new

    def _validate(self, call: Call, new: Object, old: Object | None) -> None:
        for plugin in self._validating:
            plugin.validate(call, new, old)


def respond(call: Call, outcome: Outcome) -> Response:
    """Answer a write with the object."""
    metadata = outcome.stored.value["metadata"]
    call.object_uid = metadata.get("uid", "")
    call.object_name = metadata["name"]
    code = 201 if outcome.created else 200
    return after_commit(lambda: call.answer(code, encoder(call).object(outcome.stored)))


def finished(obj: Object) -> bool:
    """Whether nothing keeps a deleted object any longer."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and obj["apiVersion"] == "v1":
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _with_managers(call: Call, new: Object, written: Object, old: Object | None) -> Object:
    """Return `new` with its managers; they own what was written, not what admission made of it."""
    strategy = call.resource.strategy
    zero = strategy.zero_value
    written = apply.record_update(old, written, strategy.schema, writer_of(call), zero)
    managers = written["metadata"].get("managedFields")
    if call.resource.storage_key == ("", "events"):
        # Of two groups neither knows the fields of the other, and forgets who owns them.
        own = call.resource.api_version
        managers = [entry for entry in managers or () if entry["apiVersion"] == own] or None
    return with_metadata(new, managedFields=managers)


def _new_metadata(call: Call, managed: Any) -> dict[str, Any]:
    return {
        "uid": call.world.new_uid(),
        "creationTimestamp": call.world.timestamp(),
        "deletionTimestamp": None,
        "deletionGracePeriodSeconds": None,
        "selfLink": None,
        "managedFields": managed,
    }


def _with_system_fields(new: Object, old: Object) -> Object:
    """Return `new` with what only the server sets; a uid given in a patch stays, to be refused."""
    fields = {field: old["metadata"].get(field) for field in _SYSTEM_FIELDS}
    fields["uid"] = new["metadata"].get("uid") or fields["uid"]
    return with_metadata(
        new, **fields, resourceVersion=old["metadata"]["resourceVersion"], selfLink=None
    )


def writer_of(call: Call) -> apply.Writer:
    """Return who writes, when, and to what."""
    return apply.Writer(
        manager=call.field_manager,
        now=call.world.now(),
        subresource=call.info.subresource,
        has_status="status" in call.resource.subresources,
    )
