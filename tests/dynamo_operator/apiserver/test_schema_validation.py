import pytest

from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.schema_validation import Validator
from dynamo_operator.apiserver.value_checks import compile_pattern

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
BY_NAME = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": STRING, "value": INTEGER}},
}


def errors(field, value):
    schema = Schema.compile({"type": "object", "properties": {"f": field}})
    return [str(error) for error in Validator(schema).validate({"f": value})]


def in_body(text):
    return f"f in body {text}"


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        pytest.param(
            INTEGER,
            "40",
            f'f: Invalid value: "string": {in_body("must be of type integer")}: "string"',
            id="type",
        ),
        pytest.param(
            STRING,
            None,
            f'f: Invalid value: "null": {in_body("must be of type string")}: "null"',
            id="null",
        ),
        pytest.param(
            INTEGER,
            True,
            f'f: Invalid value: "boolean": {in_body("must be of type integer")}: "boolean"',
            id="a boolean is no integer",
        ),
        pytest.param(
            {**INTEGER, "minimum": 1},
            0,
            f"f: Invalid value: 0: {in_body('should be greater than or equal to 1')}",
            id="minimum",
        ),
        pytest.param(
            {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            0,
            f"f: Invalid value: 0: {in_body('should be greater than 0')}",
            id="exclusive minimum",
        ),
        pytest.param(
            {"type": "number", "maximum": 2.5},
            3,
            f"f: Invalid value: 3: {in_body('should be less than or equal to 2.5')}",
            id="maximum",
        ),
        pytest.param(
            {**INTEGER, "multipleOf": 2},
            3,
            f"f: Invalid value: 3: {in_body('should be a multiple of 2')}",
            id="multiple",
        ),
        pytest.param(
            {**INTEGER, "format": "int32"},
            2**31,
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 '
            "in f",
            id="int32",
        ),
        pytest.param(
            {**STRING, "minLength": 2},
            "ä",
            f'f: Invalid value: "ä": {in_body("should be at least 2 chars long")}',
            id="length counts characters",
        ),
        pytest.param(
            {**STRING, "maxLength": 2},
            "äöü",
            "f: Too long: may not be more than 2 bytes",
            id="long",
        ),
        pytest.param(
            {**STRING, "pattern": "^a+$"},
            "aab",
            f'f: Invalid value: "aab": {in_body("should match " + chr(39) + "^a+$" + chr(39))}',
            id="pattern",
        ),
        pytest.param(
            {**STRING, "enum": ["a", "b"]},
            "c",
            'f: Unsupported value: "c": supported values: "a", "b"',
            id="enum",
        ),
        pytest.param(
            {**STRING, "format": "date-time"},
            "yesterday",
            f'f: Invalid value: "yesterday": {in_body("must be of type date-time")}: "yesterday"',
            id="format",
        ),
        pytest.param(
            {"type": "array", "items": STRING, "maxItems": 1},
            ["a", "b"],
            "f: Too many: 2: must have at most 1 items",
            id="too many items",
        ),
        pytest.param(
            {"type": "array", "items": STRING, "minItems": 1},
            [],
            f"f: Invalid value: 0: {in_body('should have at least 1 items')}",
            id="too few items",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
            {},
            "f.a: Required value",
            id="required",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": INTEGER},
            {"k": "v"},
            'f.k: Invalid value: "string": f.k in body must be of type integer: "string"',
            id="map values",
        ),
        pytest.param(
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            ["a", "b", "a"],
            'f[2]: Duplicate value: "a"',
            id="a set",
        ),
        pytest.param(
            BY_NAME,
            [{"name": "A"}, {"name": "A", "value": 1}],
            'f[1]: Duplicate value: {"name":"A"}',
            id="map list keys",
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            1.5,
            'f: Invalid value: "number": f in body must be of type integer,string: "number"',
            id="int or string",
        ),
    ],
)
def test_a_value_is_refused_in_the_servers_words(field, value, expected):
    assert errors(field, value) == [expected]


def test_a_fraction_for_an_integer_is_told_of_the_whole_too():
    assert errors(INTEGER, 1.5) == [
        f'f: Invalid value: "number": {in_body("must be of type integer")}: "number"',
        '<nil>: Invalid value: "": Checked value must be of type integer (default format) in f',
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(INTEGER, 3.0, id="an integral float is an integer"),
        pytest.param({**STRING, "nullable": True, "minLength": 3}, None, id="a nullable null"),
        pytest.param({"x-kubernetes-int-or-string": True}, "50%", id="string of int-or-string"),
        pytest.param({"x-kubernetes-int-or-string": True}, 50, id="int of int-or-string"),
        pytest.param({**STRING, "format": "no-such-format"}, "x", id="an unknown format"),
        pytest.param({**STRING, "format": "duration"}, "1h30m", id="a duration"),
        pytest.param({**STRING, "format": "byte"}, "YQ==", id="base64"),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, [{"a": 1}], id="any value"),
    ],
)
def test_a_value_is_accepted(field, value):
    assert errors(field, value) == []


@pytest.mark.parametrize(
    ("junctor", "good", "bad", "words"),
    [
        (
            {"allOf": [{"minimum": 1}, {"maximum": 3}]},
            2,
            4,
            "must validate all the schemas (allOf)",
        ),
        (
            {"anyOf": [{"maximum": 1}, {"minimum": 3}]},
            3,
            2,
            "must validate at least one schema (anyOf)",
        ),
        ({"not": {"minimum": 3}}, 2, 3, "must not validate the schema (not)"),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 3}]},
            2,
            3,
            "must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ),
    ],
    ids=["allOf", "anyOf", "not", "oneOf"],
)
def test_junctors_combine_value_validations(junctor, good, bad, words):
    assert errors({**INTEGER, **junctor}, good) == []
    assert any(words in text for text in errors({**INTEGER, **junctor}, bad))


def test_a_union_of_members_is_expressed_by_required():
    union = {
        "type": "object",
        "properties": {"a": INTEGER, "b": INTEGER},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }

    assert errors(union, {"a": 1}) == []
    assert "Found 2 valid alternatives" in errors(union, {"a": 1, "b": 1})[0]
    assert "Found none valid" in errors(union, {})[0]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a\n", False),
        ("[$]", "$", True),
        (r"\$", "$", True),
        ("^(a|b$)", "b", True),
        ("[[:alpha:]]+", "é1", False),
        (r"^\d$", "٣", False),
    ],
)
def test_patterns_mean_what_re2_means(pattern, text, matches):
    assert (compile_pattern(pattern).search(text) is not None) is matches


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "["])
def test_patterns_that_re2_lacks_are_refused(pattern):
    with pytest.raises(ValueError, match=r"lacks|not a regular expression"):
        compile_pattern(pattern)


class TestRatcheting:
    def changed(self, source, new, old):
        validator = Validator(Schema.compile(source))
        return [str(error) for error in validator.validate_change(new, old)]

    def test_an_unchanged_part_that_is_invalid_today_does_not_block(self):
        source = {"type": "object", "properties": {"a": {**INTEGER, "maximum": 1}, "b": STRING}}

        assert self.changed(source, {"a": 5, "b": "new"}, {"a": 5, "b": "old"}) == []
        assert len(self.changed(source, {"a": 6, "b": "x"}, {"a": 5, "b": "x"})) == 1

    def test_items_of_a_map_list_are_compared_by_key(self):
        items = {
            "type": "object",
            "properties": {"name": STRING, "value": {**INTEGER, "maximum": 1}},
        }
        source = {"type": "object", "properties": {"f": {**BY_NAME, "items": items}}}
        old = {"f": [{"name": "a", "value": 5}]}

        assert self.changed(source, {"f": [{"name": "b"}, {"name": "a", "value": 5}]}, old) == []

    def test_items_of_an_atomic_list_are_judged_anew(self):
        source = {
            "type": "object",
            "properties": {"f": {"type": "array", "items": {**INTEGER, "maximum": 1}}},
        }

        assert self.changed(source, {"f": [5]}, {"f": [5]}) == []
        assert len(self.changed(source, {"f": [5, 1]}, {"f": [5]})) == 1

    def test_true_is_not_one(self):
        source = {"type": "object", "properties": {"a": INTEGER}}

        assert len(self.changed(source, {"a": True}, {"a": 1})) == 1
