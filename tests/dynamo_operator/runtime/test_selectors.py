import pytest

from dynamo_operator.runtime.selectors import fields_match, label_matcher

LABELS = {"app": "web", "tier": "front", "lab.test/empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("app=web", True),
        ("app==web,tier!=back", True),
        ("app!=web", False),
        ("missing!=x", True),
        ("app in (web, api)", True),
        ("app notin (web)", False),
        ("missing notin (web)", True),
        ("app", True),
        ("!app", False),
        ("! missing", True),
        ("lab.test/empty=", True),
        ("app=web,tier=back", False),
        ({"app": "web", "tier": "front"}, True),
        ({"app": "api"}, False),
    ],
    ids=str,
)
def test_a_selector_matches_as_the_api_server_would(selector, matches):
    matcher = label_matcher(selector)

    assert matcher is not None
    assert matcher(LABELS) is matches


def test_an_empty_selector_means_everything():
    assert label_matcher(None) is None
    assert label_matcher("") is None
    assert label_matcher({}) is None


@pytest.mark.parametrize("text", ["app web", "=web", "app in web", "a=b c=d", "a=b,,c", "a>"])
def test_text_that_is_no_selector_is_refused_and_quoted(text):
    with pytest.raises(ValueError, match="label selector") as refused:
        label_matcher(text)

    assert text in str(refused.value)


def test_fields_are_dotted_paths_compared_as_text():
    pod = {"spec": {"nodeName": "n1", "hostNetwork": True}, "status": {"restarts": 3}}

    assert fields_match(pod, {"spec.nodeName": "n1", "status.restarts": "3"})
    assert fields_match(pod, {"spec.hostNetwork": "true", "spec.missing.deeper": ""})
    assert not fields_match(pod, {"spec.nodeName": "n2"})
