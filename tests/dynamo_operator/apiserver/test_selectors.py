import pytest

from dynamo_operator.apiserver.selectors import (
    matches,
    parse_field_selector,
    parse_label_selector,
)
from dynamo_operator.apiserver.status import StatusError

LABELS = {"app": "web", "tier": "front", "size": "10"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=db", False),
        ("app!=db", True),
        ("missing!=db", True),
        ("app", True),
        ("!app", False),
        ("!missing", True),
        ("app in (db, web)", True),
        ("app notin (db,web)", False),
        ("missing notin (a)", True),
        ("app in (a),tier", False),
        ("size>9", True),
        ("size<9", False),
        ("missing>1", False),
        ("app=", False),
        ("a.b/c=d", False),
    ],
)
def test_a_label_selector_selects(text, expected):
    assert matches(parse_label_selector(text), LABELS) is expected


@pytest.mark.parametrize("text", ["=x", "a in b", "a in (b", "a=b c=d", "a==!", "size>x"])
def test_an_unreadable_label_selector_is_a_bad_request(text):
    with pytest.raises(StatusError) as refused:
        parse_label_selector(text)

    assert refused.value.code == 400


def test_a_field_selector_unescapes_its_values():
    (requirement,) = parse_field_selector(r"metadata.name=a\,b\=c\\d")

    assert requirement.matches({"metadata.name": r"a,b=c\d"})


def test_a_field_selector_can_exclude():
    selector = parse_field_selector("status.phase!=Running,spec.nodeName=n1")

    assert matches(selector, {"status.phase": "Pending", "spec.nodeName": "n1"})
    assert not matches(selector, {"status.phase": "Running", "spec.nodeName": "n1"})


def test_a_field_selector_without_operator_is_a_bad_request():
    with pytest.raises(StatusError, match="can't understand"):
        parse_field_selector("metadata.name")
