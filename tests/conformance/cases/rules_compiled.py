"""Rules in definitions: what compiles, what costs too much, and what each says of values."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.cases.definitions import (
    FREE,
    INT_OR_STRING,
    INTEGER,
    STRING,
    definition,
    object_of,
    spec_of,
    tried,
    version,
)
from tests.conformance.requests import Case, Json

TEXT = {"type": "string", "maxLength": 20}
TEXTS = {"type": "array", "maxItems": 10, "items": TEXT}
NUMBERS = {"type": "array", "maxItems": 10, "items": INTEGER}
MAP = {"type": "object", "maxProperties": 5, "additionalProperties": TEXT}


def ruled(schema: Json, *rules: Json | str) -> Json:
    """A schema with rules."""
    told = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, "x-kubernetes-validations": told}


ALL: Json = object_of(
    i=INTEGER,
    n={"type": "number"},
    b={"type": "boolean"},
    s=TEXT,
    l=TEXTS,
    ns=NUMBERS,
    m=MAP,
    o=object_of(a=TEXT, b=INTEGER),
    x={**INT_OR_STRING, "maxLength": 10},
    d={"type": "string", "format": "date-time"},
    u={"type": "string", "format": "duration"},
    y={"type": "string", "format": "byte", "maxLength": 20},
    t={"type": "string", "format": "date"},
    f=FREE,
    e={"type": "object", "x-kubernetes-embedded-resource": True, **FREE},
    q={"type": "string", "nullable": True, "maxLength": 5},
    k={
        "type": "array",
        "maxItems": 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {**object_of(k=TEXT, v=INTEGER), "required": ["k"]},
    },
    z={"type": "array", "maxItems": 5, "items": TEXT, "x-kubernetes-list-type": "set"},
)

COMPILED = [
    # what is no rule, and what is none of that type
    "",
    " ",
    "self.",
    "self.s ==",
    "(self.s",
    "self.s = 'a'",
    "self.s == 'a",
    "self.zzz == 'a'",
    "self.f.a == 'a'",
    "self.e.kind == 'a'",
    "self.e.metadata.name == 'a'",
    "self.e.metadata.labels == {}",
    "other == 'a'",
    "object.s == 'a'",
    "self",
    "self.s",
    "'a'",
    "1",
    "null",
    "self.s == 1",
    "self.i == 1.0",
    "self.i == 1u",
    "self.i == 'a'",
    "self.n == 1",
    "self.n > 1",
    "self.i > 1.5",
    "self.s > 1",
    "self.b > 1",
    "self.b < true",
    "self.s + 1 == 'a'",
    "self.i + 1.0 == 2.0",
    "self.i + self.n == 2.0",
    "-self.s == 'a'",
    "!self.s",
    "!self.i",
    "self.s && true",
    "self.b ? 'a' : 1",
    "self.b ? self.b : false",
    "self.s in self.l",
    "self.i in self.l",
    "self.s in self.m",
    "self.i in self.m",
    "self.s in self.s",
    "self.l[0] == 1",
    "self.l['a'] == 'b'",
    "self.m['a'] == 1",
    "self.m.a == 'b'",
    "self.o['a'] == 'b'",
    "self.l.a == 'b'",
    "self.s.a == 'b'",
    "has(self.s)",
    "has(self.zzz)",
    "has(self)",
    "has(self.l[0])",
    "self.s == null",
    "self.o == null",
    "self.l == null",
    "self.q == null",
    "self.x == 1",
    "self.x == 'a'",
    "self.x.startsWith('a')",
    "type(self.x) == string",
    "type(self.s) == int",
    "self.d == 'a'",
    "self.d > timestamp('2026-01-01T00:00:00Z')",
    "self.d - self.d == duration('1s')",
    "self.d + self.u > self.d",
    "self.u > duration('1h')",
    "self.y == b'a'",
    "self.y == 'a'",
    "self.t.getFullYear() == 2026",
    "self.d.getFullYear('UTC') == 2026",
    "self.s.getFullYear() == 2026",
    "self.u.getHours() == 1",
    "timestamp('no') == self.d",
    "duration('no') == self.u",
    "self.s.matches('(')",
    "self.s.matches(self.s)",
    "self.s.nothing()",
    "nothing(self.s)",
    "self.s.startsWith(1)",
    "self.s.startsWith('a', 'b')",
    "self.s.size() == 'a'",
    "size(self.i) == 1",
    "size(self.s, self.s) == 1",
    "[1, 'a'] == [1]",
    "{'a': 1, 'b': 'c'} == {}",
    "{'a': 1, 2: 3} == {}",
    "[] == self.l",
    "self.l + ['a'] == self.l",
    "self.l + [1] == self.l",
    "self.l == self.ns",
    "self.l.all(e, e == 'a')",
    "self.l.all(e, e == 1)",
    "self.l.all(e, e)",
    "self.l.all(1, true)",
    "self.l.all(e)",
    "self.l.all(i, e, e == 'a')",
    "self.s.all(e, true)",
    "self.l.exists(e, e == 'a')",
    "self.l.exists_one(e, e == 'a')",
    "self.l.existsOne(e, e == 'a')",
    "self.l.map(e, e + 'a') == self.l",
    "self.l.map(e, size(e)) == self.l",
    "self.l.map(e, e != 'a', e + 'b') == self.l",
    "self.l.filter(e, size(e) > 1).size() == 1",
    "self.m.all(k, k == 'a')",
    "self.m.all(k, v, v == 'a')",
    "self.m.all(k, v, v == 1)",
    "self.m.transformList(k, v, k + v) == self.l",
    "self.m.transformMap(k, v, k + v) == self.m",
    "self.m.transformMapEntry(k, v, {v: k}) == self.m",
    "self.o.all(k, true)",
    "self.?s.orValue('a') == 'b'",
    "self.?s.orValue(1) == 'b'",
    "self.?s == 'b'",
    "self.?zzz.hasValue()",
    "self.l[?0].orValue('a') == 'b'",
    "self.?o.?a.orValue('') == 'b'",
    "self.?s.optMap(v, v + 'a').orValue('') == 'b'",
    "self.?s.optFlatMap(v, optional.of(v)).hasValue()",
    "optional.none().hasValue()",
    "optional.of(self.s).value() == 1",
    "[?self.?s] == self.l",
    "{?'a': self.?s} == self.m",
    "cel.bind(v, self.s, v == 'a')",
    "self.ns.sum() == 3",
    "self.l.sum() == 3",
    "self.ns.min() == 3",
    "self.ns.max() == 'a'",
    "self.l.isSorted()",
    "self.k.isSorted()",
    "self.l.indexOf('a') == 0",
    "self.l.indexOf(1) == 0",
    "self.l.join(',') == 'a'",
    "self.ns.join() == 'a'",
    "self.l.distinct() == self.l",
    "self.l.sort() == self.l",
    "self.l.sortBy(e, size(e)) == self.l",
    "self.l.reverse() == self.l",
    "self.l.slice(0, 1) == self.l",
    "self.l.flatten() == self.l",
    "self.l.first().hasValue()",
    "lists.range(3) == self.ns",
    "sets.contains(self.l, ['a'])",
    "sets.contains(self.l, [1])",
    "sets.intersects(self.l, ['a'])",
    "sets.equivalent(self.l, ['a'])",
    "math.greatest(1, 2) == 2",
    "base64.encode(self.y) == 'a'",
    "strings.quote(self.s) == 'a'",
    "self.s.charAt(0) == 'a'",
    "self.s.indexOf('a') == 0",
    "self.s.lastIndexOf('a') == 0",
    "self.s.join() == 'a'",
    "self.s.split(',') == self.l",
    "self.s.substring(1, 2) == 'a'",
    "self.s.trim().lowerAscii().upperAscii() == 'A'",
    "self.s.reverse() == 'a'",
    "self.s.replace('a', 'b') == 'a'",
    "'%s %d'.format([self.s, self.i]) == 'a'",
    "'%d'.format([self.s]) == 'a'",
    "'%s'.format(self.s) == 'a'",
    "self.s.find('a') == 'a'",
    "self.s.findAll('a', 1) == self.l",
    "isQuantity(self.s)",
    "quantity(self.s).isGreaterThan(quantity('1'))",
    "quantity(self.i).isGreaterThan(quantity('1'))",
    "quantity(self.s) == quantity('1')",
    "quantity(self.s) > quantity('1')",
    "quantity(self.s) == '1'",
    "url(self.s).getHost() == 'a'",
    "isURL(self.s)",
    "ip(self.s).family() == 4",
    "isIP(self.s)",
    "ip.isCanonical(self.s)",
    "cidr(self.s).containsIP(ip('10.0.0.1'))",
    "cidr(self.s).containsIP('10.0.0.1')",
    "cidr(self.s).ip() == ip('10.0.0.1')",
    "isCIDR(self.s)",
    "semver(self.s).major() == 1",
    "isSemver(self.s)",
    "isSemver(self.s, true)",
    "semver(self.s).isLessThan(semver('1.0.0'))",
    "format.dns1123Label().validate(self.s).hasValue()",
    "format.named('dns1123Label').hasValue()",
    "authorizer.requestResource.check('create').allowed()",
    "request.userInfo.username == 'a'",
    "dyn(self.s) == 1",
    "int(self.s) == 1",
    "int(self.b) == 1",
    "string(self.i) == '1'",
    "string(self.l) == '1'",
    "double(self.i) == 1.0",
    "uint(self.i) == 1u",
    "bool(self.s)",
    "bytes(self.s) == self.y",
    "timestamp(self.s) == self.d",
    "timestamp(self.i) == self.d",
    "int(self.d) == 1",
    "duration(self.s) == self.u",
    "oldSelf.s == self.s",
    "oldSelf.zzz == self.s",
    "self.l.all(l, l == 'a')",
    "self.l.all(self, self == 'a')",
    "self.metadata.name == 'a'",
    "self.i == 9223372036854775807",
    "self.i == 9223372036854775808",
    "self.i == -9223372036854775808",
    "self.i == 0x1F",
    'self.s == "a\\n"',
    "self.s == r'a\\n'",
    "self.s == '''a'''",
    "self.s == 'a' // because",
    "self.`s` == 'a'",
    "self.i % 2 == 0",
    "self.n % 2.0 == 0.0",
    "self.i / 0 == 1",
    "!(self.b) || self.s == 'a' && self.i < 3",
    "self.k.exists(e, e.k == 'a' && e.v == 1)",
    "self.k == self.k",
    "self.k.map(e, e.k).isSorted()",
    "self.z + self.z == self.z",
    "self.z[0] == 'a'",
    "self.e == self.e",
    "self.o == self.o",
    "self.o == {'a': 'b'}",
    "Thing{a: 1} == self.o",
]

PLACES: dict[str, Json] = {
    "oldSelf in a list": spec_of(l={**TEXTS, "items": ruled(TEXT, "self == oldSelf")}),
    "oldSelf in a set": spec_of(
        l={**TEXTS, "x-kubernetes-list-type": "set", "items": ruled(TEXT, "self == oldSelf")}
    ),
    "oldSelf in a keyed list": spec_of(
        k={
            **ALL["properties"]["k"],
            "items": ruled(ALL["properties"]["k"]["items"], "self == oldSelf"),
        }
    ),
    "oldSelf in a map": spec_of(m={**MAP, "additionalProperties": ruled(TEXT, "self == oldSelf")}),
    "oldSelf below an atomic map": spec_of(
        o={**object_of(a=ruled(TEXT, "self == oldSelf")), "x-kubernetes-map-type": "atomic"}
    ),
    "oldSelf in messageExpression alone": spec_of(
        s=ruled(TEXT, {"rule": "true", "messageExpression": "oldSelf"})
    ),
    "optional oldSelf": spec_of(
        s=ruled(TEXT, {"rule": "oldSelf.orValue('') != self", "optionalOldSelf": True})
    ),
    "optional oldSelf as if it were not": spec_of(
        s=ruled(TEXT, {"rule": "oldSelf != self", "optionalOldSelf": True})
    ),
    "optionalOldSelf without oldSelf": spec_of(
        s=ruled(TEXT, {"rule": "self == 'a'", "optionalOldSelf": True})
    ),
    "optionalOldSelf false without oldSelf": spec_of(
        s=ruled(TEXT, {"rule": "self == 'a'", "optionalOldSelf": False})
    ),
    "a rule at a free place": spec_of(f=ruled(FREE, "self == 'a'")),
    "a rule at int-or-string": spec_of(x=ruled(INT_OR_STRING, "self == 1")),
    "a rule at the root": ruled(spec_of(a=TEXT), "self.metadata.name == self.spec.a"),
    "the root's labels": ruled(spec_of(a=TEXT), "has(self.metadata.labels)"),
    "the root's kind": ruled(spec_of(a=TEXT), "self.kind == 'Gadget' && self.apiVersion != ''"),
    "a rule at metadata": object_of(metadata=ruled({"type": "object"}, "self.name == 'a'")),
    "a message": spec_of(s=ruled(TEXT, {"rule": "true", "message": "must be"})),
    "an empty message": spec_of(s=ruled(TEXT, {"rule": "true", "message": ""})),
    "a blank message": spec_of(s=ruled(TEXT, {"rule": "true", "message": "  "})),
    "a message with a line break": spec_of(s=ruled(TEXT, {"rule": "true", "message": "a\nb"})),
    "a message too long": spec_of(s=ruled(TEXT, {"rule": "true", "message": "m" * 2049})),
    "a rule with a line break and no message": spec_of(
        s=ruled(TEXT, "self == 'a' ||\nself == 'b'")
    ),
    "a messageExpression": spec_of(
        s=ruled(TEXT, {"rule": "true", "messageExpression": "'no ' + self"})
    ),
    "a messageExpression that is no text": spec_of(
        s=ruled(TEXT, {"rule": "true", "messageExpression": "1"})
    ),
    "a messageExpression that does not compile": spec_of(
        s=ruled(TEXT, {"rule": "true", "messageExpression": "self."})
    ),
    "an empty messageExpression": spec_of(
        s=ruled(TEXT, {"rule": "true", "messageExpression": " "})
    ),
    "a reason": spec_of(s=ruled(TEXT, {"rule": "true", "reason": "FieldValueForbidden"})),
    "an unknown reason": spec_of(s=ruled(TEXT, {"rule": "true", "reason": "Because"})),
    "an empty reason": spec_of(s=ruled(TEXT, {"rule": "true", "reason": ""})),
    "a fieldPath": spec_of(o=ruled(object_of(a=TEXT), {"rule": "true", "fieldPath": ".a"})),
    "a fieldPath in brackets": spec_of(
        o=ruled(object_of(**{"a.b": TEXT}), {"rule": "true", "fieldPath": "['a.b']"})
    ),
    "a fieldPath of a map": spec_of(m=ruled(MAP, {"rule": "true", "fieldPath": ".k"})),
    "a fieldPath that is not there": spec_of(
        o=ruled(object_of(a=TEXT), {"rule": "true", "fieldPath": ".zzz"})
    ),
    "a fieldPath without a dot": spec_of(
        o=ruled(object_of(a=TEXT), {"rule": "true", "fieldPath": "a"})
    ),
    "a fieldPath with an index": spec_of(
        o=ruled(object_of(a=TEXTS), {"rule": "true", "fieldPath": ".a[0]"})
    ),
    "a blank fieldPath": spec_of(o=ruled(object_of(a=TEXT), {"rule": "true", "fieldPath": " "})),
    "a fieldPath of lines": spec_of(
        o=ruled(object_of(a=TEXT), {"rule": "true", "fieldPath": ".a\n"})
    ),
    "a rule twice": spec_of(s=ruled(TEXT, "self == 'a'", "self == 'a'")),
    "escaped names": spec_of(
        o=ruled(
            object_of(**{"a.b": TEXT, "a-b": TEXT, "a/b": TEXT, "in": TEXT, "a__b": TEXT}),
            "self.a__dot__b + self.a__dash__b + self.a__slash__b + self.__in__ == ''",
            "self.a__underscores__b == ''",
        )
    ),
    "names that cannot be escaped": spec_of(
        o=ruled(object_of(**{"a b": TEXT, "1a": TEXT, "ü": TEXT}), "has(self.a)")
    ),
    "reserved names unescaped": spec_of(o=ruled(object_of(**{"in": TEXT}), "self.in == ''")),
    "namespace as a name": spec_of(o=ruled(object_of(namespace=TEXT), "self.namespace == ''")),
    # costs
    "a regular expression on unbounded text": spec_of(s=ruled(STRING, "self.matches('a*b')")),
    "text within unbounded text": spec_of(s=ruled(STRING, "self.contains(self)")),
    "all of an unbounded list": spec_of(
        l=ruled({"type": "array", "items": STRING}, "self.all(e, e.startsWith('a'))")
    ),
    "all of all of an unbounded list": spec_of(
        l=ruled({"type": "array", "items": INTEGER}, "self.all(e, self.all(f, e == f))")
    ),
    "all of all of a bounded list": spec_of(
        l=ruled(
            {"type": "array", "maxItems": 100, "items": INTEGER}, "self.all(e, self.all(f, e == f))"
        )
    ),
    "three times all of a bounded list": spec_of(
        l=ruled(
            {"type": "array", "maxItems": 300, "items": INTEGER},
            "self.all(e, self.all(f, self.all(g, e == f && f == g)))",
        )
    ),
    "a rule on items of an unbounded list": spec_of(
        l={"type": "array", "items": ruled(STRING, "self.contains('abc')")}
    ),
    "a rule on values of an unbounded map": spec_of(
        m={"type": "object", "additionalProperties": ruled(STRING, "self.contains('abc')")}
    ),
    "a rule on items of items": spec_of(
        l={
            "type": "array",
            "items": {"type": "array", "items": ruled(INTEGER, "self > 1 && self < 5")},
        }
    ),
    "a rule on items of items of items": spec_of(
        l={
            "type": "array",
            "items": {
                "type": "array",
                "items": {"type": "array", "items": ruled(STRING, "self.contains('a')")},
            },
        }
    ),
    "equality of unbounded lists": spec_of(
        l=ruled({"type": "array", "items": STRING}, "self == oldSelf")
    ),
    "equality of unbounded lists many times": spec_of(
        l={"type": "array", "items": ruled({"type": "array", "items": STRING}, "self == self")}
    ),
    "splitting unbounded text": spec_of(s=ruled(STRING, "self.split(',').all(e, e.size() > 1)")),
    "a sum of unbounded lists": spec_of(
        l=ruled({"type": "array", "items": INTEGER}, "self.sum() > 3")
    ),
    "a sort of unbounded lists": spec_of(
        l=ruled({"type": "array", "items": STRING}, "self.isSorted()")
    ),
    "sets of unbounded lists": spec_of(
        l=ruled({"type": "array", "items": STRING}, "sets.contains(self, self)")
    ),
    "quantities of unbounded text": spec_of(
        l={"type": "array", "items": ruled(STRING, "quantity(self).isLessThan(quantity('1'))")}
    ),
    "urls of unbounded text": spec_of(
        l={"type": "array", "items": ruled(STRING, "isURL(self) && url(self).getHost() == 'a'")}
    ),
    "addresses of unbounded text": spec_of(
        l={"type": "array", "items": ruled(STRING, "cidr('10.0.0.0/8').containsIP(ip(self))")}
    ),
    "an expensive messageExpression": spec_of(
        l=ruled(
            {"type": "array", "items": STRING},
            {
                "rule": "true",
                "messageExpression": "self.map(e, self.map(f, e + f).join()).join()",
            },
        )
    ),
    "enums bound the cost": spec_of(
        l={
            "type": "array",
            "items": ruled({"type": "string", "enum": ["a", "bb"]}, "self.matches('a*')"),
        }
    ),
    "formats bound the cost": spec_of(
        l={
            "type": "array",
            "items": ruled({"type": "string", "format": "date"}, "self.getFullYear() > 2000"),
        }
    ),
    "a format bounds nothing": spec_of(
        l={
            "type": "array",
            "items": ruled({"type": "string", "format": "ipv4"}, "self.matches('a*')"),
        }
    ),
    "a number of cheap rules that cost too much together": spec_of(
        l={"type": "array", "items": ruled(INTEGER, *["self > 1 && self < 5"] * 24)}
    ),
    "format of many": spec_of(
        l=ruled({"type": "array", "items": STRING}, "self.all(e, '%s'.format([e]) == e)")
    ),
    "a rule longer than its bound": spec_of(s=ruled(TEXT, "self == '" + "a" * 5000 + "'")),
}


def _cases() -> Iterator[Case]:
    """Yield every rule, alone in a definition."""
    for rule in COMPILED:
        crd = definition("gadgets", version("v1", spec_of(v=ruled(ALL, rule))))
        yield Case(f"rule: {rule}", tried(crd))
    for name, schema in PLACES.items():
        yield Case(name, tried(definition("gadgets", version("v1", schema))))


CASES = tuple(_cases())
