"""Every API server answers as the real one did when its answers were recorded.

`python -m tests.conformance.recording` records them anew.
"""

import json

import pytest

from tests.conformance.answers import RECORDED, play_all
from tests.conformance.cases import GROUPS, cases_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANSWERS = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("group", GROUPS)
async def test_the_answers_are_the_real_ones(cluster, namespace, group):
    told = await play_all(cluster.client, namespace, cases_of(group))

    differing = {
        name: (answers, ANSWERS[group].get(name))
        for name, answers in told.items()
        if answers != ANSWERS[group].get(name)
    }
    assert differing == {}
    assert set(told) == set(ANSWERS[group])
