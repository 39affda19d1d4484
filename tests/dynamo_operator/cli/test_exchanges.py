from __future__ import annotations

import json

import pytest

from dynamo_operator.cli.exchanges import exchange_of
from dynamo_operator.runtime.client.http import HttpRequest

APPLY = {"Content-Type": "application/apply-patch+yaml"}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (HttpRequest("GET", "/api/v1/namespaces/lab/pods/a"), "get pods lab/a"),
        (HttpRequest("GET", "/api/v1/namespaces/lab/pods"), "list pods lab"),
        (HttpRequest("GET", "/api/v1/nodes"), "list nodes"),
        (HttpRequest("GET", "/api/v1/namespaces/lab"), "get namespaces lab"),
        (HttpRequest("GET", "/apis/batch/v1"), "get discovery of batch/v1"),
        (HttpRequest("GET", "/api/v1"), "get discovery of v1"),
        (HttpRequest("DELETE", "/apis/batch/v1/namespaces/lab/jobs/a"), "delete jobs lab/a"),
        (HttpRequest("PUT", "/api/v1/namespaces/lab/pods/a/status"), "update pods/status lab/a"),
        (HttpRequest("PATCH", "/api/v1/namespaces/lab/pods/a"), "patch pods lab/a"),
        (
            HttpRequest("PATCH", "/api/v1/namespaces/lab/pods/a", headers=APPLY),
            "apply pods lab/a",
        ),
        (
            HttpRequest(
                "POST",
                "/api/v1/namespaces/lab/pods",
                body=json.dumps({"metadata": {"name": "a"}}).encode(),
            ),
            "create pods lab/a",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_request_is_told_in_the_words_of_the_api(request_, words):
    found = exchange_of(request_, 200)

    assert " ".join(filter(None, (found.verb, found.resource, found.name))) == words
    assert found.is_write == (words.split()[0] not in ("get", "list"))


def test_an_event_is_told_with_what_it_says():
    event = {"metadata": {"name": "a.1"}, "reason": "RunCreated", "note": "created Run a"}
    request = HttpRequest(
        "POST", "/apis/events.k8s.io/v1/namespaces/lab/events", body=json.dumps(event).encode()
    )

    assert exchange_of(request, 201).note == "RunCreated: created Run a"


@pytest.mark.parametrize(
    ("method", "status", "refused"),
    [("GET", 404, False), ("GET", 403, True), ("DELETE", 404, True), ("DELETE", 200, False)],
)
def test_that_there_is_no_object_answers_a_read_and_refuses_a_write(method, status, refused):
    request = HttpRequest(method, "/api/v1/namespaces/lab/pods/a")

    assert exchange_of(request, status).is_refused is refused
