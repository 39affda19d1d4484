"""Values of one property each, against the schema of it: what is kept, filled in and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.conformance.asking import post
from tests.conformance.cases.definitions import (
    CRDS,
    FREE,
    GROUP,
    INT_OR_STRING,
    INTEGER,
    KEYED,
    STRING,
    definition,
    object_of,
    spec_of,
    version,
)
from tests.conformance.requests import Case, Json, Request

VALUES = f"/apis/{GROUP}/v1/namespaces/$ns/values"
ATOMS: list[Any] = [None, True, 0, 1, -1, 1.5, 2.0, 2**31, 2**40, 1e30, "", "a", [], {}]

TABLE: dict[str, tuple[Json, list[Any]]] = {
    "string": (STRING, ATOMS),
    "integer": (INTEGER, ATOMS),
    "int32": ({"type": "integer", "format": "int32"}, ATOMS),
    "int64": ({"type": "integer", "format": "int64"}, [2**40, 2**63 - 1, 1.5, 2.0]),
    "number": ({"type": "number"}, ATOMS),
    "double": ({"type": "number", "format": "double"}, [1, 1.5, "1"]),
    "boolean": ({"type": "boolean"}, ATOMS),
    "object": ({"type": "object"}, [*ATOMS, {"a": 1}]),
    "freeObject": ({"type": "object", **FREE}, [None, "a", {"a": None, "b": [None, {"c": None}]}]),
    "free": (FREE, ATOMS),
    "list": ({"type": "array", "items": STRING}, [*ATOMS, ["a", None], [1], ["a", "a"], [["a"]]]),
    "nullableString": ({"type": "string", "nullable": True}, [None, "a", 1]),
    "nullableObject": (
        {**object_of(a={"type": "string", "nullable": True}), "nullable": True},
        [None, {"a": None}, {"a": "b"}, {"c": None}],
    ),
    "nullableItems": ({"type": "array", "items": {**STRING, "nullable": True}}, [[None, "a"]]),
    "intOrString": (INT_OR_STRING, [*ATOMS, "50%"]),
    "intOrStringPattern": (
        {
            **INT_OR_STRING,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": r"^\d+%?$",
        },
        [1, "50%", "x", -1],
    ),
    "map": (
        {"type": "object", "additionalProperties": STRING},
        [{"a": "b"}, {"a": 1}, {"a": None}, {"a": "b", "c": {"d": 1}}, []],
    ),
    "mapOfNullables": (
        {"type": "object", "additionalProperties": {**STRING, "nullable": True}},
        [{"a": None, "b": "c"}],
    ),
    "mapOfObjects": (
        {"type": "object", "additionalProperties": object_of(a=INTEGER)},
        [{"x": {"a": 1, "b": 2}}, {"x.y/z": {"a": "b"}}, {"x": None}],
    ),
    "anyMap": ({"type": "object", "additionalProperties": True}, [{"a": 1, "b": {"c": None}}]),
    # bounds
    "bounded": ({"type": "integer", "minimum": 2, "maximum": 4}, [1, 2, 4, 5, 2.0]),
    "openBounds": (
        {
            "type": "number",
            "minimum": 2,
            "exclusiveMinimum": True,
            "maximum": 4.5,
            "exclusiveMaximum": True,
        },
        [2, 2.1, 4.5, 4.4],
    ),
    "multiple": ({"type": "integer", "multipleOf": 3}, [0, 3, 4, -3]),
    "fraction": ({"type": "number", "multipleOf": 0.1}, [0.3, 0.35]),
    "short": (
        {"type": "string", "minLength": 2, "maxLength": 3},
        ["a", "ab", "abc", "abcd", "äöüß"],
    ),
    "many": (
        {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 2},
        [[], [1], [1, 2], [1, 2, 3]],
    ),
    "wide": (
        {
            "type": "object",
            "additionalProperties": INTEGER,
            "minProperties": 1,
            "maxProperties": 2,
        },
        [{}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}],
    ),
    "pattern": ({"type": "string", "pattern": "^[a-z]+$"}, ["abc", "ab1", "", "abc\n", "ABC"]),
    "unanchored": ({"type": "string", "pattern": "b+"}, ["abc", "ac"]),
    "enum": ({"type": "string", "enum": ["a", "b"]}, ["a", "c", "", 1]),
    "enumOfNumbers": ({"type": "number", "enum": [1, 2.5]}, [1, 1.0, 2.5, 3]),
    "enumOfObjects": ({"type": "object", **FREE, "enum": [{"a": 1}]}, [{"a": 1}, {"a": 2}]),
    "enumWithNull": ({"type": "string", "nullable": True, "enum": ["a", None]}, [None, "a", "b"]),
    "required": (
        {**object_of(a=STRING, b=STRING), "required": ["a", "b"]},
        [{}, {"a": "x"}, {"a": None, "b": "x"}, {"a": "", "b": ""}],
    ),
    # list types
    "set": (
        {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        [["a", "b"], ["a", "a"], ["a", "b", "a", "b"], ["a", None]],
    ),
    "setOfNumbers": (
        {"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"},
        [[1, 1], [1, 2], [0, 1.5]],
    ),
    "keyed": (
        KEYED,
        [
            [{"k": "a"}, {"k": "b"}],
            [{"k": "a"}, {"k": "a", "v": 1}],
            [{"k": "a"}, {"v": 1}],
            [{"k": None}],
            [None],
            [{"k": "a"}, {"k": "a"}, {"k": "a"}],
        ],
    ),
    "twoKeys": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n", "p"],
            "items": {
                "type": "object",
                "required": ["n"],
                "properties": {"n": INTEGER, "p": {"type": "string", "default": "TCP"}},
            },
        },
        [
            [{"n": 1}, {"n": 1, "p": "UDP"}],
            [{"n": 1}, {"n": 1, "p": "TCP"}],
            [{"n": 1, "p": "UDP"}, {"n": 1, "p": "UDP"}],
        ],
    ),
    # junctors
    "anyOf": (
        {"type": "string", "anyOf": [{"minLength": 3}, {"enum": ["a"]}]},
        ["a", "abc", "ab"],
    ),
    "oneOf": (
        {"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 5}]},
        [1, 4, 7],
    ),
    "noneOf": ({"type": "integer", "oneOf": [{"minimum": 3}, {"multipleOf": 2}]}, [1, 2, 3, 4]),
    "allOf": (
        {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 5}, {"multipleOf": 2}]},
        [4, 3, 1, 7],
    ),
    "not": ({"type": "string", "not": {"enum": ["a"]}}, ["a", "b"]),
    "notPattern": ({"type": "string", "not": {"pattern": "^a"}}, ["ab", "ba"]),
    "oneRequired": (
        {**object_of(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{}, {"a": "x"}, {"b": "x"}, {"a": "x", "b": "y"}],
    ),
    "anyRequired": (
        {**object_of(a=STRING, b=STRING), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{}, {"a": "x"}, {"a": "x", "b": "y"}],
    ),
    "oneShape": (
        {
            **object_of(a=INTEGER, b=object_of(c=STRING)),
            "oneOf": [
                {"properties": {"a": {"minimum": 5}}, "required": ["a"]},
                {"properties": {"b": {"properties": {"c": {"minLength": 2}}, "required": ["c"]}}},
            ],
        },
        [{}, {"a": 1}, {"a": 7}, {"a": 7, "b": {"c": "x"}}],
    ),
    "anyItems": (
        {"type": "array", "items": STRING, "anyOf": [{"items": {"minLength": 2}}, {"maxItems": 1}]},
        [["a"], ["ab", "cd"], ["a", "bc"]],
    ),
    # defaults
    "defaulted": ({"type": "string", "default": "x"}, [None, "a", 1]),
    "defaultedNullable": ({"type": "string", "nullable": True, "default": "x"}, [None, "a"]),
    "deepDefault": (
        {
            **object_of(
                a={"type": "string", "default": "x"},
                b={**object_of(c={"type": "integer", "default": 3}), "default": {}},
                d=object_of(e={"type": "boolean", "default": False}),
            ),
        },
        [{}, {"b": None}, {"b": {}}, {"d": {}}, {"d": None, "a": None}, None],
    ),
    "defaultItems": (
        {
            "type": "array",
            "items": {**object_of(a={"type": "string", "default": "x"}), "default": {"a": "y"}},
        },
        [[], [{}], [None], [{"a": None}]],
    ),
    "defaultValues": (
        {
            "type": "object",
            "additionalProperties": object_of(a={"type": "string", "default": "x"}),
        },
        [{"k": {}}, {"k": None}, {"k": {"a": "z"}}],
    ),
    "defaultFree": (
        {**object_of(a={"type": "string", "default": "x"}), **FREE},
        [{}, {"b": {"a": None}}],
    ),
    # pruning
    "pruned": (
        object_of(a=object_of(b=STRING), c=object_of(**{"d.e": STRING})),
        [
            {"a": {"b": "x", "z": 1}, "y": {}},
            {"c": {"d.e": "x", "d": {"e": "y"}}},
            {"a": {"b": "x", "apiVersion": "v1", "metadata": {}}},
        ],
    ),
    "prunedItems": (
        {"type": "array", "items": object_of(a=STRING)},
        [[{"a": "x", "z": 1}, {"z": [{"a": 1}]}]],
    ),
    "prunedBelowFree": (
        {**object_of(a=object_of(b=STRING)), **FREE},
        [{"a": {"b": "x", "z": 1}, "y": {"z": None}}],
    ),
    "embedded": (
        {"type": "object", "x-kubernetes-embedded-resource": True, **FREE},
        [
            {},
            {"apiVersion": "v1", "kind": "Pod"},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "UPPER"}},
            {"apiVersion": "v1", "kind": "pod-", "metadata": {"name": "a"}},
            {"apiVersion": "a/b/c", "kind": "Pod"},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"unknown": 1, "name": "a"}},
        ],
    ),
    "embeddedPruned": (
        {
            **object_of(spec=object_of(a=STRING)),
            "x-kubernetes-embedded-resource": True,
        },
        [{"apiVersion": "v1", "kind": "Pod", "spec": {"a": "x", "z": 1}, "status": {}}],
    ),
}

FORMATS: dict[str, list[str]] = {
    "date-time": [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.678+01:00",
        "2026-01-02 03:04:05Z",
        "2026-01-02T03:04:05",
        "2026-13-02T03:04:05Z",
        "2026-01-02t03:04:05z",
        "2026-01-02",
    ],
    "date": ["2026-01-02", "2026-1-2", "2026-02-30", "20260102"],
    "duration": ["1h30m", "1.5s", "90", "1d", "-1h", "1 day", "", "P1D", "1h 30m", "+1s"],
    "byte": ["YQ==", "YQ", "%%", "", "YWI=", "YW\nI="],
    "binary": ["anything"],
    "ipv4": ["10.0.0.1", "10.0.0.256", "::1", "10.0.0", "010.0.0.1"],
    "ipv6": ["::1", "fe80::1%eth0", "10.0.0.1", "::ffff:1.2.3.4", "1::2::3"],
    "cidr": ["10.0.0.0/8", "10.0.0.1/8", "10.0.0.0", "fd00::/8", "10.0.0.0/33"],
    "mac": ["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455", "00:11:22:33:44"],
    "uuid": [
        "123e4567-e89b-42d3-a456-426614174000",
        "123E4567E89B42D3A456426614174000",
        "123e4567",
        "{123e4567-e89b-42d3-a456-426614174000}",
    ],
    "uuid3": ["123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-32d3-a456-426614174000"],
    "uuid5": ["123e4567-e89b-52d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"],
    "hostname": ["a.example.test", "-a", "a_b", "a" * 64, "", "a..b", "a."],
    "email": ["a@b.test", "A <a@b.test>", "a", "a@b", "a b@c"],
    "uri": ["https://a/b?c#d", "a/b", "/a", "mailto:a@b", "", "http://a b"],
    "password": ["anything"],
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507f1f77"],
    "isbn": ["0321751043", "978-0321751041", "123"],
    "isbn10": ["0321751043", "978-0321751041"],
    "isbn13": ["978-0321751041", "0321751043"],
    "creditcard": ["4242424242424242", "1234"],
    "ssn": ["123-45-6789", "12-3"],
    "hexcolor": ["#ff00ff", "ff00f", "#xyz"],
    "rgbcolor": ["rgb(1,2,3)", "rgb(1,2)"],
    "k8s-short-name": ["a-b", "A", "a.b", "a" * 64],
    "k8s-long-name": ["a.b", "A.b", "a_b", "a..b"],
}


def _properties() -> Json:
    formats = {_name(f): {"type": "string", "format": f} for f in FORMATS}
    return {**{name: schema for name, (schema, _) in TABLE.items()}, **formats}


def _name(form: str) -> str:
    return "format" + form.title().replace("-", "")


def made(name: str, value: Any, **more: Any) -> Json:
    """An object whose spec has one field."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Value", "metadata": {"name": "v"}}
    return {**body, "spec": {name: value}, **more}


def _requests() -> Iterator[Request]:
    """Yield the definition, and every value after it."""
    yield post(CRDS, definition("values", version("v1", spec_of(**_properties()))), keep=("kind",))
    yield post(VALUES, made("string", "a"), dryRun="All", until=201, keep=("spec",))
    for name, (_, tried) in TABLE.items():
        for value in tried:
            yield _tried(name, value)
    for form, texts in FORMATS.items():
        for text in texts:
            yield _tried(_name(form), text)


def _tried(name: str, value: Any) -> Request:
    asked = post(VALUES, made(name, value), dryRun="All", fieldValidation="Warn", keep=("spec",))
    return replace(asked, line=f"{name}: {json.dumps(value)[:60]}")


CASES = (Case("values", tuple(_requests())),)
