"""The page of symptoms has every reason that the conditions of our kinds can have, and no other."""

import re

import pytest

from dynamo_operator.api.conditions import (
    AcceptedReason,
    CompletedReason,
    EvaluatedReason,
    ReadyReason,
)
from tests.docs.pages import DOCS

PAGE = (DOCS / "troubleshooting.md").read_text()
REASONS = {
    "Accepted": AcceptedReason,
    "Completed": CompletedReason,
    "Evaluated": EvaluatedReason,
    "Ready": ReadyReason,
}


@pytest.mark.parametrize("condition", REASONS)
def test_every_reason_has_a_line(condition):
    told = re.findall(rf"{condition}: `(\w+)`", PAGE)
    expected = [reason.value for reason in REASONS[condition]]
    if condition == "Ready":
        told += re.findall(r"Published: `(\w+)`", PAGE)

    assert sorted(told) == sorted(expected)
