"""The operator as it is deployed: its Deployment, and the settings that it was given."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from dynamo_operator.api.labels import COMPONENT_LABEL, PART_OF_LABEL
from dynamo_operator.cli.errors import CliError
from dynamo_operator.cli.settings import add_settings_flags, load_settings
from dynamo_operator.generate.layout import NAME
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Deployment
from dynamo_operator.runtime.client import Client
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.settings.schema import VARIABLE_PREFIX
from informers.objects import ObjectKey

SELECTOR: Final = {PART_OF_LABEL: NAME, COMPONENT_LABEL: "manager"}
_CONTAINER: Final = "manager"
_START: Final = "start"


@dataclass(frozen=True, slots=True)
class Installation:
    """A deployed operator.

    Args:
        deployment: its Deployment.
        settings: what it was given; None when they are wrong.
        settings_problem: what is wrong with them.
        others: Deployments of further operators.
    """

    deployment: Deployment
    settings: OperatorSettings | None
    settings_problem: str = ""
    others: tuple[Deployment, ...] = ()

    @property
    def namespace(self) -> str:
        """Where it is."""
        return self.deployment.key.namespace

    @property
    def account(self) -> str:
        """The user that its Pods are."""
        name = _pod_spec(self.deployment).get("serviceAccountName") or "default"
        return f"system:serviceaccount:{self.namespace}:{name}"

    @property
    def image(self) -> str:
        """What it runs."""
        return str(_container(self.deployment).get("image", ""))

    @property
    def webhook_namespace(self) -> str:
        """Where the webhooks' Service and Secret are."""
        settings = self.settings.server.webhook if self.settings else None
        return (settings.namespace if settings else "") or self.namespace

    @property
    def certificate_secret(self) -> str:
        """The Secret that its webhooks serve with; "" when no Secret is known."""
        if self.settings is None:
            return ""
        webhook = self.settings.server.webhook
        if webhook.cert_dir is None:
            return webhook.secret_name
        volume = _volume_at(self.deployment, PurePosixPath(webhook.cert_dir))
        return str(((volume or {}).get("secret") or {}).get("secretName", ""))


async def find_installation(client: Client, namespace: str | None) -> Installation | None:
    """Return the operator in a namespace, or in any.

    Raises:
        ClientError: the server refuses to say.
    """
    found = await client.list(Deployment, namespace=namespace or "", labels=SELECTOR)
    if not found:
        return None
    deployment, *others = found
    try:
        settings = await _settings(client, deployment)
    except CliError as error:
        return Installation(deployment, None, str(error), tuple(others))
    return Installation(deployment, settings, "", tuple(others))


async def _settings(client: Client, deployment: Deployment) -> OperatorSettings:
    """Read flags, environment and file of the container as the operator itself does."""
    container = _container(deployment)
    words = [*(container.get("command") or [])[1:], *(container.get("args") or [])]
    environ = {
        variable["name"]: variable["value"]
        for variable in container.get("env") or []
        if variable["name"].startswith(VARIABLE_PREFIX) and "value" in variable
    }
    parser = _Parser(add_help=False, allow_abbrev=False)
    add_settings_flags(parser)
    arguments = parser.parse_args([word for word in words if word != _START])
    if arguments.config is None:
        return load_settings(arguments, environ)
    text = await _config_file(client, deployment, PurePosixPath(arguments.config))
    return _with_file(arguments, environ, text)


def _with_file(
    arguments: argparse.Namespace, environ: Mapping[str, str], text: str
) -> OperatorSettings:
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / PurePosixPath(arguments.config).name
        copy.write_text(text, encoding="utf-8")
        return load_settings(
            argparse.Namespace(**{**vars(arguments), "config": str(copy)}), environ
        )


async def _config_file(client: Client, deployment: Deployment, path: PurePosixPath) -> str:
    volume = _volume_at(deployment, path.parent)
    name = ((volume or {}).get("configMap") or {}).get("name")
    if not name:
        raise CliError(f"--config {path}: is on no volume of a ConfigMap, and cannot be read")
    key = ObjectKey(deployment.key.namespace, name)
    config_map = await client.find(ConfigMap, key)
    if config_map is None or path.name not in config_map.data:
        raise CliError(f"--config {path}: ConfigMap {key} has no {path.name}")
    return config_map.data[path.name]


def _volume_at(deployment: Deployment, path: PurePosixPath) -> Mapping[str, Any] | None:
    mounts = _container(deployment).get("volumeMounts") or []
    names = [each["name"] for each in mounts if PurePosixPath(each["mountPath"]) == path]
    volumes = _pod_spec(deployment).get("volumes") or []
    return next((each for each in volumes if each["name"] in names), None)


def _container(deployment: Deployment) -> Mapping[str, Any]:
    containers: list[Mapping[str, Any]] = _pod_spec(deployment).get("containers") or [{}]
    return next((each for each in containers if each.get("name") == _CONTAINER), containers[0])


def _pod_spec(deployment: Deployment) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = (deployment.spec.get("template") or {}).get("spec") or {}
    return spec


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CliError(message)
