"""Who owns whom, by UID, as far as it was seen. Pure.

A node is there for every object that was observed, and for every UID that an observed object names
as an owner (then without an identity, until the object is seen).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from informers.objects import CachedObject, ObjectRef, OwnerReference, ResourceType

_REMEMBERED_ABSENT = 4096


@dataclass(slots=True)
class GraphNode:
    """One object; `ref` is None while only its dependents were seen."""

    uid: str
    ref: ObjectRef | None = None
    owners: tuple[OwnerReference, ...] = ()
    is_deleting: bool = False
    dependents: dict[str, None] = field(default_factory=dict)


class OwnershipGraph:
    """The graph; each change returns the UIDs that must be looked at again."""

    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self._absent: OrderedDict[tuple[str, str], None] = OrderedDict()

    def find(self, uid: str) -> GraphNode | None:
        """Return the node of an observed object."""
        node = self._nodes.get(uid)
        return node if node is not None and node.ref is not None else None

    def dependents(self, uid: str) -> list[GraphNode]:
        """Return the observed objects that name this UID as an owner, oldest first."""
        node = self._nodes.get(uid)
        if node is None:
            return []
        return [d for d in (self.find(u) for u in node.dependents) if d is not None]

    def observe(self, resource_type: ResourceType, obj: CachedObject) -> set[str]:
        """Take note of an object's present state."""
        node = self._nodes.setdefault(obj.uid, GraphNode(obj.uid))
        is_new = node.ref is None
        removed = [o.uid for o in node.owners if o.uid not in {r.uid for r in obj.owner_references}]
        node.ref = ObjectRef(resource_type, obj.key, obj.uid)
        changed = node.owners != obj.owner_references
        self._set_owners(node, obj.owner_references)
        concerned: set[str] = set()
        if (is_new or changed) and obj.owner_references:
            concerned.add(obj.uid)
        if obj.is_deleting and (is_new or not node.is_deleting or changed):
            concerned |= {obj.uid, *node.dependents}
        elif obj.is_deleting:
            concerned.add(obj.uid)
        node.is_deleting = obj.is_deleting
        # An owner that waits for its dependents may wait for one less.
        return concerned | {uid for uid in removed if self._is_deleting(uid)}

    def forget(self, uid: str) -> set[str]:
        """Take note that an object is gone."""
        node = self._nodes.get(uid)
        if node is None or node.ref is None:
            return set()
        owners = [o.uid for o in node.owners]
        concerned = set(node.dependents) | {uid for uid in owners if self._is_deleting(uid)}
        self._set_owners(node, ())
        node.ref, node.is_deleting = None, False
        if not node.dependents:
            self._nodes.pop(uid, None)
        return concerned

    def remember_absent(self, uid: str, namespace: str) -> None:
        """Remember that no object of that UID is in the namespace: UIDs never come back."""
        self._absent[(uid, namespace)] = None
        if len(self._absent) > _REMEMBERED_ABSENT:
            self._absent.popitem(last=False)

    def is_absent(self, uid: str, namespace: str) -> bool:
        """Whether that is remembered."""
        return (uid, namespace) in self._absent

    def _is_deleting(self, uid: str) -> bool:
        node = self._nodes.get(uid)
        return node is not None and node.is_deleting

    def _set_owners(self, node: GraphNode, owners: Iterable[OwnerReference]) -> None:
        owners = tuple(owners)
        kept = {owner.uid for owner in owners}
        for owner in node.owners:
            parent = self._nodes.get(owner.uid)
            if owner.uid not in kept and parent is not None:
                parent.dependents.pop(node.uid, None)
                if parent.ref is None and not parent.dependents:
                    self._nodes.pop(owner.uid, None)
        for uid in kept:
            self._nodes.setdefault(uid, GraphNode(uid)).dependents[node.uid] = None
        node.owners = owners
