import re
import subprocess
import sys
from contextlib import suppress

import pytest
from prometheus_client import Counter

from dynamo_operator.runtime.metrics import Metrics
from informers.clock import SystemClock
from informers.errors import ListWatchError
from informers.objects import ObjectKey, ResourceType
from informers.work_queue import WorkQueue

WIDGETS = ResourceType("lab.test", "v1", "Widget", "widgets")


class ManualClock(SystemClock):
    time = 0.0

    def monotonic(self):
        return self.time


def render(metrics):
    return metrics.render().decode()


def types(text):
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


QUEUE_BUCKETS = [10.0**exponent for exponent in range(-8, 4)]
RECONCILE_BUCKETS = [
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
    *(0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10),
    *(15, 20, 25, 30, 40, 50, 60),
]
# Name: type, labels, buckets.
KNOWN: dict[str, tuple[str, set[str], list[float]]] = {
    "controller_runtime_reconcile_total": ("counter", {"controller", "result"}, []),
    "controller_runtime_reconcile_errors_total": ("counter", {"controller"}, []),
    "controller_runtime_terminal_reconcile_errors_total": ("counter", {"controller"}, []),
    "controller_runtime_reconcile_panics_total": ("counter", {"controller"}, []),
    "controller_runtime_reconcile_timeouts_total": ("counter", {"controller"}, []),
    "controller_runtime_reconcile_time_seconds": ("histogram", {"controller"}, RECONCILE_BUCKETS),
    "controller_runtime_max_concurrent_reconciles": ("gauge", {"controller"}, []),
    "controller_runtime_active_workers": ("gauge", {"controller"}, []),
    "workqueue_depth": ("gauge", {"name", "controller", "priority"}, []),
    "workqueue_adds_total": ("counter", {"name", "controller"}, []),
    "workqueue_queue_duration_seconds": ("histogram", {"name", "controller"}, QUEUE_BUCKETS),
    "workqueue_work_duration_seconds": ("histogram", {"name", "controller"}, QUEUE_BUCKETS),
    "workqueue_unfinished_work_seconds": ("gauge", {"name", "controller"}, []),
    "workqueue_longest_running_processor_seconds": ("gauge", {"name", "controller"}, []),
    "workqueue_retries_total": ("counter", {"name", "controller"}, []),
    "rest_client_requests_total": ("counter", {"code", "method", "host"}, []),
    "rest_client_request_duration_seconds": (
        "histogram",
        {"verb", "host"},
        [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
    ),
    "leader_election_master_status": ("gauge", {"name"}, []),
    "controller_runtime_webhook_latency_seconds": ("histogram", {"webhook"}, QUEUE_BUCKETS),
    "controller_runtime_webhook_requests_total": ("counter", {"webhook", "code"}, []),
    "controller_runtime_webhook_requests_in_flight": ("gauge", {"webhook"}, []),
    "controller_runtime_webhook_panics_total": ("counter", set(), []),
    "controller_runtime_conversion_webhook_panics_total": ("counter", set(), []),
    "certwatcher_read_certificate_total": ("counter", set(), []),
    "certwatcher_read_certificate_errors_total": ("counter", set(), []),
}


def used():
    """Metrics of a manager of which every part has reported."""
    metrics = Metrics()
    controller = metrics.controller("w", 1)
    controller.reconciled("success", 0.1)
    queue: WorkQueue[ObjectKey] = WorkQueue(observer=metrics.queue("w"), clock=SystemClock())
    controller.watch_queue(queue.statistics)
    queue.add(ObjectKey("", "a"))
    metrics.request_answered("200", "GET", "host", 0.1)
    metrics.leads("lease", True)
    metrics.webhooks().add("/validate")
    return metrics


@pytest.mark.parametrize("name", KNOWN)
def test_what_dashboards_know_has_its_name_type_labels_and_buckets(name):
    expected_type, labels, buckets = KNOWN[name]
    families = {family.name: family for family in used().registry.collect()}
    family = families[name.removesuffix("_total")]

    shown = [s for s in family.samples if not s.name.endswith("_created")]
    assert family.type == expected_type
    assert {frozenset(s.labels) - {"le"} for s in shown} == {frozenset(labels)}
    assert sorted({float(s.labels["le"]) for s in shown if "le" in s.labels}) == (
        [*buckets, float("inf")] if buckets else []
    )
    assert f"# TYPE {name} {expected_type}" in render(used())


def test_process_and_interpreter_are_told_of_and_no_time_of_creation():
    shown = types(render(used()))

    assert shown["process_resident_memory_bytes"] == "gauge"
    assert shown["python_info"] == "gauge"
    assert not [name for name in shown if name.endswith("_created")]


COUNTED = """
import sys
from dynamo_operator.runtime.metrics import Metrics
metrics = Metrics()
metrics.controller("w", 1).reconciled("success", 0.1)
print("prometheus_client" in sys.modules)
metrics.render()
print("prometheus_client" in sys.modules)
"""


def test_prometheus_client_is_loaded_by_who_scrapes_and_not_by_who_counts():
    output = subprocess.run(
        [sys.executable, "-c", COUNTED], check=True, capture_output=True, text=True
    ).stdout

    assert output.split() == ["False", "True"]


async def test_a_call_of_a_webhook_is_in_flight_until_it_is_answered():
    metrics = Metrics()
    series = 'webhook_requests_in_flight{webhook="/validate"}'
    with suppress(ZeroDivisionError), metrics.webhooks().call("/validate") as call:
        call.code = 400
        during = render(metrics)
        raise ZeroDivisionError
    after = render(metrics)

    assert f"{series} 1.0" in during
    assert f"{series} 0.0" in after
    assert 'webhook_requests_total{code="400",webhook="/validate"} 1.0' in after
    assert 'webhook_latency_seconds_count{webhook="/validate"} 1.0' in after


def test_series_of_ones_own_are_told_beside_the_others():
    metrics = Metrics()
    Counter("widgets_made", "Widgets made.", registry=metrics.registry).inc()

    text = render(metrics)

    assert "widgets_made_total 1.0" in text
    assert "certwatcher_read_certificate_total 0.0" in text


def test_series_of_a_controller_exist_from_its_start():
    metrics = Metrics()
    metrics.controller("w", 3)
    text = render(metrics)

    for result in ("success", "error", "requeue", "requeue_after"):
        series = f'controller_runtime_reconcile_total{{controller="w",result="{result}"}} 0.0'
        assert series in text
    assert 'controller_runtime_reconcile_panics_total{controller="w"} 0.0' in text
    assert 'controller_runtime_max_concurrent_reconciles{controller="w"} 3.0' in text


def test_depth_is_told_for_each_priority_up_to_a_number():
    metrics = Metrics()
    queue: WorkQueue[ObjectKey] = WorkQueue(observer=metrics.queue("w"), clock=SystemClock())
    for number in range(30):
        queue.add(ObjectKey("", str(number)), priority=number)
    text = render(metrics)

    shown = set(re.findall(r'workqueue_depth{.*priority="([^"]+)"}', text))
    assert shown == {*map(str, range(25)), "exceeded_cardinality_limit"}
    assert 'workqueue_adds_total{controller="w",name="w"} 30.0' in text


async def test_the_longest_wait_is_told_for_each_priority_that_waits():
    metrics, clock = Metrics(), ManualClock()
    queue: WorkQueue[ObjectKey] = WorkQueue(observer=metrics.queue("w"), clock=clock)
    metrics.controller("w", 1).watch_queue(queue.statistics)
    queue.add(ObjectKey("", "listed"), priority=-100)
    clock.time = 40
    for number in range(30):
        queue.add(ObjectKey("", str(number)), priority=number)
    clock.time = 45

    def ages():
        series = r'workqueue_oldest_ready_seconds{.*name="w",priority="([^"]+)"} (\S+)'
        return {name: float(age) for name, age in re.findall(series, render(metrics))}

    first = ages()
    assert first["29"] == 5
    assert first["exceeded_cardinality_limit"] == 45
    assert len(first) == 26
    for _ in range(31):
        queue.get_nowait()
    assert ages() == {}


def test_the_last_failure_of_lists_and_watches_is_shown_until_they_recover():
    metrics = Metrics()
    observer = metrics.informer(WIDGETS, "lab")

    def failing():
        return re.findall(r'informer_list_watch_failing{code="([^"]+)",.*} 1.0', render(metrics))

    observer.failed(WIDGETS, OSError("x"), 1.0)
    assert failing() == ["<error>"]
    observer.failed(WIDGETS, ListWatchError(403, "Forbidden"), 1.0)
    assert failing() == ["403"]
    observer.recovered(WIDGETS)
    observer.recovered(WIDGETS)
    assert failing() == []


def test_dropped_events_are_counted_by_predicate():
    metrics = Metrics()
    dropped = metrics.event_filter("w", WIDGETS)
    dropped("generation_changed")
    dropped("generation_changed")

    assert (
        'controller_events_filtered_total{controller="w",predicate="generation_changed",'
        'resource="widgets.v1.lab.test"} 2.0'
    ) in render(metrics)


def test_two_managers_metrics_are_apart():
    first, second = Metrics(), Metrics()
    first.request_answered("200", "GET", "host", 0.1)

    assert 'rest_client_requests_total{code="200",host="host",method="GET"} 1.0' in render(first)
    assert "rest_client_requests_total{" not in render(second)


def test_informers_tell_sizes_lists_watches_and_errors():
    metrics = Metrics()
    observer = metrics.informer(WIDGETS, "lab")
    observer.listed(WIDGETS, 2, "initial")
    observer.store_changed(WIDGETS, 2, 500)
    observer.watch_ended(WIDGETS, "expired")
    observer.failed(WIDGETS, OSError("x"), 1.0)
    observer.handler_failed(WIDGETS, ObjectKey("", "a"), OSError("x"))
    text = render(metrics)

    labels = 'namespace="lab",resource="widgets.v1.lab.test"'
    for series in (
        f"informer_objects{{{labels}}} 2.0",
        f"informer_bytes{{{labels}}} 500.0",
        'informer_lists_total{namespace="lab",reason="initial",resource="widgets.v1.lab.test"} 1.0',
        'reason="expired",resource="widgets.v1.lab.test"} 1.0',
        f"informer_errors_total{{{labels}}} 1.0",
        f"informer_handler_errors_total{{{labels}}} 1.0",
    ):
        assert series in text
