"""A serving certificate that the operator makes itself, keeps in a Secret and has trusted."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from dynamo_operator.runtime.builtin_kinds import (
    CustomResourceDefinition,
    MutatingWebhookConfiguration,
    Secret,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client.client import Client
from dynamo_operator.runtime.client.errors import (
    AlreadyExistsError,
    ClientError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from dynamo_operator.runtime.client.writes import PatchType
from dynamo_operator.runtime.permissions import Permission
from dynamo_operator.runtime.serving_certificate import (
    CertificateObserver,
    server_context,
    use_pair,
)
from dynamo_operator.runtime.webhooks.key_material import (
    AUTHORITY_KEY,
    CERTIFICATE,
    KeyMaterial,
    Lifetimes,
    renewed,
)
from informers.backoff import Backoff
from informers.clock import Clock, Random, SystemClock, system_random
from informers.objects import ObjectKey

Configuration = (
    MutatingWebhookConfiguration | ValidatingWebhookConfiguration | CustomResourceDefinition
)

_CHECK_SECONDS: Final = 30.0
_RACES: Final = 5

_log = structlog.get_logger(__name__)


def secret_permissions(name: str) -> tuple[Permission, ...]:
    """Return what a SecretCertificate does to its Secret: for a Role in that Secret's namespace."""
    return (
        Permission("", ("secrets",), ("create",)),
        Permission("", ("secrets",), ("get", "update"), names=(name,)),
    )


def configuration_permissions(
    *, mutating: Sequence[str] = (), validating: Sequence[str] = (), converted: Sequence[str] = ()
) -> tuple[Permission, ...]:
    """Return what a SecretCertificate of these names does to configurations."""
    kinds: tuple[tuple[type[Configuration], Sequence[str]], ...] = (
        (MutatingWebhookConfiguration, mutating),
        (ValidatingWebhookConfiguration, validating),
        (CustomResourceDefinition, converted),
    )
    return tuple(
        Permission(
            kind.resource_type.group,
            (kind.resource_type.plural,),
            ("get", "patch"),
            names=tuple(names),
            cluster_wide=True,
        )
        for kind, names in kinds
        if names
    )


class CertificateError(Exception):
    """The certificate cannot be kept: the Secret is not ours, or others keep changing things."""


class SecretCertificate:
    """A certificate of an authority of our own; both are in a Secret that all replicas share.

    Whoever is first makes it. It is renewed long before its end; a new authority is published
    beside the old one before anything that it signed is served, so that no call fails. The
    authorities are written into the `caBundle` of our own configurations, and again whenever
    somebody overwrites them. Needs the `webhooks` extra.

    It needs `secret_permissions` and `configuration_permissions`, and nothing else.

    Args:
        client: writes Secret and configurations; of a manager its `unfenced_client`, for every
            replica serves, not only the leader.
        secret: where it is kept; made when it is not there.
        hosts: names and addresses that it is for, e.g. `webhook.system.svc`.
        mutating: names of MutatingWebhookConfigurations that call us.
        validating: names of ValidatingWebhookConfigurations that call us.
        converted: names of CustomResourceDefinitions whose conversion calls us.
        lifetimes: of authority and certificate.
        check_every_seconds: how often Secret and configurations are looked at.
        clock: dates certificates.
        random: spreads retries.

    Raises:
        ValueError: no hosts.
    """

    def __init__(
        self,
        client: Client,
        secret: ObjectKey,
        *,
        hosts: Sequence[str],
        mutating: Sequence[str] = (),
        validating: Sequence[str] = (),
        converted: Sequence[str] = (),
        lifetimes: Lifetimes | None = None,
        check_every_seconds: float = _CHECK_SECONDS,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        if not hosts:
            raise ValueError(f"certificate in Secret {secret}: needs hosts")
        self.context: ssl.SSLContext = server_context()
        self.pem: bytes = b""
        self._client = client
        self._secret = secret
        self._hosts = tuple(hosts)
        self._configurations: tuple[tuple[type[Configuration], str], ...] = (
            *((MutatingWebhookConfiguration, name) for name in mutating),
            *((ValidatingWebhookConfiguration, name) for name in validating),
            *((CustomResourceDefinition, name) for name in converted),
        )
        self._lifetimes = lifetimes or Lifetimes()
        self._check_every_seconds = check_every_seconds
        self._clock = clock or SystemClock()
        self._backoff = Backoff(random=random or system_random())
        self._observer: CertificateObserver | None = None
        self._problem = ""

    def observe(self, observer: CertificateObserver) -> None:
        """Tell of attempts to read it from now on."""
        self._observer = observer

    async def prepare(self) -> None:
        """Have a certificate, trusted where it is configured; waits for the API server."""
        while True:
            if await self._checked():
                return
            await asyncio.sleep(self._backoff.next_delay(self._clock.monotonic()))

    async def keep_fresh(self) -> None:
        """Renew it, serve what other replicas renewed, and keep it trusted, until cancelled."""
        while True:
            await asyncio.sleep(self._check_every_seconds)
            await self._checked()

    async def check(self) -> None:
        """Look at Secret and configurations once, and do what is due.

        Raises:
            ClientError: the API server refuses or is away.
            CertificateError: the Secret is not ours, or others were faster time and again.
        """
        is_trusted = await self._is_trusted()
        material = await self._ensure(is_trusted)
        try:
            for kind, name in self._configurations:
                await self._publish(kind, name, material.ca_bundle)
        finally:  # one configuration that cannot be patched must not let the certificate end
            self._use(material)

    def _use(self, material: KeyMaterial) -> None:
        if material.certificate != self.pem:
            use_pair(self.context, material.certificate, material.key)
            self.pem = material.certificate
            _log.info("serving certificate loaded", secret=str(self._secret))

    async def _checked(self) -> bool:
        """Check; tell whether it went well, and log a failure when it is a new one."""
        try:
            await self.check()
        except (ClientError, CertificateError) as error:
            if str(error) != self._problem:
                _log.warning("serving certificate not checked", error=str(error))
            self._problem = str(error)
        else:
            self._problem = ""
        if self._observer is not None:
            self._observer(not self._problem)
        return bool(self.pem) and not self._problem

    async def _ensure(self, is_trusted: bool) -> KeyMaterial:
        """Return what the Secret holds, renewed if that is due."""
        for _ in range(_RACES):
            secret = await self._client.find(Secret, self._secret)
            material = self._read(secret)
            wanted = renewed(
                material,
                hosts=self._hosts,
                now=self._clock.now(),
                is_trusted=is_trusted,
                lifetimes=self._lifetimes,
            )
            if wanted == material:
                return wanted
            try:
                await self._write(secret, wanted)
            except (AlreadyExistsError, ConflictError, NotFoundError):
                continue  # another replica was faster: what it wrote counts
            _log.info("serving certificate made", secret=str(self._secret))
            return wanted
        raise CertificateError(f"Secret {self._secret}: others kept changing it")

    def _read(self, secret: Secret | None) -> KeyMaterial | None:
        if secret is None or not secret.data:
            return None
        try:
            data = {k: base64.b64decode(v, validate=True) for k, v in secret.data.items()}
            return KeyMaterial.of_secret(data)
        except ValueError as error:
            if CERTIFICATE in secret.data and AUTHORITY_KEY not in secret.data:
                raise CertificateError(
                    f"Secret {self._secret}: holds a certificate of someone else: name another "
                    "Secret, or serve with it as files"
                ) from None
            _log.warning(
                "serving certificate is made anew: the one there is of no use",
                secret=str(self._secret),
                error=str(error),
            )
            return None

    async def _write(self, secret: Secret | None, material: KeyMaterial) -> None:
        data = {name: base64.b64encode(v).decode() for name, v in material.to_secret().items()}
        if secret is None:
            name, namespace = self._secret.name, self._secret.namespace
            await self._client.create(Secret.new(name, namespace=namespace, data=data))
        else:
            secret.data = {**secret.data, **data}
            await self._client.replace(secret)

    async def _is_trusted(self) -> bool:
        """Whether all configurations that are there are seen to carry the newest authority."""
        secret = await self._client.find(Secret, self._secret)
        material = self._read(secret)
        if material is None:
            return False
        for kind, name in self._configurations:
            try:
                found = await self._client.find(kind, ObjectKey("", name))
            except ForbiddenError:
                return False
            for config in client_configs(found).values() if found else ():
                if material.authorities[0] not in _decoded(config.get("caBundle")):
                    return False
        return True

    async def _publish(self, kind: type[Configuration], name: str, bundle: bytes) -> None:
        """Write the bundle into one configuration where it carries another."""
        encoded = base64.b64encode(bundle).decode()
        for _ in range(_RACES):
            found = await self._client.find(kind, ObjectKey("", name))
            if found is None:
                return  # not installed (yet): nobody calls us through it
            stale = [p for p, c in client_configs(found).items() if c.get("caBundle") != encoded]
            if not stale:
                return
            version = found.resource_version
            patch: list[dict[str, Any]] = [
                {"op": "test", "path": "/metadata/resourceVersion", "value": version},
                *({"op": "add", "path": f"{p}/caBundle", "value": encoded} for p in stale),
            ]
            try:
                await self._client.patch(kind, found.key, patch, patch_type=PatchType.JSON)
            except (ConflictError, InvalidError, NotFoundError):
                continue  # it changed: look again
            _log.info("authorities published", configuration=f"{kind.__name__} {name}")
            return
        raise CertificateError(f"{kind.__name__} {name}: others kept changing it")


def client_configs(configuration: Configuration) -> Mapping[str, Mapping[str, Any]]:
    """Return what says whom to call and trust, by its place in the object as a JSON pointer."""
    if isinstance(configuration, CustomResourceDefinition):
        conversion = configuration.spec.get("conversion") or {}
        config = (conversion.get("webhook") or {}).get("clientConfig")
        return {"/spec/conversion/webhook/clientConfig": config} if config else {}
    return {
        f"/webhooks/{position}/clientConfig": webhook["clientConfig"]
        for position, webhook in enumerate(configuration.webhooks)
        if webhook.get("clientConfig")
    }


def _decoded(bundle: Any) -> bytes:
    try:
        return base64.b64decode(bundle or "")
    except ValueError:
        return b""
