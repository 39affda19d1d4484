"""The composition root: the only list of what the operator runs."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE, resolve_image_settings
from dynamo_operator.runtime import LeaderElection, Manager
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.runtime.leader_election import lease_permissions
from dynamo_operator.runtime.manager import MANAGER_PERMISSIONS
from dynamo_operator.runtime.permissions import Permission
from informers.clock import Clock, Random, SystemClock, system_random
from reconcilers import request, run

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
        watch_namespaces: where to work; empty for all namespaces.
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
    watch_namespaces: tuple[str, ...] = ()
    health_address: str | None = None
    metrics_address: str | None = None
    leader_election: LeaderElectionSettings = LeaderElectionSettings()


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
        ValueError: no Dynamo version can be told from the images and settings.
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
    request.add_to(manager, history_limit=settings.run_history_limit, gpus=gpus)
    run.add_to(manager, run_settings(settings), gpus=gpus)
    return manager


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
    """Return everything that the operator may do; the shipped roles are made from it.

    Args:
        image_pull_secrets: the Secrets that the setting of this name names; it may read these.
    """
    secrets = (run.pull_secret_permission(image_pull_secrets),) if image_pull_secrets else ()
    return (*MANAGER_PERMISSIONS, *request.PERMISSIONS, *run.PERMISSIONS, *secrets)


def leader_election_permissions() -> tuple[Permission, ...]:
    """Return what the operator may do in the namespace of its Lease."""
    return lease_permissions(LEASE_NAME)
