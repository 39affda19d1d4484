"""The server itself: from a request to its answer."""

from __future__ import annotations

from collections.abc import Callable

from dynamo_operator.apiserver import deletion, reads, status
from dynamo_operator.apiserver.admission import NamespaceLifecycle
from dynamo_operator.apiserver.builtin_resources import builtin_resources
from dynamo_operator.apiserver.calls import Call, World
from dynamo_operator.apiserver.messages import ADMIN, JSON_TYPE, Request, Response, to_json
from dynamo_operator.apiserver.negotiation import negotiate
from dynamo_operator.apiserver.query import Query
from dynamo_operator.apiserver.resources import Resource, ResourceRegistry
from dynamo_operator.apiserver.routes import RequestInfo, parse_route
from dynamo_operator.apiserver.storage import Storage
from dynamo_operator.apiserver.watch_history import WatchStream
from dynamo_operator.apiserver.writes import Writes
from informers.clock import Clock, Random, SystemClock, system_random

_SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class ApiServer:
    """An API server with its store, living in the running event loop.

    Args:
        clock: where timestamps come from.
        random: where UIDs, generated names and watch timeouts come from.
        history_limit: how many changes stay before the oldest are compacted.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        history_limit: int = 50_000,
    ) -> None:
        self.storage = Storage(history_limit=history_limit)
        self.registry = ResourceRegistry()
        for resource in builtin_resources():
            self.registry.add(resource)
        self._world = World(
            self.storage, self.registry, clock or SystemClock(), random or system_random()
        )
        self._writes = Writes([NamespaceLifecycle()])
        self._watches: dict[int, WatchStream] = {}
        self._create_system_namespaces()

    async def handle(self, request: Request) -> Response:
        """Answer one request; never raises for anything that a client can send."""
        query = Query(request.query)
        info = parse_route(request.method, request.path, watch=query.flag("watch"))
        warnings: list[str] = []
        try:
            response = self._dispatch(request, info, query, warnings)
        except status.StatusError as error:
            response = _status_response(error)
        return _with_warnings(response, warnings)

    def close(self) -> None:
        """End every open watch."""
        for stream in list(self._watches.values()):
            stream.close()

    def _dispatch(
        self, request: Request, info: RequestInfo, query: Query, warnings: list[str]
    ) -> Response:
        if not info.is_resource:
            raise status.no_such_path()
        resource = self.registry.find(info.group, info.version, info.plural)
        if resource is None:
            raise status.no_such_path()
        call = Call(
            request,
            info,
            resource,
            request.user or ADMIN,
            query,
            negotiate(request.headers.get("accept", ""), streaming=info.verb == "watch"),
            self._world,
            lambda _: True,
            warnings,
        )
        return self._resource_handler(resource, info)(call)

    def _resource_handler(
        self, resource: Resource, info: RequestInfo
    ) -> Callable[[Call], Response]:
        if info.subresource and info.subresource not in resource.subresources:
            raise status.no_such_path()
        if info.verb not in resource.verbs:
            raise status.method_not_allowed(resource.group, resource.plural, info.verb)
        match info.verb:
            case "get":
                return reads.get
            case "list":
                return reads.list_objects
            case "watch":
                return self._watch
            case "create":
                return self._writes.create
            case "update":
                return self._writes.update
            case "patch":
                return self._writes.patch
            case "delete":
                return deletion.delete
        return deletion.delete_collection

    def _watch(self, call: Call) -> Response:
        stream = reads.watch(call, self._watch_ended)
        self._watches[id(stream)] = stream
        return reads.watch_response(stream)

    def _watch_ended(self, stream: WatchStream) -> None:
        self._watches.pop(id(stream), None)

    def _create_system_namespaces(self) -> None:
        for name in _SYSTEM_NAMESPACES:
            self.storage.put(
                ("", "namespaces"),
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {
                        "name": name,
                        "uid": self._world.new_uid(),
                        "creationTimestamp": self._world.timestamp(),
                        "labels": {"kubernetes.io/metadata.name": name},
                    },
                    "spec": {"finalizers": ["kubernetes"]},
                    "status": {"phase": "Active"},
                },
            )


def _status_response(error: status.StatusError) -> Response:
    headers = {"content-type": JSON_TYPE}
    if error.retry_after_seconds is not None:
        headers["retry-after"] = str(error.retry_after_seconds)
    return Response(error.code, headers, to_json(error.to_status()))


def _with_warnings(response: Response, warnings: list[str]) -> Response:
    if not warnings:
        return response
    texts = dict.fromkeys(warnings)
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    header = ", ".join(f'299 - "{text}"' for text in quoted)
    return Response(response.status, {**response.headers, "warning": header}, response.body)
