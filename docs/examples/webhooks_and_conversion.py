"""A kind in two versions, with defaults, rules and conversion: an operator's webhooks in a page.

It needs a Service `tunnels-webhook` in front of port 9443, and may get and patch the objects named
`tunnels` below; the certificate is its own business. `manifests()` prints what to apply.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from dynamo_operator.runtime import KubeModel, KubeStruct, Manager
from dynamo_operator.runtime.client import Client, ClientConfig
from dynamo_operator.runtime.webhooks import (
    Admission,
    DeniedError,
    HubConversion,
    SecretCertificate,
    ServiceEndpoint,
    Spoke,
    Webhook,
    Webhooks,
    conversion_strategy,
    mutating_configuration,
    validating_configuration,
)
from informers.objects import ObjectKey, ResourceType

NAMESPACE = "tunnels-system"
SERVICE = ServiceEndpoint("tunnels-webhook", NAMESPACE)


class Peer(KubeStruct):
    """The other end."""

    host: str
    port: int = 51820


class TunnelSpec(KubeStruct):
    """What is wanted."""

    peer: Peer
    mtu: int | None = None


class Tunnel(KubeModel):
    """The version that is stored, and that everything else is converted through."""

    resource_type = ResourceType("net.example", "v1", "Tunnel", "tunnels")
    spec: TunnelSpec


class TunnelV1beta1(KubeModel):
    """An earlier version: the peer is one text."""

    resource_type = ResourceType("net.example", "v1beta1", "Tunnel", "tunnels")
    spec: dict[str, Any] = {}


def fill_in(tunnel: Tunnel, admission: Admission) -> Tunnel:
    """Complete what was left out; doing it again changes nothing."""
    if tunnel.spec.mtu is None:
        tunnel.spec.mtu = 1420
    return tunnel


def check(tunnel: Tunnel, admission: Admission) -> list[str]:
    """Deny what cannot work, warn of what may not."""
    mtu = tunnel.spec.mtu or 0
    if not 576 <= mtu <= 9000:
        raise DeniedError(f"spec.mtu: is {mtu}, must be 576 to 9000", code=422, reason="Invalid")
    return ["spec.mtu: above 1420, packets may be fragmented"] if mtu > 1420 else []


def check_change(new: Tunnel, old: Tunnel, admission: Admission) -> list[str]:
    """The peer is what a tunnel is: another one is another tunnel."""
    if new.spec.peer.host != old.spec.peer.host:
        raise DeniedError(f"spec.peer.host: must stay {old.spec.peer.host}")
    return check(new, admission)


def to_v1(old: TunnelV1beta1) -> Tunnel:
    """Part the text; metadata is carried over by itself."""
    host, _, port = str(old.spec.get("peer", "")).rpartition(":")
    spec = {"peer": {"host": host, "port": int(port)}}
    return Tunnel.new(old.metadata.name, spec={**spec, "mtu": old.spec.get("mtu")})


def from_v1(new: Tunnel) -> TunnelV1beta1:
    """The way back; nothing may get lost on it."""
    spec: dict[str, Any] = {"peer": f"{new.spec.peer.host}:{new.spec.peer.port}"}
    if new.spec.mtu is not None:
        spec["mtu"] = new.spec.mtu
    return TunnelV1beta1.new(new.metadata.name, spec=spec)


WEBHOOK = Webhook(Tunnel, default=fill_in, validate_create=check, validate_update=check_change)
CONVERSION = HubConversion(Tunnel, [Spoke(TunnelV1beta1, to_hub=to_v1, from_hub=from_v1)])


def manifests() -> list[dict[str, Any]]:
    """Return what has the API server call us; `caBundle` is filled in when we run."""
    return [
        mutating_configuration("tunnels", [WEBHOOK], SERVICE),
        validating_configuration("tunnels", [WEBHOOK], SERVICE),
        {"spec": {"conversion": conversion_strategy(SERVICE)}},  # of the CustomResourceDefinition
    ]


async def main() -> None:
    """Run the operator."""
    client = Client.connect(ClientConfig.load(environ=os.environ))
    manager = Manager(client, health_address=":8081")
    certificate = SecretCertificate(
        client,
        ObjectKey(NAMESPACE, "tunnels-webhook-cert"),
        hosts=[f"{SERVICE.name}.{NAMESPACE}.svc"],
        mutating=["tunnels"],
        validating=["tunnels"],
        converted=["tunnels.net.example"],
    )
    manager.add(Webhooks([WEBHOOK], conversions=[CONVERSION], certificate=certificate))
    try:
        await manager.run()
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
