"""This module applies configurations with field ownership (server-side apply).

Apply: the applied object's fields become the manager's. Values that others own and that would
change are conflicts; with force they are taken over. Fields that the manager applied last time,
leaves out now, and nobody else owns, are removed. Update: whatever a plain write changed becomes
the writer's, and what it removed belongs to nobody. Identity and bookkeeping in metadata are never
owned. An object without schema is typed by its values: maps merge, lists are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from dynamo_operator.apiserver import field_sets, managed_fields
from dynamo_operator.apiserver.field_sets import FieldSet, Path, TypingError
from dynamo_operator.apiserver.kinds.zero_values import filled
from dynamo_operator.apiserver.managed_fields import Managed, ManagedEntry
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import StatusError, apply_conflict, bad_request
from dynamo_operator.apiserver.value_checks import same

_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_UNOWNED: Final = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who writes, when, and to what.

    Args:
        manager: the field manager.
        now: the time entries get.
        subresource: "" or "status", "scale"...
        has_status: whether status is a subresource of its own, so that "" does not write it.
    """

    manager: str
    now: datetime
    subresource: str = ""
    has_status: bool = True

    def owns(self, path: Path) -> bool:
        """Whether this kind of write can own the path at all."""
        if path in _UNOWNED or path[:2] == ("f:metadata", "f:managedFields"):
            return False
        if self.subresource == "status":
            return path[0] in ("f:status", "f:metadata")
        return not (self.has_status and path[0] == "f:status" and not self.subresource)


def apply(
    live: Mapping[str, Any] | None,
    applied: Mapping[str, Any],
    schema: Schema | None,
    writer: Writer,
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Return `live` (None: nothing yet) with `applied` merged in and managedFields kept.

    The result keeps `applied`'s resourceVersion, where it has one, for the caller to compare. When
    nothing changes the result equals `live`, managedFields and their times included.

    Raises:
        StatusError: 409 with the conflicts, 400 when managedFields are given, 500 when the
            configuration does not fit the schema's lists and fields.
    """
    check_configuration(applied, schema)
    config = _without_managed(dict(applied))
    return _apply(dict(live or _nothing(applied)), config, schema, writer, force=force)


def check_identity(applied: Mapping[str, Any], api_version: str, kind: str) -> None:
    """Refuse a configuration of another kind or version.

    Raises:
        StatusError: 400.
    """
    if (applied.get("apiVersion"), applied.get("kind")) != (api_version, kind):
        raise bad_request(f"invalid object type: {_gvk(applied)}")


def check_configuration(applied: Mapping[str, Any], schema: Schema | None) -> None:
    """Refuse a configuration that cannot be applied to any object.

    Raises:
        StatusError: as `apply` does, but for conflicts.
    """
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    try:
        field_sets.check_types(applied, schema)
    except TypingError as error:
        raise StatusError(
            500, "", f"failed to create typed patch object ({_identity(applied)}): {error}"
        ) from None


def record_update(
    live: Mapping[str, Any] | None,
    new: Mapping[str, Any],
    schema: Schema | None,
    writer: Writer,
    zero: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return `new` (a create, update or patch over `live`) with managedFields kept.

    What `zero` has is there in any object of the kind, and nobody's. Managers come from `new` when
    it names some, else from `live`; `[{}]` forgets all of them.
    """
    if managed_fields.is_reset(new):
        managed: Managed = {}
    else:
        managed = managed_fields.read(new) or managed_fields.read(live)
    if live is not None and not managed and not managed_fields.is_reset(new):
        return managed_fields.write(new, {})  # nobody is noted once nobody was
    before = filled(_without_managed(dict(live or _nothing(new))), zero)
    after = filled(_without_managed(dict(new)), zero)
    difference = field_sets.compare(before, after, schema)
    changed = _owned(difference.added | difference.modified, writer)
    removed = _owned(difference.removed, writer)
    entry = ManagedEntry(
        writer.manager, "Update", new["apiVersion"], changed, subresource=writer.subresource
    )
    own = managed.get(entry.id)
    managed = _without_fields(managed, changed | removed, except_for=own)
    if own is not None:
        entry = replace(entry, fields=(own.fields - removed) | changed, time=own.time)
    if own is None or entry.fields != own.fields:
        entry = replace(entry, time=managed_fields.timestamp(writer.now))
    return managed_fields.write(new, {**managed, entry.id: entry})


def _apply(
    live: dict[str, Any],
    config: dict[str, Any],
    schema: Schema | None,
    writer: Writer,
    *,
    force: bool,
) -> dict[str, Any]:
    managed = managed_fields.read(live)
    base = _without_managed(live)
    if not managed and live.get("metadata", {}).get("uid"):
        managed = _before_first_apply(base, schema, writer)
    mentioned = field_sets.field_set(config, schema)
    fields = _owned(mentioned, writer)
    entry = ManagedEntry(
        writer.manager, "Apply", config["apiVersion"], fields, subresource=writer.subresource
    )
    last = managed.get(entry.id)
    managed[entry.id] = entry
    merged = field_sets.merge(base, config, schema)
    if last is not None:
        kept = mentioned.union(*(other.fields for other in managed.values()))
        merged = _prune(merged, schema, last.fields, kept)
    difference = field_sets.compare(base, merged, schema)
    changed = _owned(difference.added | difference.modified, writer)
    others = {key: other for key, other in managed.items() if key != entry.id}
    if not force:
        _refuse_conflicts(others, changed)
    others = _without_fields(others, changed | _owned(difference.removed, writer), except_for=None)
    if same(base, merged):
        # Whoever only joins the owners of what is already so gets no time, as from a real server.
        entry = replace(entry, time=last.time if last else None)
    else:
        entry = replace(entry, time=managed_fields.timestamp(writer.now))
    return managed_fields.write(merged, {**others, entry.id: entry})


def _before_first_apply(base: Mapping[str, Any], schema: Schema | None, writer: Writer) -> Managed:
    """Return who manages what was there before anybody was noted."""
    fields = _owned(field_sets.compare(_nothing(base), base, schema).added, writer)
    entry = ManagedEntry(
        _BEFORE_FIRST_APPLY,
        "Update",
        base["apiVersion"],
        fields,
        time=managed_fields.timestamp(writer.now),
        subresource=writer.subresource,
    )
    return {entry.id: entry}


def _prune(merged: Any, schema: Schema | None, last: FieldSet, kept: FieldSet) -> Any:
    """Remove what was applied last time and nobody mentions now."""
    given_up = last - kept
    if not given_up:
        return merged
    with_parents = field_sets.with_named_parents
    doomed = with_parents(given_up, schema) - with_parents(kept, schema)
    return field_sets.remove(merged, schema, doomed)


def _refuse_conflicts(others: Managed, changed: FieldSet) -> None:
    conflicts = [
        (other.words, field_sets.words(path))
        for other in sorted(others.values(), key=lambda e: e.words)
        for path in sorted(other.fields & changed)
    ]
    if conflicts:
        raise apply_conflict(conflicts)


def _without_fields(
    managed: Managed, fields: FieldSet, *, except_for: ManagedEntry | None
) -> Managed:
    return {
        key: entry
        if except_for is not None and key == except_for.id
        else replace(entry, fields=entry.fields - fields)
        for key, entry in managed.items()
    }


def _owned(fields: FieldSet, writer: Writer) -> FieldSet:
    return frozenset(path for path in fields if path and writer.owns(path))


def _without_managed(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}


def _nothing(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {}}


def _identity(obj: Mapping[str, Any]) -> str:
    given = obj.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    return f"{name}; {_gvk(obj)}"


def _gvk(obj: Mapping[str, Any]) -> str:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    if not obj.get("kind"):
        return f"{group}/{version}, Kind="
    return f"{group}/{version}, Kind={obj['kind']}"
