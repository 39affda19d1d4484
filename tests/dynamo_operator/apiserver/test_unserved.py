"""What the embedded server lacks says so, and so does the documentation."""

import re
from pathlib import Path

import pytest

from dynamo_operator.apiserver.builtin_resources import builtin_resources
from dynamo_operator.apiserver.unserved import PARTS, RESOURCES
from tests.dynamo_operator.apiserver.api import Api, pod

PAGE = Path(__file__).parents[3] / "docs/testing.md"
LACKING = [
    (api_version, plural)
    for api_version, plurals in RESOURCES.items()
    for plural in plurals.split()
]


@pytest.mark.parametrize(("api_version", "plural"), LACKING)
async def test_a_resource_that_is_not_served_is_not_implemented(api_version, plural):
    root = "/apis" if "/" in api_version else "/api"

    for path in (f"{root}/{api_version}/{plural}", f"{root}/{api_version}/namespaces/d/{plural}/x"):
        answer = await Api().get(path)

        assert (answer.status, answer.body["reason"]) == (501, "NotImplemented")
        assert plural in answer.message


async def test_a_part_that_is_not_served_is_not_implemented():
    api = Api()
    await api.create("/api/v1/namespaces/default/pods", pod("p", node="n"))
    await api.create(
        "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    )
    spec = {"ports": [{"port": 80}], "clusterIP": "None"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
    await api.create("/api/v1/namespaces/default/services", service)
    objects = {
        "pods": "/api/v1/namespaces/default/pods/p",
        "nodes": "/api/v1/nodes/n",
        "services": "/api/v1/namespaces/default/services/s",
    }

    for plural, parts in PARTS.items():
        for part in parts.split():
            answer = await api.get(f"{objects[plural]}/{part}")
            assert answer.status == 501, part
            assert f"{plural}/{part}" in answer.message


def test_nothing_that_is_served_is_called_lacking():
    served = {(resource.api_version, resource.plural) for resource in builtin_resources()}

    assert not served & set(LACKING)


def test_the_page_names_everything_that_is_lacking():
    section = PAGE.read_text(encoding="utf-8").partition("## What the embedded server is not for")[
        2
    ]
    rows = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|$", section, re.M))

    shown = {key: " ".join(re.findall(r"`([^`]+)`", cell)) for key, cell in rows.items()}
    assert shown == {**RESOURCES, **PARTS}
