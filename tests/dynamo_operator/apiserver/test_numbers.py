"""Numbers that JSON or a float64 cannot hold are refused; one that was stored would break lists."""

from typing import Any

import pytest

from tests.dynamo_operator.apiserver.api import (
    APPLY,
    CRDS,
    JSON_PATCH,
    MERGE,
    WIDGETS,
    Api,
    widget,
    widget_crd,
)

KEY = f"{WIDGETS}/a"
BODY = '{"apiVersion":"lab.test/v1","kind":"Widget","metadata":{"name":"a"},"status":{"n":%s}}'
WAYS = {
    "replace": ("PUT", "application/json", BODY),
    "merge patch": ("PATCH", MERGE, '{"status":{"n":%s}}'),
    "JSON patch": ("PATCH", JSON_PATCH, '[{"op":"add","path":"/status","value":{"n":%s}}]'),
    "apply": ("PATCH", APPLY, BODY),
}


@pytest.fixture
async def api() -> Api:
    api = Api()
    await api.create(CRDS, widget_crd())
    await api.create(WIDGETS, widget("a"))
    return api


async def write(api: Api, way: str, number: str):
    method, content_type, body = WAYS[way]
    text = body % number
    query: dict[str, Any] = {"fieldManager": "me", "force": "true"} if content_type == APPLY else {}
    return await api.ask(method, f"{KEY}/status", text.encode(), content_type=content_type, **query)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "0.1e99999999999", "9" * 400, "NaN"])
@pytest.mark.parametrize("way", ["replace", "merge patch", "JSON patch"])
async def test_what_no_float64_can_be_is_a_bad_request(api, way, number):
    assert (await write(api, way, number)).status == 400
    assert "status" not in (await api.get(KEY)).body


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf", ".NaN"])
@pytest.mark.parametrize(
    ("method", "content_type"), [("PUT", "application/yaml"), ("PATCH", APPLY)]
)
async def test_what_only_yaml_has_is_a_bad_request(api, method, content_type, number):
    query: dict[str, Any] = {"fieldManager": "me", "force": "true"} if content_type == APPLY else {}
    text = (BODY % number).encode()

    answer = await api.ask(method, f"{KEY}/status", text, content_type=content_type, **query)

    assert answer.status == 400
    assert "json: unsupported value" in answer.message
    assert "status" not in (await api.get(KEY)).body


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", 2.0**63),
        ("9" * 30, 1e30),
        ("1e308", 1e308),
        ("1E-5000", 0),
    ],
)
@pytest.mark.parametrize("way", ["merge patch", "JSON patch", "apply"])
async def test_a_number_is_an_int64_or_a_float64(api, way, number, kept):
    stored = (await write(api, way, number)).body["status"]["n"]

    assert (stored, type(stored)) == (kept, type(kept)) or stored == kept == 0
