"""Everything that is rendered is valid to a real API server, and by its schemas."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition, Namespace
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError, NotFoundError
from dynamo_operator.testing.polling import eventually
from hack.go_programs import ProgramMissingError
from hack.manifest_tools import kubeconform
from hack.manifest_tools.foreign_crds import foreign_crds
from tests.manifests.crds import remove_crds
from tests.manifests.rendering import NAMESPACE
from tests.manifests.schemas import LOCATION, write_schemas
from tests.manifests.sources import all_sources

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

Objects = list[dict[str, Any]]

NAMESPACES = {NAMESPACE: "restricted", "team-a": "restricted", "team-b": "baseline"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Objects]:
    return all_sources(tmp_path_factory.mktemp("sources"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(admin: Client) -> AsyncIterator[Client]:
    """An administrator's client of a server with our CRDs and those of others, and namespaces."""
    try:
        files = foreign_crds(download=False)
    except ProgramMissingError as missing:
        pytest.skip(f"{missing}: run hack/install_manifest_tools")
    for crd in custom_resource_definitions():
        await admin.apply(CustomResourceDefinition.model_validate(crd), force=True)
    for file in files:
        name = ".".join(reversed(file.stem.split("_")))
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        await applied(admin, path, file.read_bytes())
    for name, level in NAMESPACES.items():
        labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
        await admin.apply(Namespace.new(name, labels=labels), force=True)
    served = "/apis/monitoring.coreos.com/v1/servicemonitors"
    await eventually(lambda: admin.request("GET", served), timeout=30)
    await eventually(lambda: admin.request("GET", "/apis/cert-manager.io/v1/issuers"), timeout=30)
    yield admin
    await remove_crds(admin)


async def applied(client: Client, path: str, body: bytes) -> str:
    """Apply one object, strictly; return what the server warns of."""
    query = [("fieldManager", "test"), ("force", "true"), ("fieldValidation", "Strict")]
    answer = await client.request(
        "PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml"
    )
    return answer.headers.get("warning", "")


async def test_a_real_api_server_takes_everything_without_a_warning(
    client: Client, sources: dict[str, Objects]
):
    """Applied for real, one source after the other, with field validation that is strict."""
    resources = await plural_names(client)
    problems: list[str] = []
    paths: dict[str, str] = {}
    for name, objects in sources.items():
        for obj in objects:
            text = json.dumps(obj, sort_keys=True)
            if text in paths:
                continue
            path = paths[text] = path_of(obj, resources)
            if obj["kind"] == "Deployment":  # its selector is another one in another source
                await removed(client, path)
            try:
                warning = await applied(client, path, text.encode())
            except ApiError as error:
                warning = str(error)
            if warning:
                problems.append(f"{name}: {obj['kind']} {obj['metadata']['name']}: {warning}")
    for path in reversed(paths.values()):
        if path.split("/")[-2] not in ("customresourcedefinitions", "namespaces"):
            await removed(client, path)

    assert problems == []
    assert len(paths) > 100


def path_of(obj: dict[str, Any], resources: dict[tuple[str, str], tuple[str, bool]]) -> str:
    """Where an object is on an API server."""
    version, metadata = obj["apiVersion"], obj["metadata"]
    plural, namespaced = resources[version, obj["kind"]]
    where = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
    return f"{'/api' if version == 'v1' else '/apis'}/{version}{where}/{plural}/{metadata['name']}"


async def removed(client: Client, path: str) -> None:
    """Delete an object, if it is there."""
    with suppress(NotFoundError):
        await client.request("DELETE", path)


async def plural_names(client: Client) -> dict[tuple[str, str], tuple[str, bool]]:
    """Resource and whether it is namespaced, by API version and kind."""
    groups = json.loads((await client.request("GET", "/apis")).body)["groups"]
    versions = ["v1", *(it["groupVersion"] for group in groups for it in group["versions"])]
    found = {}
    for version in versions:
        path = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        for resource in json.loads((await client.request("GET", path)).body)["resources"]:
            if "/" not in resource["name"]:
                key = (version, resource["kind"])
                found[key] = (resource["name"], resource["namespaced"])
    return found


async def test_kubeconform_finds_everything_valid_by_the_servers_own_schemas(
    client: Client, sources: dict[str, Objects], tmp_path: Path
):
    schemas, files = tmp_path / "schemas", tmp_path / "files"
    schemas.mkdir()
    files.mkdir()
    await write_schemas(client, schemas)
    objects = [obj for each in sources.values() for obj in each]
    for index, text in enumerate(sorted({json.dumps(obj) for obj in objects})):
        (files / f"{index}.json").write_text(text, encoding="utf-8")

    told = conformity(files, schemas)

    assert [it for it in told["resources"] if it["status"] != "statusValid"] == []
    assert told["summary"] == {"valid": index + 1, "invalid": 0, "errors": 0, "skipped": 0}


async def test_kubeconform_finds_an_unknown_field(client: Client, tmp_path: Path):
    schemas, files = tmp_path / "schemas", tmp_path / "files"
    schemas.mkdir()
    files.mkdir()
    await write_schemas(client, schemas)
    spec = {"selector": {"matchLabels": {}}, "template": {"spec": {"containers": [{"nam": "a"}]}}}
    wrong = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    (files / "wrong.json").write_text(json.dumps(wrong))

    (found,) = conformity(files, schemas)["resources"]

    assert found["status"] == "statusInvalid"
    assert "additional properties 'nam' not allowed" in found["msg"]


def conformity(files: Path, schemas: Path) -> dict[str, Any]:
    """What kubeconform says of all files of a directory."""
    try:
        program = kubeconform(build=False)
    except ProgramMissingError as missing:
        pytest.skip(f"{missing}: run hack/install_manifest_tools")
    location = f"{schemas}/{LOCATION}"
    flags = ["-strict", "-summary", "-verbose", "-output=json", f"-schema-location={location}"]
    done = subprocess.run([program, *flags, files], capture_output=True, text=True, check=False)
    told: dict[str, Any] = json.loads(done.stdout)
    return told
