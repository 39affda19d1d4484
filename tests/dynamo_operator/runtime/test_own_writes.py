import pytest

from dynamo_operator.runtime.own_writes import OwnWrites
from informers.clock import SystemClock
from informers.events import WatchEvent, WatchEventType
from informers.objects import ObjectKey
from informers.store import Store
from tests.dynamo_operator.runtime.objects import cached

KEY = ObjectKey("lab", "a")
OWNER = ("lab.test", "Widget", ObjectKey("lab", "w"))


class Clock(SystemClock):
    seconds = 0.0

    def monotonic(self):
        return self.seconds


class World:
    def __init__(self):
        self.store = Store()
        self.store.replace([], "10")
        self.clock = Clock()
        self.writes = OwnWrites(self.store.lister, self.clock)

    def sees(self, event_type, obj):
        self.store.apply(WatchEvent(WatchEventType(event_type), obj))
        self.writes.settle()

    @property
    def pending(self):
        return [str(write.key) for write in self.writes.pending_for(OWNER)]


@pytest.fixture
def world():
    return World()


def test_a_write_is_pending_until_the_informer_shows_it(world):
    world.writes.wrote(KEY, "12", [OWNER])
    assert world.pending == ["lab/a"]

    world.sees("ADDED", cached(version=11))
    assert world.writes.pending(KEY) is not None

    world.sees("MODIFIED", cached(version=12))
    assert world.writes.pending(KEY) is None
    assert world.pending == []
    assert len(world.writes) == 0


def test_a_write_ends_when_the_informer_has_passed_its_version_without_the_object(world):
    world.writes.wrote(KEY, "12", [OWNER])

    world.sees("ADDED", cached("other", version=15))

    assert world.pending == []


def test_a_deletion_is_pending_until_the_object_of_that_uid_is_gone(world):
    world.sees("ADDED", cached(version=11))
    world.writes.deleted(KEY, "uid-a", [OWNER])
    assert world.pending == ["lab/a"]

    world.sees("ADDED", cached("other", version=12))
    assert world.pending == ["lab/a"]

    world.sees("DELETED", cached(version=13))
    assert world.pending == []


def test_a_deletion_ends_when_another_object_has_the_name(world):
    world.sees("ADDED", cached(version=11))
    world.writes.deleted(KEY, "uid-a", [])

    world.sees("MODIFIED", cached(version=14, uid="second"))

    assert world.writes.pending(KEY) is None


def test_a_deletion_of_what_was_never_shown_waits_for_both(world):
    world.writes.wrote(KEY, "12", [OWNER])
    world.writes.deleted(KEY, "uid-a", [OWNER])
    assert world.pending == ["lab/a"]

    world.sees("ADDED", cached(version=12))
    assert world.pending == ["lab/a"]

    world.sees("DELETED", cached(version=13))
    assert world.pending == []


def test_writes_of_several_owners_are_told_apart(world):
    other = ("lab.test", "Widget", ObjectKey("lab", "v"))
    world.writes.wrote(KEY, "12", [OWNER])
    world.writes.wrote(ObjectKey("lab", "b"), "13", [other])
    world.writes.wrote(ObjectKey("kit", "c"), "14", [OWNER, other])

    assert world.pending == ["lab/a", "kit/c"]
    assert [str(w.key) for w in world.writes.pending_in("lab")] == ["lab/a", "lab/b"]
    assert len(world.writes.pending_in("")) == 3

    world.sees("ADDED", cached("z", version=14))
    assert len(world.writes) == 0


def test_a_write_that_changed_nothing_is_not_pending(world):
    world.writes.wrote(KEY, "10", [OWNER])

    assert len(world.writes) == 0


def test_a_write_in_doubt_is_pending_for_as_long_as_the_server_may_still_take_it(world):
    world.writes.doubted(KEY, [OWNER])
    pending = world.writes.pending(KEY)
    assert pending is not None
    assert pending.overdue

    world.sees("ADDED", cached(version=12))
    assert world.pending == ["lab/a"]
    world.clock.seconds = 61
    assert world.pending == []


def test_a_write_in_doubt_of_a_generated_name_concerns_the_whole_namespace(world):
    world.writes.doubted(ObjectKey("lab", ""), [OWNER])

    assert len(world.writes.pending_in("lab")) == len(world.writes.pending_in("")) == 1
    assert world.writes.pending_in("kit") == []
    assert world.writes.pending(KEY) is None
