import pytest

from tests.dynamo_operator.apiserver.api import (
    CONFIG_MAPS,
    CORE,
    CRDS,
    JSON_PATCH,
    WIDGETS,
    Api,
    config_map,
    widget,
    widget_crd,
)

pytestmark = pytest.mark.virtual_time


async def with_widgets() -> Api:
    api = Api()
    answer = await api.create(CRDS, widget_crd())
    assert answer.status == 201, answer.body
    return api


async def test_a_new_object_gets_what_only_the_server_sets():
    api = Api()
    body = config_map("a")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}

    answer = await api.create(CONFIG_MAPS, body)

    metadata = answer.body["metadata"]
    assert answer.status == 201
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == "2030-01-01T00:00:00Z"
    assert metadata["namespace"] == "default"
    assert metadata["resourceVersion"] == str(api.server.storage.resource_version)


async def test_the_same_seed_makes_the_same_objects():
    first = await Api().create(CONFIG_MAPS, {"metadata": {"generateName": "a-"}})
    second = await Api().create(CONFIG_MAPS, {"metadata": {"generateName": "a-"}})

    assert first.body == second.body


async def test_a_name_can_be_generated():
    answer = await Api().create(CONFIG_MAPS, {"metadata": {"generateName": "x" * 70 + "-"}})

    name = answer.body["metadata"]["name"]
    assert name.startswith("x" * 58)
    assert len(name) == 63


async def test_an_existing_name_is_refused():
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.create(CONFIG_MAPS, config_map("a"))

    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "a" already exists'


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A_b"}, "a lowercase RFC 1123 subdomain must consist of"),
        ({"name": "a", "labels": {"a b": "c"}}, "metadata.labels: Invalid value"),
        ({"name": "a", "labels": {"a": "c d"}}, "a valid label must be an empty string or"),
        ({"name": "a", "finalizers": ["-"]}, "metadata.finalizers: Invalid value"),
        (
            {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            "metadata.ownerReferences[0].uid: Required value: must not be empty",
        ),
        ({"name": "a", "annotations": {"a": "x" * 262145}}, "metadata.annotations: Too long"),
    ],
    ids=["none", "name", "label-key", "label-value", "finalizer", "owner", "annotations"],
)
async def test_metadata_that_breaks_a_rule_is_invalid(metadata, text):
    answer = await Api().create(CONFIG_MAPS, {"metadata": metadata})

    assert answer.status == 422
    assert text in answer.message


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "json parse error"),
        (b"[]", "not an object"),
        ({"kind": "Pod", "apiVersion": "v1"}, "cannot be handled as a ConfigMap"),
        ({"kind": "ConfigMap", "apiVersion": "v2"}, "cannot be handled as a ConfigMap"),
        ({"metadata": {"name": "a", "labels": []}}, "cannot unmarshal array into Go struct field"),
        ({"metadata": {"name": "a", "namespace": "b"}}, "does not match the namespace sent"),
    ],
    ids=["broken", "list", "kind", "version", "labels", "namespace"],
)
async def test_a_body_that_is_no_such_object_is_a_bad_request(body, text):
    answer = await Api().create(CONFIG_MAPS, body)

    assert answer.status == 400
    assert text in answer.message


async def test_a_body_of_an_unknown_type_is_refused():
    answer = await Api().ask("POST", CONFIG_MAPS, b"x", content_type="text/plain")

    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


async def test_a_body_beyond_the_limit_is_too_large():
    answer = await Api().create(CONFIG_MAPS, config_map("a", x="y" * (3 * 1024 * 1024)))

    assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_yaml_body_is_understood():
    body = b"metadata:\n  name: a\n  labels: {x: 'yes'}\ndata:\n  a: b\n"

    answer = await Api().ask("POST", CONFIG_MAPS, body, content_type="application/yaml")

    assert answer.body["data"] == {"a": "b"}


async def test_an_update_from_an_old_version_conflicts():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})

    answer = await api.replace(f"{CONFIG_MAPS}/a", made.body)

    assert (answer.status, answer.body["reason"]) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )


async def test_an_update_of_another_incarnation_conflicts():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))
    body = config_map("a")
    body["metadata"]["uid"] = "other"

    answer = await api.replace(f"{CONFIG_MAPS}/a", body)

    assert answer.status == 409
    uid = made.body["metadata"]["uid"]
    assert f"UID in precondition: other, UID in object meta: {uid}" in answer.message


async def test_a_built_in_kind_can_be_replaced_without_a_version_and_a_custom_one_cannot():
    api = await with_widgets()
    await api.create(CONFIG_MAPS, config_map("a"))
    await api.create(WIDGETS, widget("a"))

    built_in = await api.replace(f"{CONFIG_MAPS}/a", config_map("a", x="1"))
    custom = await api.replace(f"{WIDGETS}/a", widget("a", 2))

    assert built_in.status == 200
    assert custom.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified" in custom.message


async def test_an_update_cannot_change_what_the_server_set():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))
    body = config_map("a", x="1")
    body["metadata"] |= {
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }

    answer = await api.replace(f"{CONFIG_MAPS}/a", body)

    assert answer.body["metadata"]["uid"] == made.body["metadata"]["uid"]
    assert answer.body["metadata"]["creationTimestamp"] == "2030-01-01T00:00:00Z"
    assert "deletionTimestamp" not in answer.body["metadata"]


async def test_a_name_that_is_not_the_paths_is_a_bad_request():
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.replace(f"{CONFIG_MAPS}/a", config_map("b"))

    assert (answer.status, answer.message) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )


async def test_a_write_that_changes_nothing_makes_no_version_and_no_event():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a", x="1"))

    patched = await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})
    replaced = await api.replace(f"{CONFIG_MAPS}/a", made.body)

    assert patched.version == replaced.version == made.version
    assert api.server.storage.resource_version == int(made.version)


async def test_the_generation_follows_the_spec_and_not_status_or_metadata():
    api = await with_widgets()
    made = await api.create(WIDGETS, widget("a", 1))
    labelled = await api.merge(f"{WIDGETS}/a", {"metadata": {"labels": {"x": "y"}}})
    status = await api.merge(f"{WIDGETS}/a/status", {"status": {"ready": True}})
    changed = await api.merge(f"{WIDGETS}/a", {"spec": {"size": 2}})

    generations = [a.body["metadata"]["generation"] for a in (made, labelled, status, changed)]
    assert generations == [1, 1, 1, 2]


async def test_status_is_written_only_through_its_subresource():
    api = await with_widgets()
    body = widget("a", 1) | {"status": {"ready": True}}

    made = await api.create(WIDGETS, body)
    main = await api.merge(f"{WIDGETS}/a", {"status": {"ready": True}, "spec": {"size": 2}})
    status = await api.merge(
        f"{WIDGETS}/a/status",
        {"status": {"ready": True}, "spec": {"size": 3}, "metadata": {"labels": {"x": "y"}}},
    )

    assert "status" not in made.body
    assert "status" not in main.body
    assert status.body["status"] == {"ready": True}
    assert status.body["spec"] == {"size": 2}
    assert "labels" not in status.body["metadata"]


async def test_a_merge_patch_can_check_the_version_it_was_made_for():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))
    await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}})

    answer = await api.merge(
        f"{CONFIG_MAPS}/a",
        {"metadata": {"resourceVersion": made.version}, "data": {"x": "2"}},
    )

    assert answer.status == 409


async def test_a_json_patch_applies_or_says_why_not():
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a", x="1"))
    good = [{"op": "test", "path": "/data/x", "value": "1"}, {"op": "remove", "path": "/data/x"}]

    first = await api.ask("PATCH", f"{CONFIG_MAPS}/a", good, content_type=JSON_PATCH)
    second = await api.ask("PATCH", f"{CONFIG_MAPS}/a", good, content_type=JSON_PATCH)

    assert first.status == 200
    assert not first.body.get("data")
    assert second.status == 422


async def test_a_custom_resource_takes_no_strategic_merge_patch():
    api = await with_widgets()
    await api.create(WIDGETS, widget("a"))

    answer = await api.ask(
        "PATCH", f"{WIDGETS}/a", {}, content_type="application/strategic-merge-patch+json"
    )

    assert answer.status == 415
    assert "strategic" not in answer.message


async def test_a_patch_cannot_rename():
    api = Api()
    await api.create(CONFIG_MAPS, config_map("a"))

    answer = await api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"name": "b"}})

    assert answer.status == 400
    assert answer.message == "the name of the object (b) does not match the name on the URL (a)"


async def test_apply_creates_and_then_changes_its_own_fields():
    api = Api()

    made = await api.apply(f"{CONFIG_MAPS}/a", config_map("a", x="1", y="2"))
    changed = await api.apply(f"{CONFIG_MAPS}/a", config_map("a", x="3"))

    assert (made.status, changed.status) == (201, 200)
    assert changed.body["data"] == {"x": "3"}
    (entry,) = changed.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("tester", "Apply")


async def test_apply_of_anothers_field_conflicts_unless_forced():
    api = Api()
    await api.apply(f"{CONFIG_MAPS}/a", config_map("a", x="1"), manager="one")

    refused = await api.apply(f"{CONFIG_MAPS}/a", config_map("a", x="2"), manager="two")
    forced = await api.apply(
        f"{CONFIG_MAPS}/a", config_map("a", x="2"), manager="two", force="true"
    )

    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert forced.body["data"] == {"x": "2"}


async def test_apply_needs_a_manager_and_other_patches_no_force():
    api = Api()
    unmanaged = await api.apply(f"{CONFIG_MAPS}/a", config_map("a"), manager="")
    forced = await api.merge(f"{CONFIG_MAPS}/a", {}, force="true")

    assert "fieldManager: Required value: is required for apply patch" in unmanaged.message
    assert "force: Forbidden: may not be specified for non-apply patch" in forced.message


async def test_apply_for_a_uid_does_not_create():
    body = config_map("a")
    body["metadata"]["uid"] = "gone"

    answer = await Api().apply(f"{CONFIG_MAPS}/a", body)

    assert answer.status == 409
    assert "uid mismatch: the provided object specified uid gone" in answer.message


async def test_apply_that_repeats_itself_makes_no_version():
    api = Api()
    made = await api.apply(f"{CONFIG_MAPS}/a", config_map("a", x="1"))

    again = await api.apply(f"{CONFIG_MAPS}/a", config_map("a", x="1"))

    assert again.version == made.version


async def test_apply_to_status_leaves_the_rest_alone():
    api = await with_widgets()
    await api.apply(f"{WIDGETS}/a", widget("a", 4))
    body = {
        "apiVersion": "lab.test/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "status": {"ready": True},
    }

    answer = await api.apply(f"{WIDGETS}/a/status", body, manager="status")

    assert (answer.body["spec"], answer.body["status"]) == ({"size": 4}, {"ready": True})
    managers = {
        (e["manager"], e.get("subresource", "")) for e in answer.body["metadata"]["managedFields"]
    }
    assert managers == {("tester", ""), ("status", "status")}


async def test_a_dry_run_answers_as_if_and_stores_nothing():
    api = Api()

    made = await api.create(CONFIG_MAPS, config_map("a"), dryRun="All")

    assert made.status == 201
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 404


async def test_a_dry_run_of_update_and_delete_changes_nothing():
    api = Api()
    made = await api.create(CONFIG_MAPS, config_map("a"))

    changed = await api.merge(f"{CONFIG_MAPS}/a", {"data": {"x": "1"}}, dryRun="All")
    await api.delete(f"{CONFIG_MAPS}/a", {"dryRun": ["All"]})

    assert changed.body["data"] == {"x": "1"}
    assert (await api.get(f"{CONFIG_MAPS}/a")).body == made.body


async def test_another_dry_run_value_is_refused():
    answer = await Api().create(CONFIG_MAPS, config_map("a"), dryRun="Some")

    assert (answer.status, "dryRun: Unsupported value" in answer.message) == (422, True)


async def test_an_unknown_field_warns_by_default_and_is_dropped():
    api = await with_widgets()
    body = widget("a")
    body["spec"]["colour"] = "red"

    answer = await api.create(WIDGETS, body)

    assert answer.headers["warning"] == '299 - "unknown field \\"spec.colour\\""'
    assert answer.body["spec"] == {"size": 1}


async def test_an_unknown_field_is_refused_when_strict_and_silent_when_ignored():
    api = await with_widgets()
    body = widget("a")
    body["spec"]["colour"] = "red"

    strict = await api.create(WIDGETS, body, fieldValidation="Strict")
    ignored = await api.create(WIDGETS, body, fieldValidation="Ignore")

    assert strict.status == 400
    assert strict.message.endswith('strict decoding error: unknown field "spec.colour"')
    assert "warning" not in ignored.headers


async def test_a_key_given_twice_is_refused_when_strict():
    body = b'{"metadata": {"name": "a"}, "data": {"x": "1", "x": "2"}}'
    api = Api()

    warned = await api.create(CONFIG_MAPS, body)  # type: ignore[arg-type]  # bytes: as sent
    strict = await api.create(CONFIG_MAPS, body, fieldValidation="Strict")  # type: ignore[arg-type]

    assert "duplicate field" in warned.headers["warning"]
    assert strict.status == 400


async def test_a_deleted_object_takes_no_new_finalizers():
    api = Api()
    body = config_map("a")
    body["metadata"]["finalizers"] = ["lab.test/one"]
    await api.create(CONFIG_MAPS, body)
    await api.delete(f"{CONFIG_MAPS}/a")

    answer = await api.merge(
        f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["lab.test/one", "lab.test/two"]}}
    )

    assert answer.status == 422
    assert 'found new finalizers []string{"lab.test/two"}' in answer.message


async def test_nothing_is_created_in_a_namespace_that_is_missing():
    answer = await Api().create(f"{CORE}/namespaces/nope/configmaps", config_map("a"))

    assert (answer.status, answer.message) == (404, 'namespaces "nope" not found')


async def test_the_field_manager_of_a_plain_write_is_the_user_agents_name():
    answer = await Api().create(CONFIG_MAPS, config_map("a", k="v"))

    (entry,) = answer.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("tester", "Update")
