import pytest

from tests.dynamo_operator.apiserver.api import CONFIG_MAPS, CORE, PODS, Api, config_map, pod

pytestmark = pytest.mark.virtual_time

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AS_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


async def filled(count: int = 5) -> Api:
    api = Api()
    for index in range(count):
        await api.create(CONFIG_MAPS, config_map(f"c{index}", index=str(index)))
    return api


async def test_a_list_is_sorted_by_key_and_carries_the_global_version():
    api = Api()
    for name in ("b", "a", "c"):
        last = await api.create(CONFIG_MAPS, config_map(name))

    answer = await api.get(CONFIG_MAPS)

    assert answer.body["kind"] == "ConfigMapList"
    assert answer.names == ["a", "b", "c"]
    assert answer.version == last.version


async def test_the_items_of_a_built_in_list_carry_no_kind():
    answer = await (await filled(1)).get(CONFIG_MAPS)

    assert "kind" not in answer.body["items"][0]
    assert "apiVersion" not in answer.body["items"][0]


async def test_a_namespaced_list_does_not_show_a_namespace_with_the_same_prefix():
    api = Api()
    for namespace in ("a", "a-b", "a.b"):
        body = {"metadata": {"name": namespace.replace(".", "0")}}
        await api.create(f"{CORE}/namespaces", body)
        path = f"{CORE}/namespaces/{body['metadata']['name']}/configmaps"
        await api.create(path, config_map("x"))

    answer = await api.get(f"{CORE}/namespaces/a/configmaps")

    assert [i["metadata"]["namespace"] for i in answer.body["items"]] == ["a"]


async def test_pages_together_are_one_consistent_list_whatever_happens_between():
    api = await filled()
    first = await api.get(CONFIG_MAPS, limit="2")
    await api.delete(f"{CONFIG_MAPS}/c3")
    await api.create(CONFIG_MAPS, config_map("c2b"))
    await api.merge(f"{CONFIG_MAPS}/c4", {"data": {"index": "new"}})

    rest = await api.get(
        CONFIG_MAPS, limit="10", **{"continue": first.body["metadata"]["continue"]}
    )

    assert first.names == ["c0", "c1"]
    assert first.body["metadata"]["remainingItemCount"] == 3
    assert rest.names == ["c2", "c3", "c4"]
    assert rest.body["items"][2]["data"] == {"index": "4"}
    assert rest.version == first.version
    assert "continue" not in rest.body["metadata"]


async def test_a_page_after_compaction_is_expired_and_offers_an_inconsistent_rest():
    api = await filled()
    first = await api.get(CONFIG_MAPS, limit="2")
    await api.create(CONFIG_MAPS, config_map("c2b"))
    api.server.storage.compact(api.server.storage.resource_version)

    expired = await api.get(CONFIG_MAPS, **{"continue": first.body["metadata"]["continue"]})
    rest = await api.get(CONFIG_MAPS, **{"continue": expired.body["metadata"]["continue"]})

    assert (expired.status, expired.body["reason"]) == (410, "Expired")
    assert rest.names == ["c2", "c2b", "c3", "c4"]


async def test_a_selected_page_does_not_tell_how_many_remain():
    api = Api()
    for index in range(3):
        body = config_map(f"c{index}")
        body["metadata"]["labels"] = {"a": "b"}
        await api.create(CONFIG_MAPS, body)

    answer = await api.get(CONFIG_MAPS, limit="1", labelSelector="a=b")

    assert answer.body["metadata"]["continue"]
    assert "remainingItemCount" not in answer.body["metadata"]


async def test_a_list_of_any_version_is_whole_whatever_its_limit():
    answer = await (await filled(3)).get(CONFIG_MAPS, limit="1", resourceVersion="0")

    assert answer.names == ["c0", "c1", "c2"]
    assert "continue" not in answer.body["metadata"]


async def test_an_exact_version_shows_the_past():
    api = await filled(2)
    before = await api.get(CONFIG_MAPS)
    await api.delete(f"{CONFIG_MAPS}/c0")

    past = await api.get(CONFIG_MAPS, resourceVersion=before.version, resourceVersionMatch="Exact")
    newer = await api.get(
        CONFIG_MAPS, resourceVersion=before.version, resourceVersionMatch="NotOlderThan"
    )

    assert past.names == ["c0", "c1"]
    assert past.version == before.version
    assert newer.names == ["c1"]


async def test_a_compacted_exact_version_is_expired():
    api = await filled(2)
    before = await api.get(CONFIG_MAPS)
    await api.delete(f"{CONFIG_MAPS}/c0")
    api.server.storage.compact(api.server.storage.resource_version)

    answer = await api.get(
        CONFIG_MAPS, resourceVersion=before.version, resourceVersionMatch="Exact"
    )

    assert (answer.status, answer.message) == (
        410,
        "The resourceVersion for the provided list is too old.",
    )


async def test_a_version_that_does_not_exist_yet_times_out_and_says_which_is_current():
    api = await filled(1)
    current = api.server.storage.resource_version

    answer = await api.get(CONFIG_MAPS, resourceVersion="9999")

    assert (answer.status, answer.body["reason"]) == (504, "Timeout")
    assert answer.message == f"Timeout: Too large resource version: 9999, current: {current}"
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"resourceVersionMatch": "Exact"}, "forbidden unless resourceVersion is provided"),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            'forbidden for resourceVersion "0"',
        ),
        ({"resourceVersionMatch": "Odd", "resourceVersion": "1"}, 'Unsupported value: "Odd"'),
        ({"sendInitialEvents": "true"}, "sendInitialEvents is forbidden for list"),
    ],
    ids=["match-alone", "exact-zero", "unknown-match", "initial-events"],
)
async def test_list_options_that_contradict_each_other_are_refused(query, text):
    answer = await Api().get(CONFIG_MAPS, **query)

    assert answer.status == 422
    assert text in answer.message
    assert answer.message.startswith('ListOptions.meta.k8s.io "" is invalid')


@pytest.mark.parametrize(
    ("version", "problem"), [("abc", "invalid syntax"), (str(2**64), "value out of range")]
)
async def test_a_version_that_is_none_is_a_bad_request(version, problem):
    answer = await Api().get(CONFIG_MAPS, resourceVersion=version)

    assert answer.status == 400
    assert answer.message.endswith(problem)


async def test_fields_of_the_kind_select():
    api = Api()
    await api.create(PODS, pod("a", node="n1"))
    await api.create(PODS, pod("b"))

    scheduled = await api.get(f"{CORE}/pods", fieldSelector="spec.nodeName=n1")
    other = await api.get(f"{CORE}/pods", fieldSelector="spec.nodeName!=n1,metadata.name=b")

    assert scheduled.names == ["a"]
    assert other.names == ["b"]


async def test_an_unknown_field_cannot_be_selected():
    answer = await Api().get(PODS, fieldSelector="spec.nosuch=1")

    assert (answer.status, answer.message) == (400, "field label not supported: spec.nosuch")


async def test_a_list_can_be_only_metadata():
    api = await filled(1)

    answer = await api.get(CONFIG_MAPS, accept=AS_METADATA)

    (item,) = answer.body["items"]
    assert answer.body["kind"] == "PartialObjectMetadataList"
    assert (item["kind"], item["metadata"]["name"]) == ("PartialObjectMetadata", "c0")
    assert "data" not in item


async def test_a_list_can_be_a_table():
    api = await filled(1)

    answer = await api.get(CONFIG_MAPS, accept=AS_TABLE)

    assert [c["name"] for c in answer.body["columnDefinitions"]] == ["Name", "Data", "Age"]
    (row,) = answer.body["rows"]
    assert row["cells"] == ["c0", 1, "0s"]
    assert row["object"]["kind"] == "PartialObjectMetadata"


async def test_an_answer_can_be_yaml():
    api = await filled(1)

    answer = await api.get(f"{CONFIG_MAPS}/c0", accept="application/yaml")

    assert answer.headers["content-type"] == "application/yaml"
    assert b"kind: ConfigMap\n" in answer.body


@pytest.mark.parametrize(
    "accept", ["application/x-unknown", "application/vnd.kubernetes.protobuf", "text/html"]
)
async def test_a_form_that_is_not_offered_is_not_acceptable(accept):
    answer = await Api().get(PODS, accept=accept)

    assert (answer.status, answer.body["reason"]) == (406, "NotAcceptable")


async def test_a_missing_object_is_not_found_by_its_resource_and_name():
    answer = await Api().get("/apis/batch/v1/namespaces/default/jobs/j")

    assert (answer.status, answer.message) == (404, 'jobs.batch "j" not found')
    assert answer.body["details"] == {"name": "j", "group": "batch", "kind": "jobs"}


@pytest.mark.parametrize(
    "path", ["/api/v1/nosuch", "/apis/apps/v1/nosuch", "/api/v1/namespaces/default/nodes/n"]
)
async def test_what_is_not_served_is_not_found(path):
    answer = await Api().get(path)

    assert (answer.status, answer.message) == (
        404,
        "the server could not find the requested resource",
    )


@pytest.mark.parametrize("path", ["/apis/nosuch/v1/x", "/x"])
async def test_where_nothing_of_the_server_is_no_page_is_found(path):
    answer = await Api().get(path)

    assert (answer.status, answer.body) == (404, b"404 page not found\n")
