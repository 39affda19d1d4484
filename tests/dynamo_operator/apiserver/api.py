"""A small client for the tests: asks an ApiServer in this loop and decodes what it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynamo_operator.apiserver import ADMIN, ApiServer, ByteStream, Request, UserInfo
from dynamo_operator.testing.virtual_time import VirtualClock
from informers.clock import Random

CORE = "/api/v1"
CONFIG_MAPS = f"{CORE}/namespaces/default/configmaps"
PODS = f"{CORE}/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/lab.test/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


class Events:
    """The events of a watch, one by one."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._ready: list[Json] = []

    async def next(self) -> Json:
        while not self._ready:
            chunk = await self._stream.__anext__()
            self._ready = [json.loads(line) for line in chunk.splitlines()]
        return self._ready.pop(0)

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Return type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def rest(self) -> list[Json]:
        events = self._ready
        async for chunk in self._stream:
            events += [json.loads(line) for line in chunk.splitlines()]
        return events

    async def close(self) -> None:
        await self._stream.aclose()


class Api:
    def __init__(self, user: UserInfo | None = ADMIN, server: ApiServer | None = None, **options):
        self.server = server or ApiServer(clock=VirtualClock(), random=Random(1), **options)
        self.user = user

    def as_user(self, name: str, *groups: str) -> Api:
        return Api(UserInfo(name, groups=(*groups, "system:authenticated")), self.server)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> Answer:
        request = Request(
            method,
            path,
            list(query.items()),
            {
                "content-type": content_type,
                "accept": accept,
                "user-agent": "tester/1.0",
                **(headers or {}),
            },
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode(),
            user=self.user,
        )
        response = await self.server.handle(request)
        if not isinstance(response.body, bytes):
            return Answer(response.status, response.headers, response.body)
        is_json = "json" in response.headers.get("content-type", "")
        decoded = json.loads(response.body) if is_json and response.body else response.body
        return Answer(response.status, response.headers, decoded)

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.ask("GET", path, **query)

    async def create(self, path: str, body: Json, **query: Any) -> Answer:
        return await self.ask("POST", path, body, **query)

    async def replace(self, path: str, body: Json, **query: Any) -> Answer:
        return await self.ask("PUT", path, body, **query)

    async def merge(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.ask("PATCH", path, body, content_type=MERGE, **query)

    async def apply(self, path: str, body: Json, manager: str = "tester", **query: Any) -> Answer:
        return await self.ask(
            "PATCH", path, body, content_type=APPLY, fieldManager=manager, **query
        )

    async def delete(self, path: str, body: Json | None = None, **query: Any) -> Answer:
        return await self.ask("DELETE", path, body, **query)

    async def watch(self, path: str, **query: Any) -> Events:
        answer = await self.ask("GET", path, watch="true", **query)
        assert answer.status == 200, answer.body
        return Events(answer.body)


def config_map(name: str, **data: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data,
    }


def pod(name: str, *, node: str = "", **metadata: Any) -> Json:
    spec: Json = {"containers": [{"name": "main", "image": "busybox"}]}
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def widget(name: str, size: int = 1, **metadata: Any) -> Json:
    return {
        "apiVersion": "lab.test/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": {"size": size},
    }


def widget_crd(**spec: Any) -> Json:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "description": "What is wanted.",
                "properties": {
                    "size": {"type": "integer", "minimum": 0, "description": "How large."},
                    "replicas": {"type": "integer"},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "selectableFields": [{"jsonPath": ".spec.size"}],
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.lab.test"},
        "spec": {
            "group": "lab.test",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version],
            **spec,
        },
    }
