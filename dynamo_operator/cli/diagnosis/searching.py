"""What a search needs beside the operator: GPUs to size for, pull secrets, a policy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from dynamo_operator.api.labels import PART_OF_LABEL
from dynamo_operator.api.v1beta1 import DynamoGraphDeployment
from dynamo_operator.cli.diagnosis.findings import Finding, Severity, Subject
from dynamo_operator.generate.layout import NAME
from dynamo_operator.hardware.discovery import GpuDiscovery
from dynamo_operator.hardware.inventory import GpuDiscoveryError, unknown_product_message
from dynamo_operator.runtime.builtin_kinds import Secret
from dynamo_operator.runtime.client.discovery import Discovery
from dynamo_operator.runtime.client.errors import ForbiddenError, NotFoundError
from dynamo_operator.runtime.client.paths import object_path
from informers.objects import ObjectKey, ResourceType

_GRAPHS: Final = "graphs"
_GPUS: Final = "gpus"
_SECRETS: Final = "pull-secrets"
_POLICY: Final = "policy"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_NAME_HARDWARE: Final = "name spec.hardware.gpu.sku and .budget in every Request"
_BINDINGS: Final = ResourceType(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)


async def check_graphs(subject: Subject) -> AsyncIterator[Finding]:
    """Whether Candidates can be deployed here; searching does without."""
    kind = DynamoGraphDeployment.resource_type
    if await Discovery(subject.client).supports(DynamoGraphDeployment):
        yield Finding(_GRAPHS, Severity.OK, f"{kind.api_version} {kind.kind} is served")
        return
    yield Finding(
        _GRAPHS,
        Severity.WARNING,
        f"{kind.api_version} {kind.kind} is not served: nothing can be deployed in this cluster",
        "install NVIDIA's Dynamo operator, or `candidate deploy --context` where it is",
    )


async def check_gpus(subject: Subject) -> AsyncIterator[Finding]:
    """What node labels tell; exporters are the operator's to ask, from inside the cluster."""
    if not subject.searches:
        return
    settings = subject.installation.settings if subject.installation else None
    fallback = settings.fallback_gpus_per_node if settings else None
    discovery = GpuDiscovery(subject.client, fetch=None, clock=subject.clock)
    try:
        inventory = await discovery.discover()
    except GpuDiscoveryError as error:
        if fallback is not None:
            told = f"{error}; {fallback} GPUs a node are assumed (fallbackGpusPerNode)"
            yield Finding(_GPUS, Severity.OK, told, _NAME_HARDWARE)
            return
        mend = (
            "install NVIDIA's GPU feature discovery or DCGM exporter; or set fallbackGpusPerNode"
            f" and {_NAME_HARDWARE}"
        )
        yield Finding(_GPUS, Severity.PROBLEM, str(error), mend)
        return
    if inventory.sku is None:
        told = unknown_product_message(inventory)
        yield Finding(_GPUS, Severity.WARNING, told, _NAME_HARDWARE)
        return
    notes = "".join(f"; {note}" for note in inventory.notes)
    told = f"{inventory.total} x {inventory.sku}, up to {inventory.gpus_per_node} a node{notes}"
    yield Finding(_GPUS, Severity.OK, told)


async def check_pull_secrets(subject: Subject) -> AsyncIterator[Finding]:
    """Whether the Secrets that Runs pull with are where Requests are made; content is not read."""
    settings = subject.installation.settings if subject.installation else None
    if settings is None or not subject.searches:
        return
    if not settings.image_pull_secrets:
        yield Finding(_SECRETS, Severity.OK, "Runs pull without any (imagePullSecrets is empty)")
        return
    missing = 0
    for name in settings.image_pull_secrets:
        path = object_path(Secret.resource_type, ObjectKey(subject.namespace, name))
        try:
            await subject.client.request("GET", path, accept=_METADATA)
        except NotFoundError:
            missing += 1
            yield Finding(
                _SECRETS,
                Severity.PROBLEM,
                f"Secret {subject.namespace}/{name} is missing: Runs of this namespace wait for it",
                f"kubectl -n {subject.namespace} create secret docker-registry {name}"
                " --docker-server=... --docker-username=... --docker-password=...",
            )
    if not missing:
        listed = ", ".join(settings.image_pull_secrets)
        yield Finding(_SECRETS, Severity.OK, f"{listed} is in namespace {subject.namespace}")


async def check_policy(subject: Subject) -> AsyncIterator[Finding]:
    """Whether publishers are held to their own Run."""
    if not subject.searches:
        return
    try:
        found = await subject.client.list(_BINDINGS, labels={PART_OF_LABEL: NAME})
    except ForbiddenError as error:
        yield Finding(_POLICY, Severity.UNKNOWN, error.message)
        return
    if found:
        yield Finding(_POLICY, Severity.OK, "publishers are held to their own Run")
        return
    yield Finding(
        _POLICY,
        Severity.WARNING,
        "no ValidatingAdmissionPolicyBinding of ours: a publisher could write another Run's status",
        "helm upgrade, or kubectl apply --server-side -k manifests/policy",
    )
