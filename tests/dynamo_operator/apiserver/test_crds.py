import copy
from datetime import UTC, datetime

import pytest

from dynamo_operator.apiserver import crds
from dynamo_operator.generate.crds import custom_resource_definitions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STRING = {"type": "string"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def obj(**properties):
    return {"type": "object", "properties": properties}


def version(name="v1", *, storage=True, schema=None, **fields):
    schema = schema or obj(spec={**obj(), **PRESERVE})
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        **fields,
    }


def crd(*versions, metadata=None, **spec):
    return crds.with_defaults(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata or {"name": "widgets.lab.test"},
            "spec": {
                "group": "lab.test",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": list(versions) or [version()],
                **spec,
            },
        }
    )


def errors(value):
    return [str(error) for error in crds.validate_crd(value)]


def schema_errors(schema):
    path = "spec.versions[0].schema.openAPIV3Schema"
    return [text.removeprefix(path).lstrip(".") for text in errors(crd(version(schema=schema)))]


def test_our_own_definitions_are_accepted():
    for definition in custom_resource_definitions():
        assert errors(crds.with_defaults(definition)) == []


def test_names_and_conversion_are_defaulted():
    spec = crd()["spec"]

    assert spec["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert spec["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            crd(metadata={"name": "gadgets.lab.test"}),
            'metadata.name: Invalid value: "gadgets.lab.test": must be '
            'spec.names.plural+"."+spec.group',
        ),
        (
            crd(scope="Galaxy"),
            'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        ),
        (
            crd(version(storage=False)),
            'spec.versions: Invalid value: ["v1"]: must have exactly one version marked as storage '
            "version",
        ),
        (
            crd(version(), version(storage=False)),
            'spec.versions: Invalid value: ["v1","v1"]: must contain unique version names',
        ),
        (
            crd({**version(), "schema": {}}),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (
            crd(
                version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}])
            ),
            'spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "text": must be one '
            "of integer,number,string,boolean,date",
        ),
        (
            crd(
                version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "a"}])
            ),
            'spec.versions[0].additionalPrinterColumns[0].jsonPath: Invalid value: "a": must be a '
            "simple json path starting with .",
        ),
        (
            crd(
                version(
                    subresources={
                        "scale": {"specReplicasPath": ".size", "statusReplicasPath": ".status.size"}
                    }
                )
            ),
            'spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".size": should '
            "be a json path under .spec",
        ),
        (
            crd(version(selectableFields=[{"jsonPath": ".spec.nothing"}])),
            'spec.versions[0].selectableFields[0].jsonPath: Invalid value: ".spec.nothing": is an '
            "invalid path: does not refer to a valid field",
        ),
    ],
)
def test_a_definition_is_refused(value, expected):
    assert errors(value) == [expected]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            obj(a={}),
            "properties[a].type: Required value: must not be empty for specified object fields",
            id="no type",
        ),
        pytest.param(
            obj(a={"type": "text"}),
            'properties[a].type: Unsupported value: "text": supported values: "array", "boolean", '
            '"integer", "number", "object", "string"',
            id="unknown type",
        ),
        pytest.param(
            obj(a={"type": "array"}),
            "properties[a].items: Required value: must be specified",
            id="items",
        ),
        pytest.param(
            {"type": "string"},
            'type: Invalid value: "string": must be object at the root',
            id="root type",
        ),
        pytest.param(
            obj(a={"$ref": "#/x", "type": "object"}),
            "properties[a].$ref: Forbidden: $ref is not supported",
            id="references",
        ),
        pytest.param(
            obj(a={**obj(b=STRING), "additionalProperties": STRING}),
            "properties[a].additionalProperties: Forbidden: additionalProperties and properties "
            "are mutual exclusive",
            id="both kinds of properties",
        ),
        pytest.param(
            obj(a={"type": "array", "items": STRING, "uniqueItems": True}),
            "properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the "
            "runtime complexity becomes quadratic",
            id="uniqueItems",
        ),
        pytest.param(
            obj(a={**STRING, "oneOf": [{"type": "string"}]}),
            "properties[a].oneOf[0].type: Forbidden: must be empty to be structural",
            id="type inside a junctor",
        ),
        pytest.param(
            obj(a={**obj(), "anyOf": [{"properties": {"b": {"minLength": 1}}}]}),
            "properties[a].properties[b]: Required value: because it is defined in "
            "spec.versions[0].schema.openAPIV3Schema.properties[a].anyOf[0].properties[b]",
            id="property only inside a junctor",
        ),
        pytest.param(
            obj(t={"x-kubernetes-embedded-resource": True, **PRESERVE}),
            'properties[t].type: Invalid value: "": must be object if '
            "x-kubernetes-embedded-resource is true",
            id="embedded resource without type",
        ),
        pytest.param(
            obj(
                env={
                    "type": "array",
                    "items": obj(name=STRING),
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                }
            ),
            "properties[env].items.properties[name].default: Required value: this property is in "
            "x-kubernetes-list-map-keys, so it must have a default or be a required property",
            id="optional list key",
        ),
        pytest.param(
            obj(a={"type": "integer", "default": "x"}),
            'properties[a].default: Invalid value: "string": '
            "spec.versions[0].schema.openAPIV3Schema.properties[a].default in body must be of type "
            'integer: "string"',
            id="default of another type",
        ),
        pytest.param(
            obj(a={**obj(b=STRING), "default": {"c": 1}}),
            'properties[a].default: Invalid value: {"c":1}: must not have unknown fields: c',
            id="default with unknown fields",
        ),
        pytest.param(
            obj(metadata=obj(labels=obj())),
            "properties[metadata]: Forbidden: must not specify anything other than name and "
            "generateName, but metadata is implicitly specified",
            id="restricted metadata",
        ),
        pytest.param(
            obj(a={**STRING, "pattern": "("}),
            'properties[a].pattern: Invalid value: "(": must be a valid regular expression, but '
            "isn't: '(' is not a regular expression: missing ), unterminated subpattern at "
            "position 0",
            id="pattern",
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(schema, expected):
    assert schema_errors(schema) == [expected]


def test_a_rule_that_cannot_be_evaluated_refuses_the_definition():
    rule = {"rule": "self.colour == 'red'"}
    [text] = schema_errors(obj(spec={**obj(color=STRING), "x-kubernetes-validations": [rule]}))

    assert text == (
        "properties[spec].x-kubernetes-validations[0].rule: Invalid value: "
        "\"self.colour == 'red'\": compilation failed: undefined field 'colour'"
    )


@pytest.mark.parametrize(
    "schema",
    [
        obj(a=[]),
        obj(a={"type": "integer", "minimum": "1"}),
        {"type": "object", "properties": ["a"]},
        obj(a={**STRING, "anyOf": [1]}),
        obj(a={**STRING, "pattern": 1}),
        obj(a={**STRING, "x-kubernetes-validations": ["self"]}),
        {"type": ["object"]},
    ],
)
def test_a_malformed_schema_is_refused_by_path(schema):
    [error] = crds.validate_crd(crd(version(schema=schema)))

    assert error.path.startswith("spec.versions[0].schema.openAPIV3Schema")


@pytest.mark.parametrize("schema", [{"type": "object", "properties": "spec"}, obj(spec="text")])
def test_a_selectable_field_of_a_malformed_schema_is_refused(schema):
    fields = [{"jsonPath": ".spec.size"}]

    found = crds.validate_crd(crd(version(schema=schema, selectableFields=fields)))

    assert "spec.versions[0].selectableFields[0].jsonPath" in {error.path for error in found}


class TestUpdates:
    @pytest.mark.parametrize(
        ("spec", "path"),
        [
            ({"scope": "Cluster"}, "spec.scope"),
            ({"names": {"plural": "widgets", "kind": "Gadget"}}, "spec.names.kind"),
        ],
    )
    def test_identity_does_not_change(self, spec, path):
        found = crds.validate_crd_update(crd(**spec), crd())
        assert [e.detail for e in found if e.path == path] == ["field is immutable"]

    def test_a_stored_version_is_not_dropped(self):
        old = crds.with_accepted_names(crd(version("v1")), NOW)
        new = {**crd(version("v2")), "status": old["status"]}

        [error] = crds.validate_crd_update(new, old)

        assert (
            str(error)
            == 'status.storedVersions[0]: Invalid value: "v1": must appear in spec.versions'
        )

    def test_what_was_refused_before_does_not_block(self):
        old = crd(version(schema=obj(a={})))
        new = copy.deepcopy(old)
        new["spec"]["names"]["shortNames"] = ["w"]

        assert crds.validate_crd_update(new, old) == []


class TestStatus:
    def test_names_are_accepted_and_the_definition_established(self):
        status = crds.with_accepted_names(crd(), NOW)["status"]

        assert status["storedVersions"] == ["v1"]
        assert status["acceptedNames"]["listKind"] == "WidgetList"
        assert [
            (c["type"], c["status"], c["lastTransitionTime"]) for c in status["conditions"]
        ] == [
            ("NamesAccepted", "True", "2026-01-01T00:00:00Z"),
            ("Established", "True", "2026-01-01T00:00:00Z"),
        ]

    def test_times_and_older_stored_versions_are_kept(self):
        first = crds.with_accepted_names(crd(version("v1")), NOW)
        later = {
            **crd(version("v2"), version("v1", storage=False)),
            "status": first["status"],
        }

        status = crds.with_accepted_names(later, NOW.replace(year=2027))["status"]

        assert status["storedVersions"] == ["v1", "v2"]
        assert status["conditions"] == first["status"]["conditions"]


class TestServing:
    def test_versions_are_served_most_preferred_first(self):
        names = ["v1beta1", "v1", "v2alpha1", "v10", "exotic"]
        value = crd(*[version(name, storage=name == "v1") for name in names])

        served = crds.served_resources(value)

        assert [resource.version for resource in served] == [
            "v10",
            "v1",
            "v1beta1",
            "v2alpha1",
            "exotic",
        ]
        assert [resource.preferred for resource in served] == [True, False, False, False, False]
        assert {resource.storage_api_version for resource in served} == {"lab.test/v1"}

    def test_a_version_that_is_not_served_is_left_out(self):
        value = crd(version("v1"), {**version("v2", storage=False), "served": False})

        assert [resource.version for resource in crds.served_resources(value)] == ["v1"]

    def test_subresources_and_scale_paths(self):
        scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        [resource] = crds.served_resources(
            crd(version(subresources={"status": {}, "scale": scale}))
        )

        assert resource.subresources == {"status", "scale"}
        assert resource.scale is not None
        assert resource.scale.spec_replicas == ".spec.size"

    def test_a_deprecated_version_warns(self):
        [resource] = crds.served_resources(crd(version(deprecated=True)))

        assert resource.deprecation_warning == "lab.test/v1 Widget is deprecated"
