"""Which handler answers a request for a resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from dynamo_operator.apiserver import (
    bindings,
    deletion,
    evictions,
    kubelet,
    reads,
    remote,
    scale,
    status,
    subresources,
)
from dynamo_operator.apiserver.admission_webhooks import PartAdmission
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.deletion import DeletionCheck
from dynamo_operator.apiserver.kubelet import KubeletClient
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.reviews import Reviews
from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.apiserver.tokens import TokenIssuer
from dynamo_operator.apiserver.unserved import unserved
from dynamo_operator.apiserver.watch_history import WatchStream
from dynamo_operator.apiserver.writes import Writes

Handler = Callable[[Call], Response]


class Handlers:
    """Chooses and runs the handler of a call."""

    def __init__(
        self,
        writes: Writes,
        reviews: Reviews,
        tokens: TokenIssuer,
        parts: PartAdmission,
        deletion_checks: Sequence[DeletionCheck] = (),
    ) -> None:
        self._writes = writes
        self._reviews = reviews
        self._tokens = tokens
        self._parts = parts
        self._deletion_checks = deletion_checks
        self._watches: dict[int, WatchStream] = {}

    def answer(self, call: Call, kubelet_client: KubeletClient | None) -> Awaitable[Response]:
        """Answer a call."""
        if call.info.subresource == "log" and call.info.verb == "get":
            return kubelet.container_log(call, kubelet_client)
        return remote.settled(self._handler(call), call)

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def end_watches(self, key: StorageKey | None = None) -> None:
        """End every open watch, or those of one resource."""
        for stream in list(self._watches.values()):
            if key in {None, stream.storage_key}:
                stream.finish()

    def _handler(self, call: Call) -> Handler:
        info = call.info
        if info.subresource:
            return self._subresource_handler(call)
        _check_verb(call)
        match info.verb:
            case "get":
                return reads.get
            case "list":
                return reads.list_objects
            case "watch":
                return self._watch
            case "create":
                return self._create_handler(call)
            case "update":
                return self._writes.update
            case "patch":
                return self._writes.patch
            case "delete":
                return partial(deletion.delete, admission=self._deletion_checks)
        return partial(deletion.delete_collection, admission=self._deletion_checks)

    def _create_handler(self, call: Call) -> Handler:
        resource = call.resource
        if call.info.name and not resource.custom:
            raise _not_allowed(call)
        if self._reviews.answers(resource.kind) and not resource.custom:
            return self._reviews.create
        if (resource.group, resource.plural) == ("", "bindings"):
            return partial(bindings.bind, admission=self._parts)
        return self._writes.create

    def _subresource_handler(self, call: Call) -> Handler:
        resource, info = call.resource, call.info
        where = f"{resource.plural}/{info.subresource}"
        if not resource.custom and unserved(info):
            raise _not_implemented(call, where)
        if info.subresource not in resource.subresources:
            raise call.not_found() if resource.custom else status.no_such_path()
        match info.subresource, info.verb:
            case "status" | "ephemeralcontainers", "get":
                return reads.get
            case "status" | "ephemeralcontainers", "update":
                return self._writes.update
            case "status" | "ephemeralcontainers", "patch":
                return self._writes.patch
            case "scale", "get":
                return scale.get_scale
            case "scale", "update" | "patch":
                return partial(scale.write_scale, writes=self._writes, admission=self._parts)
            case "binding", "create":
                return partial(bindings.bind, admission=self._parts)
            case "eviction", "create":
                return partial(evictions.evict, admission=self._parts)
            case "token", "create":
                return partial(
                    subresources.request_token, tokens=self._tokens, admission=self._parts
                )
            case "finalize", "update":
                return subresources.finalize_namespace
        raise _not_allowed(call)

    def _watch(self, call: Call) -> Response:
        stream = reads.watch(call, self._watch_ended)
        self._watches[id(stream)] = stream
        return reads.watch_response(stream)

    def _watch_ended(self, stream: WatchStream) -> None:
        self._watches.pop(id(stream), None)


def _check_verb(call: Call) -> None:
    """Refuse what a path of the resource cannot be asked.

    Raises:
        StatusError: 400, 404 or 405.
    """
    resource, info = call.resource, call.info
    is_everywhere = resource.namespaced and not info.namespace
    if (info.name or is_everywhere) and set(resource.verbs) <= {"create"}:
        raise status.no_such_path()
    if is_everywhere and not resource.custom and info.verb not in ("list", "watch"):
        raise _not_allowed(call)
    if info.verb not in resource.verbs or call.request.method == "HEAD":
        raise _not_allowed(call)
    if not info.name and info.verb in ("update", "patch"):
        if resource.custom:
            raise status.bad_request("name must be provided")
        raise _not_allowed(call)


def _not_allowed(call: Call) -> status.StatusError:
    """Return the 405; of built-in resources it is the router's, which names nothing."""
    resource = call.resource
    if resource.custom:
        return status.method_not_allowed(resource.group, resource.plural, call.info.verb)
    return status.method_not_allowed("", "", "")


def _not_implemented(call: Call, where: str) -> status.StatusError:
    """Return why a part of an object is not served; what a real server refuses comes first."""
    obj = reads.find(call).value
    to_container = call.info.subresource in {"attach", "exec", "portforward"}
    if to_container and not obj["spec"].get("nodeName"):
        return status.bad_request(f"pod {call.info.name} does not have a host assigned")
    return status.not_implemented(where)
