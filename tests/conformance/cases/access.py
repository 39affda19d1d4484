"""Who may do what, as roles, bindings, reviews and tokens say it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.asking import delete, get, patch, post, put
from tests.conformance.requests import Case, Json, Request

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/$ns/roles"
BINDINGS = f"{RBAC}/namespaces/$ns/rolebindings"
CLUSTER_ROLES = f"{RBAC}/clusterroles"
CLUSTER_BINDINGS = f"{RBAC}/clusterrolebindings"
REVIEWS = "/apis/authorization.k8s.io/v1"
TOKENS = "/apis/authentication.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/$ns/serviceaccounts"
MAPS = "/api/v1/namespaces/$ns/configmaps"
ALICE = "$ns-alice"

RULES: dict[str, Json] = {
    "read": {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list"]},
    "named": {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["one", "two"],
        "verbs": ["get", "update"],
    },
    "part": {"apiGroups": [""], "resources": ["pods/log", "*/scale"], "verbs": ["get"]},
    "group": {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]},
    "all parts": {"apiGroups": ["batch"], "resources": ["jobs/*"], "verbs": ["patch"]},
}
ASKED: list[dict[str, str]] = [
    *({"verb": v, "resource": "pods"} for v in ("get", "list", "watch", "delete", "*", "")),
    *({"verb": "get", "resource": r} for r in ("configmaps", "secrets", "services", "*", "")),
    *({"verb": "get", "resource": "secrets", "name": n} for n in ("one", "two", "three")),
    *({"verb": v, "resource": "secrets", "name": "one"} for v in ("update", "delete")),
    {"verb": "get", "resource": "pods", "subresource": "log"},
    {"verb": "get", "resource": "pods", "subresource": "exec"},
    {"verb": "get", "resource": "pods", "subresource": "scale"},
    {"verb": "get", "group": "apps", "resource": "deployments", "subresource": "scale"},
    {"verb": "delete", "group": "apps", "resource": "deployments"},
    {"verb": "delete", "group": "apps", "resource": "anything"},
    {"verb": "delete", "group": "batch", "resource": "jobs"},
    {"verb": "patch", "group": "batch", "resource": "jobs", "subresource": "status"},
    {"verb": "get", "group": "apps", "version": "v1", "resource": "pods"},
]


def role(name: str, *rules: Json, **more: Any) -> Json:
    """A Role."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    return {**head, "metadata": {"name": name}, "rules": list(rules), **more}


def cluster_role(name: str, *rules: Json, **more: Any) -> Json:
    """A ClusterRole."""
    return {**role(f"$ns-{name}", *rules), "kind": "ClusterRole", **more}


def binding(name: str, of: str, *subjects: Json, kind: str = "Role") -> Json:
    """A RoleBinding."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "subjects": list(subjects),
        "roleRef": {"apiGroup": group, "kind": kind, "name": of},
    }


def cluster_binding(name: str, of: str, *subjects: Json) -> Json:
    """A ClusterRoleBinding."""
    body = binding(f"$ns-{name}", of, *subjects, kind="ClusterRole")
    return {**body, "kind": "ClusterRoleBinding"}


def user(name: str = ALICE) -> Json:
    """A subject."""
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}


def review(kind: str, **spec: Any) -> Json:
    """A review."""
    group = "authentication" if kind in ("TokenReview", "SelfSubjectReview") else "authorization"
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}


def asked(attributes: dict[str, str], who: str = ALICE, **more: Any) -> Request:
    """Whether someone may do that in the namespace."""
    wanted = {"namespace": "$ns", **attributes}
    body = review("SubjectAccessReview", user=who, resourceAttributes=wanted, **more)
    return post(f"{REVIEWS}/subjectaccessreviews", body, keep=("spec", "status"))


def _decisions() -> Iterator[Request]:
    yield post(ROLES, role("some", *RULES.values()), keep=("rules",))
    yield post(BINDINGS, binding("some", "some", user()), keep=("subjects", "roleRef"))
    yield get(MAPS, user=ALICE, until=200, keep=("kind",))
    for attributes in ASKED:
        yield asked(attributes)
    yield asked({"verb": "get", "resource": "pods"}, "someone")
    yield asked({"verb": "get", "resource": "pods", "namespace": "other"})
    yield asked({"verb": "get", "resource": "pods", "namespace": ""})
    yield asked({"verb": "get", "resource": "pods"}, "someone", groups=["system:masters"])
    yield get(f"{MAPS}/none", user=ALICE)
    yield post(MAPS, {"metadata": {"name": "a"}}, user=ALICE)
    yield get("/api/v1/namespaces/$ns/services", user=ALICE)
    yield get("/api/v1/nodes", user=ALICE)
    yield delete(f"{MAPS}/a", user=ALICE)
    yield patch(f"{MAPS}/a", {"data": {}}, user=ALICE)
    yield get("/api/v1/namespaces/$ns/pods/a/exec", user=ALICE)
    yield get("/metrics", user=ALICE)
    yield get("/apis/nowhere.test/v1/things", user=ALICE)


def _cluster_wide() -> Iterator[Request]:
    paths = {"nonResourceURLs": ["/lab/*", "/exact"], "verbs": ["get"]}
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    yield post(CLUSTER_ROLES, cluster_role("wide", paths, nodes), keep=("rules",))
    yield post(CLUSTER_BINDINGS, cluster_binding("wide", "$ns-wide", user()), keep=("roleRef",))
    yield get("/api/v1/nodes/none", user=ALICE, until=404, keep=("kind",))
    for path in ("/lab/a", "/lab/", "/lab", "/exact", "/exact/a", "/", "*"):
        for verb in ("get", "post"):
            attributes = {"path": path, "verb": verb}
            body = review("SubjectAccessReview", user=ALICE, nonResourceAttributes=attributes)
            yield post(f"{REVIEWS}/subjectaccessreviews", body, keep=("spec", "status"))
    account = {"kind": "ServiceAccount", "name": "bot", "namespace": "$ns"}
    group = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "$ns-team"}
    yield post(
        BINDINGS, binding("bot", "$ns-wide", account, group, kind="ClusterRole"), keep=("subjects",)
    )
    bot = "system:serviceaccount:$ns:bot"
    yield post(MAPS, {"metadata": {"name": "x"}}, user=bot)
    yield asked({"verb": "get", "resource": "nodes"}, bot)
    yield asked({"verb": "get", "resource": "nodes"}, "someone", groups=["$ns-team"])
    yield asked({"verb": "get", "resource": "nodes", "namespace": ""}, bot)


def _aggregated() -> Iterator[Request]:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"$ns": "yes"}}]}
    whole = cluster_role("whole", aggregationRule=selector)
    yield post(CLUSTER_ROLES, whole, keep=("aggregationRule", "rules"))
    bad = cluster_role("bad", aggregationRule={"clusterRoleSelectors": []})
    yield post(CLUSTER_ROLES, bad, dryRun="All")
    wrong = {"clusterRoleSelectors": [{"matchLabels": {"a b": "c"}}]}
    yield post(CLUSTER_ROLES, cluster_role("bad", aggregationRule=wrong), dryRun="All")


SHAPES: dict[str, list[Json]] = {
    "nothing": [{}],
    "no verbs": [{"apiGroups": [""], "resources": ["pods"]}],
    "no groups": [{"resources": ["pods"], "verbs": ["get"]}],
    "no resources": [{"apiGroups": [""], "verbs": ["get"]}],
    "paths in a namespace": [{"nonResourceURLs": ["/a"], "verbs": ["get"]}],
    "paths and resources": [
        {"nonResourceURLs": ["/a"], "apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    ],
    "no rules": [],
}


def _shapes() -> Iterator[Request]:
    for rules in SHAPES.values():
        yield post(ROLES, role("shape", *rules), dryRun="All", keep=("rules",))
        yield post(CLUSTER_ROLES, cluster_role("shape", *rules), dryRun="All", keep=("rules",))
    for name in ("a", "A b", "a:b", "a/b", "..", ""):
        yield post(ROLES, role(name), dryRun="All", keep=("rules",))
    bindings: list[Json] = [
        binding("a", "some", user()),
        binding("a", "some"),
        binding("a", "", user()),
        binding("a", "some", user(), kind="Thing"),
        binding("a", "some", {"kind": "User", "name": "x"}),
        binding("a", "some", {"kind": "User", "name": ""}),
        binding("a", "some", {"kind": "Thing", "name": "x"}),
        binding("a", "some", {"kind": "ServiceAccount", "name": "x"}),
        binding("a", "some", {"kind": "ServiceAccount", "name": "X y", "namespace": "n"}),
        binding("a", "some", {"kind": "Group", "apiGroup": "other", "name": "x"}),
        {**binding("a", "some", user()), "roleRef": {}},
    ]
    for body in bindings:
        yield post(BINDINGS, body, dryRun="All", keep=("subjects", "roleRef"))
    yield post(
        CLUSTER_BINDINGS, cluster_binding("a", "$ns-none", user()), dryRun="All", keep=("subjects",)
    )
    yield post(BINDINGS, binding("kept", "some", user()), keep=("roleRef",))
    yield put(f"{BINDINGS}/kept", binding("kept", "other", user()))
    yield put(f"{BINDINGS}/kept", binding("kept", "some", user("$ns-bob")), keep=("subjects",))


def _escalation() -> Iterator[Request]:
    roles = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create"]}
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    yield post(
        ROLES,
        role("maker", {**roles, "verbs": ["create", "update", "get", "list"]}, pods),
        keep=("rules",),
    )
    yield post(BINDINGS, binding("maker", "maker", user()), keep=("roleRef",))
    yield get(ROLES, user=ALICE, until=200, keep=("kind",))
    tries: list[Json] = [
        pods,
        {**pods, "verbs": ["get"]},
        {**pods, "verbs": ["get", "delete"]},
        {**pods, "resources": ["pods", "secrets"]},
        {**pods, "resources": ["*"]},
        {**pods, "apiGroups": ["*"]},
        {**pods, "verbs": ["*"]},
        {**pods, "resourceNames": ["a"]},
        {**pods, "resources": ["pods/log"]},
    ]
    for number, rule in enumerate(tries):
        yield post(ROLES, role(f"try-{number}", rule), user=ALICE, keep=("rules",), dryRun="All")
    yield post(ROLES, role("fine", pods), user=ALICE, keep=("rules",))
    yield post(ROLES, role("strong", {**pods, "verbs": ["delete"]}), keep=("rules",))
    yield put(f"{ROLES}/fine", role("fine", {**pods, "verbs": ["delete"]}), user=ALICE)
    yield put(
        f"{ROLES}/strong",
        role("strong", {**pods, "verbs": ["delete"]}),
        user=ALICE,
        keep=("rules",),
    )
    yield post(BINDINGS, binding("fine", "fine", user("x")), user=ALICE, keep=("roleRef",))
    yield post(BINDINGS, binding("strong", "strong", user("x")), user=ALICE)
    yield post(BINDINGS, binding("none", "none", user("x")), user=ALICE)
    yield post(
        BINDINGS, binding("admin", "cluster-admin", user("x"), kind="ClusterRole"), user=ALICE
    )
    more = {**roles, "verbs": ["bind", "escalate"]}
    yield put(
        f"{ROLES}/maker",
        role("maker", {**roles, "verbs": ["create", "get", "list"]}, more),
        keep=("rules",),
    )
    yield post(
        ROLES, role("free", {**pods, "verbs": ["*"]}), user=ALICE, until=201, keep=("rules",)
    )
    yield post(BINDINGS, binding("strong", "strong", user("x")), user=ALICE, keep=("roleRef",))


def _impersonation() -> Iterator[Request]:
    named = {"apiGroups": [""], "resources": ["users"], "resourceNames": ["$ns-bob"]}
    yield post(
        CLUSTER_ROLES, cluster_role("as", {**named, "verbs": ["impersonate"]}), keep=("rules",)
    )
    yield post(CLUSTER_BINDINGS, cluster_binding("as", "$ns-as", user()), keep=("subjects",))
    mine = f"{TOKENS}/selfsubjectreviews"
    me = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    yield post(mine, me, keep=("status",), user="someone")
    team = {"Impersonate-Group": "team"}
    yield post(mine, me, keep=("status",), user="someone", headers=team)
    yield post(mine, me, keep=("status",), headers=team)
    yield post(mine, me, keep=("status",), headers={"Impersonate-Uid": "7"})
    yield post(mine, me, keep=("status",), user="someone", headers={"Impersonate-Uid": "7"})
    yield post(
        mine, me, keep=("status",), user="someone", headers={"Impersonate-Extra-Scopes": "a"}
    )
    yield post(mine, me, keep=("status",), user="system:serviceaccount:$ns:bot")
    yield post(mine, me, keep=("status",), user="system:anonymous")


def _reviews() -> Iterator[Request]:
    pods = {"namespace": "$ns", "verb": "get", "resource": "pods"}
    for kind in ("SubjectAccessReview", "SelfSubjectAccessReview"):
        path = f"{REVIEWS}/{kind.lower()}s"
        specs: list[dict[str, Any]] = [
            {},
            {"resourceAttributes": pods},
            {"nonResourceAttributes": {"path": "/", "verb": "get"}},
            {"resourceAttributes": pods, "nonResourceAttributes": {"path": "/", "verb": "get"}},
            {"resourceAttributes": pods, "user": "x"},
            {"resourceAttributes": pods, "groups": ["system:masters"]},
            {"resourceAttributes": pods, "user": "x", "extra": {"a": ["b"]}, "uid": "7"},
            {"resourceAttributes": {**pods, "fieldSelector": {"rawSelector": "a=b"}}, "user": "x"},
        ]
        for spec in specs:
            yield post(path, review(kind, **spec), keep=("spec", "status"))
    local = f"{REVIEWS}/namespaces/$ns/localsubjectaccessreviews"
    for namespace in ("$ns", "other", ""):
        attributes = {**pods, "namespace": namespace}
        body = review("LocalSubjectAccessReview", user="x", resourceAttributes=attributes)
        yield post(local, body, keep=("spec", "status"))
    root = {"path": "/", "verb": "get"}
    yield post(
        local,
        review("LocalSubjectAccessReview", user="x", nonResourceAttributes=root),
        keep=("status",),
    )
    yield post(local, review("LocalSubjectAccessReview", user="x"))
    yield get(f"{REVIEWS}/subjectaccessreviews")
    yield delete(f"{REVIEWS}/subjectaccessreviews/a")
    yield post(f"{TOKENS}/tokenreviews", review("TokenReview", token="nonsense"), keep=("status",))
    yield post(f"{TOKENS}/tokenreviews", review("TokenReview", token=""), keep=("status",))
    yield post(f"{TOKENS}/tokenreviews", review("TokenReview"), keep=("status",))
    yield post(
        f"{TOKENS}/tokenreviews",
        review("TokenReview", token="a.b.c", audiences=["x"]),
        keep=("status",),
    )


def _tokens() -> Iterator[Request]:
    yield post(ACCOUNTS, {"metadata": {"name": "bot"}}, keep=("kind",))
    token = f"{ACCOUNTS}/bot/token"
    yield post("/api/v1/namespaces/$ns/secrets", {"metadata": {"name": "s"}}, keep=("kind",))
    specs: list[dict[str, Any]] = [
        {},
        {"expirationSeconds": 599},
        {"expirationSeconds": 600},
        {"expirationSeconds": 0},
        {"expirationSeconds": 1 << 33},
        {"audiences": ["one", "two"]},
        {"audiences": [""]},
        {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}},
        {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}},
        {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "7"}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}},
        {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}},
        {"boundObjectRef": {"kind": "Secret", "apiVersion": "v2", "name": "s"}},
        {"boundObjectRef": {}},
    ]
    for spec in specs:
        yield post(token, {"spec": spec}, keep=("kind", "apiVersion"))
    yield post(token, {"metadata": {"name": "other"}, "spec": {}}, keep=("kind",))
    yield post(f"{ACCOUNTS}/none/token", {"spec": {}})
    yield get(token)


CASES = (
    Case("decisions", tuple(_decisions())),
    Case("cluster-wide", tuple(_cluster_wide())),
    Case("aggregation", tuple(_aggregated())),
    Case("shapes", tuple(_shapes())),
    Case("escalation", tuple(_escalation())),
    Case("impersonation", tuple(_impersonation())),
    Case("reviews", tuple(_reviews())),
    Case("tokens", tuple(_tokens())),
)
