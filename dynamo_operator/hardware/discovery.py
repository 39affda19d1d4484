"""Asks the cluster for its GPUs: DCGM exporters and node labels, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, TypeVar

from dynamo_operator.hardware.dcgm import read_metrics
from dynamo_operator.hardware.inventory import (
    GpuInventory,
    NodeGpus,
    Survey,
    take_inventory,
    topology,
)
from dynamo_operator.hardware.node_labels import survey_nodes
from dynamo_operator.runtime.builtin_kinds import Node, Pod
from dynamo_operator.runtime.client import Reader
from dynamo_operator.runtime.client.errors import ClientError, ForbiddenError
from dynamo_operator.runtime.error_policy import asked_pause
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.permissions import Permission
from informers.clock import Clock

M = TypeVar("M", bound=KubeModel)

DISCOVERY_SECONDS: Final = 6.0
SCRAPE_SECONDS: Final = 5.0
CACHE_SECONDS: Final = 60.0

EXPORTER_SELECTORS: Final = (
    {"app": "nvidia-dcgm-exporter"},
    {"app": "dcgm-exporter"},
    {"app.kubernetes.io/name": "dcgm-exporter"},
)
DEFAULT_ENDPOINT: Final = "http://{POD_IP}:9400/metrics"
GPU_DISCOVERY_ROLE: Final = "dynamo-operator-gpu-discovery"

PERMISSIONS: Final = (
    Permission("", ("nodes",), ("list",), cluster_wide=True),
    Permission("", ("pods",), ("list",), cluster_wide=True),
)
"""What discovery reads, in all namespaces; it is a role of its own, so that it can be withheld."""

_OFF: Final = "the operator's setting gpu.discoveryEnabled is off"

Fetch = Callable[[str], Awaitable[str]]
"""GETs a URL and returns the text; raises a ClientError, also for a status other than 200."""


class GpuDiscovery:
    """Finds the cluster's GPUs; successes are kept for a minute, and all who ask share one look.

    Args:
        reader: lists Nodes, and Pods of all namespaces.
        fetch: scrapes an exporter; None leaves metrics out.
        clock: ages the cache.
        endpoint: URL of an exporter; `{POD_IP}` stands for its Pod's address.
        enabled: False: nothing is ever asked, and nothing found.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        fetch: Fetch | None,
        clock: Clock,
        endpoint: str = DEFAULT_ENDPOINT,
        enabled: bool = True,
    ) -> None:
        self._reader = reader
        self._fetch = fetch
        self._clock = clock
        self._endpoint = endpoint
        self._enabled = enabled
        self._known: tuple[float, Survey] | None = None
        self._looking: asyncio.Future[Survey | None] | None = None
        self._refusals: dict[type[KubeModel], tuple[float, ClientError]] = {}

    async def discover(self, *, sku: str | None = None) -> GpuInventory:
        """Return the GPUs to search on.

        Args:
            sku: count only this product of the catalogue.

        Raises:
            GpuDiscoveryError: nothing usable was found.
        """
        return take_inventory(await self._survey(), sku=sku)

    async def gpus_per_node(self) -> int:
        """Return the GPUs of the best node, whatever its product.

        Raises:
            GpuDiscoveryError: no node with GPUs was found.
        """
        return topology(await self._survey())

    async def _survey(self) -> Survey:
        """Return what is known, or look: once, however many ask meanwhile."""
        if not self._enabled:
            return Survey((), (_OFF,))
        while True:
            if self._known is not None and self._clock.monotonic() - self._known[0] < CACHE_SECONDS:
                return self._known[1]
            if self._looking is None:
                return await self._look_for_all()
            # Nothing came of it if whoever looked was cancelled: look again then.
            if (found := await asyncio.shield(self._looking)) is not None:
                return found

    async def _look_for_all(self) -> Survey:
        """Look, and tell those who wait for it."""
        self._looking = looking = asyncio.get_running_loop().create_future()
        found: Survey | None = None
        try:
            found = await self._look()
            return found
        finally:
            self._looking = None
            looking.set_result(found)

    async def _look(self) -> Survey:
        async with asyncio.TaskGroup() as group:
            metrics = group.create_task(_in_time(self._survey_metrics(), "DCGM exporters"))
            labels = group.create_task(_in_time(self._survey_labels(), "node labels"))
        found = _preferred(metrics.result(), labels.result())
        if found.nodes:
            self._known = (self._clock.monotonic(), found)
        return found

    async def _survey_labels(self) -> Survey:
        try:
            return survey_nodes(await self._list(Node))
        except ClientError as error:
            return Survey((), (_failure("list nodes", error),))

    async def _survey_metrics(self) -> Survey:
        if self._fetch is None:
            return Survey(())
        try:
            pods = await self._exporters()
        except ClientError as error:
            return Survey((), (_failure("list pods in all namespaces", error),))
        if not pods:
            return Survey((), ("no DCGM exporter is running",))
        async with asyncio.TaskGroup() as group:
            scrapes = [group.create_task(self._scrape(pod, self._fetch)) for pod in pods]
        return _merged(scrape.result() for scrape in scrapes)

    async def _exporters(self) -> list[Pod]:
        found: dict[tuple[str, str], Pod] = {}
        for selector in EXPORTER_SELECTORS:
            for pod in await self._list(Pod, labels=selector):
                if pod.status.get("phase") == "Running" and pod.status.get("podIP"):
                    found[pod.key.namespace, pod.key.name] = pod
        return [found[key] for key in sorted(found)]

    async def _list(self, kind: type[M], *, labels: Mapping[str, str] | None = None) -> list[M]:
        """List objects of all namespaces; a refusal holds for as long as the server asked for."""
        until, refusal = self._refusals.get(kind, (0.0, None))
        if refusal is not None and self._clock.monotonic() < until:
            raise refusal.with_traceback(None)
        try:
            return await self._reader.list(kind, labels=labels)
        except ClientError as error:
            self._refusals[kind] = self._clock.monotonic() + asked_pause(error), error
            raise

    async def _scrape(self, pod: Pod, fetch: Fetch) -> Survey:
        address = str(pod.status["podIP"])
        url = self._endpoint.replace("{POD_IP}", f"[{address}]" if ":" in address else address)
        where = f"exporter {pod.key} at {url}"
        try:
            async with asyncio.timeout(SCRAPE_SECONDS):
                text = await fetch(url)
        except TimeoutError:
            return Survey((), (f"{where}: no answer in {SCRAPE_SECONDS:.0f} s",))
        except (ClientError, OSError) as error:
            return Survey((), (f"{where}: {error}",))
        nodes = read_metrics(text, node=str(pod.spec.get("nodeName", "")))
        return Survey(nodes) if nodes else Survey((), (f"{where}: reports no whole GPU",))


async def _in_time(survey: Coroutine[Any, Any, Survey], what: str) -> Survey:
    try:
        async with asyncio.timeout(DISCOVERY_SECONDS):
            return await survey
    except TimeoutError:
        return Survey((), (f"{what}: no answer in {DISCOVERY_SECONDS:.0f} s",))


def _preferred(metrics: Survey, labels: Survey) -> Survey:
    """Metrics first; where neither found anything, the reasons of both."""
    if metrics.nodes:
        return metrics
    if labels.nodes:
        return labels
    return Survey((), (*metrics.skipped, *labels.skipped))


def _merged(surveys: Iterator[Survey]) -> Survey:
    nodes: dict[tuple[str, str], NodeGpus] = {}
    skipped: list[str] = []
    for survey in surveys:
        skipped.extend(survey.skipped)
        for found in survey.nodes:
            nodes.setdefault((found.node, found.product), found)
    return Survey(tuple(nodes[key] for key in sorted(nodes)), tuple(skipped))


def _failure(what: str, error: ClientError) -> str:
    if isinstance(error, ForbiddenError):
        return f"may not {what} ({error.message}): bind the role {GPU_DISCOVERY_ROLE}"
    return f"could not {what}: {error}"
