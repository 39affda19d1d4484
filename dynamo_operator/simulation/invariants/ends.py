"""Invariants about what a run comes to, against its reference without faults."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.simulation.end_state import Mask, Reference
from dynamo_operator.simulation.history import History
from dynamo_operator.simulation.invariants.invariant import Rest, Silent
from informers.objects import ObjectKey

DEFAULT_MASK = Mask()


class Converges(Silent):
    """I1: faults healed, the end is the one that the run without faults comes to.

    Args:
        mask: what may differ.
    """

    name = "I1 the end is that of the reference"

    def __init__(self, mask: Mask = DEFAULT_MASK) -> None:
        self._mask = mask

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Compare what is left."""
        if rest.reference is not None:
            yield from rest.reference.differences(Reference.of(rest.history, self._mask))


class EndsAs(Silent):
    """I1 where a workload has several right ends: a predicate in place of a reference.

    Args:
        name: of the claim.
        wrong: yields what is wrong with the end.
    """

    def __init__(self, name: str, wrong: Callable[[History], Iterable[str]]) -> None:
        self.name = f"I1 {name}"
        self._wrong = wrong

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Ask."""
        yield from self._wrong(rest.history)


class WriteMinimal(Silent):
    """I20: faults make no process create or delete more objects than the reference did.

    What a process that is dead by then had asked to be made anew under a name that was taken
    before, does not count: nobody can call a request back that is on its way.

    Args:
        resources: whose creations and deletions are counted; None for all that either run wrote.
        spare: how many more there may be of each.
    """

    name = "I20 no more is made and deleted than without faults"

    def __init__(self, *, resources: Collection[StorageKey] | None = None, spare: int = 0) -> None:
        self._resources = resources
        self._spare = spare

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Compare the counts."""
        if rest.reference is None:
            return
        mine = Reference.of(rest.history)
        for what, counts, wanted in (
            ("created", mine.creations - _made_too_late(rest.history), rest.reference.creations),
            ("deleted", mine.deletions, rest.reference.deletions),
        ):
            for resource in sorted(counts):
                if self._resources is not None and resource not in self._resources:
                    continue
                if counts[resource] > wanted[resource] + self._spare:
                    yield (
                        f"{counts[resource]} {resource[1]} were {what},"
                        f" {wanted[resource]} without faults"
                    )


def _made_too_late(history: History) -> Counter[StorageKey]:
    died = {(m.actor, m.incarnation): m.seconds for m in history.marks if m.what == "killed"}
    counts, taken = Counter[StorageKey](), set[tuple[StorageKey, ObjectKey]]()
    for commit in history.commits:
        if commit.verb != "create":
            continue
        is_late = commit.seconds > died.get((commit.actor, commit.incarnation), math.inf)
        counts[commit.resource] += is_late and (commit.resource, commit.key) in taken
        taken.add((commit.resource, commit.key))
    return counts


class CachesTrue(Silent):
    """I14: at rest every operator's cache is what the server has."""

    name = "I14 caches are what the server has"

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Compare resource versions, object by object."""
        for process, caches in sorted(rest.caches.items()):
            for resource, cached in sorted(caches.items()):
                stored = {
                    key: str(obj["metadata"]["resourceVersion"])
                    for key, obj in rest.history.objects(resource).items()
                }
                for key in sorted(cached.keys() | stored.keys()):
                    if cached.get(key) != stored.get(key):
                        has = cached.get(key, "nothing")
                        yield (
                            f"{process} has {has} of {resource[1]} {key},"
                            f" the server {stored.get(key, 'nothing')}"
                        )


class Bounded(Silent):
    """I15: at rest nothing is queued, pending or left running that is not so from the beginning.

    Args:
        most: of what, by name as the leftovers name it; 0 where nothing is said.
    """

    name = "I15 nothing piles up"

    def __init__(self, **most: int) -> None:
        self._most = most

    def at_rest(self, rest: Rest) -> Iterator[str]:
        """Compare what is left with what may be."""
        for process, leftovers in sorted(rest.leftovers.items()):
            for what, count in sorted(leftovers.items()):
                if count > self._most.get(what, 0):
                    yield f"{process} still has {count} {what}"
