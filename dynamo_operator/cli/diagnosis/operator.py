"""Whether the API server is new enough, and the operator there and well."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Final

from dynamo_operator.cli.diagnosis.findings import Finding, Severity, Subject
from dynamo_operator.cli.diagnosis.installation import SELECTOR
from dynamo_operator.runtime.builtin_kinds import Lease, Pod
from dynamo_operator.runtime.client.codec import decode_json
from informers.objects import ObjectKey
from reconcilers.run.outcome import pod_problem

_OLDEST: Final = (1, 30)
_INSTALL: Final = (
    "helm install dynamo-operator manifests/chart -n dynamo-operator-system --create-namespace,"
    " or run `dynamo-operator start` on this machine"
)


async def check_api_server(subject: Subject) -> AsyncIterator[Finding]:
    """Its version."""
    document = decode_json((await subject.client.request("GET", "/version")).body)
    told = str(document.get("gitVersion", "")) if isinstance(document, dict) else ""
    found = re.match(r"v(\d+)\.(\d+)", told)
    if found is None:
        yield Finding("server", Severity.WARNING, f"its version {told!r} cannot be read")
    elif (int(found[1]), int(found[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        yield Finding(
            "API server",
            Severity.PROBLEM,
            f"Kubernetes {told} is too old",
            f"upgrade the cluster to {oldest} or newer",
        )
    else:
        yield Finding("server", Severity.OK, f"Kubernetes {told}")


async def check_operator(subject: Subject) -> AsyncIterator[Finding]:
    """The Deployment, its Pods, who leads, and its release."""
    installation = subject.installation
    if installation is None:
        yield Finding("operator", Severity.PROBLEM, "no operator is deployed", _INSTALL)
        return
    where = f"Deployment {installation.deployment.key}"
    if installation.settings_problem:
        yield Finding(
            "operator",
            Severity.PROBLEM,
            f"{where}: {installation.settings_problem}",
            "correct the settings; docs/configuration.md lists them",
        )
    for other in installation.others:
        yield Finding(
            "operator",
            Severity.WARNING,
            f"Deployment {other.key} is another operator beside {where}",
            "keep one of them for each namespace; --operator-namespace examines the other",
        )
    yield await _availability(subject, where)
    ours, (_, _, tag) = version("dynamo-operator"), installation.image.rpartition(":")
    if tag != ours:
        yield Finding(
            "operator",
            Severity.WARNING,
            f"{where} runs {installation.image}, this command is of release {ours}",
            "use the command of the same release, or upgrade the operator",
        )


async def _availability(subject: Subject, where: str) -> Finding:
    installation = subject.installation
    assert installation is not None, "whoever calls has looked"
    deployment = installation.deployment
    wanted = deployment.spec.get("replicas", 1)
    available = deployment.status.get("availableReplicas") or 0
    told = f"{where}: {available} of {wanted} Pods are available"
    if available:
        holder = await _leader(subject)
        leads = f", {holder} leads" if holder else ""
        severity = Severity.OK if available >= wanted else Severity.WARNING
        return Finding("operator", severity, told + leads)
    pods = await subject.client.list(Pod, namespace=installation.namespace, labels=SELECTOR)
    whys = [f"{pod.key.name}: {why}" for pod in pods if (why := pod_problem(pod))]
    return Finding(
        "operator",
        Severity.PROBLEM,
        "; ".join([told, *whys]),
        f"kubectl -n {installation.namespace} describe pods -l"
        f" {','.join(f'{name}={value}' for name, value in SELECTOR.items())}",
    )


async def _leader(subject: Subject) -> str:
    installation = subject.installation
    if installation is None or installation.settings is None:
        return ""
    chosen = installation.settings.leader_election
    key = ObjectKey(chosen.namespace or installation.namespace, chosen.id)
    lease = await subject.client.find(Lease, key)
    return str(lease.spec.get("holderIdentity") or "") if lease else ""
