"""The composition root: the only list of what the operator runs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dynamo_operator.admission.validation import EffectiveInputPolicy
from dynamo_operator.admission.webhook import RequestAdmission
from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE, resolve_image_settings
from dynamo_operator.runtime import LeaderElection, Manager
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.runtime.leader_election import lease_permissions
from dynamo_operator.runtime.manager import MANAGER_PERMISSIONS
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.runtime.serving_certificate import ServingCertificate, TlsCertificate
from dynamo_operator.runtime.webhooks import (
    SecretCertificate,
    Webhooks,
    configuration_permissions,
    secret_permissions,
)
from informers.clock import Clock, Random, SystemClock, system_random
from informers.objects import ObjectKey
from reconcilers import pool_relay, request, run
from reconcilers.pool_relay import PoolRelaySettings, RelaySettings

STOP_SECONDS = 25.0
"""How long a stop waits for what is being done: the process is to be gone within 30 seconds."""


LEASE_NAME = "dynamo-operator.nvidia.com"
"""What every operator takes before it works, unless it is told another."""


class LeaderElectionSettings(BaseModel):
    """How one of several operators is chosen to work.

    Args:
        enabled: whether to work only while holding the Lease.
        id: name of the Lease.
        namespace: namespace of the Lease; default the operator's own, outside a cluster that of
            the shipped manifests, or if that is missing the context's.
        lease_seconds: how long others wait for a renewal before they take over.
        renew_deadline_seconds: how long without a renewal the operator works on.
        retry_seconds: how often the Lease is renewed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    id: str = LEASE_NAME
    namespace: str = ""
    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    @model_validator(mode="after")
    def _fit_together(self) -> LeaderElectionSettings:
        self.election(namespace=self.namespace or "default")
        return self

    def election(self, *, namespace: str, identity: str = "") -> LeaderElection:
        """Return what a manager is told.

        Args:
            namespace: where the Lease is if the settings do not say.
            identity: who this operator is; default the host's name.
        """
        return LeaderElection(
            self.id,
            self.namespace or namespace,
            identity=identity,
            lease_seconds=self.lease_seconds,
            renew_deadline_seconds=self.renew_deadline_seconds,
            retry_seconds=self.retry_seconds,
        )


WEBHOOK_SERVICE = "dynamo-operator-webhook"
WEBHOOK_SECRET = "dynamo-operator-webhook-certificate"
WEBHOOK_CONFIGURATION = "dynamo-operator"
"""What the shipped manifests call the webhooks' Service, Secret and both configurations."""


class WebhookMode(StrEnum):
    """Whether webhooks are served, and whose certificate with."""

    OFF = "off"
    AUTO = "auto"
    MANUAL = "manual"


class WebhookServerSettings(BaseModel):
    """Where webhooks are served, and what belongs to them in the cluster.

    Args:
        address: host:port, or :port on every interface.
        certificate_directory: of --webhooks=manual: holds tls.crt and tls.key, which are read again
            when they change.
        namespace: of the Service, and of the Secret of --webhooks=auto; default the operator's own,
            outside a cluster that of the shipped manifests.
        service: name of the Service by which API servers call; the certificate is for it.
        hosts: further names and addresses that the certificate is for.
        secret: name of the Secret that --webhooks=auto keeps authority and certificate in.
        configuration: name of the MutatingWebhookConfiguration and of the
            ValidatingWebhookConfiguration that --webhooks=auto has trust the authority.
        check_seconds: how often certificate and configurations are looked at.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = ":9443"
    certificate_directory: Path | None = None
    namespace: str = ""
    service: str = WEBHOOK_SERVICE
    hosts: tuple[str, ...] = ()
    secret: str = WEBHOOK_SECRET
    configuration: str = WEBHOOK_CONFIGURATION
    check_seconds: float = Field(default=10.0, gt=0)


class OperatorSettings(BaseModel):
    """What whoever installs the operator decides.

    Args:
        dgdr_default_image: planner image of every Run.
        runtime_image_source: reference from which the backends' runtime images are derived;
            default the planner image when its tag names a Dynamo release, else the planner image
            of the bundled release.
        dynamo_version: MAJOR.MINOR.PATCH; default what runtime_image_source's tag says, else the
            bundled release.
        operator_image: image of the publisher: the operator's own.
        run_history_limit: terminal Runs kept for each Request.
        run_deadline_seconds: `activeDeadlineSeconds` of every Run's Job.
        fallback_gpus_per_node: GPUs per node to assume where no GPU node can be found.
        image_pull_secrets: Secrets that both containers of a Run pull with.
        planner: of every planner.
        publisher: of every publisher.
        pod_security: of every Run's Pod.
        discovery_backend: how workers find each other whose DynamoGraphDeployment does not say.
        pool_relay: of every relay of a DynamoPoolRelay.
        watch_namespaces: where to work; empty for all namespaces.
        validate_effective_input: off, warn or deny: what becomes of a Request whose effective input
            AISimulate would refuse.
        webhooks: off; auto, with a certificate of the operator's own authority; or manual, with one
            from files. Without webhooks the Request controller completes and judges Requests alone.
        webhook_server: of webhooks that are not off.
        health_address: host:port of the probes; None serves none.
        metrics_address: host:port of the metrics; None serves none.
        leader_election: of the operator that is a process of its own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dgdr_default_image: str = PUBLIC_PLANNER_IMAGE
    runtime_image_source: str = ""
    dynamo_version: str = ""
    operator_image: str = Field(min_length=1)
    run_history_limit: int = Field(default=10, ge=1)
    run_deadline_seconds: int | None = Field(default=None, ge=1)
    fallback_gpus_per_node: int | None = Field(default=None, ge=1)
    image_pull_secrets: tuple[str, ...] = ()
    planner: run.PlannerSettings = run.PlannerSettings()
    publisher: run.PublisherSettings = run.PublisherSettings()
    pod_security: run.PodSecurity = run.PodSecurity()
    discovery_backend: str = "kubernetes"
    pool_relay: RelaySettings = RelaySettings()
    watch_namespaces: tuple[str, ...] = ()
    validate_effective_input: EffectiveInputPolicy = EffectiveInputPolicy.DENY
    webhooks: WebhookMode = WebhookMode.OFF
    webhook_server: WebhookServerSettings = WebhookServerSettings()
    health_address: str | None = None
    metrics_address: str | None = None
    leader_election: LeaderElectionSettings = LeaderElectionSettings()

    @model_validator(mode="after")
    def _have_a_certificate(self) -> OperatorSettings:
        if (
            self.webhooks is WebhookMode.MANUAL
            and self.webhook_server.certificate_directory is None
        ):
            raise ValueError(
                "webhooks is manual: webhook_server.certificate_directory must name the directory "
                "of tls.crt and tls.key"
            )
        if self.webhooks is WebhookMode.AUTO and self.watch_namespaces:
            raise ValueError(
                "webhooks is auto, which writes configurations of the whole cluster: must be "
                "manual or off beside watch_namespaces"
            )
        return self


def build_manager(
    client: Client,
    settings: OperatorSettings,
    *,
    leader_election: LeaderElection | None = None,
    clock: Clock | None = None,
    random: Random | None = None,
) -> Manager:
    """Make the operator: a manager with all of our controllers, not yet started.

    Args:
        client: speaks to the cluster, as the operator.
        settings: whose `leader_election` is for whoever makes it, and not looked at here.
        leader_election: compete for this Lease; by default none: the caller runs one operator.
        clock: time of everything inside.
        random: randomness of everything inside.

    Raises:
        ValueError: no Dynamo version can be told from the images and settings, or webhooks have no
            namespace for their Secret.
    """
    manager = Manager(
        client,
        namespaces=settings.watch_namespaces,
        health_address=settings.health_address,
        metrics_address=settings.metrics_address,
        graceful_shutdown_seconds=STOP_SECONDS,
        clock=clock or SystemClock(),
        random=random or system_random(),
        name="dynamo-operator",
        leader_election=leader_election,
    )
    gpus = GpuDiscovery(manager.uncached_reader, fetch=fetch_text, clock=manager.clock)
    policy = settings.validate_effective_input
    request.add_to(manager, history_limit=settings.run_history_limit, gpus=gpus, policy=policy)
    run.add_to(manager, run_settings(settings), gpus=gpus)
    pool_relay.add_to(
        manager,
        PoolRelaySettings(discovery_backend=settings.discovery_backend, relay=settings.pool_relay),
    )
    if settings.webhooks is not WebhookMode.OFF:
        webhook = RequestAdmission(gpus, policy=policy).webhook(
            namespaces=settings.watch_namespaces
        )
        server = settings.webhook_server
        certificate = _webhook_certificate(manager, settings)
        manager.add(Webhooks([webhook], certificate=certificate, address=server.address))
    return manager


def _webhook_certificate(manager: Manager, settings: OperatorSettings) -> TlsCertificate:
    server = settings.webhook_server
    if settings.webhooks is WebhookMode.MANUAL:
        directory = server.certificate_directory
        assert directory is not None, "the settings were validated"
        files = (directory / "tls.crt", directory / "tls.key")
        return ServingCertificate(*files, reload_seconds=server.check_seconds)
    if not server.namespace:
        raise ValueError("webhook_server.namespace is missing: where webhooks auto has its Secret")
    host = f"{server.service}.{server.namespace}.svc"
    return SecretCertificate(
        manager.unfenced_client,
        ObjectKey(server.namespace, server.secret),
        hosts=[host, *server.hosts],
        mutating=[server.configuration],
        validating=[server.configuration],
        check_every_seconds=server.check_seconds,
        clock=manager.clock,
        random=manager.random,
    )


def run_settings(settings: OperatorSettings) -> run.RunSettings:
    """Resolve images and version, which are frozen together into each Run."""
    images = resolve_image_settings(
        settings.dgdr_default_image,
        runtime_image_source=settings.runtime_image_source,
        dynamo_version=settings.dynamo_version,
    )
    return run.RunSettings(
        planner=run.ContainerImage(image=images.planner_image),
        publisher=run.ContainerImage(image=settings.operator_image),
        runtime_image_source=images.runtime_image_source,
        dynamo_version=images.dynamo_version,
        image_pull_secrets=settings.image_pull_secrets,
        planner_settings=settings.planner,
        publisher_settings=settings.publisher,
        pod_security=settings.pod_security,
        run_deadline_seconds=settings.run_deadline_seconds,
        fallback_gpus_per_node=settings.fallback_gpus_per_node,
    )


def permissions(*, image_pull_secrets: Sequence[str] = ()) -> tuple[Permission, ...]:
    """Return everything that the operator may do; the shipped role is made from it.

    Args:
        image_pull_secrets: the Secrets that the setting of this name names; it may read these.
    """
    secrets = (run.pull_secret_permission(image_pull_secrets),) if image_pull_secrets else ()
    return (
        *MANAGER_PERMISSIONS,
        *request.PERMISSIONS,
        *run.PERMISSIONS,
        *pool_relay.PERMISSIONS,
        *secrets,
    )


def leader_election_permissions() -> tuple[Permission, ...]:
    """Return what the operator may do in the namespace of its Lease."""
    return lease_permissions(LEASE_NAME)


def webhook_secret_permissions() -> tuple[Permission, ...]:
    """Return what webhooks of mode auto need in the operator's own namespace."""
    return secret_permissions(WEBHOOK_SECRET)


def webhook_configuration_permissions() -> tuple[Permission, ...]:
    """Return what webhooks of mode auto need of the cluster: to be trusted by it."""
    return configuration_permissions(
        mutating=[WEBHOOK_CONFIGURATION], validating=[WEBHOOK_CONFIGURATION]
    )
