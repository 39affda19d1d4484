"""Plays cases on an API server and returns what it answered, masked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import TransportError
from dynamo_operator.runtime.client.http import HttpRequest, Transport
from tests.conformance.mask import Mask, now, versions
from tests.conformance.requests import Case, Json, Request, merged, resolved

_USER_AGENT = "lab/1.0"
_ANSWER_SECONDS = 30.0
PATIENCE = timedelta(seconds=20)
"""How long a case waits for what takes effect later."""
EMBEDDED_PATIENCE = timedelta(seconds=2)
"""The same on an embedded server, where all takes effect at once or never does."""
_PAUSE_SECONDS = 0.02
_SAFE = "/:@!$&'()*+,;=~%"


class Player:
    """Plays cases, each in a fresh namespace.

    Args:
        transport: to the API server, as an administrator.
        on_embedded: whether that is an embedded one.
    """

    def __init__(self, transport: Transport, *, on_embedded: bool = True) -> None:
        self._transport = transport
        self.on_embedded = on_embedded
        self.played = 0
        self.namespaces: list[str] = []

    async def play(self, cases: Sequence[Case], *, at_once: int = 1) -> dict[str, list[Json]]:
        """Return the answers of each case by its name.

        Args:
            cases: what to play.
            at_once: how many may run at the same time.
        """
        answers: dict[str, list[Json]] = {case.name: [] for case in cases}
        turns = asyncio.Semaphore(at_once)

        async def take_turn(case: Case) -> None:
            async with turns:
                answers[case.name] = await self.play_one(case)

        async with asyncio.TaskGroup() as group:
            for case in cases:
                group.create_task(take_turn(case))
        return answers

    async def play_one(self, case: Case) -> list[Json]:
        """Return the case's masked answers, one a request."""
        namespace = f"case-{uuid4().hex[:12]}"
        await self._make_namespace(namespace, dict(case.labels))
        mask = Mask(namespace, now())
        bodies: list[Json] = []
        masked: list[Json] = []
        latest: Json = {}
        until = now() + (EMBEDDED_PATIENCE if self.on_embedded else PATIENCE)
        for each in case.requests:
            sent = _http_request(each, namespace, bodies, latest)
            status, headers, body = await self._ask(sent, each)
            while each.until and status != each.until and now() < until:
                await asyncio.sleep(_PAUSE_SECONDS)
                status, headers, body = await self._ask(sent, each)
            self.played += 1
            bodies.append(body)
            if status < 400 and isinstance(body, dict) and "name" in body.get("metadata", {}):
                latest = body
            kept = _kept(body, each.keep) if status < 400 else body
            masked.append(mask.answer(status, headers, kept, _generated(sent)))
        return versions(masked)

    async def clean(self) -> None:
        """Delete the namespaces that were made."""
        for namespace in self.namespaces:
            await self._send(HttpRequest("DELETE", f"/api/v1/namespaces/{namespace}"))

    async def _make_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        self.namespaces.append(name)
        metadata = {"name": name, "labels": labels}
        body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        made = HttpRequest(
            "POST",
            "/api/v1/namespaces",
            headers={"Content-Type": "application/json"},
            body=body.encode(),
        )
        status, _, _ = await self._send(made)
        assert status == 201

    async def _ask(self, sent: HttpRequest, asked: Request) -> tuple[int, Mapping[str, str], Json]:
        if asked.events is None:
            return await self._send(sent)
        async with self._transport.stream(sent) as stream:
            if stream.status != 200:
                return stream.status, stream.headers, _decoded(await stream.read(), stream.headers)
            events: list[Json] = []
            rest = b""
            async with asyncio.timeout(_ANSWER_SECONDS):
                async for chunk in stream.chunks():
                    *lines, rest = (rest + chunk).split(b"\n")
                    events += [json.loads(line) for line in lines if line]
                    if asked.events and len(events) >= asked.events:
                        events = events[: asked.events]
                        break
            return stream.status, stream.headers, events

    async def _send(self, sent: HttpRequest) -> tuple[int, Mapping[str, str], Json]:
        try:
            answer = await self._transport.send(sent, timeout_seconds=_ANSWER_SECONDS)
        except TransportError:  # a defect of the server: no answer is to be imitated
            return 0, {}, "no answer"
        return answer.status, answer.headers, _decoded(answer.body, answer.headers)


def _kept(body: Json, fields: Sequence[str]) -> Json:
    if not fields or not isinstance(body, dict):
        return body
    kept: dict[str, Any] = {}
    for entry in fields:
        name, _, parts = entry.rstrip("]").partition("[")
        if name not in body:
            continue
        kept[name] = body[name]
        if parts:  # of each item of a list, only these fields
            wanted = parts.split(" ")
            kept[name] = [{k: v for k, v in item.items() if k in wanted} for item in body[name]]
    return kept


def transport_of(client: Client) -> Transport:
    """Return what carries the client's requests, to send what the client would not."""
    held: list[Transport] = []

    def hold(transport: Transport) -> Transport:
        held.append(transport)
        return transport

    client.with_transport(hold)
    return held[0]


def _http_request(asked: Request, namespace: str, bodies: list[Json], latest: Json) -> HttpRequest:
    written = asked.body(latest) if callable(asked.body) else asked.body
    pairs = [list(pair) for pair in asked.query]
    path, query, body, given = resolved(
        [asked.path, pairs, written, dict(asked.headers)], namespace, bodies, latest
    )
    if asked.change:
        body = merged(latest, body)
    headers = {"User-Agent": _USER_AGENT, "Accept": "application/json", **given}
    return HttpRequest(
        asked.method,
        quote(path, safe=_SAFE),
        [(str(key), str(value)) for key, value in query],
        headers,
        None if body is None else _encoded(body),
    )


def _generated(sent: HttpRequest) -> str:
    """Return the prefix of the name that a request has generated."""
    if sent.method != "POST" or not sent.body or b"generateName" not in sent.body:
        return ""
    body = json.loads(sent.body)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name"):
        return ""
    return str(metadata.get("generateName") or "")


def _encoded(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _decoded(body: bytes, headers: Mapping[str, str]) -> Json:
    kind = headers.get("content-type", "")
    if kind.startswith("application/json"):
        try:
            return json.loads(body)
        except ValueError:
            return body.decode()
    if kind.startswith("application/yaml"):
        try:
            return YAML(typ="safe").load(body)
        except YAMLError:
            return body.decode()
    return body.decode(errors="replace")
