import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo_operator.apiserver.patches import json_patch
from dynamo_operator.runtime.webhooks.json_patch import patch_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "~/"]),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~f"]), children, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("raw", "before", "after", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, {"a": 1}, [], id="nothing-changed"),
        pytest.param(
            {"a": 1}, {"a": 1}, {"b/c": 2},
            [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/b~1c", "value": 2}],
            id="removed-and-added",
        ),
        pytest.param(
            {"a": None, "b": 1}, {"b": 1}, {"b": 2},
            [{"op": "replace", "path": "/b", "value": 2}],
            id="a-null-that-decoding-dropped-stays",
        ),
        pytest.param({"b": "1"}, {"b": 1}, {"b": 1}, [], id="what-decoding-converted-stays"),
        pytest.param({"b": "1"}, {"b": 1}, {"b": 2}, [{"op": "replace", "path": "/b", "value": 2}],
                     id="what-decoding-converted-and-the-handler-changed"),
        pytest.param({"a": None}, {}, {"a": 1}, [{"op": "add", "path": "/a", "value": 1}],
                     id="a-null-filled"),
        pytest.param({}, {"a": 1}, {}, [], id="what-decoding-made-up-and-the-handler-removed"),
        pytest.param({"a": 1}, {"a": 1}, {"a": True},
                     [{"op": "replace", "path": "/a", "value": True}], id="true-is-not-one"),
        pytest.param({"l": [1, 2]}, {"l": [1, 2]}, {"l": [1, 3]},
                     [{"op": "replace", "path": "/l/1", "value": 3}], id="an-item"),
        pytest.param({"l": [1]}, {"l": [1]}, {"l": [1, 2, 3]},
                     [{"op": "add", "path": "/l/-", "value": 2},
                      {"op": "add", "path": "/l/-", "value": 3}], id="appended"),
        pytest.param({"l": [1, 2]}, {"l": [1, 2]}, {"l": [0, 1, 2]},
                     [{"op": "replace", "path": "/l", "value": [0, 1, 2]}], id="inserted"),
    ],
)  # fmt: skip
def test_only_what_the_handler_changed_is_patched(raw, before, after, patch):
    assert patch_of(raw, before, after) == patch


@settings(max_examples=300, deadline=None)
@given(before=st.dictionaries(st.sampled_from("abc"), VALUES), after=VALUES)
def test_the_patch_of_an_object_that_decodes_as_it_is_makes_exactly_the_new_one(before, after):
    before, after = {"x": before}, {"x": after}

    patched = json_patch(before, patch_of(before, before, after))

    assert patched == after
    assert patch_of(after, after, after) == []
