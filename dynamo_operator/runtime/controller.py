"""Controllers, declared: what is watched, what is owned, and who reconciles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dynamo_operator.runtime.cache import CACHE_SYNC_TIMEOUT_SECONDS
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.codec import resource_type_of
from dynamo_operator.runtime.client.reader import AnyKind, Reader
from dynamo_operator.runtime.enqueue import enqueue_owner, enqueue_self
from dynamo_operator.runtime.error_policy import PANIC_LIMIT
from dynamo_operator.runtime.predicates import Predicate
from dynamo_operator.runtime.reconciler import Reconciler, Result
from dynamo_operator.runtime.sources import Source, Watch
from informers.clock import Random
from informers.indexers import Index
from informers.objects import ObjectKey, ResourceType
from informers.rate_limiters import ItemExponential, RateLimiter, WithJitter
from informers.work_queue import AGEING_SECONDS, Priority

ReconcilerFactory = Callable[[Reader, Client], Reconciler]


class Controller:
    """A declaration: one kind, what else concerns its objects, and their reconciler.

    Args:
        kind: the kind that keys name; watched.
        reconciler: who is called, or what makes it from `(reader, client)`: a class or a function.
        owns: kinds whose objects concern the object that is their controller.
        watches: any other kind that concerns objects of `kind`.
        channels: triggers from outside the cluster, and any other source of keys.
        indexes: further indexes of the cache of `kind`.
        name: for logs and metrics; by default the kind in lower case. One manager has no two
            controllers of one name.
        field_manager: whom the reconciler's writes are attributed to; by default `name`.
        predicates: which changes of `kind` itself matter.
        event_filters: which changes matter in all watches; asked before the watches' predicates.
        max_concurrent_reconciles: how many keys are reconciled at once; one key never is.
        reconcile_timeout_seconds: time limit of one reconcile.
        poll_every_seconds: reconcile every object that often, give or take a tenth, at low
            priority, for what the cluster does not tell.
        cache_sync_timeout_seconds: how long the watched kinds may take to arrive.
        rate_limiter: makes the delays of keys that fail; by default 5 ms, doubled up to 1000 s,
            each stretched at random by up to a half.
        low_priority: of what is no news, i.e. first lists, resyncs and polls; other keys go first.
        ageing_seconds: how long such keys wait before they get their share of a busy controller.
        on_error: what follows errors of a class and its subclasses, instead of the growing delay:
            `{ForbiddenError: Result.requeue(after=60)}`; done means never again. Counted and logged
            as errors all the same.
        panic_limit: after so many defects of one key in a row (TypeError, KeyError and the like) it
            rests for ten minutes at a time, and an Event on the object says so; None for never.
        optional: `kind` is a custom resource that need not be defined: it is watched while it is,
            and has no objects while it is not.
        needs_leadership: whether it runs in the leader only.

    Example:
        >>> def widget_controller() -> Controller:
        ...     return Controller(Widget, owns=[ConfigMap], reconciler=WidgetReconciler)
    """

    def __init__(
        self,
        kind: AnyKind,
        *,
        reconciler: Reconciler | ReconcilerFactory,
        owns: Sequence[AnyKind] = (),
        watches: Sequence[Watch] = (),
        channels: Sequence[Source] = (),
        indexes: Sequence[Index] = (),
        name: str = "",
        field_manager: str = "",
        predicates: Sequence[Predicate] = (),
        event_filters: Sequence[Predicate] = (),
        max_concurrent_reconciles: int = 1,
        reconcile_timeout_seconds: float | None = None,
        poll_every_seconds: float | None = None,
        cache_sync_timeout_seconds: float = CACHE_SYNC_TIMEOUT_SECONDS,
        rate_limiter: Callable[[Random], RateLimiter[ObjectKey]] | None = None,
        low_priority: int = Priority.LOW,
        ageing_seconds: float = AGEING_SECONDS,
        on_error: Mapping[type[Exception], Result] | None = None,
        panic_limit: int | None = PANIC_LIMIT,
        optional: bool = False,
        needs_leadership: bool = True,
    ) -> None:
        self.resource_type: ResourceType = resource_type_of(kind)
        self.name: str = name or self.resource_type.kind.lower()
        self.field_manager: str = field_manager or self.name
        self.reconciler = reconciler
        self.watches: tuple[Watch, ...] = (
            Watch(kind, enqueue=enqueue_self, predicates=predicates, optional=optional),
            *(Watch(owned, enqueue=enqueue_owner(kind)) for owned in owns),
            *watches,
        )
        self.channels: tuple[Source, ...] = tuple(channels)
        self.indexes: tuple[Index, ...] = tuple(indexes)
        self.event_filters: tuple[Predicate, ...] = tuple(event_filters)
        self.max_concurrent_reconciles = max_concurrent_reconciles
        self.reconcile_timeout_seconds = reconcile_timeout_seconds
        self.poll_every_seconds = poll_every_seconds
        self.cache_sync_timeout_seconds = cache_sync_timeout_seconds
        self.rate_limiter: Callable[[Random], RateLimiter[ObjectKey]] = (
            rate_limiter or _default_rate_limiter
        )
        self.low_priority = low_priority
        self.ageing_seconds = ageing_seconds
        self.on_error: dict[type[Exception], Result] = dict(on_error or {})
        self.panic_limit = panic_limit
        self.needs_leadership = needs_leadership
        self._check([resource_type_of(owned) for owned in owns])

    def _check(self, owned: Sequence[ResourceType]) -> None:
        what = f"controller {self.name!r}"
        if self.max_concurrent_reconciles < 1:
            raise ValueError(
                f"{what}: max_concurrent_reconciles={self.max_concurrent_reconciles}: "
                "must be at least 1"
            )
        if self.panic_limit is not None and self.panic_limit < 1:
            raise ValueError(f"{what}: panic_limit={self.panic_limit}: must be at least 1, or None")
        for option in (
            "reconcile_timeout_seconds",
            "poll_every_seconds",
            "cache_sync_timeout_seconds",
        ):
            seconds = getattr(self, option)
            if seconds is not None and not 0 < seconds < float("inf"):
                raise ValueError(f"{what}: {option}={seconds}: must be a positive number")
        if len(set(owned)) != len(owned):
            raise ValueError(f"{what}: owns: names a kind twice")
        if self.resource_type in owned:
            raise ValueError(f"{what}: owns: {self.resource_type} is the controller's own kind")


def _default_rate_limiter(random: Random) -> RateLimiter[ObjectKey]:
    return WithJitter(ItemExponential(), random)
