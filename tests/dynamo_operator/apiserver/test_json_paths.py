import pytest

from dynamo_operator.apiserver.json_paths import JsonPath, simple_fields

VALUE = {
    "spec": {"a": 1, "list": [{"n": 1}, {"n": 2}], "a.b": 3, "on": True},
    "conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", [VALUE]),
        (".spec.a", [1]),
        (".spec.nothing", []),
        (".spec.list[1].n", [2]),
        (".spec.list[-1].n", [2]),
        (".spec.list[9].n", []),
        (".spec.list[*].n", [1, 2]),
        (".spec.a\\.b", [3]),
        (".spec['a.b']", [3]),
        ('.conditions[?(@.type=="B")].status', ["False"]),
        (".conditions[?(@.type!='B')].type", ["A"]),
        (".conditions[?(@.status==True)].type", ["A"]),
        (".spec.a.b.c", []),
    ],
)
def test_a_path_finds(path, found):
    assert JsonPath(path).find(VALUE) == found


@pytest.mark.parametrize("path", ["spec", ".spec[", ".a[?(@.b)]", "..a"])
def test_what_is_not_understood_is_refused(path):
    with pytest.raises(ValueError, match="is not a JSON path that is understood here"):
        JsonPath(path)


def test_plain_fields_are_told_from_other_paths():
    assert simple_fields(".spec.a\\.b") == ["spec", "a.b"]
    assert simple_fields(".spec.list[0]") is None
