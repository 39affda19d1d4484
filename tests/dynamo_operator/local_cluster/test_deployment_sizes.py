import pytest

from dynamo_operator.local_cluster.deployment_sizes import Limits, new_size, shrunk
from dynamo_operator.runtime.builtin_kinds import ReplicaSet
from tests.dynamo_operator.local_cluster.workloads import deployment, rolling


@pytest.mark.parametrize(
    ("desired", "surge", "unavailable", "most", "least"),
    [
        (10, 3, 2, 13, 8),
        (10, "25%", "25%", 13, 8),  # a surge is rounded up, what may be missing down
        (1, "25%", "25%", 2, 1),
        (2, "0%", "1%", 2, 1),  # rounding must not stop a rollout
        (3, "100%", 0, 6, 3),
        (2, 0, 5, 2, 0),
        (0, 1, 1, 1, 0),
    ],
)
def test_limits_come_from_numbers_and_percents(desired, surge, unavailable, most, least):
    limits = Limits.of(deployment(replicas=desired, strategy=rolling(surge, unavailable)))

    assert (limits.most, limits.least_available) == (most, least)


def test_the_new_replica_set_grows_into_the_room_that_there_is():
    limits = Limits(desired=10, max_surge=3, max_unavailable=2)

    assert new_size(limits, others=10, present=0, rolling=True) == 3
    assert new_size(limits, others=13, present=0, rolling=True) == 0
    assert new_size(limits, others=0, present=12, rolling=True) == 10
    assert new_size(limits, others=10, present=0, rolling=False) == 10


def replica_set(name, size, available):
    made = ReplicaSet.new(name, spec={"replicas": size}, status={"availableReplicas": available})
    made.metadata.uid = name
    made.metadata.creation_timestamp = "2026-01-01T00:00:00Z"
    return made


@pytest.mark.parametrize(
    ("new", "old", "sizes"),
    [
        pytest.param((5, 0), [(8, 8)], {}, id="new ones not available: none may go"),
        pytest.param((5, 2), [(8, 8)], {"old-0": 6}, id="as many go as came"),
        pytest.param((10, 5), [(3, 0)], {}, id="too few are available"),
        pytest.param((0, 0), [(8, 8), (5, 0)], {"old-1": 0}, id="those not available go first"),
        # The status still says 10 of what was made 8: none of the 8 may go for that.
        pytest.param((3, 1), [(8, 10)], {"old-0": 7}, id="a late status frees nothing"),
    ],
)
def test_old_replica_sets_shrink_only_by_what_can_be_missed(new, old, sizes):
    limits = Limits(desired=10, max_surge=3, max_unavailable=2)
    olds = [replica_set(f"old-{i}", *each) for i, each in enumerate(old)]

    found = shrunk(limits, replica_set("new", *new), olds)

    assert found == sizes
