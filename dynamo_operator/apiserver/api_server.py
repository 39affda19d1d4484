"""The server itself: from a request to its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote, urlencode

from dynamo_operator.apiserver import bootstrap, discovery, rbac, selectors, status
from dynamo_operator.apiserver.admission import NamespaceLifecycle
from dynamo_operator.apiserver.admission_policies import ValidatingPolicies
from dynamo_operator.apiserver.admission_webhooks import (
    MutatingWebhooks,
    PartAdmission,
    ValidatingWebhooks,
)
from dynamo_operator.apiserver.audit import AuditEntry, AuditLog
from dynamo_operator.apiserver.authentication import Authenticator, impersonated
from dynamo_operator.apiserver.builtin_resources import builtin_resources, is_builtin
from dynamo_operator.apiserver.calls import Call, World
from dynamo_operator.apiserver.codec import to_yaml
from dynamo_operator.apiserver.crd_serving import CrdServing
from dynamo_operator.apiserver.handlers import Handlers
from dynamo_operator.apiserver.kubelet import KubeletClient
from dynamo_operator.apiserver.messages import (
    ANONYMOUS,
    JSON_TYPE,
    Request,
    Response,
    UserInfo,
    to_json,
)
from dynamo_operator.apiserver.negotiation import check_acceptable, negotiate, prefers_yaml
from dynamo_operator.apiserver.openapi import OpenApiDocuments
from dynamo_operator.apiserver.owner_references import OwnerReferencePermissions
from dynamo_operator.apiserver.pod_admission import PodAdmission
from dynamo_operator.apiserver.pod_security import PodSecurity
from dynamo_operator.apiserver.query import Query
from dynamo_operator.apiserver.quota_admission import QuotaAdmission
from dynamo_operator.apiserver.resources import ResourceRegistry
from dynamo_operator.apiserver.reviews import Reviews
from dynamo_operator.apiserver.routes import RequestInfo, parse_route
from dynamo_operator.apiserver.service_accounts import ServiceAccountAdmission
from dynamo_operator.apiserver.storage import Storage
from dynamo_operator.apiserver.tokens import TokenIssuer
from dynamo_operator.apiserver.unserved import unserved
from dynamo_operator.apiserver.webhook_client import Webhooks
from dynamo_operator.apiserver.writes import Admission, Writes
from informers.clock import Clock, Random, SystemClock, system_random

_VERSION = ("1", "37", "v1.37.0+embedded")
_MOST_DISCOVERED = 64
"""Answers that are kept: what a client sends as Accept is its own affair."""

_HEALTH_PATHS = frozenset({"healthz", "livez", "readyz"})


class ApiServer:
    """An API server with its store, living in the running event loop.

    Args:
        clock: where timestamps come from.
        random: where UIDs, generated names, the token key and watch timeouts come from.
        audit: takes an entry for every request.
        static_tokens: bearer tokens, and whose they are.
        service_accounts: whether Pods get a ServiceAccount and its token mounted, and are refused
            when it does not exist. Needs something that makes each namespace's `default` account
            and `kube-root-ca.crt`.
        history_limit: how many changes stay before the oldest are compacted.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        audit: AuditLog | None = None,
        static_tokens: Mapping[str, UserInfo] | None = None,
        service_accounts: bool = False,
        history_limit: int = 50_000,
    ) -> None:
        self.clock = clock or SystemClock()
        self.audit = audit or AuditLog()
        self.storage = Storage(history_limit=history_limit)
        self.registry = ResourceRegistry()
        for resource in builtin_resources():
            self.registry.add(resource)
        self.kubelet: KubeletClient | None = None
        self._world = World(self.storage, self.registry, self.clock, random or system_random())
        self._openapi = OpenApiDocuments(self.registry, _VERSION[2])
        tokens = TokenIssuer(self._world)
        self._authenticator = Authenticator(tokens, static_tokens or {})
        self._authorizer = rbac.RbacAuthorizer(self.storage)
        admission: list[Admission] = [
            NamespaceLifecycle(),
            OwnerReferencePermissions(),
            rbac.EscalationCheck(self._authorizer),
        ]
        admission.append(PodAdmission())
        if service_accounts:
            admission.append(ServiceAccountAdmission())
        self.webhooks = Webhooks(self._world.new_uid)
        mutating, validating = MutatingWebhooks(self.webhooks), ValidatingWebhooks(self.webhooks)
        policies = ValidatingPolicies()
        admission.append(mutating)
        reviews = Reviews(self._authenticator, self._authorizer, tokens)
        self._handlers = Handlers(
            Writes(admission, [PodSecurity(), policies, validating, QuotaAdmission()]),
            reviews,
            tokens,
            PartAdmission(mutating, [policies.check, validating.check]),
            [mutating.check_deletion, policies.check, validating.check],
        )
        self._crds = CrdServing(self._world, self._handlers.end_watches, self.webhooks)
        self._discovered: dict[tuple[str, str], Response] = {}
        self._discovered_revision = -1
        bootstrap.fill(self._world)

    async def handle(self, request: Request) -> Response:
        """Answer one request; whatever a client sends, the answer says what was wrong with it."""
        query = Query(request.query)
        info = parse_route(request.method, request.path, watch=query.flag("watch"))
        trace = _Trace(request, info, self._world.now())
        warnings: list[str] = []
        try:
            trace.caller = self._authenticator.authenticate(request)
            trace.user = impersonated(request, trace.caller, self._authorizer.allowed)
            trace.info = info = _named_by_selector(info, query)
            if not self._authorizer.allowed(trace.user, info):
                raise rbac.forbidden(trace.user, info)
            if info.is_resource:
                response = await self._answer_resource(trace, query, warnings)
            else:
                response = self._answer_path(request)
        except status.StatusError as error:
            trace.reason = error.reason
            response = _status_response(error, request.headers.get("accept", ""))
        self._crds.settle()
        self._record(trace, response, query)
        return _finished(request, response, warnings)

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return self._handlers.open_watches

    def close(self) -> None:
        """End every open watch."""
        self._handlers.end_watches()

    def _decide(self, user: UserInfo, attributes: Mapping[str, str]) -> tuple[bool, str]:
        """Whether a user may do what an expression asks about."""
        if "path" in attributes:
            info = RequestInfo(attributes["verb"], attributes["path"])
        else:
            info = RequestInfo(
                attributes["verb"],
                "",
                is_resource=True,
                group=attributes["group"],
                version="*",
                plural=attributes["resource"],
                namespace=attributes.get("namespace", ""),
                name=attributes.get("name", ""),
                subresource=attributes.get("subresource", ""),
            )
        return self._authorizer.allowed(user, info), ""

    async def _answer_resource(self, trace: _Trace, query: Query, warnings: list[str]) -> Response:
        request, info, user = trace.request, trace.info, trace.user
        resource = self.registry.find(info.group, info.version, info.plural)
        if resource is None and (lacking := unserved(info)):
            raise status.not_implemented(lacking)
        if resource is None and not is_builtin(info.group):
            return _page_not_found()
        if resource is None or not _addresses(resource.namespaced, info):
            raise status.no_such_path()
        accept = request.headers.get("accept", "")
        if not resource.custom:
            check_acceptable(accept)
        representation = negotiate(accept, streaming=info.verb == "watch")
        call = Call(
            request,
            info,
            resource,
            user,
            query,
            representation,
            self._world,
            lambda wanted: self._authorizer.allowed(user, wanted),
            warnings,
            decide=self._decide,
        )
        trace.call = call
        if resource.deprecation_warning:
            warnings.append(resource.deprecation_warning)
        return await self._handlers.answer(call, self.kubelet)

    def _answer_path(self, request: Request) -> Response:
        """Answer what is not about a resource."""
        path, accept = request.path, request.headers.get("accept", "")
        parts = [part for part in path.split("/") if part]
        answer = self._discover(path, accept) or self._openapi.answer(path, accept)
        is_read = request.method in {"GET", "HEAD"}
        if not is_read and (parts in (["api"], ["version"]) or (answer and len(parts) == 3)):
            raise status.method_not_allowed("", "", "")
        if answer is not None:
            return answer
        if parts[:1] and parts[0] in _HEALTH_PATHS:
            return Response(200, {"content-type": "text/plain; charset=utf-8"}, b"ok")
        if parts == ["version"]:
            return Response(200, {"content-type": JSON_TYPE}, to_json(_version()))
        if not parts:
            paths = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3"]
            body = to_json({"paths": [*paths, "/readyz", "/version"]})
            return Response(200, {"content-type": JSON_TYPE}, body)
        return _page_not_found()

    def _discover(self, path: str, accept: str) -> Response | None:
        """Answer a discovery request from what was told before, while the same is served."""
        if self._discovered_revision != self.registry.revision:
            self._discovered_revision = self.registry.revision
            self._discovered.clear()
        known = self._discovered.get((path, accept))
        if known is None:
            known = discovery.discover(path, accept, self.registry)
            if known is not None and len(self._discovered) < _MOST_DISCOVERED:
                self._discovered[path, accept] = known
        return known

    def _record(self, trace: _Trace, response: Response, query: Query) -> None:
        info, call, request = trace.info, trace.call, trace.request
        self.audit.record(
            AuditEntry(
                audit_id=self._world.new_uid(),
                stage="ResponseComplete" if isinstance(response.body, bytes) else "ResponseStarted",
                received=trace.received,
                answered=self._world.now(),
                user=trace.user,
                impersonated_by=None if trace.user == trace.caller else trace.caller,
                verb=info.verb,
                method=request.method,
                request_uri=_uri(request),
                group=info.group,
                version=info.version,
                resource=info.plural,
                subresource=info.subresource,
                namespace=info.namespace,
                name=info.name or (call.object_name if call else ""),
                object_uid=call.object_uid if call else "",
                code=response.status,
                reason=trace.reason,
                user_agent=request.headers.get("user-agent", ""),
                source_address=request.source_address,
                dry_run=bool(query.texts("dryRun")),
                annotations=call.annotations if call else {},
            )
        )


@dataclass(slots=True)
class _Trace:
    """What the audit log will say about a request, as far as it has come."""

    request: Request
    info: RequestInfo
    received: datetime
    caller: UserInfo = ANONYMOUS
    user: UserInfo = ANONYMOUS
    call: Call | None = None
    reason: str = ""


def _addresses(namespaced: bool, info: RequestInfo) -> bool:
    """Whether the path fits the resource's scope; only lists and watches span namespaces."""
    if not namespaced:
        return not info.namespace or info.plural == "namespaces"
    return bool(info.namespace) or info.verb in {"list", "watch", "deletecollection", "create"}


def _named_by_selector(info: RequestInfo, query: Query) -> RequestInfo:
    """Take a list or watch of one name as being about that name, for authorization."""
    if info.name or info.verb not in {"list", "watch"} or not query.text("fieldSelector"):
        return info
    for requirement in selectors.parse_field_selector(query.text("fieldSelector")):
        if requirement.key == "metadata.name" and requirement.operator is selectors.Operator.IN:
            return replace(info, name=next(iter(requirement.values)))
    return info


def _version() -> dict[str, str]:
    major, minor, git_version = _VERSION
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def _uri(request: Request) -> str:
    query = urlencode(list(request.query))
    return quote(request.path) + (f"?{query}" if query else "")


def _page_not_found() -> Response:
    """Answer what no part of the server knows: not even a Status."""
    return Response(404, {"content-type": "text/plain; charset=utf-8"}, b"404 page not found\n")


def _status_response(error: status.StatusError, accept: str) -> Response:
    headers = {"content-type": JSON_TYPE}
    if error.retry_after_seconds is not None:
        headers["retry-after"] = str(error.retry_after_seconds)
    if prefers_yaml(accept):
        headers["content-type"] = "application/yaml"
        return Response(error.code, headers, to_yaml(error.to_status()))
    return Response(error.code, headers, to_json(error.to_status()))


def _finished(request: Request, response: Response, warnings: list[str]) -> Response:
    """Add the warnings, and leave the body out for HEAD."""
    headers, body = {"cache-control": "no-cache, private", **response.headers}, response.body
    if warnings:
        quoted = (
            text.replace("\\", "\\\\").replace('"', '\\"') for text in dict.fromkeys(warnings)
        )
        headers["warning"] = ", ".join(f'299 - "{text}"' for text in quoted)
    if request.method == "HEAD" and isinstance(body, bytes):
        body = b""
    return Response(response.status, headers, body)
