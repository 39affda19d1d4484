"""Reviews: questions that are answered, not stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dynamo_operator.apiserver import status, transient_kinds
from dynamo_operator.apiserver.authentication import Authenticator
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.messages import Response, UserInfo
from dynamo_operator.apiserver.rbac import RbacAuthorizer
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.routes import RequestInfo
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind, StatusError
from dynamo_operator.apiserver.tokens import NOT_OURS, InvalidTokenError, TokenIssuer


class Reviews:
    """Answers the authentication and authorization reviews."""

    def __init__(
        self, authenticator: Authenticator, authorizer: RbacAuthorizer, tokens: TokenIssuer
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens
        self._kinds: dict[str, Callable[[Call, Object], Mapping[str, Any]]] = {
            "TokenReview": self._token_review,
            "SelfSubjectReview": self._self_subject_review,
            "SubjectAccessReview": self._subject_access_review,
            "LocalSubjectAccessReview": self._subject_access_review,
            "SelfSubjectAccessReview": self._self_subject_access_review,
            "SelfSubjectRulesReview": self._self_subject_rules_review,
        }

    def answers(self, kind: str) -> bool:
        """Whether a kind is one of these reviews."""
        return kind in self._kinds

    def create(self, call: Call) -> Response:
        """Answer the review in the body."""
        resource = call.resource
        review = transient_kinds.decode(call, resource.kind, call.body())
        is_of_oneself = resource.kind == "SelfSubjectReview"
        created = {"creationTimestamp": call.world.timestamp()} if is_of_oneself else {}
        spec = {} if is_of_oneself else {"spec": _without_empty(review.get("spec", {}))}
        answered = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {**review["metadata"], **created},
            **spec,
            "status": self._kinds[resource.kind](call, review),
        }
        return call.answer_value(201, answered)

    def _token_review(self, _call: Call, review: Object) -> Mapping[str, Any]:
        spec = review.get("spec", {})
        audiences = spec.get("audiences")
        if not spec.get("token"):
            raise status.bad_request("token is required for TokenReview in authentication")
        try:
            if audiences:
                user, matching = self._tokens.authenticate(spec.get("token", ""), audiences)
                return {"authenticated": True, "user": _user(user), "audiences": matching}
            user = self._authenticator.token_user(spec.get("token", ""))
        except InvalidTokenError as error:
            text = str(error)
            if text == NOT_OURS:  # which no authenticator looks into
                return {"user": {}, "error": "invalid bearer token"}
            return {"user": {}, "error": f"[invalid bearer token, {text}]"}
        except StatusError:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user(user)}

    def _self_subject_review(self, call: Call, _review: Object) -> Mapping[str, Any]:
        return {"userInfo": _user(call.user)}

    def _self_subject_access_review(self, call: Call, review: Object) -> Mapping[str, Any]:
        return self._decision(call, review, call.user)

    def _subject_access_review(self, call: Call, review: Object) -> Mapping[str, Any]:
        spec = review.get("spec", {})
        errors = _attribute_errors(spec)
        if not spec.get("user") and not spec.get("groups"):
            detail = "at least one of user or group must be specified"
            errors.append(FieldError("spec.user", FieldErrorKind.INVALID, detail, ""))
        if call.resource.kind == "LocalSubjectAccessReview":
            errors += _place_errors(spec, call.namespace)
        if errors:
            raise _invalid(call, errors)
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = UserInfo(spec.get("user", ""), groups=tuple(spec.get("groups") or ()), extra=extra)
        return self._decision(call, review, user)

    def _decision(self, call: Call, review: Object, user: UserInfo) -> Mapping[str, Any]:
        spec = review.get("spec", {})
        resource: Mapping[str, str] | None = spec.get("resourceAttributes")
        path: Mapping[str, str] | None = spec.get("nonResourceAttributes")
        if errors := _attribute_errors(spec):
            raise _invalid(call, errors)
        if resource is not None:
            info = RequestInfo(
                resource.get("verb", ""),
                "",
                is_resource=True,
                group=resource.get("group", ""),
                version=resource.get("version", ""),
                plural=resource.get("resource", ""),
                namespace=resource.get("namespace", ""),
                name=resource.get("name", ""),
                subresource=resource.get("subresource", ""),
            )
        else:
            path = path or {}
            info = RequestInfo(path.get("verb", ""), path.get("path", ""))
        allowed = self._authorizer.allowed(user, info)
        reason = self._authorizer.reason(user, info) if allowed else ""
        return {"allowed": allowed, **({"reason": reason} if reason else {})}

    def _self_subject_rules_review(self, call: Call, review: Object) -> Mapping[str, Any]:
        namespace = (review.get("spec", {})).get("namespace", "")
        if not namespace:
            raise status.bad_request("no namespace on request")
        rules = list(self._authorizer.rules_for(call.user, namespace))
        return {
            "resourceRules": [
                {
                    k: rule[k]
                    for k in ("verbs", "apiGroups", "resources", "resourceNames")
                    if k in rule
                }
                for rule in rules
                if rule.get("resources")
            ],
            "nonResourceRules": [
                {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
                for rule in rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }


def _without_empty(value: Any) -> Any:
    """A review's spec as the server writes it: without what is empty."""
    if not isinstance(value, dict):
        return value
    kept = {name: _without_empty(item) for name, item in value.items()}
    return {name: item for name, item in kept.items() if item not in ("", None, [])}


def _user(user: UserInfo) -> dict[str, Any]:
    fields = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in fields.items() if value}


def _attribute_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with the two kinds of attributes, of which there must be one."""
    path = spec.get("nonResourceAttributes")
    if (spec.get("resourceAttributes") is None) != (path is None):
        return []
    detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    return [FieldError("spec", FieldErrorKind.INVALID, detail, _shown_path(path))]


def _shown_path(path: Mapping[str, str] | None) -> Any:
    return path and {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _place_errors(spec: Mapping[str, Any], namespace: str) -> list[FieldError]:
    """What a review about one namespace asks that is not about it."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if path is not None:
        where, detail = "spec.nonResourceAttributes", "disallowed on this kind of request"
        return [FieldError(where, FieldErrorKind.INVALID, detail, _shown_path(path))]
    given = (resource or {}).get("namespace", "")
    if resource is None or given == namespace:
        return []
    where, detail = "spec.resourceAttributes.namespace", "must match metadata.namespace"
    return [FieldError(where, FieldErrorKind.INVALID, detail, given)]


def _invalid(call: Call, errors: list[FieldError]) -> StatusError:
    # The server names no kind here.
    return status.invalid(call.resource.group, "", "", errors)
