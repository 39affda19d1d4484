"""The operator's settings, all of them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dynamo_operator.admission.validation import EffectiveInputPolicy
from dynamo_operator.images import PUBLIC_PLANNER_IMAGE
from dynamo_operator.settings.leader_election import LeaderElectionSettings
from dynamo_operator.settings.logging import LoggingSettings
from dynamo_operator.settings.server import ServerSettings
from reconcilers import run
from reconcilers.pool_relay import RelaySettings


class WebhookMode(StrEnum):
    """Whether webhooks are served, and whose certificate with."""

    OFF = "off"
    AUTO = "auto"
    MANUAL = "manual"


class DiscoverySettings(BaseModel):
    """How workers of a DynamoGraphDeployment find each other.

    Args:
        backend: of workers whose DynamoGraphDeployment names none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str = "kubernetes"


class GpuSettings(BaseModel):
    """How the operator learns of GPUs.

    Args:
        discovery_enabled: whether it looks at the nodes and DCGM exporters of the whole cluster;
            null: unless it watches some namespaces only. Where it does not, Requests name their
            hardware, and fallbackGpusPerNode says what the nodes have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    discovery_enabled: bool | None = None


class FeatureGates(BaseModel):
    """Which parts of the operator work.

    Args:
        dgdr_v1_beta2: Requests, Runs and Candidates: their controllers and webhooks. Without it the
            operator runs DynamoPoolRelays only, and needs none of these kinds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dgdr_v1_beta2: bool = True


class OperatorSettings(BaseModel):
    """What whoever installs the operator decides.

    Args:
        dgdr_default_image: planner image of every Run.
        runtime_image_source: reference from which the backends' runtime images are derived;
            default the planner image when its tag names a Dynamo release, else the planner image
            of the bundled release.
        dynamo_version: MAJOR.MINOR.PATCH; default what the tag of the runtime image source says,
            else the bundled release.
        operator_image: image of the publisher: the operator's own.
        run_history_limit: terminal Runs kept for each Request.
        run_deadline_seconds: `activeDeadlineSeconds` of every Run's Job; null for none.
        fallback_gpus_per_node: GPUs per node to assume where no GPU node can be found; null waits.
        image_pull_secrets: Secrets that both containers of a Run pull with.
        discover_image_pull_secrets: whether they pull with every Secret of the Run's namespace that
            is for the registry of one of their images, too; this takes the right to read Secrets.
        planner: of every planner.
        publisher: of every publisher.
        pod_security: of every Run's Pod.
        discovery: of workers.
        gpu: how they are found.
        pool_relay: of every relay of a DynamoPoolRelay.
        watch_namespaces: where to work; empty for all namespaces.
        validate_effective_input: what becomes of a Request whose effective input AISimulate would
            refuse.
        webhooks: off; auto, with a certificate of the operator's own authority; or manual, with one
            from files. Without webhooks the Request controller completes and judges Requests alone.
        server: what is served, and where.
        leader_election: of the operator that is a process of its own.
        logging: of the operator that is a process of its own.
        feature_gates: which parts work.
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
    discover_image_pull_secrets: bool = False
    planner: run.PlannerSettings = run.PlannerSettings()
    publisher: run.PublisherSettings = run.PublisherSettings()
    pod_security: run.PodSecurity = run.PodSecurity()
    discovery: DiscoverySettings = DiscoverySettings()
    gpu: GpuSettings = GpuSettings()
    pool_relay: RelaySettings = RelaySettings()
    watch_namespaces: tuple[str, ...] = ()
    validate_effective_input: EffectiveInputPolicy = EffectiveInputPolicy.DENY
    webhooks: WebhookMode = WebhookMode.OFF
    server: ServerSettings = ServerSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    logging: LoggingSettings = LoggingSettings()
    feature_gates: FeatureGates = FeatureGates()

    @property
    def discovers_gpus(self) -> bool:
        """Whether the operator looks at nodes, which are the whole cluster's."""
        enabled = self.gpu.discovery_enabled
        return not self.watch_namespaces if enabled is None else enabled

    @model_validator(mode="after")
    def _have_a_certificate(self) -> OperatorSettings:
        if self.webhooks is WebhookMode.MANUAL and self.server.webhook.cert_dir is None:
            raise ValueError(
                "webhooks is manual: server.webhook.certDir must name the directory of tls.crt and "
                "tls.key"
            )
        if self.webhooks is WebhookMode.AUTO and self.watch_namespaces:
            raise ValueError(
                "webhooks is auto, which writes configurations of the whole cluster: must be "
                "manual or off beside watchNamespaces"
            )
        return self
