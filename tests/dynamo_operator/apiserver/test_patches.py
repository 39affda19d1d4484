import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamo_operator.apiserver.patches import json_patch, merge_patch
from dynamo_operator.apiserver.status import StatusError

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text("ab/~", max_size=2)),
    lambda children: st.one_of(
        st.lists(children, max_size=3), st.dictionaries(st.text("ab/~", max_size=2), children)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_of_the_rfc(target, patch, expected):
    before = copy.deepcopy((target, patch))

    assert merge_patch(target, patch) == expected
    assert (target, patch) == before


@given(JSON, JSON)
def test_a_merge_patch_is_idempotent(target, patch):
    once = merge_patch(target, patch)

    assert merge_patch(once, patch) == once


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        (
            {"foo": "bar"},
            [{"op": "add", "path": "/baz", "value": "qux"}],
            {"foo": "bar", "baz": "qux"},
        ),
        (
            {"foo": ["a", "c"]},
            [{"op": "add", "path": "/foo/1", "value": "b"}],
            {"foo": ["a", "b", "c"]},
        ),
        ({"foo": ["a"]}, [{"op": "add", "path": "/foo/-", "value": ["b"]}], {"foo": ["a", ["b"]]}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"foo": ["a", "b"]}, [{"op": "remove", "path": "/foo/0"}], {"foo": ["b"]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": {"b": 2}}], {"a": {"b": 2}}),
        (
            {"a": {"x": 1}, "b": {}},
            [{"op": "move", "from": "/a/x", "path": "/b/y"}],
            {"a": {}, "b": {"y": 1}},
        ),
        ({"l": [1, 2, 3]}, [{"op": "move", "from": "/l/0", "path": "/l/2"}], {"l": [2, 3, 1]}),
        ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
        (
            {"a/b": 1, "m~n": 2},
            [{"op": "remove", "path": "/a~1b"}, {"op": "test", "path": "/m~0n", "value": 2}],
            {"m~n": 2},
        ),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
        ({"a": None}, [{"op": "test", "path": "/a", "value": None}], {"a": None}),
    ],
)
def test_json_patches_of_the_rfc(document, patch, expected):
    before = copy.deepcopy(document)

    assert json_patch(document, patch) == expected
    assert document == before


@pytest.mark.parametrize(
    ("document", "operation", "words"),
    [
        (
            {"a": 1},
            {"op": "test", "path": "/a", "value": 2},
            "testing value /a failed: test failed",
        ),
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}, "test failed"),
        (
            {},
            {"op": "remove", "path": "/a"},
            'remove operation does not apply: doc is missing path: "/a"',
        ),
        ({}, {"op": "replace", "path": "/a/b", "value": 1}, "replace operation does not apply"),
        ({"l": []}, {"op": "replace", "path": "/l/0", "value": 1}, "invalid index 0"),
        ({}, {"op": "add", "path": "/a/b", "value": 1}, "add operation does not apply"),
        ({"l": [1]}, {"op": "add", "path": "/l/3", "value": 1}, "invalid index 3"),
        ({"l": [1]}, {"op": "remove", "path": "/l/01"}, "invalid index 01"),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}, "cannot move into itself"),
    ],
)
def test_a_json_patch_that_does_not_apply_is_unprocessable(document, operation, words):
    with pytest.raises(StatusError) as refused:
        json_patch(document, [operation])

    assert refused.value.code == 422
    assert words in str(refused.value)
    assert refused.value.to_status()["details"] == {}


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"op": "add"}, "a JSON patch is a list of operations"),
        (["x"], "operation 0 is not an object"),
    ],
)
def test_what_is_no_list_of_operations_is_a_bad_request(patch, words):
    with pytest.raises(StatusError, match="error decoding patch") as refused:
        json_patch({}, patch)

    assert refused.value.code == 400
    assert words in refused.value.message


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "merge", "path": "/a"},
        {"op": "add", "path": 1, "value": 1},
        {"op": "move", "path": "/a"},
    ],
)
def test_an_operation_that_is_none_does_not_apply(operation):
    with pytest.raises(StatusError) as refused:
        json_patch({}, [operation])

    assert refused.value.code == 422


def test_a_value_that_is_left_out_is_null():
    assert json_patch({}, [{"op": "add", "path": "/a"}]) == {"a": None}


def test_a_json_patch_is_all_or_nothing():
    document = {"a": 1}

    with pytest.raises(StatusError):
        json_patch(document, [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/b"}])

    assert document == {"a": 1}


def test_copies_that_double_an_object_again_and_again_are_refused():
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{n}"} for n in range(64)]

    with pytest.raises(StatusError) as refusal:
        json_patch({"a": {"x": "y" * 1000}}, doubling)

    assert refusal.value.code == 422


def test_a_patch_cannot_nest_an_object_deeper_and_deeper():
    nested: dict[str, Any] = {}
    for _ in range(100):
        nested = {"a": nested}

    with pytest.raises(StatusError, match="nested deeper than 250 levels"):
        json_patch(nested, [{"op": "copy", "from": "", "path": "/a" * n} for n in (100, 200, 300)])
