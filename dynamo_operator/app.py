"""The composition root: the only list of what the operator runs."""

from __future__ import annotations

from collections.abc import Sequence

from dynamo_operator.admission.webhook import RequestAdmission
from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.images import resolve_image_settings
from dynamo_operator.runtime import (
    ACCESS_REVIEW_PERMISSIONS,
    AccessReviews,
    HttpServer,
    LeaderElection,
    Manager,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.runtime.leader_election import lease_permissions
from dynamo_operator.runtime.manager import MANAGER_PERMISSIONS
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.runtime.self_signed_certificate import SelfSignedCertificate
from dynamo_operator.runtime.serving_certificate import ServingCertificate, TlsCertificate
from dynamo_operator.runtime.webhooks import (
    SecretCertificate,
    Webhooks,
    configuration_permissions,
    secret_permissions,
)
from dynamo_operator.settings import (
    LEASE_NAME,
    WEBHOOK_CONFIGURATION,
    WEBHOOK_SECRET,
    MetricsSettings,
    OperatorSettings,
    WebhookMode,
)
from informers.clock import Clock, Random, SystemClock, system_random
from informers.objects import ObjectKey
from reconcilers import pool_relay, request, run
from reconcilers.pool_relay import PoolRelaySettings

STOP_SECONDS = 25.0
"""How long a stop waits for what is being done: the process is to be gone within 30 seconds."""


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
    probe, metrics = settings.server.health_probe, settings.server.metrics
    manager = Manager(
        client,
        namespaces=settings.watch_namespaces,
        health_address=probe.address,
        metrics_address=None if metrics.secure else metrics.address,
        graceful_shutdown_seconds=STOP_SECONDS,
        clock=clock or SystemClock(),
        random=random or system_random(),
        name="dynamo-operator",
        leader_election=leader_election,
    )
    if metrics.secure and metrics.address is not None:
        manager.add(_secure_metrics(manager, metrics))
    if settings.feature_gates.dgdr_v1_beta2:
        _add_searches(manager, settings)
    pool_relay.add_to(
        manager,
        PoolRelaySettings(discovery_backend=settings.discovery.backend, relay=settings.pool_relay),
    )
    return manager


def _add_searches(manager: Manager, settings: OperatorSettings) -> None:
    """Add what is done about Requests and Runs."""
    gpus = GpuDiscovery(
        manager.uncached_reader,
        fetch=fetch_text,
        clock=manager.clock,
        enabled=settings.discovers_gpus,
    )
    policy = settings.validate_effective_input
    request.add_to(manager, history_limit=settings.run_history_limit, gpus=gpus, policy=policy)
    run.add_to(manager, run_settings(settings), gpus=gpus)
    if settings.webhooks is not WebhookMode.OFF:
        webhook = RequestAdmission(gpus, policy=policy).webhook(
            namespaces=settings.watch_namespaces
        )
        certificate = _webhook_certificate(manager, settings)
        address = settings.server.webhook.address
        manager.add(Webhooks([webhook], certificate=certificate, address=address))


def _secure_metrics(manager: Manager, metrics: MetricsSettings) -> HttpServer:
    """Serve metrics to whom the cluster allows them."""
    certificate: TlsCertificate = (
        SelfSignedCertificate(clock=manager.clock)
        if metrics.cert_dir is None
        else ServingCertificate(metrics.cert_dir / "tls.crt", metrics.cert_dir / "tls.key")
    )
    assert metrics.address is not None, "whoever calls has looked"
    server = HttpServer(metrics.address, certificate=certificate)
    reviews = AccessReviews(manager.unfenced_client, clock=manager.clock)
    server.route("GET", "/metrics", reviews.guard(manager.metrics.answer))
    return server


def _webhook_certificate(manager: Manager, settings: OperatorSettings) -> TlsCertificate:
    server = settings.server.webhook
    if settings.webhooks is WebhookMode.MANUAL:
        directory = server.cert_dir
        assert directory is not None, "the settings were validated"
        files = (directory / "tls.crt", directory / "tls.key")
        return ServingCertificate(*files, reload_seconds=server.check_seconds)
    if not server.namespace:
        raise ValueError("server.webhook.namespace is missing: where webhooks auto has its Secret")
    host = f"{server.service_name}.{server.namespace}.svc"
    return SecretCertificate(
        manager.unfenced_client,
        ObjectKey(server.namespace, server.secret_name),
        hosts=[host, *server.hosts],
        mutating=[server.configuration_name],
        validating=[server.configuration_name],
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
        discover_image_pull_secrets=settings.discover_image_pull_secrets,
        planner_settings=settings.planner,
        publisher_settings=settings.publisher,
        pod_security=settings.pod_security,
        run_deadline_seconds=settings.run_deadline_seconds,
        fallback_gpus_per_node=settings.fallback_gpus_per_node,
    )


def permissions(
    *,
    image_pull_secrets: Sequence[str] = (),
    discover_image_pull_secrets: bool = False,
    dgdr_v1_beta2: bool = True,
) -> tuple[Permission, ...]:
    """Return everything that the operator may do; the shipped role is made from it.

    Args:
        image_pull_secrets: the Secrets that the setting of this name names; it may read these.
        discover_image_pull_secrets: the setting of this name; it may read all Secrets then.
        dgdr_v1_beta2: the feature gate of this name.
    """
    named = (run.pull_secret_permission(image_pull_secrets),) if image_pull_secrets else ()
    secrets = (*named, *(run.DISCOVERY_OF_PULL_SECRETS if discover_image_pull_secrets else ()))
    searches = (*request.PERMISSIONS, *run.PERMISSIONS, *secrets) if dgdr_v1_beta2 else ()
    return (*MANAGER_PERMISSIONS, *searches, *pool_relay.PERMISSIONS)


def metrics_permissions() -> tuple[Permission, ...]:
    """Return what secure metrics need: to ask whose a token is, and what that user may."""
    return ACCESS_REVIEW_PERMISSIONS


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
