from datetime import UTC, datetime

import pytest

from dynamo_operator.apiserver.custom_resources import CustomResourceStrategy, printer_column
from dynamo_operator.apiserver.schema import Schema

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}


def obj(**properties):
    return {"type": "object", "properties": properties}


def strategy(*, has_status=True, selectable=(), **spec):
    schema = obj(spec=obj(**spec), status=obj(phase=STRING))
    compiled = Schema.compile(schema, root=True)
    return CustomResourceStrategy(compiled, has_status=has_status, selectable=selectable)


def widget(spec, **fields):
    metadata = {"name": "w", "labels": {"a": "b"}}
    return {
        "apiVersion": "lab.test/v1",
        "kind": "Widget",
        "metadata": metadata,
        "spec": spec,
        **fields,
    }


def test_a_create_prunes_defaults_and_drops_status():
    widgets = strategy(size={**INTEGER, "default": 3}, name=STRING)

    prepared = widgets.prepare_create(widget({"name": "x", "zz": 1}, status={"phase": "Done"}))

    assert prepared["spec"] == {"name": "x", "size": 3}
    assert "status" not in prepared


def test_without_a_status_subresource_status_is_like_any_field():
    widgets = strategy(has_status=False, size=INTEGER)
    written = widget({"size": 1}, status={"phase": "Done"})

    assert widgets.prepare_create(written)["status"] == {"phase": "Done"}
    assert widgets.bumps_generation(written, widget({"size": 1}))


def test_each_side_keeps_what_it_does_not_write():
    widgets = strategy(size=INTEGER)
    old = widget({"size": 1}, status={"phase": "Old"})
    new = widget({"size": 2}, status={"phase": "New"})
    new["metadata"] = {"name": "w", "labels": {"c": "d"}, "managedFields": [{"manager": "m"}]}

    plain = widgets.prepare_update(new, old, "")
    status = widgets.prepare_update(new, old, "status")

    assert (plain["spec"], plain["status"]) == ({"size": 2}, {"phase": "Old"})
    assert plain["metadata"]["labels"] == {"c": "d"}
    assert (status["spec"], status["status"]) == ({"size": 1}, {"phase": "New"})
    assert status["metadata"] == {**old["metadata"], "managedFields": [{"manager": "m"}]}


def test_generation_counts_changes_of_spec_alone():
    widgets = strategy(size=INTEGER)
    old = widget({"size": 1}, status={"phase": "Old"})

    assert widgets.bumps_generation(widget({"size": 2}), old)
    assert not widgets.bumps_generation({**widget({"size": 1}), "metadata": {"name": "x"}}, old)
    assert not widgets.bumps_generation(widget({"size": 1}, status={"phase": "New"}), old)


def test_rules_are_not_checked_where_types_are_wrong():
    rule = {"rule": "self.size > 1"}
    schema = obj(spec={**obj(size=INTEGER), "x-kubernetes-validations": [rule]})
    widgets = CustomResourceStrategy(Schema.compile(schema, root=True), has_status=True)

    texts = [str(error) for error in widgets.validate_create(widget({"size": "1"}))]

    assert texts == [
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
        "<nil>: Invalid value: null: some validation rules were not checked because the object was "
        "invalid; correct the existing errors to complete validation",
    ]
    assert len(widgets.validate_create(widget({"size": 1}))) == 1


class TestEmbeddedResources:
    TEMPLATE = {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE}
    POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ok"}}

    def errors(self, template):
        widgets = strategy(template=self.TEMPLATE)
        prepared = widgets.prepare_create(widget({"template": template}))
        return [str(error) for error in widgets.validate_create(prepared)]

    def test_a_whole_one_is_kept(self):
        assert self.errors({**self.POD, "spec": {"x": 1}}) == []

    @pytest.mark.parametrize("field", ["apiVersion", "kind"])
    def test_identity_is_required(self, field):
        template = {name: value for name, value in self.POD.items() if name != field}

        assert self.errors(template) == [f"spec.template.{field}: Required value"]

    def test_metadata_is_validated(self):
        metadata = {"name": "Not_A_Name", "labels": {"a": "-"}}

        [text] = self.errors({**self.POD, "metadata": metadata})

        assert text.startswith('spec.template.metadata.labels: Invalid value: "-": ')

    def test_metadata_has_types(self):
        [text] = self.errors({**self.POD, "metadata": {"name": 1}})
        assert text.startswith('spec.template.metadata.name: Invalid value: "integer": ')

    def test_an_unchanged_bad_one_does_not_block(self):
        widgets = strategy(template=self.TEMPLATE, size=INTEGER)
        old = widget({"template": {"kind": "Pod"}, "size": 1})

        assert (
            widgets.validate_update(widget({"template": {"kind": "Pod"}, "size": 2}), old, "") == []
        )


def test_selectable_fields_are_named_without_the_dot_and_always_there():
    widgets = strategy(color=STRING, size=INTEGER, selectable=[".spec.color", ".spec.size"])

    assert widgets.selectable_fields({}) == {"spec.color": "", "spec.size": ""}
    assert widgets.selectable_fields(widget({"color": "red", "size": 3})) == {
        "spec.color": "red",
        "spec.size": "3",
    }


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("string", ".spec.color", "red"),
        ("string", ".spec.size", "3"),
        ("integer", ".spec.size", 3),
        ("number", ".spec.size", 3.0),
        ("integer", ".spec.color", None),
        ("boolean", ".spec.on", True),
        ("string", ".spec.nothing", None),
        ("string", '.status.conditions[?(@.type=="Ready")].status', "True"),
        ("string", ".spec.list[*]", "a b"),
        ("string", ".metadata.labels.lab\\.test/color", "blue"),
        ("date", ".metadata.creationTimestamp", "3m"),
        ("date", ".spec.color", "<unknown>"),
    ],
)
def test_a_printer_column_shows(kind, path, expected):
    column = printer_column({"name": "C", "type": kind, "jsonPath": path})
    value = {
        "metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"lab.test/color": "blue"},
        },
        "spec": {"color": "red", "size": 3, "on": True, "list": ["a", "b"]},
        "status": {
            "conditions": [{"type": "X", "status": "?"}, {"type": "Ready", "status": "True"}]
        },
    }

    cell = column.cell(value, datetime(2026, 1, 1, 0, 3, tzinfo=UTC))

    assert cell == expected or (kind == "date" and cell == "3m0s")
