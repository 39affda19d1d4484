from hypothesis import given
from hypothesis import strategies as st

from dynamo_operator.apiserver import field_sets
from dynamo_operator.apiserver.schema import Schema

_ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "i:0"])
_PATHS = st.lists(_ELEMENTS, min_size=1, max_size=4).map(tuple)


@given(st.frozensets(_PATHS))
def test_a_set_survives_being_written_and_read(fields):
    assert field_sets.decode(field_sets.encode(fields)) == fields


def test_a_member_with_members_below_is_marked():
    fields = frozenset({("f:labels",), ("f:labels", "f:a"), ("f:spec", "f:size")})

    assert field_sets.encode(fields) == {
        "f:labels": {".": {}, "f:a": {}},
        "f:spec": {"f:size": {}},
    }


def test_paths_read_like_the_objects_they_point_into():
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', "f:name")

    assert field_sets.words(path) == '.spec[containerPort=80,protocol="TCP"].name'
    assert field_sets.words(("f:finalizers", 'v:"a/b"')) == '.finalizers[="a/b"]'


def test_a_comparison_tells_added_removed_and_modified():
    schema = Schema.compile(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "m": {"type": "object", "additionalProperties": {"type": "string"}},
                "s": {
                    "type": "array",
                    "items": {"type": "string"},
                    "x-kubernetes-list-type": "set",
                },
            },
        }
    )

    found = field_sets.compare({"a": 1, "m": {"x": "1"}}, {"a": 2, "s": ["k"]}, schema)

    assert found.modified == {("f:a",)}
    assert found.added == {("f:s",), ("f:s", 'v:"k"')}
    assert found.removed == {("f:m",), ("f:m", "f:x")}


def test_true_and_one_differ():
    assert field_sets.compare({"a": 1}, {"a": True}, None).modified == {("f:a",)}
