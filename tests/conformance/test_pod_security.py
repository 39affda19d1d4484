"""What Pod Security admission says of a whole namespace, and to the audit log."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dynamo_operator.runtime.builtin_kinds import Namespace, Pod, ServiceAccount
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.testing import Cluster
from tests.conformance.cases.pod_security import PREFIX, SAFE, container, pod, within

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_namespace_that_becomes_stricter_warns_of_the_pods_it_would_not_admit(
    cluster: Cluster, namespace: str
):
    await allow_pods(cluster.client, namespace)
    privileged = within(privileged=True, allowPrivilegeEscalation=None)
    for name, body in {
        "safe": pod(),
        "plain-b": pod(container(unsafe=True)),
        "plain-a": pod(container(unsafe=True)),
        "worse": pod(privileged),
        "host-a": pod(hostPID=True),
        "host-b": pod(hostPID=True),
        "host-c": pod(hostIPC=True),
    }.items():
        await cluster.client.create(Pod.new(name, namespace=namespace, **body))

    async def label(mode: str, level: str) -> list[str]:
        return await warned(cluster, namespace, {PREFIX + mode: level})

    found = await cluster.eventually(lambda: label("enforce", "restricted"), lambda w: len(w) == 4)
    assert found == [
        f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level'
        ' "restricted:latest"',
        "host-a (and 2 other pods): host namespaces",
        "plain-a (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities,"
        " runAsNonRoot != true, seccompProfile",
        "worse: privileged, allowPrivilegeEscalation != false",
    ]
    assert await label("warn", "restricted") == []
    assert len(await label("enforce", "baseline")) == 3
    assert await label("enforce", "privileged") == []
    assert await label("enforce-version", "v1.20") == []


async def test_the_audit_log_says_what_was_enforced_and_what_would_have_been_refused(
    cluster: Cluster, namespace: str
):
    if not cluster.has_own_server:
        pytest.skip("of a cluster that was there before, the audit log is not known")
    name = f"{namespace}-held"
    labels = {PREFIX + "enforce": "baseline", PREFIX + "audit": "restricted"}
    held = await cluster.client.create(Namespace.new(name, labels=labels))
    for each in (namespace, name):
        await allow_pods(cluster.client, each)
    plain, bad = container(unsafe=True), container(securityContext={**SAFE, "privileged": True})
    bad["securityContext"].pop("allowPrivilegeEscalation")

    await cluster.client.create(Pod.new("plain", namespace=name, **pod(plain)))
    with pytest.raises(ForbiddenError, match=r'violates PodSecurity "baseline:latest": privileged'):
        await cluster.client.create(Pod.new("bad", namespace=name, **pod(bad)))
    await cluster.client.create(Pod.new("unheld", namespace=namespace, **pod(bad)))

    await cluster.client.delete(Namespace, held.key)
    assert noted(cluster, name, "plain") == {
        "enforce-policy": "baseline:latest",
        "audit-violations": (
            'would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
            ' (container "main" must set securityContext.allowPrivilegeEscalation=false),'
            ' unrestricted capabilities (container "main" must set'
            ' securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container'
            ' "main" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container'
            ' "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or'
            ' "Localhost")'
        ),
    }
    assert noted(cluster, name, "bad") == {
        "enforce-policy": "baseline:latest",
        "audit-violations": (
            'would violate PodSecurity "restricted:latest": privileged (container "main" must not'
            " set securityContext.privileged=true), allowPrivilegeEscalation != false (container"
            ' "main" must set securityContext.allowPrivilegeEscalation=false)'
        ),
    }
    assert noted(cluster, namespace, "unheld") == {"enforce-policy": "privileged:latest"}


async def warned(cluster: Cluster, namespace: str, labels: dict[str, Any]) -> list[str]:
    """Label the namespace without keeping it so, and return the warnings."""
    response = await cluster.client.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}",
        query=[("dryRun", "All")],
        body=json.dumps({"metadata": {"labels": labels}}).encode(),
        content_type="application/merge-patch+json",
    )
    header = response.headers.get("warning", "")
    return [text.replace('\\"', '"') for text in re.findall(r'299 - "((?:[^"\\]|\\.)*)"', header)]


def noted(cluster: Cluster, namespace: str, name: str) -> dict[str, str]:
    """What Pod Security noted of the Pod's creation."""
    (entry,) = [
        entry
        for entry in cluster.audit.entries
        if (entry.verb, entry.resource, entry.namespace, entry.name)
        == ("create", "pods", namespace, name)
    ]
    return {
        key.removeprefix(PREFIX): value
        for key, value in entry.annotations.items()
        if key.startswith(PREFIX)
    }


async def allow_pods(client: Client, namespace: str) -> None:
    """Make the account that Pods of a new namespace are, which a controller also does."""
    await client.apply(ServiceAccount.new("default", namespace=namespace))
