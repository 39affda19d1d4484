from datetime import UTC, datetime

import pytest

from dynamo_operator.apiserver.tables import age_since, human_duration
from tests.dynamo_operator.apiserver.api import CRDS, WIDGETS, Api, widget, widget_crd

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (49 * 3600, "2d1h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (10 * 365 * 86400, "10y"),
        (-5, "<invalid>"),
    ],
)
def test_an_age_gets_coarser_as_it_grows(seconds, text):
    assert human_duration(seconds) == text


def test_an_age_without_a_time_is_unknown():
    assert age_since(None, datetime(2030, 1, 1, tzinfo=UTC)) == "<unknown>"


@pytest.mark.virtual_time
async def test_a_custom_resource_shows_the_columns_of_its_definition():
    api = Api()
    await api.create(CRDS, widget_crd())
    await api.create(WIDGETS, widget("w", 7))

    answer = await api.get(WIDGETS, accept=AS_TABLE)

    assert [c["name"] for c in answer.body["columnDefinitions"]] == ["Name", "Size", "Age"]
    assert answer.body["rows"][0]["cells"] == ["w", 7, "0s"]


@pytest.mark.virtual_time
@pytest.mark.parametrize(("include", "kind"), [("Object", "Widget"), ("None", None)])
async def test_a_row_includes_what_is_asked_for(include, kind):
    api = Api()
    await api.create(CRDS, widget_crd())
    await api.create(WIDGETS, widget("w"))

    answer = await api.get(f"{WIDGETS}/w", accept=AS_TABLE, includeObject=include)

    assert (answer.body["rows"][0]["object"] or {}).get("kind") == kind
