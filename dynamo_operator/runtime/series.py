"""Series that are plain numbers until somebody scrapes.

prometheus-client's own take a lock and check their arguments with each call, which one event loop
needs not; with some thirty calls for a reconcile that was a tenth of all its time. And to load that
library is a tenth of a controller's start: only who scrapes needs it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class Number:
    """One series of a counter or a gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0.0

    def inc(self) -> None:
        """Add one."""
        self.value += 1.0

    def dec(self) -> None:
        """Subtract one."""
        self.value -= 1.0

    def set(self, value: float) -> None:
        """Set it."""
        self.value = value


class Distribution:
    """One series of a histogram.

    Args:
        bounds: upper bounds of the buckets, rising, each inclusive; one without follows.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Sequence[float] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.sum: float = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


S = TypeVar("S", Number, Distribution)


class _Family(Generic[S]):
    """The series of one name, by their labels' values."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        make: Callable[[], S],
    ) -> None:
        self._name = name
        self._text = text
        self._labels = tuple(labels)
        self._make: Callable[[], S] = make
        self._series: dict[tuple[str, ...], S] = {}
        if not labels:
            self.labels()

    def labels(self, *values: str) -> S:
        """Return the series of these labels, which exists from now on.

        Raises:
            ValueError: there are more or fewer values than labels.
        """
        series = self._series.get(values)
        if series is None:
            if len(values) != len(self._labels):
                raise ValueError(f"{self._name}: got {len(values)} values for {self._labels}")
            series = self._series[values] = self._make()
        return series

    def remove(self, *values: str) -> None:
        """Have the series of these labels exist no more."""
        self._series.pop(values, None)

    def collect(self) -> Iterable[Metric]:
        """Yield what prometheus-client writes out."""
        raise NotImplementedError


class NumberFamily(_Family[Number]):
    """A counter or a gauge.

    Args:
        name: of a counter it ends in `_total`.
        text: its help.
        labels: their names; without any there is one series, from the start.
    """

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        super().__init__(name, text, labels, Number)

    @property
    def total(self) -> float:
        """What all series come to."""
        return sum(number.value for number in self._series.values())

    def collect(self) -> Iterable[Metric]:
        """Yield what prometheus-client writes out."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        kind = CounterMetricFamily if self._name.endswith("_total") else GaugeMetricFamily
        family = kind(self._name, self._text, labels=self._labels)
        for labels, number in self._series.items():
            family.add_metric(labels, number.value)
        yield family


class DistributionFamily(_Family[Distribution]):
    """A histogram.

    Args:
        name: its name.
        text: its help.
        bounds: upper bounds of the buckets but the last, rising.
        labels: their names; without any there is one series, from the start.
    """

    def __init__(
        self,
        name: str,
        text: str,
        bounds: Sequence[float],
        labels: Sequence[str],
    ) -> None:
        self._bounds = tuple(map(float, bounds))
        super().__init__(name, text, labels, lambda: Distribution(self._bounds))

    def collect(self) -> Iterable[Metric]:
        """Yield what prometheus-client writes out."""
        from prometheus_client.metrics_core import HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        texts = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, series in self._series.items():
            buckets = list(zip(texts, accumulate(map(float, series.counts)), strict=True))
            family.add_metric(labels, buckets, series.sum)
        yield family
