"""What somebody needs of a cache: a type, a selection of it, and who hears of its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dynamo_operator.runtime.type_cache import Scope, TypeCache
from informers.errors import InformerError, InformerFailedError
from informers.events import Deleted
from informers.indexers import Index
from informers.shared_informer import Handler, HandlerRegistration


class Declaration:
    """One need, from `Cache.declare` to `close`.

    The cache gives it the informers that together hold what it needs: one for all namespaces or one
    for each. They are shared with other declarations of the same, and stop with the last of them.
    Which ones there are may change while the cache runs: namespaces come and go, and an optional
    type is there only while it is defined. Iterating gives those of the moment.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        optional: bool,
        indexes: Iterable[Index],
        prerequisites: Sequence[Declaration],
        on_close: Callable[[Declaration], None],
    ) -> None:
        self.scope = scope
        self.optional = optional
        self.indexes: tuple[Index, ...] = tuple(indexes)
        self.prerequisites: tuple[Declaration, ...] = tuple(prerequisites)
        """What has to be here before it is known which informers there are."""
        self.is_closed: bool = False
        self.failure: InformerFailedError | None = None
        """Why an optional type is off for good."""
        self._on_close = on_close
        self._handlers: list[Handler] = []
        self._held: dict[str, tuple[TypeCache, list[HandlerRegistration]]] = {}

    def __iter__(self) -> Iterator[TypeCache]:
        return iter([cache for cache, _ in self._held.values()])

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that are held now; "" stands for all of them."""
        return frozenset(self._held)

    @property
    def is_synced(self) -> bool:
        """Whether everything that is there to be held is here."""
        return all(p.is_synced for p in self.prerequisites) and all(
            cache.informer.is_synced for cache in self
        )

    def add_handler(self, handler: Handler) -> None:
        """Call `handler` for every change from now on, and for what is there already.

        What leaves the cache because its namespace or its type does is Deleted, too, for handlers.
        """
        self._handlers.append(handler)
        for cache, registrations in self._held.values():
            registrations.append(cache.informer.add_handler(handler))

    def replace_handler(self, handler: Handler) -> None:
        """Call this handler alone from now on, and for what is there already."""
        for _, registrations in self._held.values():
            while registrations:
                registrations.pop().remove()
        self._handlers.clear()
        self.add_handler(handler)

    def close(self) -> None:
        """Need it no more: handlers hear nothing further. May be repeated."""
        if not self.is_closed:
            self.is_closed = True
            self._on_close(self)

    async def wait_synced(self) -> None:
        """Wait until everything that is there to be held is here and the handlers know of it.

        Raises:
            InformerError: an informer ended; says why.
        """
        for prerequisite in self.prerequisites:
            await prerequisite.wait_synced()
        while missing := [cache for cache in self if not cache.informer.is_synced]:
            try:
                await missing[0].informer.wait_synced()
            except InformerError:
                if missing[0] in tuple(self):
                    raise

    def why_unsynced(self) -> list[str]:
        """Say of each informer that is not here yet what is known about why."""
        reasons = [reason for p in self.prerequisites for reason in p.why_unsynced()]
        return reasons + [c.why_unsynced() for c in self if not c.informer.is_synced]

    # For the cache, which alone decides what is held.

    def hold(self, namespace: str, cache: TypeCache) -> None:
        """Take an informer in."""
        for index in self.indexes:
            cache.add_index(index)
        registrations = [cache.informer.add_handler(handler) for handler in self._handlers]
        self._held[namespace] = (cache, registrations)

    def let_go(self, namespace: str) -> TypeCache:
        """Give an informer back; its handlers are off."""
        cache, registrations = self._held.pop(namespace)
        for registration in registrations:
            registration.remove()
        return cache

    def tell_gone(self, cache: TypeCache) -> None:
        """Tell the handlers that what an informer held is not there any more."""
        for obj in cache.informer.lister.list():
            for handler in tuple(self._handlers):
                cache.hand_out(handler, Deleted(obj, final_state_unknown=True))
