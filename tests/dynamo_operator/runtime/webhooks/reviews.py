"""Reviews as an API server sends them, and what answers them without a socket."""

import base64
import json
from typing import Any

from dynamo_operator.runtime.client.http import HttpRequest
from dynamo_operator.runtime.webhooks.server import Webhooks
from dynamo_operator.testing import NoCertificate
from tests.dynamo_operator.runtime.widgets import Widget

MUTATE = "/mutate-lab-test-v1-widget"
VALIDATE = "/validate-lab-test-v1-widget"
JSON = {"content-type": "application/json"}


def serving(*webhooks, **options) -> Webhooks:
    return Webhooks(webhooks, certificate=NoCertificate(), address="127.0.0.1:0", **options)


def widget(**fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "lab.test/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "namespace": "lab"},
        **fields,
    }


def review(operation: str, new: Any = None, old: Any = None, **request: Any) -> dict[str, Any]:
    mine = Widget.resource_type
    gvk = {"group": mine.group, "version": mine.version, "kind": mine.kind}
    gvr = {"group": mine.group, "version": mine.version, "resource": mine.plural}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0a1b",
            "operation": operation,
            "kind": gvk,
            "resource": gvr,
            "requestKind": gvk,
            "requestResource": gvr,
            "name": "a",
            "namespace": "lab",
            "userInfo": {"username": "ann", "groups": ["staff"]},
            "object": new,
            "oldObject": old,
            "options": None,
            "dryRun": False,
            **request,
        },
    }


async def post(webhooks: Webhooks, path: str, body: Any, *, query=(), headers=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await webhooks.answer(
        HttpRequest("POST", path, list(query), JSON if headers is None else headers, data)
    )


async def ask(webhooks: Webhooks, path: str, body: Any, **options: Any) -> dict[str, Any]:
    """Return the response of a review; its patch decoded."""
    answer = await post(webhooks, path, body, **options)
    assert answer.status == 200, answer.body
    document = json.loads(answer.body)
    response: dict[str, Any] = document["response"]
    if "patch" in response:
        assert response.pop("patchType") == "JSONPatch"
        response["patch"] = json.loads(base64.b64decode(response["patch"]))
    return response
