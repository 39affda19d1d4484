from datetime import UTC, datetime

import pytest

from dynamo_operator.apiserver import crds
from dynamo_operator.apiserver.crd_validation import validate_crd
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
    return [str(error) for error in validate_crd(value)]


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


class TestUpdates:
    @pytest.mark.parametrize(
        ("spec", "path"),
        [
            ({"scope": "Cluster"}, "spec.scope"),
            ({"names": {"plural": "widgets", "kind": "Gadget"}}, "spec.names.kind"),
        ],
    )
    def test_identity_does_not_change(self, spec, path):
        old = crds.with_accepted_names(crd(), NOW)
        found = validate_crd({**crd(**spec), "status": old["status"]}, old)
        assert [e.detail for e in found if e.path == path] == ["field is immutable"]

    def test_a_stored_version_is_not_dropped(self):
        old = crds.with_accepted_names(crd(version("v1")), NOW)
        new = {**crd(version("v2")), "status": old["status"]}

        found = [str(error) for error in validate_crd(new, old)]

        assert (
            'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2'
            in found
        )
        assert any("v1 was previously a storage version" in text for text in found)


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
