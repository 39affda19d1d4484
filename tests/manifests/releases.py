"""Releases of the chart on an API server, by helm itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynamo_operator.runtime.client import Client
from tests.manifests.rendering import CHART, NAMESPACE, RELEASE, require_helm

_OF_THE_CONTROL_PLANE = ("Event ", "ComponentStatus ", "ServiceAccount kube-system/")


@dataclass(frozen=True, slots=True)
class Answer:
    """What helm answered."""

    exit_code: int
    output: str
    error: str


@dataclass(frozen=True, slots=True)
class Helm:
    """Runs helm against one cluster.

    Args:
        kubeconfig: of an administrator.
        directory: for what helm keeps on this machine.
        release: what the commands are about.
    """

    kubeconfig: Path
    directory: Path
    release: str = RELEASE

    async def __call__(
        self, verb: str, *arguments: str, values: Mapping[str, Any] | None = None
    ) -> Answer:
        """Run one command on the release."""
        command = [str(require_helm()), verb, self.release, *arguments, "--namespace", NAMESPACE]
        if values is not None:
            command += ["--values", "-"]
        variables = {f"HELM_{it}_HOME": str(self.directory) for it in ("CACHE", "CONFIG", "DATA")}
        variables |= {"HELM_QPS": "1000", "HELM_BURST_LIMIT": "1000"}  # nobody else is there
        process = await asyncio.create_subprocess_exec(
            *command,
            env={"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.directory), **variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, error = await process.communicate(json.dumps(values or {}).encode())
        assert process.returncode is not None
        return Answer(process.returncode, output.decode(), error.decode())

    async def done(self, verb: str, *arguments: str, **more: Any) -> str:
        """Run one command that must succeed, and return what it tells."""
        answer = await self(verb, *arguments, **more)
        assert answer.exit_code == 0, answer.error
        return answer.output

    async def install(self, values: Mapping[str, Any] | None = None) -> str:
        """Install the chart."""
        return await self.done("install", str(CHART), "--create-namespace", values=values or {})

    async def refusal(self, values: Mapping[str, Any] | None = None) -> str:
        """Try to install the chart, which must fail, and return the line that helm tells."""
        answer = await self("install", str(CHART), "--create-namespace", values=values or {})
        assert answer.exit_code != 0, answer.output
        (line,) = [line for line in answer.error.splitlines() if line.startswith("Error: ")]
        return line


async def inventory(client: Client) -> set[str]:
    """Everything that an API server holds, but for what the control plane makes on its own."""
    found = set()
    for path in await _lists(client):
        body = json.loads((await client.request("GET", path)).body)
        kind = body["kind"].removesuffix("List")
        for item in body["items"]:
            metadata = item["metadata"]
            name = f"{kind} {metadata.get('namespace', '')}/{metadata['name']}"
            if not name.startswith(_OF_THE_CONTROL_PLANE):
                found.add(name)
    return found


async def _lists(client: Client) -> list[str]:
    """The paths of all resources that can be listed, each in its preferred version."""
    versions = ["/api/v1"]
    groups = json.loads((await client.request("GET", "/apis")).body)["groups"]
    versions += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups]
    return [
        f"{version}/{resource['name']}"
        for version in versions
        for resource in json.loads((await client.request("GET", version)).body)["resources"]
        if "list" in resource["verbs"] and "/" not in resource["name"]
    ]
