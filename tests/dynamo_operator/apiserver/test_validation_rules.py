import pytest

from dynamo_operator.apiserver.expressions.schema_types import escape
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.validation_rules import RuleSet

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def rules(schema, *expressions, **options):
    entries = [{"rule": rule, **options} for rule in expressions]
    return RuleSet(Schema.compile({**schema, "x-kubernetes-validations": entries}))


def obj(**properties):
    return {"type": "object", "properties": properties}


def holds(schema, rule, value):
    compiled = rules(schema, rule)
    assert compiled.faults == []
    return list(compiled.validate(value)) == []


TYPED = obj(
    n=INTEGER,
    x={"type": "number"},
    s=STRING,
    items={"type": "array", "items": INTEGER},
    names={"type": "array", "items": STRING},
    labels={"type": "object", "additionalProperties": STRING},
    at={**STRING, "format": "date-time"},
    lasts={**STRING, "format": "duration"},
    either={"x-kubernetes-int-or-string": True},
    maybe={**STRING, "nullable": True},
    inner=obj(a=INTEGER),
    **{"a-b": STRING, "in": STRING, "__x__": STRING, "c.d/e": STRING},
)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        pytest.param("self.n + 1 == 3", {"n": 2}, id="integers are int"),
        pytest.param("self.x / 2.0 == 1.5", {"x": 3}, id="numbers are double, also when integral"),
        pytest.param("self.x > 2", {"x": 2.5}, id="numbers compare across types"),
        pytest.param(
            "size(self.s) == 2 && self.s.size() == 2", {"s": "äö"}, id="size is characters"
        ),
        pytest.param("!has(self.n) || self.n > 0", {}, id="has"),
        pytest.param("self.names.all(n, n.startsWith('a'))", {"names": ["a", "ab"]}, id="all"),
        pytest.param("self.names.exists_one(n, n == 'a')", {"names": ["a", "b"]}, id="exists_one"),
        pytest.param("self.labels.all(k, self.labels[k] != '')", {"labels": {"a": "b"}}, id="maps"),
        pytest.param(
            "self.at < timestamp('2027-01-01T00:00:00Z')", {"at": "2026-01-01T00:00:00Z"}, id="time"
        ),
        pytest.param("self.lasts <= duration('1h')", {"lasts": "59m"}, id="duration"),
        pytest.param("type(self.either) == int", {"either": 1}, id="int-or-string int"),
        pytest.param("type(self.either) == string", {"either": "1"}, id="int-or-string string"),
        pytest.param("dyn(self.maybe) == null", {"maybe": None}, id="null"),
        pytest.param("self.?s.orValue('d') == 'd'", {}, id="optional field"),
        pytest.param("self.?inner.a.orValue(7) == 7", {}, id="optional chain"),
        pytest.param("self.?inner.?a.hasValue()", {"inner": {"a": 1}}, id="optional twice"),
        pytest.param("self.labels[?'k'].orValue('d') == 'd'", {"labels": {}}, id="optional index"),
        pytest.param(
            "self.items.sum() == 6 && self.items.max() == 3", {"items": [1, 2, 3]}, id="sum"
        ),
        pytest.param(
            "self.items.isSorted() && self.items.indexOf(2) == 1", {"items": [1, 2]}, id="lists"
        ),
        pytest.param("self.s.split(',') == ['a', 'b']", {"s": "a,b"}, id="split"),
        pytest.param("self.s.find('[0-9]+') == '12'", {"s": "ab12"}, id="find"),
        pytest.param("self.s.findAll('[0-9]') == ['1', '2']", {"s": "a1b2"}, id="findAll"),
        pytest.param("'%s-%d'.format(['a', 3]) == 'a-3'", {}, id="format"),
        pytest.param(
            "self.s.matches('^[a-z]+$') && self.s.lowerAscii() == 'abc'", {"s": "abc"}, id="strings"
        ),
        pytest.param("quantity(self.s).isLessThan(quantity('1Gi'))", {"s": "512Mi"}, id="quantity"),
        pytest.param("quantity('1000m') == quantity('1')", {}, id="equal quantities"),
        pytest.param("isQuantity(self.s) && !isQuantity('1GGi')", {"s": "1G"}, id="isQuantity"),
        pytest.param(
            "url(self.s).getHostname() == 'a.lab' && isURL(self.s)",
            {"s": "http://a.lab:80/x"},
            id="url",
        ),
        pytest.param("cidr('10.0.0.0/8').containsIP(ip(self.s))", {"s": "10.1.2.3"}, id="cidr"),
        pytest.param("ip.isCanonical('::1') && ip('::1').family() == 6", {}, id="ip"),
        pytest.param("semver('1.2.0').isLessThan(semver('1.10.0'))", {}, id="semver"),
        pytest.param(
            "self.a__dash__b == 'x' && self.__in__ == 'y'", {"a-b": "x", "in": "y"}, id="escapes"
        ),
        pytest.param(
            "self.__underscores__x__underscores__ == 'z'", {"__x__": "z"}, id="underscores"
        ),
        pytest.param("self.c__dot__d__slash__e == 'z'", {"c.d/e": "z"}, id="dots and slashes"),
        pytest.param("self.names == [] // a comment", {"names": []}, id="comment"),
    ],
)
def test_a_rule_is_evaluated(rule, value):
    assert holds(TYPED, rule, value)


def test_an_escaped_name_is_what_an_expression_writes():
    assert [escape(name) for name in ("a-b", "in", "a.b/c", "a__b", "plain")] == [
        "a__dash__b",
        "__in__",
        "a__dot__b__slash__c",
        "a__underscores__b",
        "plain",
    ]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("self.n +", "Syntax error"),
        ("self.nn > 0", "undefined field 'nn'"),
        ("self.inner.b > 0", "undefined field 'b'"),
        ("self.?innner.a.orValue(1) == 1", "undefined field 'innner'"),
        ("other.n > 0", "undeclared reference to 'other'"),
        ("self.s.soundsLike('x')", "undeclared reference to 'soundsLike'"),
        ("cel.bind(x, self.n, x > 0)", "bind"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_is_an_error_of_its_schema(rule, words):
    [fault] = rules(TYPED, rule).faults

    assert (fault.path, fault.value["Rule"]) == ("x-kubernetes-validations[0].rule", rule)
    assert words in fault.detail


class TestMessages:
    def first(self, value, **options):
        compiled = rules(obj(n=INTEGER), "self.n < 3", **options)
        return str(next(iter(compiled.validate(value))))

    def test_without_a_message_the_rule_is_named(self):
        assert self.first({"n": 3}) == "<nil>: Invalid value: failed rule: self.n < 3"

    def test_a_message_takes_its_place(self):
        assert self.first({"n": 3}, message="too big") == "<nil>: Invalid value: too big"

    def test_a_message_expression_wins_over_the_message(self):
        text = self.first({"n": 3}, message="m", messageExpression="'n is ' + string(self.n)")
        assert text.endswith(": n is 3")

    def test_a_failing_message_expression_falls_back(self):
        text = self.first({"n": 3}, message="m", messageExpression="string(1 / (self.n - 3))")
        assert text.endswith(": m")

    def test_reason_and_field_path(self):
        text = self.first({"n": 3}, message="m", reason="FieldValueForbidden", fieldPath=".n")
        assert text == "n: Forbidden: m"

    def test_an_error_of_evaluation_is_an_error_of_the_value(self):
        text = self.first({})
        assert text == '<nil>: Invalid value: "object": no such key: n evaluating rule: self.n < 3'


class TestTransitions:
    def test_a_transition_rule_is_not_evaluated_on_create(self):
        assert list(rules(obj(n=INTEGER), "self == oldSelf").validate({"n": 1})) == []

    def test_it_compares_with_the_old_value(self):
        immutable = rules(obj(n=INTEGER), "self == oldSelf")

        assert list(immutable.validate({"n": 1}, {"n": 1})) == []
        assert len(list(immutable.validate({"n": 2}, {"n": 1}))) == 1

    def test_optional_old_self_is_evaluated_on_create_too(self):
        rule = "oldSelf.hasValue() || self.n == 1"
        compiled = rules(obj(n=INTEGER), rule, optionalOldSelf=True)

        assert list(compiled.validate({"n": 1})) == []
        assert len(list(compiled.validate({"n": 2}))) == 1
        assert list(compiled.validate({"n": 2}, {"n": 1})) == []

    def test_a_field_that_appears_escapes_a_rule_of_its_own(self):
        schema = Schema.compile(
            obj(n={**INTEGER, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]})
        )

        assert list(RuleSet(schema).validate({"n": 2}, {})) == []
        assert len(list(RuleSet(schema).validate({"n": 2}, {"n": 1}))) == 1

    def test_items_of_a_map_list_are_correlated_by_key(self):
        items = {
            **obj(name=STRING, n=INTEGER),
            "x-kubernetes-validations": [{"rule": "self.n >= oldSelf.n"}],
        }
        keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        compiled = RuleSet(Schema.compile({"type": "array", "items": items, **keys}))
        old = [{"name": "a", "n": 5}, {"name": "b", "n": 1}]

        assert list(compiled.validate([{"name": "b", "n": 2}, {"name": "a", "n": 5}], old)) == []
        [error] = compiled.validate([{"name": "c", "n": 0}, {"name": "a", "n": 4}], old)
        assert error.path == "[1]"

    def test_items_of_other_lists_cannot_have_one(self):
        items = {**obj(n=INTEGER), "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}

        [fault] = RuleSet(Schema.compile({"type": "array", "items": items})).faults
        path, text = fault.path, fault.detail

        assert path == "items.x-kubernetes-validations[0].rule"
        assert "uncorrelatable" in text

    def test_sets_and_map_lists_are_equal_in_any_order(self):
        names = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}
        compiled = rules(obj(names=names), "self.names == oldSelf.names")

        assert list(compiled.validate({"names": ["a", "b"]}, {"names": ["b", "a"]})) == []
        assert len(list(compiled.validate({"names": ["a"]}, {"names": ["b", "a"]}))) == 1


class TestFreeObjects:
    IMMUTABLE = "self == oldSelf"
    OLD = {"free": {"a": {"x": 1}, "b": None}}

    def broken(self, free, value):
        return len(list(rules(obj(free=free), self.IMMUTABLE).validate({"free": value}, self.OLD)))

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param({"a": {"x": 1}, "b": None, "c": 1}, id="add"),
            pytest.param({"b": None}, id="remove"),
            pytest.param({"aa": {"x": 1}, "b": None}, id="rename"),
            pytest.param({"a": {"xx": 1}, "b": None}, id="rename below"),
            pytest.param({"a": None, "b": {"x": 1}}, id="swap"),
            pytest.param({"a": {"x": 2}, "b": None}, id="change"),
        ],
    )
    def test_a_map_of_preserved_values_shows_every_change(self, value):
        free = {"type": "object", "additionalProperties": {"nullable": True, **PRESERVE}}
        assert self.broken(free, value) == 1

    def test_a_plain_preserving_object_lets_a_renamed_key_through(self):
        assert self.broken({"type": "object", **PRESERVE}, {"aa": {"x": 1}, "b": None}) == 0

    def test_but_not_a_changed_or_added_one(self):
        free = {"type": "object", **PRESERVE}
        assert self.broken(free, {"a": {"x": 2}, "b": None}) == 1
        assert self.broken(free, {"a": {"x": 1}, "b": None, "c": 1}) == 1


class TestRatcheting:
    SCHEMA = obj(
        a={**obj(n=INTEGER), "x-kubernetes-validations": [{"rule": "self.n < 3"}]}, b=STRING
    )

    def test_an_unchanged_value_may_break_a_newer_rule(self):
        compiled = RuleSet(Schema.compile(self.SCHEMA))
        old = {"a": {"n": 5}, "b": "x"}

        assert list(compiled.validate({"a": {"n": 5}, "b": "y"}, old)) == []
        assert len(list(compiled.validate({"a": {"n": 6}, "b": "x"}, old))) == 1


def test_a_root_rule_sees_names_but_no_other_metadata():
    schema = Schema.compile(
        {
            **obj(spec=obj(n=INTEGER)),
            "x-kubernetes-validations": [
                {"rule": "self.metadata.name.startsWith('a') && !has(self.metadata.labels)"}
            ],
        },
        root=True,
    )
    value = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "ab", "labels": {"x": "y"}}}

    assert list(RuleSet(schema).validate(value)) == []
