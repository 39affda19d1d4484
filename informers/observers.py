"""Observation hooks with empty defaults: metrics and logs attach here, informers know neither."""

from __future__ import annotations

from informers.objects import ObjectKey, ResourceType


class InformerObserver:
    """Told what an informer does; calls must be cheap and must not raise."""

    def listed(self, resource_type: ResourceType, objects: int, reason: str) -> None:
        """A full list was taken; `reason` is initial, expired, fall_back, error or poll."""

    def watch_started(self, resource_type: ResourceType) -> None:
        """A watch was opened."""

    def watch_ended(self, resource_type: ResourceType, reason: str) -> None:
        """A watch ended; `reason` is a value of `informers.watch_session.Outcome`."""

    def failed(
        self, resource_type: ResourceType, error: Exception, retry_in_seconds: float
    ) -> None:
        """A list or a watch failed and will be tried again."""

    def recovered(self, resource_type: ResourceType) -> None:
        """After failures the server answered again."""

    def store_changed(self, resource_type: ResourceType, objects: int, data_bytes: int) -> None:
        """The store now holds that many objects and bytes."""

    def handler_failed(self, resource_type: ResourceType, key: ObjectKey, error: Exception) -> None:
        """A handler raised; the event was skipped for it."""

    def index_failed(
        self, resource_type: ResourceType, index: str, key: ObjectKey, error: Exception
    ) -> None:
        """An index function raised; the object is not found through that index."""


class QueueObserver:
    """Told what a work queue does. Times are seconds."""

    def depth_changed(self, priority: int, depth: int) -> None:
        """So many items of that priority are ready."""

    def added(self) -> None:
        """An item became ready."""

    def retried(self) -> None:
        """An item was added with a delay."""

    def taken(self, waited_seconds: float) -> None:
        """An item was handed out after waiting so long."""

    def finished(self, worked_seconds: float) -> None:
        """A handed-out item was marked done after so long."""
