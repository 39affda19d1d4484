import pytest

from dynamo_operator.local_cluster.ownership_graph import OwnershipGraph
from informers.objects import CachedObject, ObjectKey, OwnerReference, ResourceType

CONFIG_MAPS = ResourceType("", "v1", "ConfigMap", "configmaps")


@pytest.fixture
def graph():
    return OwnershipGraph()


def obj(uid, *owners, deleting=False):
    references = tuple(OwnerReference("v1", "ConfigMap", o, o) for o in owners)
    return CachedObject(
        ObjectKey("lab", uid), uid, "1", owner_references=references, is_deleting=deleting
    )


def observe(graph, *args, **options):
    return graph.observe(CONFIG_MAPS, obj(*args, **options))


def dependents(graph, uid):
    return [node.uid for node in graph.dependents(uid)]


def test_an_object_without_owners_concerns_nobody(graph):
    assert observe(graph, "a") == set()


def test_an_owned_object_is_looked_at_once(graph):
    assert observe(graph, "child", "owner") == {"child"}
    assert observe(graph, "child", "owner") == set()


def test_the_order_of_observation_does_not_matter(graph):
    observe(graph, "child", "owner")

    assert graph.find("owner") is None
    observe(graph, "owner")
    assert dependents(graph, "owner") == ["child"]


def test_the_dependents_of_what_is_gone_are_looked_at(graph):
    observe(graph, "owner")
    observe(graph, "a", "owner")
    observe(graph, "b", "owner")

    assert graph.forget("owner") == {"a", "b"}
    assert dependents(graph, "owner") == ["a", "b"]


def test_a_deleted_owner_and_its_dependents_are_looked_at(graph):
    observe(graph, "owner")
    observe(graph, "a", "owner")

    assert observe(graph, "owner", deleting=True) == {"owner", "a"}


def test_an_owner_that_waits_is_looked_at_when_a_dependent_goes(graph):
    observe(graph, "owner", deleting=True)
    observe(graph, "a", "owner")
    observe(graph, "b", "owner")

    assert graph.forget("a") == {"owner"}
    assert observe(graph, "b") == {"owner"}
    assert dependents(graph, "owner") == []


def test_nothing_is_kept_of_what_is_gone_and_named_by_nobody(graph):
    observe(graph, "child", "owner")
    graph.forget("child")
    observe(graph, "lone")
    graph.forget("lone")

    assert graph.forget("child") == set()
    assert dependents(graph, "owner") == []
    assert graph._nodes == {}


def test_absence_is_remembered_for_a_namespace(graph):
    graph.remember_absent("u", "a")

    assert graph.is_absent("u", "a")
    assert not graph.is_absent("u", "b")
