"""Webhooks for the tests: they answer as they are told, and remember what they were asked."""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from dynamo_operator.apiserver.messages import Response
from tests.dynamo_operator.apiserver.api import Api

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{REGISTRATION}/mutatingwebhookconfigurations"
VALIDATING = f"{REGISTRATION}/validatingwebhookconfigurations"
EVERYTHING = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["*"],
    "resources": ["widgets", "widgets/*", "configmaps"],
}

Json = dict[str, Any]
Script = Callable[[Json], Any]


class ScriptedWebhooks:
    """A WebhookClient. A script gets the request of a review and returns its response.

    It may return a Response instead, or raise; a dict without `uid` gets it.
    """

    def __init__(self, api: Api) -> None:
        self.scripts: dict[str, Script] = {}
        self.reviews: list[tuple[str, Json]] = []
        self.calls: list[dict[str, Any]] = []
        api.server.webhooks.client = self

    async def post(self, url: str, body: bytes, **options: Any) -> Response:
        path = urlsplit(url).path
        review = json.loads(body)
        self.calls.append({"url": url, **options})
        self.reviews.append((path, review["request"]))
        await asyncio.sleep(0)
        response = self.scripts.get(path, allow)(review["request"])
        if asyncio.iscoroutine(response):
            response = await response
        if isinstance(response, Response):
            return response
        if isinstance(response, dict):
            response = {"uid": review["request"]["uid"], **response}
        answer = {k: review[k] for k in ("apiVersion", "kind")} | {"response": response}
        return Response(200, {}, json.dumps(answer).encode())

    @property
    def asked(self) -> list[str]:
        """Path and operation of every review so far, forgotten when told."""
        asked = [f"{path} {request.get('operation')}" for path, request in self.reviews]
        self.reviews.clear()
        return asked


def allow(request: Json) -> Json:
    return {"allowed": True}


def deny(message: str = "", **status: Any) -> Script:
    return lambda request: {
        "allowed": False,
        **({"status": {"message": message, **status}} if message or status else {}),
    }


def patch(*operations: Json) -> Script:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


def hook(called: str, **fields: Any) -> Json:
    return {
        "name": f"{called}.hooks.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"https://hooks.test/{called}"},
        "rules": [EVERYTHING],
        **fields,
    }


async def configure(api: Api, collection: str, *hooks: Json, name: str = "hooks") -> None:
    kind = "MutatingWebhookConfiguration" if "mutating" in collection else None
    answer = await api.create(
        collection,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind or "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": list(hooks),
        },
    )
    assert answer.status == 201, answer.body
