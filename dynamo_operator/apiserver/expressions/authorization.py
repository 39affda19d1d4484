"""The functions with which policies ask what users may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from dynamo_operator.apiserver.expressions.standard import Table
from dynamo_operator.apiserver.expressions.syntax import ExpressionError
from dynamo_operator.apiserver.expressions.values import Opaque

Decide = Callable[[Any, dict[str, str]], tuple[bool, str]]
"""Given a user and the attributes of a request, whether it is allowed, and why."""


class Authorizer(Opaque):
    """What answers for one user.

    Args:
        user: whose requests are judged.
        decide: judges them.
        own: the attributes of the request that is being admitted.
        account: makes the user that a service account is.
    """

    kind = "kubernetes.authorization.Authorizer"

    def __init__(
        self,
        user: Any,
        decide: Decide,
        own: dict[str, str],
        account: Callable[[str, str], Any],
    ) -> None:
        super().__init__(str(user))
        self.user, self.decide, self.own, self.account = user, decide, own, account


@dataclass(frozen=True)
class Check:
    """A request in the making; `path` is that of one about no resource."""

    authorizer: Authorizer
    attributes: tuple[tuple[str, str], ...] = ()


class _Part(Opaque):
    def __init__(self, check: Check) -> None:
        super().__init__(str(check.attributes))
        self.check = check


class PathCheck(_Part):
    """About a path."""

    kind = "kubernetes.authorization.PathCheck"


class GroupCheck(_Part):
    """About a group."""

    kind = "kubernetes.authorization.GroupCheck"


class ResourceCheck(_Part):
    """About a resource."""

    kind = "kubernetes.authorization.ResourceCheck"


class Decision(Opaque):
    """What came of a check."""

    kind = "kubernetes.authorization.Decision"

    def __init__(self, allowed: bool, reason: str) -> None:
        super().__init__(f"{allowed} {reason}")
        self.allowed, self.reason = allowed, reason


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if not name:
        raise ExpressionError("Invalid service account name")
    if not namespace:
        raise ExpressionError("Invalid service account namespace")
    user = authorizer.account(namespace, name)
    return Authorizer(user, authorizer.decide, authorizer.own, authorizer.account)


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path:
        raise ExpressionError("path must not be empty")
    return PathCheck(Check(authorizer, (("path", path),)))


def _group(authorizer: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(Check(authorizer, (("group", group),)))


def _with(part: _Part, name: str, value: str) -> ResourceCheck:
    others = tuple(each for each in part.check.attributes if each[0] != name)
    return ResourceCheck(replace(part.check, attributes=(*others, (name, value))))


def _resource(part: GroupCheck, resource: str) -> ResourceCheck:
    if not resource:
        raise ExpressionError("resource must not be empty")
    return _with(part, "resource", resource)


def _named(name: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    return lambda part, value: _with(part, name, value)


def _checked(part: _Part, verb: str) -> Decision:
    authorizer = part.check.authorizer
    attributes = {**dict(part.check.attributes), "verb": verb}
    return Decision(*authorizer.decide(authorizer.user, attributes))


def request_resource(authorizer: Authorizer) -> ResourceCheck:
    """Return the check about what is being admitted."""
    return ResourceCheck(Check(authorizer, tuple(authorizer.own.items())))


AUTHORIZATION: Final[Table] = [
    ("Authorizer::path(string) -> PathCheck", _path),
    ("Authorizer::group(string) -> GroupCheck", _group),
    ("Authorizer::serviceAccount(string, string) -> Authorizer", _service_account),
    ("GroupCheck::resource(string) -> ResourceCheck", _resource),
    *(
        (f"ResourceCheck::{name}(string) -> ResourceCheck", _named(name))
        for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    ),
    ("PathCheck::check(string) -> Decision", _checked),
    ("ResourceCheck::check(string) -> Decision", _checked),
    ("Decision::allowed() -> bool", lambda decision: decision.allowed),
    ("Decision::reason() -> string", lambda decision: decision.reason),
    ("Decision::error() -> string", lambda decision: ""),
    ("Decision::errored() -> bool", lambda decision: False),
]
