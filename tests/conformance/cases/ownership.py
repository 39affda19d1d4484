"""Server-side apply on a built-in kind, and its neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentRequest
from dynamo_operator.runtime.builtin_kinds import ConfigMap
from tests.builders import MODEL
from tests.conformance.requests import Json
from tests.conformance.steps import About, Step, apply, cases, patch, post, put, renewed

REQUESTS = DynamoGraphDeploymentRequest.resource_type
CONFIG_MAPS = ConfigMap.resource_type
PLAIN = {"spec": {"model": {"name": MODEL}}}


def ownership() -> Iterator[tuple[str, About]]:
    """Server-side apply on a built-in kind, and its neighbours."""
    one: Json = {"data": {"a": "1", "b": "1"}, "metadata": {"labels": {"x": "1"}}}
    yield (
        "apply: conflicts name the fields and their owner",
        About(
            CONFIG_MAPS,
            [
                apply(one, "one"),
                apply({"data": {"a": "2"}, "metadata": {"labels": {"x": "2"}}}, "two"),
            ],
        ),
    )
    yield (
        "apply: what was created is taken over",
        About(
            CONFIG_MAPS,
            [post(one, manager="one"), apply({"data": {"a": "2"}}, "two", force=True)],
        ),
    )
    yield (
        "apply: a field that two own stays",
        About(
            CONFIG_MAPS,
            [apply(one, "one"), apply({"data": {"a": "1"}}, "two"), apply({"data": {}}, "one")],
        ),
    )
    yield (
        "apply: the same manager by update and by apply",
        About(CONFIG_MAPS, [post(one, manager="one"), apply({"data": {"a": "2"}}, "one")]),
    )
    yield (
        "apply: managedFields may not be sent",
        About(CONFIG_MAPS, [apply({"metadata": {"managedFields": [{"manager": "x"}]}}, "one")]),
    )
    yield (
        "apply: without a manager",
        About(CONFIG_MAPS, [Step("PATCH", one, "application/apply-patch+yaml")]),
    )
    yield (
        "apply: a name that is not the path's",
        About(CONFIG_MAPS, [apply({"metadata": {"name": "other"}}, "one")]),
    )
    another = {"uid": "4f1c2a00-0000-4000-8000-000000000001"}
    yield (
        "apply: of another uid",
        About(
            CONFIG_MAPS,
            [post(one), apply({"metadata": another, "data": {"a": "2"}}, "two", force=True)],
        ),
    )
    yield (
        "apply: of another uid, of our kind",
        About(REQUESTS, [post(PLAIN), apply({"metadata": another, **PLAIN}, "two", force=True)]),
    )
    yield (
        "apply: of a uid, where there is none",
        About(CONFIG_MAPS, [apply({"metadata": another, "data": {"a": "2"}}, "two")]),
    )
    yield (
        "replace: of another uid",
        About(
            CONFIG_MAPS,
            [
                post(one),
                put(lambda latest: {**latest, "metadata": {**latest["metadata"], **another}}),
            ],
        ),
    )
    yield (
        "replace: of another uid, of our kind",
        About(
            REQUESTS,
            [
                post(PLAIN),
                put(lambda latest: {**latest, "metadata": {**latest["metadata"], **another}}),
            ],
        ),
    )
    yield (
        "merge patch: of another uid",
        About(CONFIG_MAPS, [post(one), patch({"metadata": another})]),
    )
    yield (
        "replace: the status of another uid",
        About(
            REQUESTS,
            [
                post(PLAIN),
                put(
                    lambda latest: {
                        **latest,
                        "metadata": {**latest["metadata"], **another},
                        "status": {"phase": "A"},
                    },
                    subresource="status",
                ),
            ],
        ),
    )
    yield (
        "apply: at a stale version",
        About(
            CONFIG_MAPS,
            [
                post(one),
                apply(
                    {"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}}, "two", force=True
                ),
            ],
        ),
    )
    yield "apply: an unknown field", About(CONFIG_MAPS, [apply({"datum": {}}, "one")])
    yield (
        "replace: managedFields emptied",
        About(
            CONFIG_MAPS,
            [
                apply(one, "one"),
                put(
                    lambda latest: {
                        **latest,
                        "metadata": {**latest["metadata"], "managedFields": [{}]},
                    }
                ),
            ],
        ),
    )
    yield (
        "delete: a uid that is not its",
        About(
            CONFIG_MAPS,
            [
                post(one),
                Step(
                    "DELETE",
                    {
                        "apiVersion": "v1",
                        "kind": "DeleteOptions",
                        "preconditions": {"uid": "4f1c2a00-0000-4000-8000-000000000001"},
                    },
                    "application/json",
                ),
            ],
        ),
    )
    yield "create: a name that is taken", About(CONFIG_MAPS, [post(one), post(one)])
    yield "create: a bad name", About(CONFIG_MAPS, [post({"metadata": {"name": "A_b"}})])
    yield (
        "create: a bad label",
        About(CONFIG_MAPS, [post({"metadata": {"labels": {"a b": "c d"}}, "data": {"a/b": "c"}})]),
    )
    yield (
        "replace: immutable data",
        About(CONFIG_MAPS, [post({**one, "immutable": True}), put(renewed(data={"a": "2"}))]),
    )


CASES = cases(ownership())
