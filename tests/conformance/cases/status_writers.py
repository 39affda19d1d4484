"""Status: who writes which fields of it, and what a status may not be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from tests.builders import MODEL
from tests.conformance.requests import Body, Json
from tests.conformance.steps import About, Step, apply, cases, patch, post, put, renewed

REQUESTS = DynamoGraphDeploymentRequest.resource_type
PLAIN = {"spec": {"model": {"name": MODEL}}}
THEN = "2026-11-30T12:00:00Z"


def condition(kind: str, status: str = "True", **more: Any) -> Json:
    """A condition."""
    return {
        "type": kind,
        "status": status,
        "reason": "Lab",
        "message": "as the test says",
        "lastTransitionTime": THEN,
        **more,
    }


def apply_status(body: Body, manager: str, *, force: bool = False) -> Step:
    """Server-side apply of the status."""
    return apply(body, manager, subresource="status", force=force)


def with_version(body: Json) -> Any:
    """The body, valid only for the version that the latest answer held."""
    return lambda latest: {
        **body,
        "metadata": {"resourceVersion": latest["metadata"]["resourceVersion"]},
    }


def status_writers() -> Iterator[tuple[str, About]]:
    """Two field managers on one status, as our controllers and the publisher write it."""
    one: Json = {"status": {"observedGeneration": 1, "conditions": [condition("Accepted")]}}
    two: Json = {"status": {"phase": "Running", "conditions": [condition("Completed", "False")]}}
    made = post(PLAIN)
    first = apply_status(one, "request-controller")
    second = apply_status(two, "publisher")
    yield "status: two writers of different fields", About(REQUESTS, [made, first, second])
    taken: Json = {
        "status": {"observedGeneration": 2, "conditions": [condition("Accepted", "False")]}
    }
    yield (
        "status: one writer takes the other's fields",
        About(
            REQUESTS,
            [made, first, apply_status(taken, "publisher")],
        ),
    )
    yield (
        "status: by force",
        About(REQUESTS, [made, first, apply_status(taken, "publisher", force=True), first]),
    )
    yield (
        "status: both own an equal value",
        About(REQUESTS, [made, first, apply_status(one, "publisher")]),
    )
    less: Json = {"status": {"observedGeneration": 1}}
    yield (
        "status: what is left out goes",
        About(REQUESTS, [made, first, second, apply_status(less, "request-controller")]),
    )
    yield (
        "status: shared fields stay until the last owner leaves",
        About(
            REQUESTS,
            [
                made,
                first,
                apply_status(one, "publisher"),
                apply_status(less, "request-controller"),
                apply_status({"status": {}}, "publisher"),
            ],
        ),
    )
    yield (
        "status: the spec in a status write is ignored",
        About(
            REQUESTS,
            [
                made,
                put(
                    lambda latest: {**latest, "spec": {"model": {"name": "x"}}, **one},
                    subresource="status",
                ),
            ],
        ),
    )
    yield (
        "status: the status in a main write is ignored",
        About(
            REQUESTS,
            [
                post({**PLAIN, **one}),
                put(renewed(**one)),
                apply_status({**PLAIN, **one}, "kubectl"),
            ],
        ),
    )
    yield "status: of an object that is not there", About(REQUESTS, [first])
    yield (
        "status: at the right version",
        About(REQUESTS, [made, apply_status(with_version(one), "request-controller")]),
    )
    stale: Json = {"metadata": {"resourceVersion": "1"}, **one}
    yield (
        "status: at a stale version",
        About(REQUESTS, [made, apply_status(stale, "request-controller", force=True)]),
    )
    yield (
        "status: replaced at a stale version",
        About(
            REQUESTS,
            [
                made,
                first,
                put(
                    lambda latest: {
                        **latest,
                        "metadata": {**latest["metadata"], "resourceVersion": "1"},
                    },
                    subresource="status",
                ),
            ],
        ),
    )
    of_another: Json = {"metadata": {"uid": "4f1c2a00-0000-4000-8000-000000000001"}, **one}
    yield (
        "status: of another uid",
        About(REQUESTS, [made, apply_status(of_another, "request-controller")]),
    )
    for name, wrong in {
        "a phase that is no text": {"phase": 1},
        "a generation below zero": {"observedGeneration": -1},
        "half a generation": {"observedGeneration": 1.5},
        "a generation as an integral float": {"observedGeneration": 2.0},
        "a condition without type": {"conditions": [{"status": "True"}]},
        "a condition with a strange status": {"conditions": [condition("Accepted", "Maybe")]},
        "a condition twice": {"conditions": [condition("Accepted"), condition("Accepted")]},
        "a condition without a time": {
            "conditions": [{k: v for k, v in condition("A").items() if k != "lastTransitionTime"}]
        },
        "a condition with a bad time": {"conditions": [condition("A", lastTransitionTime="now")]},
    }.items():
        yield (
            f"status: {name}, by apply",
            About(REQUESTS, [made, apply_status({"status": wrong}, "request-controller")]),
        )
        yield (
            f"status: {name}, by merge patch",
            About(REQUESTS, [made, patch({"status": wrong}, subresource="status")]),
        )
    yield "status: applied unchanged twice", About(REQUESTS, [made, first, first])
    yield (
        "status: patched where it was applied",
        About(
            REQUESTS,
            [
                made,
                first,
                patch({"status": {"observedGeneration": 3}}, subresource="status"),
                first,
            ],
        ),
    )


CASES = cases(status_writers())
