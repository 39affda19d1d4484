"""Which Secrets are for the registries of which images."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from dynamo_operator.runtime.builtin_kinds import Secret
from reconcilers.run.pull_secrets import DOCKER_CONFIG_TYPE, matching_secrets, registry_host

IMAGES = ("nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.6.0", "registry.lab:5000/dynamo-operator:1")


def pull_secret(*hosts: str, name: str = "a", namespace: str = "default", **fields: Any) -> Secret:
    """What `kubectl create secret docker-registry` makes."""
    auths = {host: {"auth": "dXNlcjpzZWNyZXQ="} for host in hosts}
    text = base64.b64encode(json.dumps({"auths": auths}).encode()).decode()
    content = {"type": DOCKER_CONFIG_TYPE, "data": {".dockerconfigjson": text}, **fields}
    return Secret.new(name, namespace=namespace, **content)


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("nvcr.io/nvidia/planner:1.6.0", "nvcr.io"),
        ("registry.lab:5000/planner", "registry.lab:5000"),
        ("localhost/planner", "localhost"),
        ("NVCR.io/nvidia/planner@sha256:00", "nvcr.io"),
        ("planner:1.6.0", "docker.io"),
        ("nvidia/planner:1.6.0", "docker.io"),
        ("docker.io/nvidia/planner", "docker.io"),
        ("index.docker.io/nvidia/planner", "docker.io"),
    ],
)
def test_an_image_has_a_registry(image: str, host: str):
    assert registry_host(image) == host


@pytest.mark.parametrize(
    "named",
    [
        "nvcr.io",
        "https://nvcr.io",
        "https://nvcr.io/v2/",
        "nvcr.io/nvidia",
        "NVCR.IO",
        "*.io",
        "registry.lab:5000",
        "https://registry.lab:5000/v1/",
    ],
)
def test_a_secret_for_the_registry_of_an_image_is_found(named: str):
    assert matching_secrets([pull_secret("quay.io", named)], IMAGES) == ("a",)


@pytest.mark.parametrize(
    "named",
    [
        "quay.io",
        "vcr.io",
        "nvcr.io.example.com",
        "registry.lab",
        "registry.lab:5001",
        "*",
        "",
        "*.*.io",
    ],
)
def test_a_secret_for_another_registry_is_not(named: str):
    assert matching_secrets([pull_secret(named)], IMAGES) == ()


@pytest.mark.parametrize(
    "named", ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"]
)
def test_docker_hub_has_several_names(named: str):
    assert matching_secrets([pull_secret(named)], ["planner:1"]) == ("a",)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "Opaque"},
        {"data": {}},
        {"data": {".dockerconfigjson": "*"}},
        {"data": {".dockerconfigjson": base64.b64encode(b"\xff{").decode()}},
        {"data": {".dockerconfigjson": base64.b64encode(b"[]").decode()}},
        {"data": {".dockerconfigjson": base64.b64encode(b'{"auths": 1}').decode()}},
        {"data": {".dockerconfigjson": base64.b64encode(b"[" * 100_000).decode()}},
    ],
    ids=["another type", "empty", "no base64", "no text", "no map", "no auths", "deep"],
)
def test_what_is_no_docker_configuration_is_passed_over(fields: dict[str, Any]):
    secrets = [pull_secret("nvcr.io", **fields), pull_secret("nvcr.io", name="good")]

    assert matching_secrets(secrets, IMAGES) == ("good",)


def test_all_that_match_are_named_in_order():
    secrets = [
        pull_secret("registry.lab:5000", name="z"),
        pull_secret("nvcr.io", name="b"),
        pull_secret("quay.io", name="a"),
    ]

    assert matching_secrets(secrets, IMAGES) == ("b", "z")
