from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo_operator.apiserver import apply as server_side
from dynamo_operator.apiserver.apply import Writer
from dynamo_operator.apiserver.builtin_schemas import builtin_schema
from dynamo_operator.apiserver.schema import Schema
from dynamo_operator.apiserver.status import StatusError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NAMED = {"type": "object", "properties": {"name": STRING, "value": STRING, "size": INTEGER}}
SCHEMA = Schema.compile(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": INTEGER,
                    "color": STRING,
                    "inner": {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}},
                    "labels": {"type": "object", "additionalProperties": STRING},
                    "whole": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {"a": INTEGER, "b": INTEGER},
                    },
                    "list": {"type": "array", "items": STRING},
                    "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
                    "env": {
                        "type": "array",
                        "items": NAMED,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
    root=True,
)


def widget(*, status=None, metadata=None, **spec):
    value = {
        "apiVersion": "lab.test/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "lab", **(metadata or {})},
    }
    if spec:
        value["spec"] = spec
    if status is not None:
        value["status"] = status
    return value


def apply(live, applied, manager="one", *, force=False, subresource="", now=NOW, schema=SCHEMA):
    writer = Writer(manager=manager, now=now, subresource=subresource)
    return server_side.apply(live, applied, schema, writer, force=force)


def update(live, new, manager="editor", *, subresource="", now=NOW, schema=SCHEMA):
    writer = Writer(manager=manager, now=now, subresource=subresource)
    return server_side.record_update(live, new, schema, writer)


def fields_of(obj, manager, operation="Apply", subresource=""):
    for entry in obj["metadata"].get("managedFields", ()):
        identity = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        if identity == (manager, operation, subresource):
            return entry["fieldsV1"]
    return None


class TestApply:
    def test_a_first_apply_creates_and_owns_what_it_names(self):
        created = apply(None, widget(size=1, metadata={"labels": {"a": "b"}}))

        assert created["spec"] == {"size": 1}
        [entry] = created["metadata"]["managedFields"]
        assert entry == {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "lab.test/v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:size": {}}},
        }

    def test_applying_the_same_again_changes_nothing_not_even_a_time(self):
        created = apply(None, widget(size=1, env=[{"name": "A", "value": "1"}]))

        again = apply(
            created, widget(size=1, env=[{"name": "A", "value": "1"}]), now=NOW + timedelta(hours=1)
        )

        assert again == created

    def test_a_field_no_longer_applied_by_its_only_owner_is_removed(self):
        created = apply(None, widget(size=1, color="red", inner={"a": 1}))

        assert apply(created, widget(size=1))["spec"] == {"size": 1}

    def test_identity_survives_when_all_fields_are_given_up(self):
        created = apply(None, widget(size=1, metadata={"labels": {"a": "b"}}))
        created["metadata"]["uid"] = "u"

        left = apply(created, widget())

        assert left["metadata"] == {"name": "w", "namespace": "lab", "uid": "u"}
        assert "spec" not in left

    def test_a_field_that_another_manager_also_applied_stays(self):
        shared = apply(apply(None, widget(size=1)), widget(size=1), "two")

        left = apply(shared, widget(color="red"))

        assert left["spec"] == {"size": 1, "color": "red"}
        assert fields_of(left, "one") == {"f:spec": {"f:color": {}}}

    def test_a_field_that_nobody_owns_stays(self):
        live = widget(size=1, color="red")

        assert apply(live, widget(size=1))["spec"] == {"size": 1, "color": "red"}

    def test_a_list_item_leaves_with_its_owner_and_others_stay(self):
        live = apply(None, widget(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]))
        live = apply(live, widget(env=[{"name": "C", "value": "3"}]), "two")

        left = apply(live, widget(env=[{"name": "B", "value": "2"}]))

        assert [item["name"] for item in left["spec"]["env"]] == ["B", "C"]

    def test_the_bodys_resource_version_is_kept_for_the_caller_to_compare(self):
        live = apply(None, widget(size=1))
        live["metadata"]["resourceVersion"] = "7"

        assert apply(live, widget(size=2))["metadata"]["resourceVersion"] == "7"
        stale = widget(size=2, metadata={"resourceVersion": "5"})
        assert apply(live, stale)["metadata"]["resourceVersion"] == "5"

    def test_managed_fields_in_the_configuration_are_refused(self):
        with pytest.raises(StatusError, match="managedFields must be nil") as refused:
            apply(None, widget(metadata={"managedFields": [{"manager": "x"}]}))
        assert refused.value.code == 400


class TestConflicts:
    def test_another_managers_value_is_a_conflict_naming_manager_and_field(self):
        live = apply(None, widget(size=1, env=[{"name": "A", "value": "1"}]))

        with pytest.raises(StatusError) as refused:
            apply(live, widget(size=2, env=[{"name": "A", "value": "2"}]), "two")

        status = refused.value.to_status()
        assert (status["code"], status["reason"]) == (409, "Conflict")
        assert status["details"]["causes"] == [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": '.spec.env[name="A"].value',
            },
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": ".spec.size",
            },
        ]
        assert status["message"].startswith("Apply failed with 2 conflicts")

    def test_a_plain_writer_is_named_with_its_version(self):
        live = update(None, widget(size=1), "kubectl-edit")

        with pytest.raises(StatusError, match="Apply failed with 1 conflict") as refused:
            apply(live, widget(size=2), "two")

        words = 'conflict with "kubectl-edit" using lab.test/v1: .spec.size'
        assert words in refused.value.message

    def test_the_same_value_is_shared_not_a_conflict(self):
        shared = apply(apply(None, widget(size=1)), widget(size=1), "two")

        assert fields_of(shared, "one") == fields_of(shared, "two") == {"f:spec": {"f:size": {}}}

    def test_force_takes_the_field_and_leaves_the_rest(self):
        live = apply(None, widget(size=1, color="red"))

        taken = apply(live, widget(size=2), "two", force=True)

        assert taken["spec"] == {"size": 2, "color": "red"}
        assert fields_of(taken, "one") == {"f:spec": {"f:color": {}}}
        assert fields_of(taken, "two") == {"f:spec": {"f:size": {}}}

    def test_an_atomic_list_or_map_is_one_field(self):
        live = apply(None, widget(list=["a"], whole={"a": 1}))

        with pytest.raises(StatusError) as refused:
            apply(live, widget(list=["b"], whole={"b": 1}), "two")

        fields = [cause["field"] for cause in refused.value.details["causes"]]
        assert fields == [".spec.list", ".spec.whole"]


class TestTypes:
    @pytest.mark.parametrize(
        ("live", "applied", "expected"),
        [
            pytest.param(["a", "b", "c"], ["c", "a"], ["c", "a", "b"], id="applied order wins"),
            pytest.param(["x"], ["a", "b"], ["x", "a", "b"], id="live-only items stay in front"),
            pytest.param(["a", "x", "b"], ["a", "b"], ["a", "x", "b"], id="and between"),
            pytest.param([], ["b", "a"], ["b", "a"], id="new"),
        ],
    )
    def test_sets_merge_in_applied_order(self, live, applied, expected):
        merged = apply(widget(set=live), widget(set=applied))

        assert sorted(merged["spec"]["set"]) == sorted(expected)
        assert [v for v in merged["spec"]["set"] if v in applied] == applied

    def test_free_maps_merge_by_key(self):
        live = apply(None, widget(labels={"a": "1"}))
        both = apply(live, widget(labels={"b": "2"}), "two")

        assert both["spec"]["labels"] == {"a": "1", "b": "2"}
        assert apply(both, widget(), "two")["spec"]["labels"] == {"a": "1"}

    def test_untyped_values_merge_as_maps_and_replace_as_lists(self):
        live = apply(None, widget(free={"m": {"a": 1}, "l": [1]}))
        merged = apply(live, widget(free={"m": {"b": 2}}), "two")

        assert merged["spec"]["free"] == {"m": {"a": 1, "b": 2}, "l": [1]}
        with pytest.raises(StatusError):
            apply(live, widget(free={"l": [2]}), "two")

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            (
                {"env": [{"name": "A"}, {"name": "A"}]},
                '.spec.env: duplicate entries for key [name="A"]',
            ),
            ({"set": ["a", "a"]}, '.spec.set: duplicate entries for key [="a"]'),
            ({"env": [{"value": "1"}]}, 'omits key field "name"'),
            ({"colour": "red"}, ".spec.colour: field not declared in schema"),
        ],
        ids=["duplicate key", "duplicate member", "no key", "unknown field"],
    )
    def test_a_configuration_that_does_not_fit_the_schema_is_refused_by_path(self, spec, words):
        with pytest.raises(StatusError) as refused:
            apply(None, widget(**spec))

        prefix = "failed to create typed patch object (lab/w; lab.test/v1, Kind=Widget): "
        assert refused.value.message.startswith(prefix)
        assert words in refused.value.message

    def test_a_null_is_a_value(self):
        assert apply(None, widget(free={"a": None}))["spec"]["free"] == {"a": None}


class TestStatus:
    def test_status_and_spec_managers_keep_their_own_fields(self):
        live = apply(None, widget(size=1))
        live = apply(live, widget(status={"ready": True}), "one", subresource="status")
        live = apply(live, widget(status={"round": 3}), "publisher", subresource="status")

        assert live["status"] == {"ready": True, "round": 3}
        assert fields_of(live, "one") == {"f:spec": {"f:size": {}}}
        assert fields_of(live, "one", subresource="status") == {"f:status": {"f:ready": {}}}
        assert apply(live, widget(size=1))["status"] == {"ready": True, "round": 3}

    def test_status_in_a_plain_apply_is_not_owned(self):
        assert fields_of(apply(None, widget(size=1, status={"a": 1})), "one") == {
            "f:spec": {"f:size": {}}
        }


class TestUpdates:
    def test_a_create_owns_everything_but_identity(self):
        created = update(None, widget(size=1, metadata={"labels": {"a": "b"}}))

        owned = fields_of(created, "editor", "Update")
        assert owned == {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {".": {}, "f:size": {}},
        }

    def test_an_update_owns_what_it_changed_and_takes_it_from_others(self):
        live = apply(None, widget(size=1, color="red"))

        changed = update(live, {**live, "spec": {"size": 2, "color": "red"}})

        assert fields_of(changed, "editor", "Update") == {"f:spec": {"f:size": {}}}
        assert fields_of(changed, "one") == {"f:spec": {"f:color": {}}}

    def test_what_an_update_removes_is_nobodys(self):
        live = apply(None, widget(size=1, color="red"))

        changed = update(live, {**live, "spec": {"size": 1}})

        assert fields_of(changed, "one") == {"f:spec": {"f:size": {}}}
        assert fields_of(changed, "editor", "Update") is None

    def test_an_update_that_changes_nothing_keeps_the_managers(self):
        live = update(None, widget(size=1))

        assert update(live, live, "other", now=NOW + timedelta(hours=1)) == live

    def test_a_client_that_leaves_managed_fields_out_does_not_lose_them(self):
        live = apply(None, widget(size=1))

        givens: tuple[dict[str, list[str]], ...] = ({}, {"managedFields": []})
        for metadata in givens:
            kept = update(live, widget(size=1, metadata=metadata))
            assert fields_of(kept, "one") == {"f:spec": {"f:size": {}}}

    def test_an_empty_entry_forgets_all_managers(self):
        live = apply(None, widget(size=1))

        reset = update(live, widget(size=1, metadata={"managedFields": [{}]}))

        assert "managedFields" not in reset["metadata"]

    @pytest.mark.parametrize("entry", [1, {"manager": 1, "fieldsV1": []}, {"fieldsV1": {"f:a": 1}}])
    def test_made_up_managed_fields_do_no_harm(self, entry):
        live = update(None, widget(size=1))

        changed = update(live, widget(size=2, metadata={"managedFields": [entry]}))

        assert "f:size" in fields_of(changed, "editor", "Update")["f:spec"]

    def test_many_writers_are_merged_into_ancient_changes(self):
        live = update(None, widget(labels={}))
        for number in range(15):
            labels = {**live["spec"]["labels"], f"l{number}": "x"}
            moment = NOW + timedelta(minutes=number)
            live = update(live, {**live, "spec": {"labels": labels}}, f"m{number}", now=moment)

        managers = [entry["manager"] for entry in live["metadata"]["managedFields"]]
        assert len(managers) == 10
        assert managers[0] == "ancient-changes"
        assert managers[-1] == "m14"


def test_a_pods_ports_default_their_protocol_as_a_key():
    schema = builtin_schema("", "Pod")
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container]},
    }

    created = apply(None, pod, schema=schema)

    items = fields_of(created, "one")["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert list(items) == ['k:{"containerPort":80,"protocol":"TCP"}']


_TEXT = st.sampled_from("abc")
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "color": _TEXT,
        "inner": st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)),
        "labels": st.dictionaries(_TEXT, _TEXT),
        "whole": st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)),
        "list": st.lists(_TEXT, max_size=3),
        "set": st.lists(_TEXT, max_size=3, unique=True),
        "env": st.lists(
            st.fixed_dictionaries({"name": _TEXT}, optional={"value": _TEXT}),
            max_size=3,
            unique_by=lambda item: item["name"],
        ),
        "free": st.dictionaries(_TEXT, st.one_of(st.integers(0, 2), st.lists(_TEXT, max_size=2))),
    },
)


@settings(max_examples=150, deadline=None)
@given(_SPECS, _SPECS)
def test_applying_twice_is_applying_once(live, spec):
    once = apply(update(None, widget(**live)), widget(**spec), force=True)

    assert apply(once, widget(**spec), now=NOW + timedelta(hours=1)) == once


@settings(max_examples=150, deadline=None)
@given(_SPECS, _SPECS)
def test_what_others_own_survives_an_apply_without_conflict(first, second):
    live = apply(None, widget(**first))
    owned = fields_of(live, "one")
    try:
        merged = apply(live, widget(**second), "two")
    except StatusError:
        return

    again = apply(merged, widget(**first))
    assert fields_of(merged, "one") == fields_of(again, "one") == owned
    assert fields_of(again, "two") == fields_of(merged, "two")


@settings(max_examples=150, deadline=None)
@given(_SPECS, _SPECS)
def test_a_forced_apply_holds_and_makes_the_loser_conflict_or_agree(first, second):
    taken = apply(apply(None, widget(**first)), widget(**second), "two", force=True)

    assert apply(taken, widget(**second), "two") == taken


@settings(max_examples=150, deadline=None)
@given(_SPECS, _SPECS)
def test_giving_everything_up_leaves_what_the_other_applied(first, second):
    alone = apply(None, widget(**second), "two")
    both = apply(apply(None, widget(**first)), widget(**second), "two", force=True)

    left = apply(both, widget())

    assert fields_of(left, "one") is None
    assert fields_of(left, "two") == fields_of(alone, "two")


def test_a_stored_list_with_duplicates_does_not_block_other_fields():
    live = widget(size=1, env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])

    changed = apply(update(None, live), widget(color="red"), "two")

    assert changed["spec"] == {**live["spec"], "color": "red"}
