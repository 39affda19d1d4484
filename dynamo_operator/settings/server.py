"""What the operator serves, and where: metrics, probes and webhooks."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

WEBHOOK_SERVICE: Final = "dynamo-operator-webhook"
WEBHOOK_SECRET: Final = "dynamo-operator-webhook-certificate"
WEBHOOK_CONFIGURATION: Final = "dynamo-operator"
"""What the shipped manifests call the webhooks' Service, Secret and both configurations."""

Port = Annotated[int, Field(ge=0, le=65535)]


class MetricsSettings(BaseModel):
    """Where Prometheus finds /metrics.

    Args:
        bind_address: address to listen on; empty for every interface.
        port: to listen on, 0 for a free one; null serves no metrics.
        secure: serve TLS, to callers whose token the cluster knows and allows to get /metrics.
            Without it the bind address must be one of this machine's alone, e.g. 127.0.0.1.
        cert_dir: holds tls.crt and tls.key of the secure metrics, read again when they change;
            default a certificate that the operator makes at its start, and nobody can verify.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bind_address: str = ""
    port: Port | None = None
    secure: bool = True
    cert_dir: Path | None = None

    @model_validator(mode="after")
    def _plain_at_home_only(self) -> MetricsSettings:
        if self.port is not None and not self.secure and not _is_loopback(self.bind_address):
            raise ValueError(
                f"secure is false: bind address {self.bind_address!r} must be a loopback address, "
                "e.g. 127.0.0.1"
            )
        return self

    @property
    def address(self) -> str | None:
        """host:port, or None to serve none."""
        return _address(self.bind_address, self.port)


class HealthProbeSettings(BaseModel):
    """Where the kubelet finds /healthz and /readyz.

    Args:
        bind_address: address to listen on; empty for every interface.
        port: to listen on, 0 for a free one; null serves no probes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bind_address: str = ""
    port: Port | None = None

    @property
    def address(self) -> str | None:
        """host:port, or None to serve none."""
        return _address(self.bind_address, self.port)


class WebhookSettings(BaseModel):
    """Where webhooks are served, and what belongs to them in the cluster.

    Args:
        host: address to listen on; empty for every interface.
        port: to listen on; 0 for a free one.
        cert_dir: of webhooks manual: holds tls.crt and tls.key, which are read again when they
            change.
        namespace: of the Service, and of the Secret of webhooks auto; default the operator's own,
            outside a cluster that of the shipped manifests.
        service_name: Service by which API servers call; the certificate is for it.
        hosts: further names and addresses that the certificate is for.
        secret_name: Secret that webhooks auto keep authority and certificate in.
        configuration_name: MutatingWebhookConfiguration and ValidatingWebhookConfiguration that
            webhooks auto have trust the authority.
        check_seconds: how often certificate and configurations are looked at.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = ""
    port: Port = 9443
    cert_dir: Path | None = None
    namespace: str = ""
    service_name: str = WEBHOOK_SERVICE
    hosts: tuple[str, ...] = ()
    secret_name: str = WEBHOOK_SECRET
    configuration_name: str = WEBHOOK_CONFIGURATION
    check_seconds: float = Field(default=10.0, gt=0)

    @property
    def address(self) -> str:
        """host:port."""
        return f"{_bracketed(self.host)}:{self.port}"


class ServerSettings(BaseModel):
    """What the operator serves.

    Args:
        metrics: for Prometheus.
        health_probe: for the kubelet.
        webhook: for API servers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics: MetricsSettings = MetricsSettings()
    health_probe: HealthProbeSettings = HealthProbeSettings()
    webhook: WebhookSettings = WebhookSettings()


def _address(host: str, port: int | None) -> str | None:
    return None if port is None else f"{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
