"""ServiceAccount tokens: signed JWTs bound to an account, an audience and perhaps a Pod."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any

from dynamo_operator.apiserver.calls import World
from dynamo_operator.apiserver.messages import UserInfo, to_json
from dynamo_operator.apiserver.storage import StoredObject

ISSUER = "https://kubernetes.default.svc.cluster.local"
NOT_OURS = "not a token of this server"
_HEADER = {"alg": "HS256", "typ": "JWT"}
_PRIVATE_CLAIM = "kubernetes.io"
_BOUND_KINDS = {"Pod": ("", "pods"), "Secret": ("", "secrets"), "Node": ("", "nodes")}


class InvalidTokenError(Exception):
    """The token is not one of ours, or no longer valid; the text says why."""


@dataclass(frozen=True, slots=True)
class BoundObject:
    """What a token lives with: when it goes, the token is worth nothing."""

    kind: str
    name: str
    uid: str


class TokenIssuer:
    """Signs and verifies tokens with a key of its own that nobody else needs.

    `issuer` is also the audience of tokens that name none.

    Only this server verifies its tokens (others ask it by TokenReview), so a symmetric key does.
    """

    issuer = ISSUER

    def __init__(self, world: World) -> None:
        self._world = world
        self._key = world.random.randbytes(32)

    def issue(
        self,
        account: StoredObject,
        *,
        audiences: list[str],
        seconds: int,
        bound_to: BoundObject | None,
    ) -> str:
        """Return a token for an account, valid from now."""
        now = int(self._world.now().timestamp())
        private: dict[str, Any] = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": account.value["metadata"]["uid"]},
        }
        if bound_to is not None:
            private[bound_to.kind.lower()] = {"name": bound_to.name, "uid": bound_to.uid}
        claims = {
            "aud": audiences or [ISSUER],
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": self._world.new_uid(),
            _PRIVATE_CLAIM: private,
            "nbf": now,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        signed = f"{_encode(to_json(_HEADER))}.{_encode(to_json(claims))}"
        return f"{signed}.{_encode(self._signature(signed))}"

    def authenticate(
        self, token: str, audiences: list[str] | None = None
    ) -> tuple[UserInfo, list[str]]:
        """Return whose token this is, and which of the wanted audiences it is for.

        Args:
            token: the bearer token.
            audiences: at least one of these must be among the token's; None: the API server's own.

        Raises:
            InvalidTokenError: not valid now, or not for these audiences.
        """
        claims = self._claims(token)
        now = self._world.now().timestamp()
        if now >= claims["exp"]:
            raise InvalidTokenError("service account token has expired")
        if now < claims["nbf"]:
            raise InvalidTokenError("service account token is not valid yet")
        matching = [a for a in audiences or [ISSUER] if a in claims["aud"]]
        if not matching:
            raise InvalidTokenError(f"token audiences {claims['aud']} is invalid for the target")
        private = claims[_PRIVATE_CLAIM]
        namespace = private["namespace"]
        account = private["serviceaccount"]
        self._require(("", "serviceaccounts"), namespace, account, "ServiceAccount")
        extra: dict[str, tuple[str, ...]] = {
            "authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)
        }
        for kind, key in _BOUND_KINDS.items():
            bound = private.get(kind.lower())
            if bound is not None:
                self._require(key, "" if kind == "Node" else namespace, bound, kind)
                prefix = f"authentication.kubernetes.io/{kind.lower()}"
                extra |= {f"{prefix}-name": (bound["name"],), f"{prefix}-uid": (bound["uid"],)}
        return service_account_user(namespace, account["name"], account["uid"], extra), matching

    def _claims(self, token: str) -> dict[str, Any]:
        signed, _, signature = token.rpartition(".")
        try:
            given = _decode(signature)
            if not hmac.compare_digest(given, self._signature(signed)):
                raise InvalidTokenError("invalid signature")
            claims: dict[str, Any] = json.loads(_decode(signed.partition(".")[2]))
        except ValueError:
            raise InvalidTokenError(NOT_OURS) from None
        return claims

    def _require(
        self, key: tuple[str, str], namespace: str, claim: dict[str, str], kind: str
    ) -> None:
        stored = self._world.storage.get(key, namespace, claim["name"])
        if stored is None or stored.value["metadata"]["uid"] != claim["uid"]:
            raise InvalidTokenError(f"{kind} {claim['name']} of the token is gone")

    def _signature(self, signed: str) -> bytes:
        return hmac.digest(self._key, signed.encode(), hashlib.sha256)


def service_account_user(
    namespace: str, name: str, uid: str = "", extra: dict[str, tuple[str, ...]] | None = None
) -> UserInfo:
    """Return the user that a ServiceAccount is."""
    return UserInfo(
        f"system:serviceaccount:{namespace}:{name}",
        uid=uid,
        groups=(
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ),
        extra=extra or {},
    )


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
