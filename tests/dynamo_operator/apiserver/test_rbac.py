import pytest

from dynamo_operator.apiserver import ApiServer
from dynamo_operator.apiserver.rbac import covers, rule_allows
from dynamo_operator.apiserver.routes import RequestInfo
from tests.dynamo_operator.apiserver.api import (
    APPLY,
    CONFIG_MAPS,
    CORE,
    CRDS,
    PODS,
    WIDGETS,
    Api,
    Json,
    config_map,
    widget,
    widget_crd,
)

pytestmark = pytest.mark.virtual_time

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"


def rule(verbs: str, resources: str, group: str = "", **fields: list[str]) -> Json:
    return {
        "apiGroups": [group],
        "resources": resources.split(),
        "verbs": verbs.split(),
        **fields,
    }


def role(name: str, *rules: Json) -> Json:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, role_name: str, user: str, kind: str = "Role") -> Json:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role_name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


async def granted(user: str, *rules: Json, cluster: bool = False) -> tuple[Api, Api]:
    """Return an administrator and a user who holds the rules in `default` (or everywhere)."""
    admin = Api()
    if cluster:
        await admin.create(f"{RBAC}/clusterroles", role(user, *rules))
        body = binding(user, user, user, "ClusterRole")
        answer = await admin.create(f"{RBAC}/clusterrolebindings", body)
    else:
        await admin.create(ROLES, role(user, *rules))
        answer = await admin.create(BINDINGS, binding(user, user, user))
    assert answer.status == 201, answer.body
    return admin, admin.as_user(user)


@pytest.mark.parametrize(
    ("granting", "asked", "expected"),
    [
        (rule("get", "pods"), {"verb": "get", "plural": "pods"}, True),
        (rule("get", "pods"), {"verb": "get", "plural": "pods", "subresource": "log"}, False),
        (rule("get", "pods/log"), {"verb": "get", "plural": "pods", "subresource": "log"}, True),
        (rule("get", "*/log"), {"verb": "get", "plural": "pods", "subresource": "log"}, True),
        (rule("*", "*", "*"), {"verb": "x", "group": "a.b", "plural": "c"}, True),
        (rule("get", "pods", "apps"), {"verb": "get", "plural": "pods"}, False),
        (
            rule("get", "pods", resourceNames=["a"]),
            {"verb": "get", "plural": "pods", "name": "a"},
            True,
        ),
        (
            rule("get", "pods", resourceNames=["a"]),
            {"verb": "get", "plural": "pods", "name": "b"},
            False,
        ),
        (rule("list", "pods", resourceNames=["a"]), {"verb": "list", "plural": "pods"}, False),
    ],
)
def test_a_rule_allows(granting, asked, expected):
    verb = asked.pop("verb")

    assert rule_allows(granting, RequestInfo(verb, "", is_resource=True, **asked)) is expected


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ([rule("get list", "pods")], rule("get", "pods"), True),
        ([rule("get", "pods"), rule("list", "pods")], rule("get list", "pods"), True),
        ([rule("get", "pods")], rule("get", "pods secrets"), False),
        ([rule("get", "pods")], rule("*", "pods"), False),
        ([rule("get", "pods", resourceNames=["a"])], rule("get", "pods"), False),
        ([rule("get", "pods")], rule("get", "pods", resourceNames=["a"]), True),
        ([rule("get", "*")], rule("get", "pods/log"), True),
        ([rule("get", "pods")], rule("get", "pods/log"), False),
    ],
)
def test_rules_cover_what_they_all_allow_together(held, wanted, expected):
    assert covers(held, wanted) is expected


async def test_a_user_may_what_a_role_grants_in_its_namespace_only():
    admin, user = await granted("u", rule("get list", "pods"))
    await admin.create(f"{CORE}/namespaces", {"metadata": {"name": "other"}})

    inside = await user.get(PODS)
    outside = await user.get(f"{CORE}/namespaces/other/pods")

    assert inside.status == 200
    assert (outside.status, outside.message) == (
        403,
        'pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace '
        '"other"',
    )


async def test_a_refusal_names_object_subresource_and_scope():
    user = Api().as_user("u")

    named = await user.get(f"{PODS}/p/log")
    cluster = await user.get(f"{CORE}/nodes")

    assert named.message == (
        'pods "p" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the '
        'namespace "default"'
    )
    assert cluster.message == (
        'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster '
        "scope"
    )


async def test_a_list_of_one_name_is_allowed_by_that_name():
    _, user = await granted("u", rule("list watch", "configmaps", resourceNames=["a"]))

    allowed = await user.get(CONFIG_MAPS, fieldSelector="metadata.name=a")
    refused = await user.get(CONFIG_MAPS)

    assert (allowed.status, refused.status) == (200, 403)


async def test_a_service_account_is_a_subject():
    admin = Api()
    await admin.create(ROLES, role("r", rule("list", "pods")))
    body = binding("b", "r", "")
    body["subjects"] = [{"kind": "ServiceAccount", "name": "sa", "namespace": "default"}]
    await admin.create(BINDINGS, body)

    answer = await admin.as_user("system:serviceaccount:default:sa").get(PODS)

    assert answer.status == 200


async def test_the_anonymous_may_see_the_health_and_nothing_else():
    nobody = Api(None, ApiServer())

    health = await nobody.get("/healthz", accept="text/plain")
    pods = await nobody.get(PODS)

    assert (health.status, health.body) == (200, b"ok")
    assert pods.status == 403
    assert 'User "system:anonymous" cannot list' in pods.message


async def test_nobody_grants_in_a_role_what_he_does_not_hold():
    _, user = await granted("u", rule("create update", "roles", "rbac.authorization.k8s.io"))

    answer = await user.create(ROLES, role("r", rule("get", "secrets")))

    assert answer.status == 403
    assert answer.message.endswith(
        'user "u" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not '
        'currently held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


@pytest.mark.parametrize("way", ["update", "patch", "apply"])
async def test_every_way_of_writing_a_role_is_checked(way):
    admin, user = await granted(
        "u",
        rule("create update patch get", "roles", "rbac.authorization.k8s.io"),
        rule("get", "pods"),
    )
    made = await user.create(ROLES, role("r", rule("get", "pods")))
    more = [rule("get", "pods"), rule("get", "secrets")]

    match way:
        case "update":
            answer = await user.replace(f"{ROLES}/r", made.body | {"rules": more})
        case "patch":
            answer = await user.merge(f"{ROLES}/r", {"rules": more})
        case _:
            body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
            body |= role("r", *more)
            answer = await user.ask(
                "PATCH", f"{ROLES}/r", body, content_type=APPLY, fieldManager="m", force="true"
            )

    assert made.status == 201
    assert answer.status == 403
    assert (await admin.get(f"{ROLES}/r")).body["rules"] == made.body["rules"]


async def test_who_may_escalate_grants_what_he_likes():
    _, user = await granted("u", rule("create escalate", "roles", "rbac.authorization.k8s.io"))

    answer = await user.create(ROLES, role("r", rule("get", "secrets")))

    assert answer.status == 201


async def test_nobody_binds_a_role_that_holds_more_than_he_does():
    admin, user = await granted(
        "u", rule("create", "rolebindings", "rbac.authorization.k8s.io"), rule("get", "pods")
    )
    await admin.create(ROLES, role("more", rule("get", "secrets")))
    await admin.create(ROLES, role("same", rule("get", "pods")))

    refused = await user.create(BINDINGS, binding("b1", "more", "x"))
    allowed = await user.create(BINDINGS, binding("b2", "same", "x"))

    assert refused.status == 403
    assert allowed.status == 201


async def test_who_may_bind_a_role_needs_not_hold_it():
    admin, user = await granted(
        "u",
        rule("create", "rolebindings", "rbac.authorization.k8s.io"),
        rule("bind", "roles", "rbac.authorization.k8s.io", resourceNames=["more"]),
    )
    await admin.create(ROLES, role("more", rule("get", "secrets")))

    answer = await user.create(BINDINGS, binding("b", "more", "x"))

    assert answer.status == 201


def owned(uid: str, *, blocks: bool) -> Json:
    body = config_map("child")
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "lab.test/v1",
            "kind": "Widget",
            "name": "w",
            "uid": uid,
            "blockOwnerDeletion": blocks,
        }
    ]
    return body


async def test_blocking_an_owners_deletion_needs_its_finalizers():
    admin, user = await granted("u", rule("create", "configmaps"))
    await admin.create(CRDS, widget_crd())
    uid = (await admin.create(WIDGETS, widget("w"))).body["metadata"]["uid"]

    refused = await user.create(CONFIG_MAPS, owned(uid, blocks=True))
    allowed = await user.create(CONFIG_MAPS, owned(uid, blocks=False))

    assert refused.message == (
        'configmaps "child" is forbidden: cannot set blockOwnerDeletion if an ownerReference '
        "refers to a resource you can't set finalizers on: , <nil>"
    )
    assert allowed.status == 201


async def test_who_may_update_an_owners_finalizers_may_block_its_deletion():
    admin, user = await granted(
        "u", rule("create", "configmaps"), rule("update", "widgets/finalizers", "lab.test")
    )
    await admin.create(CRDS, widget_crd())
    uid = (await admin.create(WIDGETS, widget("w"))).body["metadata"]["uid"]

    answer = await user.create(CONFIG_MAPS, owned(uid, blocks=True))

    assert answer.status == 201


async def test_changing_owners_needs_the_right_to_delete():
    admin, user = await granted("u", rule("patch", "configmaps"))
    await admin.create(CONFIG_MAPS, config_map("child"))

    owners = owned("x", blocks=False)["metadata"]["ownerReferences"]
    answer = await user.merge(f"{CONFIG_MAPS}/child", {"metadata": {"ownerReferences": owners}})

    assert "cannot set an ownerRef on a resource you can't delete" in answer.message


async def test_an_apply_that_creates_needs_create_too():
    _, user = await granted("u", rule("patch", "configmaps"))

    answer = await user.apply(f"{CONFIG_MAPS}/a", config_map("a"))

    assert answer.status == 403
    assert 'cannot create resource "configmaps"' in answer.message


async def test_impersonation_needs_its_own_right_and_then_acts_as_the_other():
    admin, user = await granted("u", rule("impersonate", "users"), cluster=True)
    headers = {"impersonate-user": "somebody"}

    allowed = await user.get(PODS, headers=headers)
    refused = await admin.as_user("x").get(PODS, headers=headers)

    assert 'User "somebody" cannot list' in allowed.message
    assert 'User "x" cannot impersonate resource "users"' in refused.message
    entry = admin.server.audit.entries[-2]
    assert (entry.user.name, entry.impersonated_by and entry.impersonated_by.name) == (
        "somebody",
        "u",
    )
