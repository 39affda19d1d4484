import pytest

from informers.events import Added, Deleted, Updated
from informers.indexers import BY_NAMESPACE, BY_OWNER_UID, Index, by_label
from informers.objects import ObjectKey
from informers.store import Store
from tests.informers.fake_cluster import added, bookmark, deleted, modified, widget


def test_events_change_the_copy_and_say_what_changed():
    store = Store()

    assert store.apply(added("a", 1)) == Added(widget("a", 1))
    assert store.apply(modified("a", 2)) == Updated(widget("a", 1), widget("a", 2))
    assert store.apply(deleted("a", 3)) == Deleted(widget("a", 3))
    assert store.apply(deleted("a", 3)) is None
    assert store.apply(bookmark(9)) is None
    assert (len(store.lister), store.lister.resource_version) == (0, "9")


def test_an_event_older_than_the_copy_changes_nothing():
    store = Store()
    store.apply(added("a", 10))

    assert store.apply(modified("a", 9)) is None
    assert store.apply(deleted("a", 9)) is None
    assert store.lister.get(ObjectKey("ns", "a")).resource_version == "10"
    assert store.lister.resource_version == "10"


def test_versions_that_are_no_numbers_are_taken_as_they_come():
    store = Store()
    store.apply(added("a", "v9"))

    store.apply(modified("a", "v10"))

    assert store.lister.get(ObjectKey("ns", "a")).resource_version == "v10"
    assert store.lister.resource_version == "v10"
    assert not store.lister.has_seen(ObjectKey("ns", "a"), "v9")


def test_replacing_gives_tombstones_first_then_the_order_of_the_list():
    store = Store()
    store.replace([widget("a", 1), widget("b", 1), widget("c", 1)], "1")

    events = store.replace([widget("d", 3), widget("b", 1), widget("a", 2)], "3")

    assert events == [
        Deleted(widget("c", 1), final_state_unknown=True),
        Added(widget("d", 3)),
        Updated(widget("a", 1), widget("a", 2)),
    ]


def test_only_the_first_list_is_initial():
    store = Store()

    assert store.replace([widget("a")], "1") == [Added(widget("a"), initial=True)]
    assert store.replace([widget("a"), widget("b")], "2") == [Added(widget("b"))]


def test_an_empty_list_is_a_valid_snapshot():
    store = Store()
    store.replace([widget("a")], "1")

    assert store.replace([], "2") == [Deleted(widget("a"), final_state_unknown=True)]


def test_only_a_list_moves_the_version_back():
    store = Store()
    store.apply(bookmark(100))
    store.apply(added("a", 99))
    assert store.lister.resource_version == "100"

    store.replace([], "5")
    assert store.lister.resource_version == "5"


def test_objects_come_in_the_order_of_their_keys():
    store = Store([BY_NAMESPACE])
    for name, namespace in (("b", "y"), ("a", "y"), ("c", "x")):
        store.apply(added(name, 1, namespace=namespace))

    assert list(map(str, store.lister.keys())) == ["x/c", "y/a", "y/b"]
    assert [str(obj.key) for obj in store.lister.list()] == ["x/c", "y/a", "y/b"]
    assert [str(obj.key) for obj in store.lister.list("y")] == ["y/a", "y/b"]
    assert store.lister.list("z") == []


def test_a_namespace_is_listed_without_its_index_too():
    store = Store()
    store.apply(added("a", 1, namespace="x"))
    store.apply(added("b", 1, namespace="y"))

    assert store.lister.list("y") == [widget("b", 1, namespace="y")]
    assert store.lister.by_index(BY_NAMESPACE, "y") == [widget("b", 1, namespace="y")]


def test_indexes_follow_changes_replacements_and_deletions():
    store = Store([BY_OWNER_UID, by_label("app")])
    store.apply(added("a", 1, owner_uid="u", labels={"app": "x"}))
    store.apply(added("b", 2, owner_uid="u"))
    lister = store.lister

    def found():
        return (
            [o.key.name for o in lister.by_index(BY_OWNER_UID, "u")],
            [o.key.name for o in lister.by_index("label:app", "x")],
        )

    assert found() == (["a", "b"], ["a"])
    store.apply(modified("a", 3))
    assert found() == (["b"], [])
    store.replace([widget("c", 4, owner_uid="u", labels={"app": "x"})], "4")
    assert found() == (["c"], ["c"])
    store.apply(deleted("c", 5))
    assert found() == ([], [])


def test_the_owner_index_knows_only_the_controlling_owner():
    store = Store([BY_OWNER_UID])

    store.apply(added("a", 1))

    assert store.lister.by_index(BY_OWNER_UID, "") == []


def test_an_index_may_have_any_number_of_values():
    by_letters = Index("letters", lambda obj: list(obj.key.name))
    store = Store()
    store.apply(added("ab", 1))
    store.add_index(by_letters)
    store.apply(added("bc", 2))

    assert [o.key.name for o in store.lister.by_index(by_letters, "b")] == ["ab", "bc"]
    assert [o.key.name for o in store.lister.by_index(by_letters, "c")] == ["bc"]


def test_a_key_is_in_memory_once_however_often_its_object_changes():
    store = Store([BY_NAMESPACE])
    first = added("a", 1)
    store.apply(first)
    store.apply(modified("a", 2))
    store.replace([widget("a", 3)], "3")

    (held,) = store.lister.list()
    assert held == widget("a", 3)
    assert held.key is first.object.key


def test_an_index_by_key_is_asked_only_when_an_object_comes():
    asked = []

    def first_letter(obj):
        asked.append(obj.resource_version)
        return (obj.key.name[0],)

    store = Store([Index("letter", first_letter, by_key=True)])
    store.apply(added("abc", 1))
    store.apply(modified("abc", 2))
    store.apply(modified("abc", 3))

    assert asked == ["1"]
    assert [o.resource_version for o in store.lister.by_index("letter", "a")] == ["3"]
    store.apply(deleted("abc", 4))
    assert store.lister.by_index("letter", "a") == []


def test_an_index_is_added_twice_only_if_it_is_the_same():
    store = Store([by_label("app")])

    store.add_index(by_label("app"))

    with pytest.raises(ValueError, match="'label:app': the name is taken"):
        store.add_index(Index("label:app", lambda obj: ()))


def test_asking_for_an_index_that_does_not_exist_names_those_that_do():
    store = Store([BY_NAMESPACE])

    with pytest.raises(KeyError, match=r"'uid' does not exist \(there are: namespace\)"):
        store.lister.by_index("uid", "x")


def test_an_index_function_that_fails_hides_one_object_from_that_index_only():
    def fails_for_a(obj):
        if obj.key.name == "a":
            raise ValueError("no")
        return ("all",)

    failures = []
    store = Store(
        [Index("picky", fails_for_a), BY_NAMESPACE],
        index_failed=lambda index, obj, error: failures.append((index.name, obj.key.name)),
    )
    store.apply(added("a", 1))
    store.apply(added("b", 2))

    assert [o.key.name for o in store.lister.by_index("picky", "all")] == ["b"]
    assert [o.key.name for o in store.lister.by_index(BY_NAMESPACE, "ns")] == ["a", "b"]
    assert failures == [("picky", "a")]


def test_the_bytes_held_are_counted():
    store = Store()
    store.apply(added("a", 1, data=b"12"))
    store.apply(added("b", 2, data=b"12345"))
    store.apply(modified("a", 3, data=b"123"))
    store.apply(deleted("b", 4))

    assert store.lister.data_bytes == 3


def test_a_write_is_seen_with_its_version_or_any_later_one():
    store = Store()
    key = ObjectKey("ns", "a")
    store.apply(added("a", 5))

    assert store.lister.has_seen(key, "5")
    assert not store.lister.has_seen(key, "6")
    assert not store.lister.has_seen(key, "10")
    store.apply(bookmark(10))
    assert store.lister.has_seen(key, "6")
    assert store.lister.has_seen(key, "10")


def test_an_object_is_gone_once_its_uid_is():
    store = Store()
    key = ObjectKey("ns", "a")
    store.apply(added("a", 5, uid="old"))

    assert not store.lister.is_gone(key, "old")
    store.replace([widget("a", 7, uid="new")], "7")
    assert store.lister.is_gone(key, "old")
    assert not store.lister.is_gone(key, "new")


def test_reading_an_absent_object_finds_none_or_fails():
    lister = Store().lister
    key = ObjectKey("ns", "a")

    assert lister.find(key) is None
    assert key not in lister
    with pytest.raises(KeyError):
        lister.get(key)
