"""Cases that programs make: requests about one object each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from informers.objects import ResourceType
from tests.conformance.requests import APPLY, JSON, MERGE, Body, Case, Json, Request

_OWN_MANAGER = "lab"


@dataclass(frozen=True, slots=True)
class Step:
    """One request about the object of a case."""

    method: str
    body: Body = None
    content_type: str = JSON
    subresource: str = ""
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class About:
    """Requests about one object, in order.

    Args:
        resource_type: of the object.
        steps: the requests.
        labels: of the namespace in which it is.
    """

    resource_type: ResourceType
    steps: Sequence[Step]
    labels: tuple[tuple[str, str], ...] = ()


def cases(*named: Iterator[tuple[str, About]]) -> Iterator[Case]:
    """Make cases of what is asked about objects, by names."""
    for each in named:
        for name, about in each:
            requests = tuple(_request(about.resource_type, step) for step in about.steps)
            yield Case(name, requests, about.labels)


def post(body: Body, *, manager: str = "", **query: str) -> Step:
    """Create."""
    named = {"fieldManager": manager or _OWN_MANAGER, **query}
    return Step("POST", body, query=tuple(named.items()))


def put(body: Body, *, subresource: str = "", **query: str) -> Step:
    """Replace."""
    named = {"fieldManager": _OWN_MANAGER, **query}
    return Step("PUT", body, subresource=subresource, query=tuple(named.items()))


def patch(body: Body, content_type: str = MERGE, *, subresource: str = "", **query: str) -> Step:
    """Merge patch, or another."""
    named = {"fieldManager": _OWN_MANAGER, **query}
    return Step("PATCH", body, content_type, subresource, tuple(named.items()))


def apply(body: Body, manager: str, *, subresource: str = "", force: bool = False) -> Step:
    """Server-side apply."""
    query = (("fieldManager", manager), ("force", str(force).lower()))
    return Step("PATCH", body, APPLY, subresource, query)


def renewed(**changes: Any) -> Body:
    """Return the latest object with other top-level fields."""
    return lambda latest: {**latest, **changes}


def _request(resource_type: ResourceType, step: Step) -> Request:
    name = "a" if resource_type.namespaced else "$ns-a"
    path = _collection(resource_type)
    if step.method != "POST" or step.subresource:
        path += f"/{name}"
    if step.subresource:
        path += f"/{step.subresource}"
    body = step.body
    if body is not None and step.content_type != MERGE and not isinstance(body, list):
        body = _named(body, resource_type, name)
    headers = {} if body is None else {"Content-Type": step.content_type}
    line = f"{step.method} {path}"
    return Request(step.method, path, step.query, headers, body, line=line)


def _collection(resource_type: ResourceType) -> str:
    root = "/apis" if resource_type.group else "/api"
    inside = "/namespaces/$ns" if resource_type.namespaced else ""
    return f"{root}/{resource_type.api_version}{inside}/{resource_type.plural}"


def _named(body: Body, resource_type: ResourceType, name: str) -> Body:
    def complete(body: Json) -> Json:
        return {
            "apiVersion": resource_type.api_version,
            "kind": resource_type.kind,
            **body,
            "metadata": {"name": name, **body.get("metadata", {})},
        }

    if callable(body):
        return lambda latest: complete(body(latest))
    return complete(body)
