"""What an API server answers to a sequence of requests, without what differs each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynamo_operator.runtime.builtin_kinds import Namespace, ServiceAccount
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError
from informers.objects import ResourceType

RECORDED = Path(__file__).with_name("recorded_answers.json")
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
_OWN_MANAGER = "lab"
_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "namespace", "selfLink")

Json = dict[str, Any]
Body = Json | list[Json] | Callable[[Json], Json | list[Json]]
"""What is sent; a function makes it from the object that the latest answer held."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request about the object of a case."""

    method: str
    body: Body | None = None
    content_type: str = "application/json"
    subresource: str = ""
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """Requests about one object, in order.

    Args:
        resource_type: of the object.
        steps: the requests.
        owners: who owns which field matters, too.
        words: not the object but what the server says of it matters: its errors and warnings.
        labels: the case is played in a namespace with these.
    """

    resource_type: ResourceType
    steps: Sequence[Step]
    owners: bool = False
    words: bool = False
    labels: tuple[tuple[str, str], ...] = ()


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


def write_down(answers: Mapping[str, Mapping[str, list[Json]]]) -> None:
    """Record the answers of each group, one line a case."""
    lines = []
    for group, cases in answers.items():
        told = [
            f"  {json.dumps(name)}: {json.dumps(cases[name], sort_keys=True)}" for name in cases
        ]
        lines.append(f" {json.dumps(group)}: {{\n" + ",\n".join(told) + "\n }")
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


async def play_all(
    client: Client, namespace: str, cases: Mapping[str, Case]
) -> dict[str, list[Json]]:
    """Play the cases, each with an object of its own, and return the answers by their names."""
    labelled: dict[tuple[tuple[str, str], ...], Namespace] = {}
    for number, labels in enumerate({case.labels for case in cases.values()} - {()}):
        made = Namespace.new(f"{namespace}-{number}", labels=dict(labels))
        labelled[labels] = await client.create(made)
        await allow_pods(client, made.key.name)
    try:
        return {
            name: await _play(
                client,
                labelled[case.labels].key.name if case.labels else namespace,
                f"case-{number}",
                case,
            )
            for number, (name, case) in enumerate(cases.items())
        }
    finally:
        for made in labelled.values():
            await client.delete(Namespace, made.key)


async def allow_pods(client: Client, namespace: str) -> None:
    """Make the account that Pods of a new namespace are, which a controller also does."""
    await client.apply(ServiceAccount.new("default", namespace=namespace))


async def _play(client: Client, namespace: str, name: str, case: Case) -> list[Json]:
    answers: list[Json] = []
    latest: Json = {}
    for step in case.steps:
        code, told, words = await _send(client, namespace, name, case.resource_type, step, latest)
        if code < 400:
            latest = told
        answer = _essence(code, told)
        if case.words:
            first = words.partition("\n")[0]  # what follows shows Go's own structures
            said = first.replace(name, "NAME").replace(namespace, "NAMESPACE")
            answers.append({"code": code, "said": said})
            continue
        if case.resource_type.kind == "CustomResourceDefinition":
            answer = {"code": answer["code"]}  # only whether it is taken matters
        elif "object" in answer and not case.owners:
            del answer["object"]["metadata"]["managedFields"]
        answers.append(answer)
    return answers


async def _send(
    client: Client,
    namespace: str,
    name: str,
    resource_type: ResourceType,
    step: Step,
    latest: Json,
) -> tuple[int, Json, str]:
    path = f"{_collection(resource_type, namespace)}"
    if step.method != "POST" or step.subresource:
        path += f"/{name}"
    if step.subresource:
        path += f"/{step.subresource}"
    body = step.body(latest) if callable(step.body) else step.body
    if isinstance(body, dict) and step.content_type != MERGE:
        body = _named(body, resource_type, name)
    try:
        response = await client.request(
            step.method,
            path,
            query=list(step.query),
            body=None if body is None else json.dumps(body).encode(),
            content_type=step.content_type,
        )
    except ApiError as error:
        return (
            error.code,
            {
                "kind": "Status",
                "reason": error.reason,
                "details": error.details,
            },
            error.message,
        )
    return response.status, json.loads(response.body), response.headers.get("warning", "")


def _collection(resource_type: ResourceType, namespace: str) -> str:
    root = "/apis" if resource_type.group else "/api"
    inside = f"/namespaces/{namespace}" if resource_type.namespaced else ""
    return f"{root}/{resource_type.api_version}{inside}/{resource_type.plural}"


def _named(body: Mapping[str, Any], resource_type: ResourceType, name: str) -> Json:
    return {
        "apiVersion": resource_type.api_version,
        "kind": resource_type.kind,
        **body,
        "metadata": {"name": name, **body.get("metadata", {})},
    }


def _essence(code: int, told: Json) -> Json:
    if told.get("kind") == "Status":
        causes = told.get("details", {}).get("causes", [])
        essence = {"code": code, "reason": told["reason"]}
        if causes:
            essence["causes"] = sorted(
                {f"{cause.get('field', '')}: {cause.get('reason', '')}" for cause in causes}
            )
        return essence
    metadata = {k: v for k, v in told["metadata"].items() if k not in _VOLATILE}
    if "managedFields" in metadata:
        fields = [{**entry, "time": "now"} for entry in metadata["managedFields"]]
        metadata["managedFields"] = sorted(
            fields, key=lambda entry: json.dumps(entry, sort_keys=True)
        )
    return {"code": code, "object": {**told, "metadata": metadata}}
