"""Get, list and watch."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dynamo_operator.apiserver import selectors, status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.messages import JSON_TYPE, Response, to_json
from dynamo_operator.apiserver.negotiation import Form
from dynamo_operator.apiserver.representation import Encoder, served_value
from dynamo_operator.apiserver.resources import Resource
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind
from dynamo_operator.apiserver.storage import CompactedError, StoredObject
from dynamo_operator.apiserver.watch_history import WatchScope, WatchStream, bookmark_object

_MIN_WATCH_SECONDS = 1800.0
_EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_INCONSISTENT = -1
_NO_VERSION = "invalid resource version: "


def get(call: Call) -> Response:
    """Answer one object."""
    stored = find(call)
    call.object_uid = stored.value["metadata"].get("uid", "")
    return call.answer(200, encoder(call).object(stored))


def find(call: Call) -> StoredObject:
    """Return the object that the path names.

    Raises:
        StatusError: 404.
    """
    try:
        _check_reachable(call, _version(call))
    except status.StatusError as error:
        raise _told_by_storage(error) from None
    key = call.resource.storage_key
    stored = call.world.storage.get(key, call.namespace, call.info.name)
    if stored is None:
        raise call.not_found()
    return stored


def list_objects(call: Call) -> Response:
    """Answer a list, or one page of it."""
    _validate_list_options(call)
    page = page_of(call)
    return call.answer(
        200,
        encoder(call).list(
            page.items, version=page.version, token=page.token, remaining=page.remaining
        ),
    )


def watch(call: Call, closed: Callable[[WatchStream], None]) -> WatchStream:
    """Open a watch. `closed` is called when it ends."""
    _validate_watch_options(call)
    storage = call.world.storage
    try:
        version = _version(call)
    except status.StatusError as error:
        raise _told_by_storage(error) from None
    sends_initial = call.query.optional_flag("sendInitialEvents")
    if sends_initial:
        _check_reachable(call, version)
    synthetic = version in {None, 0} if sends_initial is None else sends_initial
    bookmarks = call.query.flag("allowWatchBookmarks")
    selects = selection(call)
    timeout = call.query.integer("timeoutSeconds")
    # Servers end unlimited watches at a random time, so that clients spread their reconnections.
    fallback = _MIN_WATCH_SECONDS * (1 + call.world.random.random())
    initial = []
    if synthetic:
        items = storage.objects(call.resource.storage_key, call.namespace)
        if call.resource.prefetch is not None:
            call.resource.prefetch([item.value for item in items])
        initial = [item for item in items if selects(item)]
    start = storage.resource_version if version in {None, 0} or synthetic else version or 0
    return WatchStream(
        storage,
        WatchScope(
            call.resource.storage_key,
            selects,
            _event_encoder(call),
            _bookmark_encoder(call),
            bookmarks,
        ),
        start=start,
        initial=initial,
        marks_initial_end=bool(sends_initial) and bookmarks,
        timeout_seconds=timeout if timeout else fallback,
        closed=closed,
    )


def encoder(call: Call) -> Encoder:
    """Return what encodes this call's objects."""
    return Encoder(
        call.resource,
        call.representation,
        call.query.text("includeObject"),
        call.world.now(),
    )


def selection(call: Call) -> Callable[[StoredObject], bool]:
    """Return whether an object is within the call's namespace and selectors.

    Raises:
        StatusError: 400 for a selector that cannot be read or names an unknown field.
    """
    labels = selectors.parse_label_selector(call.query.text("labelSelector"))
    fields = selectors.parse_field_selector(call.query.text("fieldSelector"))
    resource, namespace, name = call.resource, call.namespace, call.info.name
    known = {"metadata.name", "metadata.namespace"}
    custom_fields = [f for f in fields if f.key not in known]
    if custom_fields:
        own = set(resource.strategy.selectable_fields({}))
        for requirement in custom_fields:
            if requirement.key not in own:
                raise _unknown_field(resource, requirement.key, has_own=bool(own))

    def field_values(stored: StoredObject) -> Mapping[str, str]:
        values = {"metadata.name": stored.name, "metadata.namespace": stored.namespace}
        if custom_fields:
            values.update(resource.strategy.selectable_fields(served_value(resource, stored)))
        return values

    def selects(stored: StoredObject) -> bool:
        if (namespace and stored.namespace != namespace) or (name and stored.name != name):
            return False
        if labels and not selectors.matches(labels, stored.labels):
            return False
        return not fields or selectors.matches(fields, field_values(stored))

    return selects


def _unknown_field(resource: Resource, path: str, *, has_own: bool) -> status.StatusError:
    """Return the 400 for a field; a kind without selectable fields of its own says it at length."""
    if (resource.group, resource.kind) == ("batch", "Job"):
        return status.bad_request(f'field label "{path}" not supported for Job')
    if has_own or resource.custom:
        return status.bad_request(f"field label not supported: {path}")
    return status.bad_request(
        f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


@dataclass(frozen=True, slots=True)
class Page:
    """What a list answers."""

    items: list[StoredObject]
    version: int
    token: str
    remaining: int | None


def page_of(call: Call) -> Page:
    """Return the objects that a list asks for, or those of one page.

    Raises:
        StatusError: for options that cannot be read, or a version that is not there.
    """
    storage, resource = call.world.storage, call.resource
    limit = max(call.query.integer("limit") or 0, 0)
    call.query.integer("timeoutSeconds")
    if call.query.text("resourceVersion") == "0" and not call.query.text("continue"):
        limit = 0  # "any version will do" is answered from a cache, whole
    version, start = _list_start(call, limit)
    try:
        items = storage.list_at(resource.storage_key, call.namespace, version)
    except CompactedError:
        raise _expired_list(call, start) from None
    if start:
        start = start.lstrip("/")
        first = f"{call.namespace}/{start}" if call.namespace else start
        items = [item for item in items if item.key >= first]
    if resource.prefetch is not None:
        resource.prefetch([item.value for item in items])
    selects = selection(call)
    selected = [item for item in items if selects(item)]
    page = selected[:limit] if limit else selected
    if not limit or len(selected) < limit or page[-1] is items[-1]:
        return Page(page, version, "", None)
    filtered = call.query.text("labelSelector") or call.query.text("fieldSelector")
    return Page(
        page,
        version,
        _encode_token(version, _after(call, page[-1])),
        None if filtered else len(selected) - limit,
    )


def _after(call: Call, last: StoredObject) -> str:
    """Return the first key after an object's, below the path of the list, as etcd has it."""
    if not call.resource.namespaced:
        return f"{last.name}\0"
    return f"/{last.name}\0" if call.namespace else f"/{last.key}\0"


def _list_start(call: Call, limit: int) -> tuple[int, str]:
    """Return the version to list at, and the key after which to begin."""
    current = call.world.storage.resource_version
    token = call.query.text("continue")
    if token:
        if call.query.text("resourceVersion") not in {"", "0"}:
            raise status.bad_request(
                "specifying resource version is not allowed when using continue"
            )
        version, start = _decode_token(token)
        return (current if version == _INCONSISTENT else version), start
    version = _version(call) or 0
    _check_reachable(call, version)
    match = call.query.text("resourceVersionMatch")
    exact = match == "Exact" or (not match and limit > 0 and version > 0)
    return (version if exact else current), ""


def _expired_list(call: Call, start: str) -> status.StatusError:
    if not call.query.text("continue"):
        return status.expired("The resourceVersion for the provided list is too old.")
    return status.expired(
        _EXPIRED_CONTINUE, metadata={"continue": _encode_token(_INCONSISTENT, start)}
    )


def _encode_token(version: int, start: str) -> str:
    token = to_json({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _decode_token(token: str) -> tuple[int, str]:
    try:
        fields = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, start = int(fields["rv"]), str(fields["start"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_token(str(error)) from None
    if not start:
        raise _no_token("encoded start key empty (version meta.k8s.io/v1)")
    return version, start


def _no_token(problem: str) -> status.StatusError:
    return status.bad_request(f"invalid continue token: continue key is not valid: {problem}")


def _version(call: Call) -> int | None:
    text = call.query.text("resourceVersion")
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise _no_version(text, "invalid syntax")
    if int(text) >= 2**64:
        raise _no_version(text, "value out of range")
    return int(text)


def _told_by_storage(error: status.StatusError) -> status.StatusError:
    """Return the error about a version as a get or a watch, not a list, has it."""
    if error.code != 400:
        return error
    return status.StatusError(500, "", error.message.removeprefix(_NO_VERSION))


def _no_version(text: str, problem: str) -> status.StatusError:
    detail = f'strconv.ParseUint: parsing "{text}": {problem}'
    error = FieldError("resourceVersion", FieldErrorKind.INVALID, detail, text)
    return status.bad_request(f"{_NO_VERSION}{error}")


def _check_reachable(call: Call, version: int | None) -> None:
    current = call.world.storage.resource_version
    if version is not None and version > current:
        raise status.too_large_resource_version(version, current)


def _event_encoder(call: Call) -> Callable[[StoredObject], bytes]:
    encode = encoder(call)
    if encode.form is Form.METADATA_LIST:  # each event is about one object
        single = replace(encode.representation, form=Form.METADATA)
        return replace(encode, representation=single).object
    if encode.form is not Form.TABLE:
        return encode.object
    headers = True

    def row(stored: StoredObject) -> bytes:
        nonlocal headers
        fresh = replace(encode, now=call.world.now())
        data = fresh.object(stored, headers=headers)
        headers = False
        return data

    return row


def _bookmark_encoder(call: Call) -> Callable[[int, bool], bytes]:
    match call.representation.form:
        case Form.TABLE:
            api_version, kind = call.representation.meta_version, "Table"
        case Form.METADATA | Form.METADATA_LIST:
            api_version, kind = call.representation.meta_version, "PartialObjectMetadata"
        case _:
            api_version, kind = call.resource.api_version, call.resource.kind
    return lambda version, end: to_json(
        bookmark_object(api_version, kind, version, initial_events_end=end)
    )


def _validate_list_options(call: Call) -> None:
    query = call.query
    match = query.text("resourceVersionMatch")
    errors: list[FieldError] = []
    if match:
        path = "resourceVersionMatch"
        if not query.text("resourceVersion"):
            errors.append(
                _forbidden(path, f"{path} is forbidden unless resourceVersion is provided")
            )
        if query.text("continue"):
            errors.append(_forbidden(path, f"{path} is forbidden when continue is provided"))
        if match not in {"Exact", "NotOlderThan"}:
            errors.append(_unsupported_match(match, '"Exact", "NotOlderThan", ""'))
        if match == "Exact" and query.text("resourceVersion") == "0":
            errors.append(_forbidden(path, f'{path} "exact" is forbidden for resourceVersion "0"'))
    if query.optional_flag("sendInitialEvents") is not None:
        errors.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise status.invalid("meta.k8s.io", "ListOptions", "", errors)


def _validate_watch_options(call: Call) -> None:
    query = call.query
    match = query.text("resourceVersionMatch")
    sends_initial = query.optional_flag("sendInitialEvents")
    path = "resourceVersionMatch"
    errors: list[FieldError] = []
    if sends_initial is not None and match != "NotOlderThan":
        errors.append(
            _forbidden(path, f"sendInitialEvents requires setting {path} to NotOlderThan")
        )
    if match:
        if sends_initial is None:
            errors.append(
                _forbidden(
                    path, f"{path} is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if match != "NotOlderThan":
            errors.append(_unsupported_match(match, '"NotOlderThan"'))
        if query.text("continue"):
            errors.append(_forbidden(path, f"{path} is forbidden when continue is provided"))
    if errors:
        raise status.invalid("meta.k8s.io", "ListOptions", "", errors)


def _forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.FORBIDDEN, detail)


def _unsupported_match(value: str, supported: str) -> FieldError:
    return FieldError(
        "resourceVersionMatch",
        FieldErrorKind.NOT_SUPPORTED,
        f"supported values: {supported}",
        value,
    )


def watch_response(stream: WatchStream) -> Response:
    """Return the answer whose body is the watch."""
    return Response(200, {"content-type": JSON_TYPE}, stream)
