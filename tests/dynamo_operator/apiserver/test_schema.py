from typing import Any

import pytest

from dynamo_operator.apiserver.schema import (
    Schema,
    apply_defaults,
    drop_nulls,
    prune,
    unknown_fields,
)

PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
STRING = {"type": "string"}


def obj(**properties):
    return {"type": "object", "properties": properties}


def prepared(source, value):
    schema = Schema.compile(source)
    result = prune(value, schema)
    drop_nulls(result, schema)
    apply_defaults(result, schema)
    return result


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        pytest.param(obj(a=STRING), {"a": "1", "b": 2}, {"a": "1"}, id="an unknown field"),
        pytest.param(
            obj(a={"type": "array", "items": obj(b=STRING)}),
            {"a": [{"b": "x", "c": 1}, {"c": 1}]},
            {"a": [{"b": "x"}, {}]},
            id="inside list items",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": obj(b=STRING)},
            {"any": {"b": "x", "c": 1}},
            {"any": {"b": "x"}},
            id="map values keep their keys, not unknown fields below",
        ),
        pytest.param(
            {**obj(a=obj(b=STRING)), **PRESERVE},
            {"z": {"deep": [1]}, "a": {"b": "x", "c": 1}},
            {"z": {"deep": [1]}, "a": {"b": "x"}},
            id="preserving stops at a declared field",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True},
            {"a": {"b": 1}, "c": 1},
            {"a": {}, "c": 1},
            id="additionalProperties true",
        ),
        pytest.param({"type": "object"}, {"a": 1}, {}, id="no properties keep nothing"),
        pytest.param(
            obj(n={"type": "number"}), {"n": 20.0}, {"n": 20}, id="integral floats as written"
        ),
    ],
)
def test_pruning_drops(source, value, expected):
    assert prepared(source, value) == expected


def test_pruning_does_not_change_its_argument():
    value = {"a": {"b": "x", "c": 1}}

    prune(value, Schema.compile(obj(a=obj(b=STRING))))

    assert value == {"a": {"b": "x", "c": 1}}


def test_unknown_fields_are_named_by_path_in_document_order():
    schema = Schema.compile(
        obj(spec=obj(env={"type": "array", "items": obj(name=STRING)}, m={**obj(), **PRESERVE})),
        root=True,
    )
    value = {
        "kind": "K",
        "metadata": {"name": "x", "nick": "y"},
        "spec": {"zz": 1, "env": [{"name": "a"}, {"nam": "b"}], "m": {"free": 1}},
        "extra": {},
    }

    assert unknown_fields(value, schema) == ["metadata.nick", "spec.zz", "spec.env[1].nam", "extra"]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        pytest.param({"type": "string"}, {"f": None}, {}, id="a null is dropped"),
        pytest.param(
            {"type": "string", "default": "d"},
            {"f": None},
            {"f": "d"},
            id="a default takes its place",
        ),
        pytest.param(
            {"type": "string", "nullable": True}, {"f": None}, {"f": None}, id="nullable keeps null"
        ),
        pytest.param(
            {"type": "string", "nullable": True, "default": "d"},
            {"f": None},
            {"f": None},
            id="nullable null is not defaulted",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}},
            {"f": [None]},
            {"f": [None]},
            id="a null in a list stays for validation",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string", "default": "d"}},
            {"f": [None, "x"]},
            {"f": ["d", "x"]},
            id="unless the items have a default",
        ),
    ],
)
def test_nulls(field, value, expected):
    assert prepared(obj(f=field), value) == expected


def test_a_free_map_keeps_a_top_level_null_only_when_its_values_are_nullable():
    value = {"a": None, "b": {"c": None}}
    plain = {"type": "object", "additionalProperties": PRESERVE}
    nullable = {"type": "object", "additionalProperties": {**PRESERVE, "nullable": True}}

    assert prepared(plain, value) == {"b": {"c": None}}
    assert prepared(nullable, value) == value


def test_defaults_fill_parents_before_children_and_only_existing_parents():
    source = obj(
        a={**obj(b={"type": "integer", "default": 1}), "default": {}},
        c=obj(d={"type": "integer", "default": 2}),
    )

    assert prepared(source, {}) == {"a": {"b": 1}}
    assert prepared(source, {"c": {}}) == {"a": {"b": 1}, "c": {"d": 2}}


def test_a_default_is_copied_for_each_object():
    schema = Schema.compile(obj(a={"type": "object", "default": {"x": []}, **PRESERVE}))
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    apply_defaults(first, schema)
    apply_defaults(second, schema)

    first["a"]["x"].append(1)

    assert second == {"a": {"x": []}}


def test_an_embedded_resource_keeps_its_identity_and_known_metadata():
    source = obj(template={"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE})
    template = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "ok", "labels": {"a": "b"}, "unknownMeta": 1},
        "spec": {"x": 1},
    }

    result = prepared(source, {"template": template})

    assert result["template"] == {**template, "metadata": {"name": "ok", "labels": {"a": "b"}}}


def test_a_preserved_field_keeps_what_is_in_its_lists():
    schema = Schema.compile(
        {
            "type": "object",
            "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True},
        }
    )
    value = {"components": [{"name": "a", "env": [{"b": [1]}]}], "plain": [1, [2]]}

    assert prune(value, schema) == value
