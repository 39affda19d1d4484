"""An operator whose webhooks an API server calls, over TLS on the loopback interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dynamo_operator.app import build_manager
from dynamo_operator.generate.layout import IMAGE, NAMESPACE
from dynamo_operator.generate.webhooks import webhook_configurations
from dynamo_operator.local_cluster.cluster import LocalCluster
from dynamo_operator.runtime.builtin_kinds import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError, ConflictError, InvalidError
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.runtime.leader_election import LeaderElection
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.webhooks import UrlEndpoint
from dynamo_operator.settings import WEBHOOK_CONFIGURATION, OperatorSettings
from dynamo_operator.testing.cluster import Cluster
from dynamo_operator.testing.real_control_plane import free_ports
from informers.clock import SystemClock
from informers.objects import ObjectKey
from tests.main_job.manifests import KEY, KIND, SPEC, manifest, overrides

HOST = "127.0.0.1"
_HEALTH_ADDRESS = f"{HOST}:0"
CONFIGURATIONS: tuple[type[KubeModel], ...] = (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
CONFIGURATION_KEY = ObjectKey("", WEBHOOK_CONFIGURATION)


class ShiftedClock(SystemClock):
    """A clock that can be set to another day; it does not age things any faster."""

    shift = timedelta()

    def now(self) -> datetime:
        """The time of the day that it was set to."""
        return super().now() + self.shift


@dataclass(frozen=True, slots=True)
class Operated:
    """A cluster whose API server calls the operator's webhooks.

    Args:
        cluster: that it is in.
        manager: the operator.
        clock: dates the operator's certificates.
        port: where the webhooks are.
    """

    cluster: Cluster | LocalCluster
    manager: Manager
    clock: ShiftedClock
    port: int

    @property
    def client(self) -> Client:
        """An administrator's client."""
        return self.cluster.client

    async def create(self, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        """Create a Request, and return it as it is stored."""
        body = manifest(spec, namespace=KEY.namespace, **metadata)
        return await self.client.create(body, kind=KIND)

    async def replace(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Replace the Request's spec, and return the Request as it is stored."""
        while True:
            found = await self.client.get(KIND, KEY)
            try:
                return await self.client.replace({**found, "spec": spec}, kind=KIND)
            except ConflictError:
                continue  # the operator wrote the status

    async def readiness(self) -> str:
        """What /readyz says of each of its parts.

        Raises:
            TransportError: it is not ready.
        """
        port = self.manager.addresses[_HEALTH_ADDRESS]
        return await fetch_text(f"http://{HOST}:{port}/readyz?verbose")

    async def refusal(self, spec: dict[str, Any]) -> str:
        """Try to create a Request, and return the message that it is refused with."""
        try:
            await self.create(spec)
        except InvalidError as error:
            return error.message
        raise AssertionError("it was not refused")


def operator_settings(port: int, hosts: Sequence[str] = (), **more: Any) -> OperatorSettings:
    """The settings of an operator whose webhooks are at that port, in mode auto."""
    webhook = {
        "host": HOST,
        "port": port,
        "hosts": [HOST, *hosts],
        "namespace": NAMESPACE,
        "check_seconds": 0.2,
    }
    server = {"webhook": webhook, "health_probe": {"bind_address": HOST, "port": 0}}
    return OperatorSettings.model_validate(
        {"operator_image": IMAGE, "webhooks": "auto", "server": server, **more}
    )


async def install_configurations(client: Client, port: int) -> None:
    """Have the API server call that port, as the shipped manifests have it call the Service."""
    for kind, body in zip(
        CONFIGURATIONS, webhook_configurations(UrlEndpoint(f"https://{HOST}:{port}")), strict=True
    ):
        await client.apply(kind.model_validate(body), force=True)


async def remove_configurations(client: Client) -> None:
    """Have the API server call nobody."""
    for kind in CONFIGURATIONS:
        await client.delete(kind, CONFIGURATION_KEY)


@asynccontextmanager
async def webhooks_called(
    cluster: Cluster | LocalCluster,
    client: Client,
    *,
    hosts: Sequence[str] = (),
    leader_election: LeaderElection | None = None,
    **settings: Any,
) -> AsyncGenerator[Operated]:
    """Run the operator with webhooks, and wait until the API server calls both.

    Args:
        cluster: with our kinds, and the configurations not installed.
        client: the operator's.
        hosts: what the certificate is for, beside this one.
        leader_election: of the operator.
        settings: of the operator.
    """
    (port,) = free_ports(1)
    await install_configurations(cluster.client, port)
    clock = ShiftedClock()
    # A certificate that is to be renewed when the clock is set right.
    clock.shift = -timedelta(days=300)
    manager = build_manager(
        client,
        operator_settings(port, hosts, **settings),
        leader_election=leader_election,
        clock=clock,
    )
    try:
        async with manager.running():
            await Cluster.eventually(lambda: are_called(cluster.client), timeout=30)
            yield Operated(cluster, manager, clock, port)
    finally:
        await remove_configurations(cluster.client)


async def are_called(client: Client) -> bool:
    """Whether both webhooks have taken effect: the second one refuses, after the first."""
    probe = manifest(SPEC | overrides({"dgdr_run": None}), namespace=KEY.namespace, name="probe")
    try:
        await client.create(probe, kind=KIND, dry_run=True)
    except InvalidError as error:
        return "validate.v1beta2" in error.message
    except ApiError:
        return False
    return False
