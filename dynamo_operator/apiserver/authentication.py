"""Who asks: bearer tokens, identities established by the transport, impersonation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.messages import ANONYMOUS, Request, UserInfo
from dynamo_operator.apiserver.routes import RequestInfo
from dynamo_operator.apiserver.tokens import InvalidTokenError, TokenIssuer

_EXTRA_PREFIX = "impersonate-extra-"


class Authenticator:
    """Finds the user of a request.

    Args:
        tokens: verifies ServiceAccount tokens.
        static_tokens: further bearer tokens and whose they are.
    """

    def __init__(self, tokens: TokenIssuer, static_tokens: Mapping[str, UserInfo]) -> None:
        self._tokens = tokens
        self._static = static_tokens

    def authenticate(self, request: Request) -> UserInfo:
        """Return the user; a request without credentials is anonymous.

        Raises:
            StatusError: 401 for credentials that are no good.
        """
        if request.user is not None:
            return request.user
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        if scheme.lower() != "bearer":
            raise status.unauthorized()
        return self.token_user(token.strip())

    def token_user(self, token: str) -> UserInfo:
        """Return whose bearer token this is.

        Raises:
            StatusError: 401.
        """
        if token in self._static:
            return self._static[token]
        try:
            return self._tokens.authenticate(token)[0]
        except InvalidTokenError:
            raise status.unauthorized() from None


def impersonated(
    request: Request, user: UserInfo, allowed: Callable[[UserInfo, RequestInfo], bool]
) -> UserInfo:
    """Return the user that the Impersonate headers name, or `user` itself.

    Raises:
        StatusError: 403 unless `user` may impersonate name, groups and uid.
    """
    name, uid = (request.headers.get(f"impersonate-{field}", "") for field in ("user", "uid"))
    if not name:
        given = request.headers.get("impersonate-group", "")
        if given or uid:
            shown = ", ".join(json.dumps(group) for group in given.split(","))
            groups_shown = f"[]string{{{shown}}}" if given else "[]string(nil)"
            raise status.bad_request(
                f'requested &user.DefaultInfo{{Name:"", UID:{json.dumps(uid)}, '
                f"Groups:{groups_shown}, Extra:map[string][]string(nil)}} without impersonating a "
                "user name"
            )
        return user
    groups = [g.strip() for g in request.headers.get("impersonate-group", "").split(",") if g]
    wanted = [_impersonate("users", name), *(_impersonate("groups", group) for group in groups)]
    account = name.split(":")
    if name.startswith("system:serviceaccount:") and len(account) == 4:
        wanted[0] = _impersonate("serviceaccounts", account[3], account[2])
        groups += ["system:serviceaccounts", f"system:serviceaccounts:{account[2]}"]
    if uid:
        wanted.append(_impersonate("uids", uid, group="authentication.k8s.io"))
    for info in wanted:
        if not allowed(user, info):
            where = f' in the namespace "{info.namespace}"' if info.namespace else ""
            raise status.forbidden(
                info.group,
                info.plural,
                info.name,
                f'User "{user.name}" cannot impersonate resource "{info.plural}" in API group '
                f'"{info.group}"' + (where or " at the cluster scope"),
            )
    extra = {
        header.removeprefix(_EXTRA_PREFIX): (value,)
        for header, value in request.headers.items()
        if header.startswith(_EXTRA_PREFIX)
    }
    authenticated = "system:unauthenticated" if name == ANONYMOUS.name else "system:authenticated"
    unique = dict.fromkeys([*groups, authenticated])
    return UserInfo(name, uid=uid, groups=tuple(unique), extra=extra)


def _impersonate(plural: str, name: str, namespace: str = "", *, group: str = "") -> RequestInfo:
    return RequestInfo(
        "impersonate",
        "",
        is_resource=True,
        group=group,
        plural=plural,
        name=name,
        namespace=namespace,
    )
