"""Prometheus metrics of one manager, under controller-runtime's names.

Each manager has its own registry, so several live in one process. prometheus-client is imported
when somebody scrapes, or adds series of their own, not before.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final

from dynamo_operator.runtime.client.http import HttpRequest, HttpResponse
from dynamo_operator.runtime.series import (
    Distribution,
    DistributionFamily,
    Number,
    NumberFamily,
)
from informers.errors import ListWatchError
from informers.objects import ObjectKey, ResourceType
from informers.observers import InformerObserver, QueueObserver
from informers.work_queue import WorkQueueStatistics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
RESULTS: Final = ("success", "error", "requeue", "requeue_after")

_RECONCILE_BUCKETS: Final = (
    *(0.005, 0.01, 0.025, *(n / 20 for n in range(1, 10)), 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
_QUEUE_BUCKETS: Final = tuple(10.0**exponent for exponent in range(-8, 4))
_CLIENT_BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_WAIT_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WEBHOOK_BUCKETS: Final = tuple(10.0**exponent for exponent in range(-8, 4))
_MOST_PRIORITIES: Final = 25
_MANY_PRIORITIES: Final = "exceeded_cardinality_limit"


_Setter = Callable[[float], None]
_Statistics = Callable[[], WorkQueueStatistics]


class Metrics:
    """Every series of one manager; `render` gives the exposition text."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        number = self._number
        prefix, by = "controller_runtime_", "controller"
        self.reconcile_total: NumberFamily = number(
            f"{prefix}reconcile_total", "Reconciles by result.", by, "result"
        )
        self.reconcile_errors: NumberFamily = number(
            f"{prefix}reconcile_errors_total", "Reconciles that failed.", by
        )
        self.terminal_errors: NumberFamily = number(
            f"{prefix}terminal_reconcile_errors_total", "Reconciles that failed for good.", by
        )
        self.reconcile_panics: NumberFamily = number(
            f"{prefix}reconcile_panics_total", "Reconciles that failed by a defect.", by
        )
        self.reconcile_timeouts: NumberFamily = number(
            f"{prefix}reconcile_timeouts_total", "Reconciles that hit their time limit.", by
        )
        self.reconcile_time: DistributionFamily = self._distribution(
            f"{prefix}reconcile_time_seconds", "Length of a reconcile.", _RECONCILE_BUCKETS, by
        )
        self.max_concurrent: NumberFamily = number(
            f"{prefix}max_concurrent_reconciles", "Most reconciles at once.", by
        )
        self.active_workers: NumberFamily = number(
            f"{prefix}active_workers", "Workers that reconcile now.", by
        )

        queue = ("name", by)
        self.queue_depth: NumberFamily = number(
            "workqueue_depth", "Items ready to be taken.", *queue, "priority"
        )
        self.queue_adds: NumberFamily = number(
            "workqueue_adds_total", "Items that became ready.", *queue
        )
        self.queue_duration: DistributionFamily = self._distribution(
            "workqueue_queue_duration_seconds", "From ready to taken.", _QUEUE_BUCKETS, *queue
        )
        self.work_duration: DistributionFamily = self._distribution(
            "workqueue_work_duration_seconds", "From taken to done.", _QUEUE_BUCKETS, *queue
        )
        self.queue_retries: NumberFamily = number(
            "workqueue_retries_total", "Delayed additions.", *queue
        )
        self.queue_statistics: dict[str, _Statistics] = {}
        self._collectors.append(_QueueAges(self.queue_statistics))
        self.events_filtered: NumberFamily = number(
            "controller_events_filtered_total",
            "Events that a predicate dropped.",
            by,
            "resource",
            "predicate",
        )

        self.client_requests: NumberFamily = number(
            "rest_client_requests_total", "Requests to the API server.", "code", "method", "host"
        )

        self.client_duration: DistributionFamily = self._distribution(
            "rest_client_request_duration_seconds",
            "From a request to its answer; of a watch, to its beginning.",
            _CLIENT_BUCKETS,
            "verb",
            "host",
        )

        self._client_series: dict[tuple[str, str, str], tuple[Number, Distribution]] = {}

        informer = ("resource", "namespace")
        self.informer_objects: NumberFamily = number("informer_objects", "Objects held.", *informer)
        self.informer_bytes: NumberFamily = number("informer_bytes", "JSON bytes held.", *informer)
        self.informer_lists: NumberFamily = number(
            "informer_lists_total", "Full lists taken.", *informer, "reason"
        )
        self.informer_watches: NumberFamily = number(
            "informer_watches_total", "Watches ended.", *informer, "reason"
        )
        self.informer_errors: NumberFamily = number(
            "informer_errors_total", "Lists and watches that failed.", *informer
        )
        self.informer_failing: NumberFamily = number(
            "informer_list_watch_failing",
            "1 while lists or watches fail; the code is the last HTTP status, or <error>.",
            *informer,
            "code",
        )
        self.handler_errors: NumberFamily = number(
            "informer_handler_errors_total", "Events lost to a failing handler.", *informer
        )
        self.index_errors: NumberFamily = number(
            "informer_index_errors_total",
            "Objects that an index function failed for.",
            *informer,
            "index",
        )
        self.own_write_wait: DistributionFamily = self._distribution(
            "cache_own_write_wait_seconds",
            "How long reads and reconciles waited for the cache to show an own write.",
            _WAIT_BUCKETS,
            "resource",
            "outcome",
        )
        self.webhook_requests: NumberFamily = number(
            f"{prefix}webhook_requests_total", "Reviews answered.", "webhook", "code"
        )
        self.webhook_latency: DistributionFamily = self._distribution(
            f"{prefix}webhook_latency_seconds",
            "Length of a review.",
            _WEBHOOK_BUCKETS,
            "webhook",
        )
        self.webhook_in_flight: NumberFamily = number(
            f"{prefix}webhook_requests_in_flight", "Reviews under way.", "webhook"
        )
        self.webhook_panics: NumberFamily = number(
            f"{prefix}webhook_panics_total", "Reviews that failed by a defect."
        )
        self.conversion_panics: NumberFamily = number(
            f"{prefix}conversion_webhook_panics_total", "Conversions that failed by a defect."
        )
        self.certificate_reads: NumberFamily = number(
            "certwatcher_read_certificate_total", "Certificates read to serve with."
        )
        self.certificate_errors: NumberFamily = number(
            "certwatcher_read_certificate_errors_total", "Certificates that could not be served."
        )
        self.events_dropped: NumberFamily = number(
            "events_dropped_total", "Events dropped unsent.", "reason"
        )
        self.leader_status: NumberFamily = number(
            "leader_election_master_status", "1 while it leads, 0 while it does not.", "name"
        )

    @cached_property
    def registry(self) -> CollectorRegistry:
        """All series as prometheus-client has them; those of others may be added."""
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        for collector in self._collectors:
            registry.register(collector)
        return registry

    def _number(self, name: str, text: str, *labels: str) -> NumberFamily:
        family = NumberFamily(name, text, labels)
        self._collectors.append(family)
        return family

    def _distribution(
        self, name: str, text: str, bounds: Sequence[float], *labels: str
    ) -> DistributionFamily:
        family = DistributionFamily(name, text, bounds, labels)
        self._collectors.append(family)
        return family

    def controller(self, name: str, max_concurrent_reconciles: int) -> ControllerMetrics:
        """Return the series of one controller, all existing from now on."""
        self.max_concurrent.labels(name).set(max_concurrent_reconciles)
        return ControllerMetrics(self, name)

    def queue(self, name: str) -> QueueMetrics:
        """Return the observer that counts for one controller's queue."""
        return QueueMetrics(self, name)

    def event_filter(self, controller: str, resource_type: ResourceType) -> Callable[[str], None]:
        """Return what counts the events of a type that a controller's predicates drop, by name."""
        series = self.events_filtered

        def filtered(predicate: str) -> None:
            series.labels(controller, str(resource_type), predicate).inc()

        return filtered

    def informer(self, resource_type: ResourceType, namespace: str) -> InformerMetrics:
        """Return the observer that counts for one informer."""
        return InformerMetrics(self, str(resource_type), namespace)

    def webhooks(self) -> WebhookMetrics:
        """Return what counts the calls of webhooks."""
        return WebhookMetrics(self)

    def own_write_waited(self, resource_type: ResourceType, seconds: float, outcome: str) -> None:
        """Count one wait for an own write; `outcome` is seen or timeout."""
        self.own_write_wait.labels(str(resource_type), outcome).observe(seconds)

    def request_answered(self, code: str, method: str, host: str, seconds: float) -> None:
        """Count one request to the API server; a client's request observer."""
        series = self._client_series.get((code, method, host))
        if series is None:
            series = (
                self.client_requests.labels(code, method, host),
                self.client_duration.labels(method, host),
            )
            self._client_series[code, method, host] = series
        count, duration = series
        count.inc()
        duration.observe(seconds)

    def event_dropped(self, reason: str) -> None:
        """Count an event that will not be sent."""
        self.events_dropped.labels(reason).inc()

    def leads(self, name: str, leads: bool) -> None:
        """Set whether this process leads the candidates for the Lease of that name."""
        self.leader_status.labels(name).set(leads)

    def render(self) -> bytes:
        """Return the exposition text, without the `_created` series that Go has no notion of."""
        from prometheus_client import generate_latest

        return generate_latest(_WithoutCreated(self.registry))

    async def answer(self, _request: HttpRequest) -> HttpResponse:
        """Answer a request for /metrics; a route's handler."""
        if "prometheus_client" not in sys.modules:  # the first time it takes a while
            await asyncio.to_thread(import_module, "prometheus_client")
        return HttpResponse(200, {"content-type": CONTENT_TYPE}, self.render())


class ControllerMetrics:
    """What a reconcile loop reports; the series are looked up once."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        results = {result: metrics.reconcile_total.labels(name, result) for result in RESULTS}
        self._results = {result: series.inc for result, series in results.items()}
        self._time = metrics.reconcile_time.labels(name).observe
        self.errors: Number = metrics.reconcile_errors.labels(name)
        self.terminal_errors: Number = metrics.terminal_errors.labels(name)
        self.panics: Number = metrics.reconcile_panics.labels(name)
        self.timeouts: Number = metrics.reconcile_timeouts.labels(name)
        self.active_workers: Number = metrics.active_workers.labels(name)
        self._name = name
        self._queues = metrics.queue_statistics

    def reconciled(self, result: str, seconds: float) -> None:
        """Count one finished attempt."""
        self._results[result]()
        self._time(seconds)

    def watch_queue(self, statistics: Callable[[], WorkQueueStatistics]) -> None:
        """Ask the queue at each scrape for the ages of what waits and what is in progress."""
        self._queues[self._name] = statistics


class QueueMetrics(QueueObserver):
    """Counts what one work queue does."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._depth = metrics.queue_depth
        self._name = name
        self._depths: dict[int, _Setter] = {}
        self._added = metrics.queue_adds.labels(name, name).inc
        self._retried = metrics.queue_retries.labels(name, name).inc
        self._waited = metrics.queue_duration.labels(name, name).observe
        self._worked = metrics.work_duration.labels(name, name).observe

    def depth_changed(self, priority: int, depth: int) -> None:
        """Set the depth gauge of that priority."""
        set_depth = self._depths.get(priority)
        if set_depth is None:
            few = len(self._depths) < _MOST_PRIORITIES
            label = str(priority) if few else _MANY_PRIORITIES
            set_depth = self._depth.labels(self._name, self._name, label).set
            self._depths[priority] = set_depth
        set_depth(depth)

    def added(self) -> None:
        """Count an item that became ready."""
        self._added()

    def retried(self) -> None:
        """Count an addition with a delay."""
        self._retried()

    def taken(self, waited_seconds: float) -> None:
        """Observe how long an item was ready."""
        self._waited(waited_seconds)

    def finished(self, worked_seconds: float) -> None:
        """Observe how long an item was worked on."""
        self._worked(worked_seconds)


class WebhookMetrics:
    """Counts the calls of webhooks."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.panics: Number = metrics.webhook_panics.labels()
        self.conversion_panics: Number = metrics.conversion_panics.labels()

    def add(self, path: str) -> None:
        """Have the series of a path exist from now on."""
        for code in ("200", "500"):
            self._metrics.webhook_requests.labels(path, code)
        self._metrics.webhook_latency.labels(path)
        self._metrics.webhook_in_flight.labels(path)

    @contextmanager
    def call(self, path: str) -> Iterator[WebhookCall]:
        """Count one call; whoever answers sets its `code`."""
        call = WebhookCall()
        in_flight = self._metrics.webhook_in_flight.labels(path)
        loop = asyncio.get_running_loop()
        started = loop.time()
        in_flight.inc()
        try:
            yield call
        finally:
            in_flight.dec()
            self._metrics.webhook_latency.labels(path).observe(loop.time() - started)
            self._metrics.webhook_requests.labels(path, str(call.code)).inc()

    def certificate_read(self, succeeded: bool) -> None:
        """Count an attempt to read the serving certificate."""
        self._metrics.certificate_reads.labels().inc()
        if not succeeded:
            self._metrics.certificate_errors.labels().inc()


@dataclass(slots=True)
class WebhookCall:
    """One call of a webhook; `code` is the HTTP status of its answer."""

    code: int = 500


class InformerMetrics(InformerObserver):
    """Counts what one informer does."""

    def __init__(self, metrics: Metrics, resource: str, namespace: str) -> None:
        self._metrics = metrics
        self._labels = (resource, namespace)
        self._set_objects = metrics.informer_objects.labels(resource, namespace).set
        self._set_bytes = metrics.informer_bytes.labels(resource, namespace).set
        self._failing = ""

    def listed(self, resource_type: ResourceType, objects: int, reason: str) -> None:
        """Count a full list."""
        self._metrics.informer_lists.labels(*self._labels, reason).inc()

    def watch_ended(self, resource_type: ResourceType, reason: str) -> None:
        """Count a watch that ended."""
        self._metrics.informer_watches.labels(*self._labels, reason).inc()

    def failed(
        self, resource_type: ResourceType, error: Exception, retry_in_seconds: float
    ) -> None:
        """Count a failed list or watch, and show its status until one succeeds."""
        self._metrics.informer_errors.labels(*self._labels).inc()
        self._show_no_failure()
        self._failing = str(error.code) if isinstance(error, ListWatchError) else "<error>"
        self._metrics.informer_failing.labels(*self._labels, self._failing).set(1)

    def recovered(self, resource_type: ResourceType) -> None:
        """Show no failure any more."""
        self._show_no_failure()

    def stopped(self) -> None:
        """Show nothing held and no failure any more."""
        self._set_objects(0)
        self._set_bytes(0)
        self._show_no_failure()

    def handler_failed(self, resource_type: ResourceType, key: ObjectKey, error: Exception) -> None:
        """Count an event that a handler lost."""
        self._metrics.handler_errors.labels(*self._labels).inc()

    def index_failed(
        self, resource_type: ResourceType, index: str, key: ObjectKey, error: Exception
    ) -> None:
        """Count an object that is missing in an index."""
        self._metrics.index_errors.labels(*self._labels, index).inc()

    def store_changed(self, resource_type: ResourceType, objects: int, data_bytes: int) -> None:
        """Set the size gauges."""
        self._set_objects(objects)
        self._set_bytes(data_bytes)

    def _show_no_failure(self) -> None:
        if self._failing:
            self._metrics.informer_failing.remove(*self._labels, self._failing)
            self._failing = ""


class _QueueAges:
    """How long items of the queues are there, asked for at each scrape.

    Of what is ready it is the first item's of each priority; empty levels have no series.
    """

    def __init__(self, queues: Mapping[str, _Statistics]) -> None:
        self._queues = queues

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        names = ("name", "controller")
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "Ages of the items in progress, summed.",
            labels=names,
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Oldest item in progress.",
            labels=names,
        )
        oldest = GaugeMetricFamily(
            "workqueue_oldest_ready_seconds",
            "Age of the item that is ready for longest.",
            labels=(*names, "priority"),
        )
        for name, statistics in self._queues.items():
            now = statistics()
            unfinished.add_metric((name, name), now.unfinished_seconds)
            longest.add_metric((name, name), now.longest_processing_seconds)
            for label, age in _bounded(now.oldest_ready_seconds).items():
                oldest.add_metric((name, name, label), age)
        yield from (unfinished, longest, oldest)


def _bounded(ages: Mapping[int, float]) -> dict[str, float]:
    """Return ages by label: each priority, beyond a number of them the oldest of the rest."""
    shown: dict[str, float] = {}
    for count, (priority, age) in enumerate(ages.items()):
        label = str(priority) if count < _MOST_PRIORITIES else _MANY_PRIORITIES
        shown[label] = max(age, shown.get(label, age))
    return shown


class _WithoutCreated:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric
