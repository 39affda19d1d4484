import pytest

from dynamo_operator.apiserver.expressions.program import Program
from dynamo_operator.apiserver.expressions.schema_types import declared
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.expressions.types import (
    BOOL,
    DOUBLE,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    optional,
)
from dynamo_operator.apiserver.schema import Schema

SELF = Type(
    "object",
    "self",
    fields={
        "count": INT,
        "rate": DOUBLE,
        "name": STRING,
        "names": list_of(STRING),
        "labels": map_of(STRING, INT),
        "deep": Type("object", "self.deep", fields={"er": INT}),
        "free": Type("object", "self.free", fields={}),
        "port": DYN,
    },
)


def type_of(rule):
    return Program(rule, {"self": SELF, "oldSelf": optional(SELF)}).type


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("self.count + 1 * -2", INT),
        ("self.count > 1.5 && !(self.name in self.names || false)", BOOL),
        ("self.names.map(n, n.size())", list_of(INT)),
        ("self.names.filter(n, n != '')[0]", STRING),
        ("self.labels['a'] == self.labels.a ? self.rate : 1.0", DOUBLE),
        ("[1, 2][0] + {'a': 3}['a']", INT),
        ("self.?name.orValue(r'a\\.b')", STRING),
        ("oldSelf.?deep.er.orValue(0)", INT),
        ("self.names[?0].hasValue()", BOOL),
        ("dyn(self).anything.at[0].all", DYN),
        ("self.port == 1 && self.port == 'a'", BOOL),
        ("'%s%d'.format(['a', 1])", STRING),
        ("sets.contains(self.names, ['a'])", BOOL),
        ("self.names.transformList(i, n, n + string(i))", list_of(STRING)),
    ],
)
def test_an_expression_has_a_type(rule, expected):
    assert type_of(rule) == expected


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("self.deep.re == 1", "undefined field 're'"),
        ("has(self.free.a)", "undefined field 'a'"),
        ("self.name.length == 1", "type 'string' does not support field selection"),
        ("self.rate == 1", "no matching overload for '_==_' applied to '(double, int)'"),
        ("self.rate + 1 > 0.0", "no matching overload for '_+_' applied to '(double, int)'"),
        ("1 in self.names", "no matching overload for '@in' applied to '(int, list(string))'"),
        ("self.names['a']", "no matching overload for '_[_]' applied to '(list(string), string)'"),
        ("self.names.all(n, n)", "expected type 'bool' but found 'string'"),
        ("self.name.all(c, true)", "expression of type 'string' cannot be range"),
        ("self.name && true", "expected type 'bool' but found 'string'"),
        ("self.count.startsWith('a')", "overload for 'startsWith' applied to 'int.(string)'"),
        ("self.name == null", "applied to '(string, null)'"),
        ("[1, 'a']", "expected type 'int' but found 'string'"),
        ("self.?name.orValue(1)", "'orValue' applied to 'optional_type(string).(int)'"),
    ],
)
def test_an_expression_of_wrong_types_is_refused(rule, told):
    with pytest.raises(ExpressionError) as error:
        type_of(rule)

    assert told in str(error.value)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, INT),
        ({"type": "string", "format": "date-time"}, TIMESTAMP),
        ({"type": "array", "items": {"type": "number"}}, list_of(DOUBLE)),
        ({"x-kubernetes-int-or-string": True}, DYN),
        ({"x-kubernetes-preserve-unknown-fields": True}, None),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, Type("object", "self")),
        (
            {
                "type": "object",
                "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True},
            },
            None,
        ),
        (
            {"type": "object", "properties": {"a-b": {"type": "boolean"}, "any": {}}},
            Type("object", "self", fields={"a__dash__b": BOOL}),
        ),
    ],
)
def test_a_schema_has_a_type(schema, expected):
    known = declared(Schema.compile(schema), "self")
    assert (known and known.type) == expected
    if known is not None:
        assert (known.type.fields or {}) == ((expected and expected.fields) or {})
