import pytest

from dynamo_operator.apiserver.builtin_schemas import builtin_schema
from dynamo_operator.apiserver.status import StatusError
from dynamo_operator.apiserver.strategic_merge import strategic_merge_patch

POD = builtin_schema("", "Pod")


def merged(spec, patch):
    return strategic_merge_patch({"spec": spec}, {"spec": patch}, POD)["spec"]


def containers(*names, **fields):
    return [{"name": name, "image": name, **fields} for name in names]


def test_containers_merge_by_name():
    result = merged(
        {"containers": containers("a", "b")}, {"containers": [{"name": "b", "image": "new"}]}
    )

    assert result["containers"] == [{"name": "a", "image": "a"}, {"name": "b", "image": "new"}]


def test_a_new_item_comes_before_those_it_does_not_name():
    result = merged({"containers": containers("a")}, {"containers": containers("b")})

    assert [c["name"] for c in result["containers"]] == ["b", "a"]


def test_environment_and_ports_merge_below_a_container():
    old = containers("a", env=[{"name": "A", "value": "1"}], ports=[{"containerPort": 80}])
    patch = [
        {
            "name": "a",
            "env": [{"name": "B", "value": "2"}],
            "ports": [{"containerPort": 80, "name": "web"}],
        }
    ]

    [container] = merged({"containers": old}, {"containers": patch})["containers"]

    assert [variable["name"] for variable in container["env"]] == ["B", "A"]
    assert container["ports"] == [{"containerPort": 80, "name": "web"}]


def test_plain_lists_are_replaced():
    old = containers("a", args=["x", "y"])

    [container] = merged({"containers": old}, {"containers": [{"name": "a", "args": ["z"]}]})[
        "containers"
    ]

    assert container["args"] == ["z"]


def test_a_null_removes_a_field():
    assert merged({"nodeName": "n", "hostname": "h"}, {"nodeName": None}) == {"hostname": "h"}


def test_an_item_is_deleted_by_directive():
    result = merged(
        {"containers": containers("a", "b")}, {"containers": [{"name": "a", "$patch": "delete"}]}
    )

    assert [c["name"] for c in result["containers"]] == ["b"]


def test_a_list_is_replaced_by_directive():
    patch = {"containers": [*containers("z"), {"$patch": "replace"}]}

    assert merged({"containers": containers("a", "b")}, patch)["containers"] == containers("z")


def test_a_map_is_replaced_or_deleted_by_directive():
    old = {"securityContext": {"runAsUser": 1, "fsGroup": 2}}

    replaced = merged(old, {"securityContext": {"$patch": "replace", "runAsUser": 3}})

    assert replaced == {"securityContext": {"runAsUser": 3}}
    assert merged(old, {"securityContext": {"$patch": "delete"}}) == {}


def test_an_order_is_set():
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": containers("a"),
    }

    assert [
        c["name"] for c in merged({"containers": containers("a", "b")}, patch)["containers"]
    ] == ["b", "a"]


def test_finalizers_are_a_set():
    target = {"metadata": {"finalizers": ["a/x", "b/y"]}}
    add = {"metadata": {"finalizers": ["c/z", "a/x"]}}
    take = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"]}}

    assert set(strategic_merge_patch(target, add, POD)["metadata"]["finalizers"]) == {
        "a/x",
        "b/y",
        "c/z",
    }
    assert strategic_merge_patch(target, take, POD)["metadata"]["finalizers"] == ["b/y"]


def test_owner_references_merge_by_uid():
    target = {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}
    patch = {"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}]}}

    owners = strategic_merge_patch(target, patch, POD)["metadata"]["ownerReferences"]

    assert [owner["uid"] for owner in owners] == ["2", "1"]


def test_keys_not_retained_are_dropped():
    old = {"volumes": [{"name": "v", "emptyDir": {}}]}
    patch = {
        "volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]
    }

    assert merged(old, patch)["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_status_conditions_merge_by_type():
    target = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    assert strategic_merge_patch(target, patch, POD) == {
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}
    }


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ([], 400, "cannot unmarshal array into Go value"),
        ({"spec": {"$patch": "sideways"}}, 500, "unknown patch type: sideways in map"),
        (
            {"spec": {"containers": [{"image": "x"}]}},
            500,
            "does not contain declared merge key: name",
        ),
    ],
)
def test_a_wrong_patch_is_refused(patch, code, words):
    with pytest.raises(StatusError) as refused:
        strategic_merge_patch({"spec": {}}, patch, POD)

    assert refused.value.code == code
    assert words in refused.value.message


def test_arguments_are_not_changed():
    target = {"spec": {"containers": containers("a")}}
    patch = {"spec": {"containers": [{"name": "a", "image": "new"}]}}

    strategic_merge_patch(target, patch, POD)

    assert target == {"spec": {"containers": containers("a")}}
    assert patch == {"spec": {"containers": [{"name": "a", "image": "new"}]}}
