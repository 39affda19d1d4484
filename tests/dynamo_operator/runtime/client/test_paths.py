import pytest

from dynamo_operator.runtime.builtin_kinds import ClusterRole, ConfigMap, Job
from dynamo_operator.runtime.client.paths import object_path, resource_path, selector_query
from informers.objects import ObjectKey

CONFIG_MAPS = ConfigMap.resource_type


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (resource_path(CONFIG_MAPS), "/api/v1/configmaps"),
        (resource_path(CONFIG_MAPS, "lab"), "/api/v1/namespaces/lab/configmaps"),
        (
            object_path(Job.resource_type, ObjectKey("lab", "a"), "status"),
            "/apis/batch/v1/namespaces/lab/jobs/a/status",
        ),
        (
            object_path(ClusterRole.resource_type, ObjectKey("", "system:node")),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        ),
        (
            object_path(ClusterRole.resource_type, ObjectKey("ignored", "a b?c#d\n")),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20b%3Fc%23d%0A",
        ),
    ],
)
def test_paths_are_those_of_the_api(path, expected):
    assert path == expected


@pytest.mark.parametrize("name", ["", ".", "..", "../secrets/s", "a/b", "%2e%2e", "a%2fb"])
def test_a_name_that_could_lead_elsewhere_is_refused(name):
    with pytest.raises(ValueError, match="must not"):
        object_path(CONFIG_MAPS, ObjectKey("lab", name))


@pytest.mark.parametrize("namespace", [".", "..", "a/../../b"])
def test_a_namespace_that_could_lead_elsewhere_is_refused(namespace):
    with pytest.raises(ValueError, match="namespace"):
        object_path(CONFIG_MAPS, ObjectKey(namespace, "a"))


def test_an_object_of_a_namespaced_kind_needs_a_namespace():
    with pytest.raises(ValueError, match="needs a namespace"):
        object_path(CONFIG_MAPS, ObjectKey("", "a"))


@pytest.mark.parametrize(
    ("labels", "fields", "query"),
    [
        (None, None, []),
        ({}, {}, []),
        ({"b": "2", "a": "1"}, None, [("labelSelector", "a=1,b=2")]),
        ("a in (1,2),!b", None, [("labelSelector", "a in (1,2),!b")]),
        (None, {"metadata.name": "x,y=z"}, [("fieldSelector", r"metadata.name=x\,y\=z")]),
    ],
)
def test_selectors_become_query_items(labels, fields, query):
    assert selector_query(labels, fields) == query
