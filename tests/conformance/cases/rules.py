"""Rules that a CustomResourceDefinition may and may not have."""

from __future__ import annotations

from collections.abc import Iterator

from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from tests.conformance.requests import Json
from tests.conformance.steps import About, cases, post

DEFINITIONS = CustomResourceDefinition.resource_type
_PROPERTIES: Json = {
    "count": {"type": "integer"},
    "rate": {"type": "number"},
    "name": {"type": "string", "maxLength": 63},
    "on": {"type": "boolean"},
    "names": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 63}},
    "labels": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string"}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "free-values": {
        "type": "object",
        "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True},
    },
    "port": {"x-kubernetes-int-or-string": True},
    "at": {"type": "string", "format": "date-time"},
    "maybe": {"type": "string", "nullable": True},
    "deep": {"type": "object", "properties": {"er": {"type": "integer"}}},
}
_RULES = {
    "an integer with an integer": "self.count == 1",
    "an integer with a double": "self.count == 1.5",
    "an integer above a double": "self.count > 1.5",
    "a number with an integer": "self.rate == 1",
    "a number above an integer": "self.rate > 1",
    "a number added to an integer": "self.rate + self.count > 1.0",
    "text with an integer": "self.name == 1",
    "text added to an integer": "self.name + 1 == 'a'",
    "text as a condition": "self.name",
    "an integer as a condition": "self.count ? true : false",
    "not text": "!self.name",
    "an unknown field": "self.cuont == 1",
    "an unknown field at depth": "self.deep.re == 1",
    "has an unknown field": "has(self.cuont)",
    "a field of text": "self.name.length == 1",
    "a field of free content": "self.free.a == 1",
    "has a field of free content": "has(self.free.a)",
    "a field of free content by dyn": "dyn(self.free).a == 1",
    "a key in free content": "'a' in self.free",
    "free content equal": "self.free == oldSelf.free",
    "anything equal": "self.any == oldSelf.any",
    "anything by dyn equal": "dyn(self).any == dyn(oldSelf).any",
    "a field of anything": "self.any.a == 1",
    "has anything": "has(self.any)",
    "free values equal": "self.free__dash__values == oldSelf.free__dash__values",
    "a field of free values": "self.free__dash__values.a == 1",
    "int-or-string as an integer": "self.port == 1",
    "int-or-string as text": "self.port == 'a'",
    "int-or-string by type": "type(self.port) == int ? self.port > 1 : self.port != ''",
    "a list of text with an integer": "1 in self.names",
    "a list of text with text": "'a' in self.names",
    "an item of a list": "self.names[0] == 'a'",
    "a list by text": "self.names['a'] == 'a'",
    "a label by key": "self.labels['a'] == 'a'",
    "a label by selection": "self.labels.a == 'a'",
    "a label by integer": "self.labels[1] == 'a'",
    "every item": "self.names.all(n, n.size() > 1)",
    "every item as an integer": "self.names.all(n, n > 1)",
    "a variable that is not there": "self.names.all(n, m == 'a')",
    "a function that is not there": "shout(self.name) == 'A'",
    "a method of another type": "self.count.startsWith('a')",
    "a method with too few arguments": "self.name.startsWith()",
    "a moment with text": "self.at == 'a'",
    "a moment before a moment": "self.at < timestamp('2030-01-01T00:00:00Z')",
    "a conversion": "double(self.count) > 1.5",
    "both arms of one type": "(self.on ? 1 : 'a') == 1",
    "a list of two types": "[1, 'a'].size() == 2",
    "text that is never closed": "self.name == 'a",
    "nothing": "",
    "the old object": "self == oldSelf",
    "text with null": "self.name == null",
    "text that may be null with null": "self.maybe == null",
    "an object with null": "self.deep == null",
    "a list with null": "self.names == null",
    "two kinds of list": "self.names == [1]",
    "a list added to another kind": "self.names + [1] == []",
    "an empty list": "self.names == []",
    "an empty map": "self.labels == {}",
    "a map by mixed keys": "{'a': 1, 2: 3}.size() == 2",
    "a format of mixed items": "'%s-%d'.format(['a', 3]) == 'a-3'",
    "a comprehension over text": "self.name.all(c, c == 'a')",
    "a filter that is no condition": "self.names.filter(n, n.size()).size() > 0",
    "a list made of a list": "self.names.map(n, n.size()) == [1]",
    "a list made of a list, of another type": "self.names.map(n, n.size()) == ['a']",
    "a dynamic condition": "dyn(self.on)",
    "a number below a label": "self.rate < self.labels['a']",
    "text joined": "self.names.join(',') == ''",
    "a sum": "self.names.size() + 1.0 == 2.0",
    "a duration of a moment": "self.at - self.at < duration('1h')",
    "a moment's year with text": "self.at.getFullYear() == 'a'",
    "a division by zero": "self.count / 0 == 1",
    "a negated text": "-self.name == ''",
    "a type of a field": "type(self.name) == string",
    "a url with text": "url(self.name) == 'a'",
    "an address": "ip(self.name).family() == 4",
    "text in lower case": "self.name.lowerAscii() == 'a'",
    "text cut": "self.name.substring(1, 2) == 'a'",
    "text split": "self.name.split(',')[0] == 'a'",
    "text replaced by an integer": "self.name.replace('a', 1) == 'a'",
    "a set of two lists": "sets.contains(self.names, ['a'])",
    "a regular expression": "self.name.find('[a-z]+') == 'a'",
    "a bound variable": "cel.bind(n, self.name, n == 'a')",
    "optional old": "oldSelf.hasValue()",
    "the metadata of no root": "self.metadata.name == 'a'",
    "quantities": "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    "a quantity with text": "quantity('1Gi') > '1Mi'",
    "an optional": "self.?name.orValue('') == ''",
    "an optional of another type": "self.?name.orValue(1) == 1",
}


def definitions() -> Iterator[tuple[str, About]]:
    """Rules that a CustomResourceDefinition may and may not have."""
    for name, rule in _RULES.items():
        spec: Json = {
            "type": "object",
            "properties": _PROPERTIES,
            "x-kubernetes-validations": [{"rule": rule}],
        }
        crd = {
            "metadata": {"name": "widgets.lab.example"},
            "spec": {
                "group": "lab.example",
                "names": {"plural": "widgets", "kind": "Widget"},
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}
                        },
                    }
                ],
            },
        }
        yield f"a rule: {name}", About(DEFINITIONS, [post(crd, dryRun="All")])


CASES = cases(definitions())
