"""Definitions that are taken or refused, with the words of it; nothing of them is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.asking import post
from tests.conformance.requests import Case, Json, Request

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "$ns.example.test"


def version(name: str = "v1", schema: Any = None, **more: Any) -> Json:
    """A version of a definition, served and stored."""
    if schema is None:
        schema = {"type": "object"}
    told = {"name": name, "served": True, "storage": True}
    return {**told, "schema": {"openAPIV3Schema": schema}, **more}


def definition(plural: str = "gadgets", *versions: Json, **spec: Any) -> Json:
    """A definition; its kind is the plural without s, capitalised."""
    kind = plural.removesuffix("s").capitalize()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": list(versions or (version(),)),
            **spec,
        },
    }


def tried(body: Json, **more: Any) -> tuple[Request, ...]:
    """Whether a definition is taken."""
    return (post(CRDS, body, dryRun="All", keep=("spec",), **more),)


def object_of(**properties: Any) -> Json:
    """A schema of an object."""
    return {"type": "object", "properties": properties}


def spec_of(**properties: Any) -> Json:
    """A root schema whose spec has these properties."""
    return object_of(spec=object_of(**properties))


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
FREE = {"x-kubernetes-preserve-unknown-fields": True}
KEYED: Json = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "required": ["k"], "properties": {"k": STRING, "v": INTEGER}},
}

SCHEMAS: dict[str, Any] = {
    # whether it is structural
    "an empty schema": {},
    "no type at the root": {"properties": {"spec": STRING}},
    "a string at the root": {"type": "string"},
    "an array at the root": {"type": "array", "items": STRING},
    "a free root": {"type": "object", **FREE},
    "a free root without type": FREE,
    "a nullable root": {"type": "object", "nullable": True},
    "no type below": spec_of(a={}),
    "a description alone": spec_of(a={"description": "what"}),
    "an unknown type": spec_of(a={"type": "text"}),
    "the type null": spec_of(a={"type": "null"}),
    "no type below a free one": object_of(spec={"type": "object", **FREE, "properties": {"a": {}}}),
    "a free property": spec_of(a=FREE),
    "not free": spec_of(a={"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
    "int-or-string": spec_of(a=INT_OR_STRING),
    "int-or-string with a type": spec_of(a={"type": "string", **INT_OR_STRING}),
    "int-or-string with its pattern": spec_of(
        a={**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    ),
    "int-or-string with a wrong pattern": spec_of(
        a={**INT_OR_STRING, "anyOf": [{"type": "string"}, {"type": "integer"}]}
    ),
    "int-or-string in allOf": spec_of(
        a={**INT_OR_STRING, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {}]}
    ),
    "an array without items": spec_of(a={"type": "array"}),
    "items with an empty schema": spec_of(a={"type": "array", "items": {}}),
    "items as a list": spec_of(a={"type": "array", "items": [STRING]}),
    "items of a string": spec_of(a={"type": "string", "items": STRING}),
    "properties of a string": spec_of(a={"type": "string", "properties": {"b": STRING}}),
    "additionalProperties": spec_of(a={"type": "object", "additionalProperties": STRING}),
    "additionalProperties true": spec_of(a={"type": "object", "additionalProperties": True}),
    "additionalProperties false": spec_of(a={"type": "object", "additionalProperties": False}),
    "additionalProperties and properties": spec_of(
        a={"type": "object", "properties": {"b": STRING}, "additionalProperties": STRING}
    ),
    "additionalProperties at the root": {"type": "object", "additionalProperties": STRING},
    "additionalProperties without type": spec_of(a={"type": "object", "additionalProperties": {}}),
    "unique items": spec_of(a={"type": "array", "items": STRING, "uniqueItems": True}),
    "a reference": spec_of(a={"type": "object", "$ref": "#/definitions/b"}),
    "definitions": {"type": "object", "definitions": {"a": STRING}},
    "dependencies": {"type": "object", "dependencies": {"a": ["b"]}},
    "pattern properties": spec_of(a={"type": "object", "patternProperties": {"a": STRING}}),
    "an id": spec_of(a={"type": "object", "id": "a"}),
    "an unknown word": spec_of(a={"type": "string", "readOnly": True}),
    "an unknown extension": spec_of(a={"type": "string", "x-kubernetes-other": True}),
    "title, example and docs": spec_of(
        a={"type": "string", "title": "A", "example": "b", "externalDocs": {"url": "http://c"}}
    ),
    "a bad pattern": spec_of(a={"type": "string", "pattern": "("}),
    "a look-ahead": spec_of(a={"type": "string", "pattern": "(?=a)b"}),
    "a back-reference": spec_of(a={"type": "string", "pattern": r"(a)\1"}),
    "a bad pattern in anyOf": spec_of(a={"type": "string", "anyOf": [{"pattern": "["}]}),
    "an unknown format": spec_of(a={"type": "string", "format": "colour"}),
    "a format of another type": spec_of(a={"type": "integer", "format": "date-time"}),
    "minLength of an integer": spec_of(a={"type": "integer", "minLength": 2}),
    "minimum of a string": spec_of(a={"type": "string", "minimum": 2}),
    "a negative maxLength": spec_of(a={"type": "string", "maxLength": -1}),
    "a minimum above the maximum": spec_of(a={"type": "integer", "minimum": 3, "maximum": 2}),
    "a multiple of zero": spec_of(a={"type": "integer", "multipleOf": 0}),
    "an empty enum": spec_of(a={"type": "string", "enum": []}),
    "an enum of another type": spec_of(a={"type": "string", "enum": [1, "b"]}),
    "an enum with duplicates": spec_of(a={"type": "string", "enum": ["b", "b"]}),
    "required without such a property": spec_of(a={"type": "object", "required": ["b"]}),
    "required of a string": spec_of(a={"type": "string", "required": ["b"]}),
    "maxLength as a text": spec_of(a={"type": "string", "maxLength": "3"}),
    "required as a text": spec_of(a={"type": "object", "required": "b"}),
    "properties as a list": spec_of(a={"type": "object", "properties": []}),
    "a type as a list": spec_of(a={"type": ["string", "null"]}),
    # defaults
    "a default": spec_of(a={"type": "string", "default": "b"}),
    "a default of another type": spec_of(a={"type": "string", "default": 1}),
    "an integer default that is text": spec_of(a={"type": "integer", "default": "1"}),
    "an integer default that is a float": spec_of(a={"type": "integer", "default": 1.5}),
    "a boolean default that is text": spec_of(a={"type": "boolean", "default": "true"}),
    "an object default that is a list": spec_of(a={"type": "object", "default": []}),
    "a list default that is an object": spec_of(
        a={"type": "array", "items": STRING, "default": {}}
    ),
    "a list default with a wrong item": spec_of(
        a={"type": "array", "items": STRING, "default": ["b", 1]}
    ),
    "a default with an unknown field": spec_of(
        a={"type": "object", "properties": {"b": STRING}, "default": {"c": 1}}
    ),
    "a default with two unknown fields": spec_of(
        a={"type": "object", "properties": {"b": STRING}, "default": {"d": 1, "c": {"e": 1}}}
    ),
    "a default that breaks the pattern": spec_of(
        a={"type": "string", "pattern": "^b$", "default": "c"}
    ),
    "a default that breaks the enum": spec_of(a={"type": "string", "enum": ["b"], "default": "c"}),
    "a default that breaks a bound": spec_of(a={"type": "integer", "minimum": 3, "default": 1}),
    "a default without what is required": spec_of(
        a={"type": "object", "required": ["b"], "properties": {"b": STRING}, "default": {}}
    ),
    "a default that another default completes": spec_of(
        a={
            "type": "object",
            "required": ["b"],
            "properties": {"b": {"type": "string", "default": "c"}},
            "default": {},
        }
    ),
    "a null default": spec_of(a={"type": "string", "default": None}),
    "a null default of a nullable": spec_of(
        a={"type": "string", "nullable": True, "default": None}
    ),
    "a null in a default": spec_of(
        a={"type": "object", "properties": {"b": STRING}, "default": {"b": None}}
    ),
    "a default at the root": {"type": "object", "default": {}},
    "a default of metadata": object_of(metadata={"type": "object", "default": {"name": "b"}}),
    "a default of metadata's name": object_of(
        metadata=object_of(name={"type": "string", "default": "b"})
    ),
    "a default in anyOf": spec_of(a={"type": "string", "anyOf": [{"default": "b"}]}),
    "a default below additionalProperties": spec_of(
        a={"type": "object", "additionalProperties": {"type": "string", "default": "b"}}
    ),
    "a default of items": spec_of(a={"type": "array", "items": {"type": "string", "default": "b"}}),
    "a default that breaks a rule": spec_of(
        a={
            "type": "string",
            "maxLength": 5,
            "default": "c",
            "x-kubernetes-validations": [{"rule": "self == 'b'"}],
        }
    ),
    "a default of int-or-string": spec_of(a={**INT_OR_STRING, "default": True}),
    "a default of a date": spec_of(a={"type": "string", "format": "date", "default": "soon"}),
    "a default set with duplicates": spec_of(
        a={"type": "array", "items": STRING, "x-kubernetes-list-type": "set", "default": ["b", "b"]}
    ),
    # embedded resources
    "an embedded resource": spec_of(
        a={"type": "object", "x-kubernetes-embedded-resource": True, **FREE}
    ),
    "an embedded resource without properties": spec_of(
        a={"type": "object", "x-kubernetes-embedded-resource": True}
    ),
    "an embedded string": spec_of(a={"type": "string", "x-kubernetes-embedded-resource": True}),
    "an embedded resource with rules for its metadata": spec_of(
        a={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"metadata": object_of(labels={"type": "object"})},
        }
    ),
    "an embedded resource with a default": spec_of(
        a={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            **FREE,
            "default": {"kind": "B"},
        }
    ),
    # metadata
    "metadata": object_of(metadata={"type": "object"}),
    "metadata's name": object_of(metadata=object_of(name={"type": "string", "maxLength": 5})),
    "metadata's labels": object_of(metadata=object_of(labels={"type": "object"})),
    "required metadata": {**object_of(metadata={"type": "object"}), "required": ["metadata"]},
    "metadata of another type": object_of(metadata={"type": "string"}),
    "apiVersion of another type": object_of(apiVersion={"type": "integer"}),
    "kind with an enum": object_of(kind={"type": "string", "enum": ["Gadget"]}),
    "rules for metadata in anyOf": {
        "type": "object",
        "anyOf": [{"properties": {"metadata": {"properties": {"name": {"pattern": "a"}}}}}],
    },
    # list and map types
    "a set": spec_of(a={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
    "an unknown list type": spec_of(
        a={"type": "array", "items": STRING, "x-kubernetes-list-type": "bag"}
    ),
    "a list type of a string": spec_of(a={"type": "string", "x-kubernetes-list-type": "set"}),
    "a set of objects": spec_of(
        a={"type": "array", "items": object_of(b=STRING), "x-kubernetes-list-type": "set"}
    ),
    "a set of atomic objects": spec_of(
        a={
            "type": "array",
            "items": {**object_of(b=STRING), "x-kubernetes-map-type": "atomic"},
            "x-kubernetes-list-type": "set",
        }
    ),
    "a set of lists": spec_of(
        a={
            "type": "array",
            "items": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            "x-kubernetes-list-type": "set",
        }
    ),
    "a set of nullables": spec_of(
        a={
            "type": "array",
            "items": {"type": "string", "nullable": True},
            "x-kubernetes-list-type": "set",
        }
    ),
    "a keyed list": spec_of(a=KEYED),
    "a keyed list without keys": spec_of(
        a={"type": "array", "items": object_of(k=STRING), "x-kubernetes-list-type": "map"}
    ),
    "keys of a set": spec_of(
        a={
            "type": "array",
            "items": STRING,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-list-map-keys": ["k"],
        }
    ),
    "keys without a list type": spec_of(
        a={"type": "array", "items": object_of(k=STRING), "x-kubernetes-list-map-keys": ["k"]}
    ),
    "an unknown key": spec_of(a={**KEYED, "x-kubernetes-list-map-keys": ["z"]}),
    "a key twice": spec_of(a={**KEYED, "x-kubernetes-list-map-keys": ["k", "k"]}),
    "a key that is an object": spec_of(
        a={
            **KEYED,
            "items": {"type": "object", "required": ["k"], "properties": {"k": object_of()}},
        }
    ),
    "a key neither required nor defaulted": spec_of(a={**KEYED, "items": object_of(k=STRING)}),
    "a key with a default": spec_of(
        a={**KEYED, "items": object_of(k={"type": "string", "default": "b"})}
    ),
    "a nullable key": spec_of(
        a={
            **KEYED,
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string", "nullable": True}},
            },
        }
    ),
    "a keyed list of strings": spec_of(a={**KEYED, "items": STRING}),
    "a keyed list of nullables": spec_of(
        a={**KEYED, "items": {**KEYED["items"], "nullable": True}}
    ),
    "an atomic map": spec_of(a={**object_of(b=STRING), "x-kubernetes-map-type": "atomic"}),
    "an unknown map type": spec_of(a={**object_of(b=STRING), "x-kubernetes-map-type": "loose"}),
    "a map type of a list": spec_of(
        a={"type": "array", "items": STRING, "x-kubernetes-map-type": "atomic"}
    ),
    # junctors
    "anyOf with values": spec_of(a={"type": "string", "anyOf": [{"minLength": 2}, {"enum": [""]}]}),
    "anyOf with a type": spec_of(a={"type": "string", "anyOf": [{"type": "string"}]}),
    "anyOf with a description": spec_of(a={"type": "string", "anyOf": [{"description": "b"}]}),
    "anyOf of properties": spec_of(
        a={**object_of(b=STRING), "anyOf": [{"properties": {"b": {"minLength": 2}}}]}
    ),
    "anyOf of an unknown property": spec_of(
        a={**object_of(b=STRING), "anyOf": [{"properties": {"c": {"minLength": 2}}}]}
    ),
    "anyOf of items": spec_of(
        a={"type": "array", "items": STRING, "anyOf": [{"items": {"minLength": 2}}]}
    ),
    "anyOf of items without items": spec_of(
        a={"type": "object", "anyOf": [{"items": {"minLength": 2}}]}
    ),
    "oneOf required": spec_of(
        a={**object_of(b=STRING, c=STRING), "oneOf": [{"required": ["b"]}, {"required": ["c"]}]}
    ),
    "not nullable": spec_of(a={"type": "string", "not": {"nullable": True}}),
    "not with additionalProperties": spec_of(
        a={
            "type": "object",
            "additionalProperties": STRING,
            "not": {"additionalProperties": STRING},
        }
    ),
    "an empty anyOf": spec_of(a={"type": "string", "anyOf": []}),
    "anyOf within allOf": spec_of(
        a={"type": "string", "allOf": [{"anyOf": [{"type": "string"}, {"minLength": 2}]}]}
    ),
    "a list type within allOf": spec_of(
        a={"type": "array", "items": STRING, "allOf": [{"x-kubernetes-list-type": "set"}]}
    ),
    "a rule within allOf": spec_of(
        a={"type": "string", "allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]}
    ),
    "deep errors in many places": object_of(
        spec=object_of(a={}, b={"type": "array", "items": {}}), status={"type": "thing"}
    ),
}

STORED = {"served": True, "storage": False}
WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://localhost:9443/convert"},
    },
}


def names(**changes: Any) -> Json:
    """Names with changes."""
    return {"plural": "gadgets", "kind": "Gadget", **changes}


def with_version(**more: Any) -> Json:
    """A definition whose only version has more to it."""
    schema = spec_of(a=STRING, n=INTEGER, o=object_of(b=STRING))
    schema["properties"]["status"] = object_of(n=INTEGER, s=STRING)
    return definition("gadgets", version("v1", schema, **more))


def columns(*entries: Json) -> Json:
    """A definition with printer columns."""
    return with_version(additionalPrinterColumns=list(entries))


def scale(**paths: str) -> Json:
    """A definition with a scale."""
    return with_version(subresources={"status": {}, "scale": paths})


DEFINITIONS: dict[str, Json] = {
    "the least": definition(),
    "all names": definition(
        names=names(singular="gadget", listKind="GadgetList", shortNames=["gg"], categories=["all"])
    ),
    "no spec": {**definition(), "spec": {}},
    "another name than plural and group": {**definition(), "metadata": {"name": "others"}},
    "no plural": definition(names={"kind": "Gadget"}),
    "no kind": definition(names={"plural": "gadgets"}),
    "a plural with capitals": definition(names=names(plural="Gadgets")),
    "a plural with a dot": definition(names=names(plural="gad.gets")),
    "a kind with a dash": definition(names=names(kind="Gad-get")),
    "a kind beginning with a digit": definition(names=names(kind="1Gadget")),
    "a list kind equal to the kind": definition(names=names(listKind="Gadget")),
    "a short name with capitals": definition(names=names(shortNames=["GG"])),
    "a category with a dot": definition(names=names(categories=["a.b"])),
    "a singular with capitals": definition(names=names(singular="Gadget")),
    "no group": definition(group=""),
    "a group without a dot": definition(group="lab"),
    "a group with capitals": definition(group="Lab.test"),
    "a protected group": definition(group="lab.k8s.io"),
    "a protected group with a bad approval": {
        **definition(group="lab.k8s.io"),
        "metadata": {
            "name": "gadgets.lab.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "someone"},
        },
    },
    "a protected group approved": {
        **definition(group="lab.k8s.io"),
        "metadata": {
            "name": "gadgets.lab.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/a/b/pull/1"},
        },
    },
    "no scope": definition(scope=""),
    "an unknown scope": definition(scope="World"),
    "cluster scope": definition(scope="Cluster"),
    "no versions": definition(versions=[]),
    "no storage version": definition("gadgets", version(storage=False)),
    "two storage versions": definition("gadgets", version("v1"), version("v2")),
    "two versions of one name": definition("gadgets", version("v1"), version("v1", **STORED)),
    "a version with capitals": definition("gadgets", version("V1")),
    "a version with a dot": definition("gadgets", version("v1.1")),
    "a version without name": definition("gadgets", version("")),
    "no version served": definition("gadgets", version(served=False)),
    "a version without schema": definition(
        "gadgets", {"name": "v1", "served": True, "storage": True}
    ),
    "a version without served": definition(
        "gadgets",
        {"name": "v1", "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
    ),
    "a schema without openAPIV3Schema": definition("gadgets", {**version(), "schema": {}}),
    "preserveUnknownFields": definition(preserveUnknownFields=True),
    "preserveUnknownFields false": definition(preserveUnknownFields=False),
    "deprecated": definition("gadgets", version(deprecated=True)),
    "deprecated with words": definition(
        "gadgets", version(deprecated=True, deprecationWarning="use v2")
    ),
    "words of deprecation without it": definition("gadgets", version(deprecationWarning="use v2")),
    "words of deprecation too long": definition(
        "gadgets", version(deprecated=True, deprecationWarning="w" * 257)
    ),
    "words of deprecation that are empty": definition(
        "gadgets", version(deprecated=True, deprecationWarning="")
    ),
    "words of deprecation with control characters": definition(
        "gadgets", version(deprecated=True, deprecationWarning="a\nb")
    ),
    # printer columns
    "a column": columns({"name": "A", "type": "string", "jsonPath": ".spec.a"}),
    "a column with all": columns(
        {
            "name": "A",
            "type": "integer",
            "format": "int32",
            "description": "what",
            "priority": 1,
            "jsonPath": ".spec.n",
        }
    ),
    "a column without name": columns({"type": "string", "jsonPath": ".spec.a"}),
    "a column without type": columns({"name": "A", "jsonPath": ".spec.a"}),
    "a column without path": columns({"name": "A", "type": "string"}),
    "a column of an unknown type": columns({"name": "A", "type": "text", "jsonPath": ".spec.a"}),
    "a column of an unknown format": columns(
        {"name": "A", "type": "string", "format": "colour", "jsonPath": ".spec.a"}
    ),
    "a column without a leading dot": columns(
        {"name": "A", "type": "string", "jsonPath": "spec.a"}
    ),
    "a column with a filter": columns(
        {"name": "A", "type": "string", "jsonPath": ".spec.c[?(@.type=='Ready')].status"}
    ),
    "a column with an open bracket": columns(
        {"name": "A", "type": "string", "jsonPath": ".spec.c[0"}
    ),
    "a column of a field that is not there": columns(
        {"name": "A", "type": "string", "jsonPath": ".spec.zzz"}
    ),
    "a column without anything": columns({}),
    # subresources
    "status": with_version(subresources={"status": {}}),
    "an unknown subresource": with_version(subresources={"log": {}}),
    "scale": scale(specReplicasPath=".spec.n", statusReplicasPath=".status.n"),
    "scale with a selector": scale(
        specReplicasPath=".spec.n", statusReplicasPath=".status.n", labelSelectorPath=".status.s"
    ),
    "scale without paths": scale(),
    "scale outside spec": scale(specReplicasPath=".status.n", statusReplicasPath=".spec.n"),
    "scale with an index": scale(specReplicasPath=".spec.n[0]", statusReplicasPath=".status.n"),
    "scale without a dot": scale(specReplicasPath="spec.n", statusReplicasPath="status.n"),
    "scale of all of spec": scale(specReplicasPath=".spec", statusReplicasPath=".status"),
    "scale with a selector outside": scale(
        specReplicasPath=".spec.n", statusReplicasPath=".status.n", labelSelectorPath=".metadata.a"
    ),
    # selectable fields
    "a selectable field": with_version(selectableFields=[{"jsonPath": ".spec.a"}]),
    "a selectable integer": with_version(selectableFields=[{"jsonPath": ".spec.n"}]),
    "a selectable object": with_version(selectableFields=[{"jsonPath": ".spec.o"}]),
    "a selectable field that is not there": with_version(
        selectableFields=[{"jsonPath": ".spec.zzz"}]
    ),
    "a selectable field twice": with_version(selectableFields=[{"jsonPath": ".spec.a"}] * 2),
    "a selectable field of metadata": with_version(
        selectableFields=[{"jsonPath": ".metadata.name"}]
    ),
    "a selectable field without path": with_version(selectableFields=[{}]),
    "a selectable field without a dot": with_version(selectableFields=[{"jsonPath": "spec.a"}]),
    "a selectable field with an index": with_version(selectableFields=[{"jsonPath": ".spec.a[0]"}]),
    "nine selectable fields": with_version(
        selectableFields=[{"jsonPath": f".spec.{n}"} for n in "abcdefghi"]
    ),
    # conversion
    "no conversion": definition(conversion={"strategy": "None"}),
    "an unknown conversion": definition(conversion={"strategy": "Magic"}),
    "a conversion without strategy": definition(conversion={}),
    "conversion by webhook": definition(conversion=WEBHOOK),
    "no conversion with a webhook": definition(conversion={**WEBHOOK, "strategy": "None"}),
    "a conversion without webhook": definition(conversion={"strategy": "Webhook"}),
    "a webhook without versions": definition(
        conversion={"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a/b"}}}
    ),
    "a webhook of an unknown version": definition(
        conversion={
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "https://a/b"},
                "conversionReviewVersions": ["v9"],
            },
        }
    ),
    "a webhook by http": definition(
        conversion={
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"url": "http://a/b"},
                "conversionReviewVersions": ["v1"],
            },
        }
    ),
    "a webhook by url and service": definition(
        conversion={
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {
                    "url": "https://a/b",
                    "service": {"name": "c", "namespace": "d"},
                },
                "conversionReviewVersions": ["v1"],
            },
        }
    ),
    "a webhook by service": definition(
        conversion={
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"name": "c", "namespace": "d"}},
                "conversionReviewVersions": ["v1", "v1beta1"],
            },
        }
    ),
    "a webhook by a service with a bad path": definition(
        conversion={
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"name": "", "path": "a//b", "port": 0}},
                "conversionReviewVersions": ["v1"],
            },
        }
    ),
    "an unknown field": definition(unknown=1),
}


def _cases() -> Iterator[Case]:
    """Yield every schema and every definition."""
    for name, schema in SCHEMAS.items():
        yield Case(f"schema: {name}", tried(definition("gadgets", version("v1", schema))))
    for name, body in DEFINITIONS.items():
        yield Case(f"definition: {name}", tried(body))
    for level in ("Strict", "Warn", "Ignore"):
        body = definition("gadgets", version("v1", SCHEMAS["an unknown word"]), unknown=1)
        yield Case(f"unknown fields, {level}", tried(body, fieldValidation=level))


CASES = tuple(_cases())
