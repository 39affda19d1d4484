"""Our webhooks behind each API server: admission, conversion, and a certificate of their own.

The servers reach them over TLS on the loopback interface; the certificate is self-made, and trusted
because the manager writes its authority into the configurations.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    MutatingWebhookConfiguration,
    Namespace,
    Role,
    RoleBinding,
    Secret,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client import Client
from dynamo_operator.runtime.client.errors import ApiError, ForbiddenError, InvalidError
from dynamo_operator.runtime.manager import Manager
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.webhooks.admission import Admission, DeniedError, Handler, Verdict
from dynamo_operator.runtime.webhooks.certificates import (
    SecretCertificate,
    configuration_permissions,
    secret_permissions,
)
from dynamo_operator.runtime.webhooks.configuration import (
    UrlEndpoint,
    conversion_strategy,
    mutating_configuration,
    validating_configuration,
)
from dynamo_operator.runtime.webhooks.server import Webhooks
from dynamo_operator.runtime.webhooks.webhook import Webhook
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.webhooks.gadgets import (
    CONVERSION,
    STASH,
    Gadget,
    GadgetV1alpha1,
    gadget_crd,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = "conformance-webhooks"
PATIENCE_SECONDS = 30.0
CONFIGURATIONS: dict[str, Any] = {
    "mutating": [NAME],
    "validating": [NAME],
    "converted": ["gadgets.lab.test"],
}
SEEN: list[tuple[str, bool, bool]] = []
"""Operation, dry run, and whether it was requested in the version that was judged."""


REVIEWS: list[tuple[str, Admission]] = []
"""What the raw handlers were asked."""


def noting(phase: str) -> Handler:
    async def note(admission: Admission) -> Verdict:
        REVIEWS.append((phase, admission))
        return Verdict.allow()

    return note


def painted(gadget: Gadget, admission: Any) -> Gadget:
    if not gadget.spec.color:
        gadget.spec.color = "grey"
    return gadget


def seen(admission: Any) -> None:
    same = admission.kind == admission.requested_kind
    SEEN.append((admission.operation, admission.dry_run, same))


def checked(gadget: Gadget, admission: Any) -> list[str]:
    seen(admission)
    if gadget.spec.color == "plaid":
        raise DeniedError("spec.color: must not be plaid", code=422, reason="Invalid")
    return ["spec.color: is loud"] if gadget.spec.color == "pink" else []


def checked_change(new: Gadget, old: Gadget, admission: Any) -> list[str]:
    if new.spec.color != old.spec.color:
        raise DeniedError(f"spec.color: must stay {old.spec.color}")
    return checked(new, admission)


def checked_deletion(gadget: Gadget, admission: Any) -> None:
    seen(admission)
    if gadget.labels.get("keep"):
        raise DeniedError("metadata.labels: remove keep first")


class Stage:
    """The manager that serves, and the namespace whose gadgets are judged."""

    def __init__(self, cluster: Any, manager: Manager, namespace: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.manager = manager
        self.namespace = namespace

    def gadget(self, name: str, **fields: Any) -> Gadget:
        return Gadget.new(name, namespace=self.namespace, **fields)

    def old_gadget(self, name: str, **fields: Any) -> GadgetV1alpha1:
        return GadgetV1alpha1.new(name, namespace=self.namespace, **fields)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(cluster: Any) -> AsyncIterator[Stage]:
    if not cluster.has_own_server:
        pytest.skip("a cluster that was there before does not reach this process")
    client = cluster.client
    namespace = Namespace.new(NAME, labels={"judged": "yes"})
    await client.create(namespace)
    certificate = SecretCertificate(
        await entitled(cluster),
        ObjectKey(NAME, "webhook-cert"),
        hosts=["127.0.0.1"],
        **CONFIGURATIONS,
        check_every_seconds=0.1,
        clock=cluster.clock,
        random=cluster.random,
    )
    webhook = Webhook(
        Gadget,
        default=painted,
        validate_create=checked,
        validate_update=checked_change,
        validate_delete=checked_deletion,
        namespace_selector={"matchLabels": {"judged": "yes"}},
        match_conditions={"not-spared": "request.operation == 'DELETE' || "
                          "!has(object.metadata.labels) || !('spared' in object.metadata.labels)"},
    )  # fmt: skip
    webhooks = Webhooks(
        [webhook],
        handlers={"/note-mutating": noting("mutating"), "/note-validating": noting("validating")},
        conversions=[CONVERSION],
        certificate=certificate,
        address="127.0.0.1:0",
    )
    manager = Manager(client, clock=cluster.clock, random=cluster.random)
    manager.add(webhooks)
    async with manager.running():
        endpoint = UrlEndpoint(f"https://127.0.0.1:{webhooks.port}")
        await cluster.install(gadget_crd(conversion_strategy(endpoint)))
        for made in (
            mutating_configuration(NAME, [webhook], endpoint),
            validating_configuration(NAME, [webhook], endpoint),
        ):
            phase = "mutating" if made["kind"].startswith("Mutating") else "validating"
            made["webhooks"].append(noted(made["webhooks"][0], f"{endpoint.url}/note-{phase}"))
            kind = (
                MutatingWebhookConfiguration
                if made["kind"].startswith("Mutating")
                else ValidatingWebhookConfiguration
            )
            await client.create(kind.model_validate(made))
        stage = Stage(cluster, manager, NAME)
        await cluster.eventually(lambda: refuses_plaid(stage), timeout=PATIENCE_SECONDS)
        try:
            yield stage
        finally:
            for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
                await client.delete(kind, ObjectKey("", NAME))
            for granted in (ClusterRole, ClusterRoleBinding):
                await client.delete(granted, ObjectKey("", NAME))
            await client.delete(CustomResourceDefinition, ObjectKey("", "gadgets.lab.test"))
            await client.delete(Namespace, namespace.key)


def noted(webhook: dict[str, Any], url: str) -> dict[str, Any]:
    """Return a webhook that is shown the same namespaces' ConfigMaps and scales."""
    rule = {
        "apiGroups": ["", "apps"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["configmaps", "deployments/scale", "pods/eviction"],
    }
    return {
        "name": "note.lab.test",
        "clientConfig": {"url": url},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": webhook["namespaceSelector"],
    }


async def entitled(cluster: Any) -> Client:
    """Return a client that may do what a certificate does, and nothing else."""
    subjects = [{"kind": "User", "name": NAME, "apiGroup": "rbac.authorization.k8s.io"}]
    roles: tuple[tuple[type[KubeModel], type[KubeModel], str, Any], ...] = (
        (Role, RoleBinding, NAME, secret_permissions("webhook-cert")),
        (ClusterRole, ClusterRoleBinding, "", configuration_permissions(**CONFIGURATIONS)),
    )
    for role, binding, namespace, permissions in roles:
        rules = [
            {
                "apiGroups": [permission.group],
                "resources": list(permission.resources),
                "verbs": list(permission.verbs),
                "resourceNames": list(permission.names),
            }
            for permission in permissions
        ]
        await cluster.client.create(role.new(NAME, namespace=namespace, rules=rules))
        reference = {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role.resource_type.kind,
            "name": NAME,
        }
        await cluster.client.create(
            binding.new(NAME, namespace=namespace, role_ref=reference, subjects=subjects)
        )
    client: Client = cluster.client_of(NAME)
    return client


async def refuses_plaid(stage: Stage) -> bool:
    """Whether the server has taken up both configurations and the trust in them."""
    plaid = stage.old_gadget("probe", annotations={STASH: "plaid"})
    try:
        made = await stage.client.create(stage.old_gadget("probe"), dry_run=True)
        await stage.client.create(plaid, dry_run=True)
    except InvalidError:
        return bool(made.annotations.get(STASH) == "grey")
    except ApiError:
        return False  # the webhook is called, but not trusted yet
    return False


async def test_what_is_left_out_is_filled_in(stage):
    made = await stage.client.create(stage.gadget("plain", spec={"size": {"number": 1}}))

    assert made.spec.color == "grey"
    assert made.spec.size.unit == "mm"


async def test_what_a_webhook_fills_in_belongs_to_no_field_manager(stage):
    made = await stage.client.create(stage.gadget("owned", spec={"size": {"number": 1}}))

    (entry,) = made.to_dict()["metadata"]["managedFields"]
    assert "f:color" not in entry["fieldsV1"]["f:spec"]
    assert "f:number" in entry["fieldsV1"]["f:spec"]["f:size"]


async def test_what_is_wrong_is_denied_with_the_status_of_the_validator(stage):
    with pytest.raises(InvalidError) as denied:
        await stage.client.create(stage.gadget("plaid", spec={"color": "plaid"}))

    assert denied.value.message == (
        'admission webhook "validate.v1.gadgets.lab.test" denied the request: '
        "spec.color: must not be plaid"
    )


async def test_a_warning_reaches_the_client(stage):
    body = b'{"metadata":{"name":"pink"},"spec":{"color":"pink"}}'.replace(
        b'{"meta', b'{"apiVersion":"lab.test/v1","kind":"Gadget","meta'
    )

    answer = await stage.client.request(
        "POST", f"/apis/lab.test/v1/namespaces/{stage.namespace}/gadgets", body=body
    )

    assert '299 - "spec.color: is loud"' in answer.headers["warning"]


async def test_a_dry_run_is_judged_as_one_and_leaves_nothing(stage):
    SEEN.clear()

    made = await stage.client.create(stage.gadget("dry"), dry_run=True)

    assert made.spec.color == "grey"
    assert SEEN == [("CREATE", True, True)]
    assert await stage.client.find(Gadget, made.key) is None


async def test_a_change_is_judged_with_what_was_there(stage):
    made = await stage.client.create(stage.gadget("change", spec={"color": "red"}))

    with pytest.raises(ForbiddenError, match=r"spec\.color: must stay red"):
        await stage.client.patch(Gadget, made.key, {"spec": {"color": "blue"}})
    changed = await stage.client.patch(Gadget, made.key, {"spec": {"size": {"number": 2}}})

    assert (changed.spec.color, changed.spec.size.number) == ("red", 2)


async def test_the_status_is_not_judged(stage):
    made = await stage.client.create(stage.gadget("status", spec={"color": "red"}))
    SEEN.clear()

    applied = await stage.client.apply_status(made, {"ready": True})

    assert applied.status == {"ready": True}
    assert SEEN == []


async def test_a_deletion_is_judged_and_spared_while_it_must_be(stage):
    made = await stage.client.create(stage.gadget("kept", labels={"keep": "yes"}))

    with pytest.raises(ForbiddenError, match="remove keep first"):
        await stage.client.delete(Gadget, made.key)
    await stage.client.patch(Gadget, made.key, {"metadata": {"labels": None}})
    await stage.client.delete(Gadget, made.key)

    assert await stage.client.find(Gadget, made.key) is None


async def test_a_condition_spares_objects(stage):
    made = await stage.client.create(
        stage.gadget("spared", labels={"spared": "yes"}, spec={"color": "plaid"})
    )

    assert made.spec.color == "plaid"


async def test_other_namespaces_are_not_judged(stage, namespace):
    made = await stage.client.create(
        Gadget.new("elsewhere", namespace=namespace, spec={"color": "plaid"})
    )

    assert made.spec.color == "plaid"


async def test_an_object_is_there_in_every_version(stage):
    made = await stage.client.create(
        stage.gadget("both", labels={"l": "1"}, spec={"size": {"number": 4}, "color": "red"})
    )

    old = await stage.client.get(GadgetV1alpha1, made.key)
    await stage.client.patch(GadgetV1alpha1, made.key, {"spec": {"size": "5in"}})
    again = await stage.client.get(Gadget, made.key)

    assert old.spec == {"size": "4mm"}
    assert old.annotations == {STASH: "red"}
    assert (old.uid, old.labels) == (made.uid, {"l": "1"})
    assert (again.spec.size.number, again.spec.size.unit) == (5, "in")
    assert again.spec.color == "red"


async def test_a_request_through_another_version_is_judged_in_ours(stage):
    SEEN.clear()

    made = await stage.client.create(stage.old_gadget("old", spec={"size": "7mm"}))
    with pytest.raises(InvalidError, match="must not be plaid"):
        await stage.client.create(stage.old_gadget("bad", annotations={STASH: "plaid"}))

    assert made.annotations == {STASH: "grey"}
    assert SEEN == [("CREATE", False, False)] * 2


async def test_what_cannot_be_converted_is_refused_with_its_reason(stage):
    with pytest.raises(ApiError, match="'big' must be a number and a unit"):
        await stage.client.create(stage.old_gadget("big", spec={"size": "big"}))


async def test_a_cache_fills_with_what_its_own_manager_converts(stage):
    """Statement 99: the initial list needs the webhook that is served by the same manager."""
    await stage.client.create(stage.gadget("cached", spec={"size": {"number": 9}}))
    await stage.manager.client.create(ConfigMap.new("unrelated", namespace=stage.namespace))
    other = Manager(
        stage.client, namespaces=[stage.namespace], clock=stage.cluster.clock,
        random=stage.cluster.random,
    )  # fmt: skip
    other.cache.declare(GadgetV1alpha1)

    async with other.running():
        gadget = await other.reader.get(GadgetV1alpha1, ObjectKey(stage.namespace, "cached"))
        await stage.client.patch(Gadget, gadget.key, {"spec": {"size": {"number": 10}}})
        seen_later = await stage.cluster.eventually(
            lambda: other.reader.get(GadgetV1alpha1, gadget.key),
            lambda found: found.spec["size"] == "10mm",
        )

    assert gadget.spec["size"] == "9mm"
    assert seen_later.annotations == {STASH: "grey"}


async def test_the_certificate_does_nothing_that_its_permissions_do_not_name(stage):
    refused = [
        f"{entry.verb} {entry.resource} {entry.name}"
        for entry in stage.cluster.audit.entries
        if entry.user.name == NAME and entry.code == 403
    ]

    assert refused == []


async def test_every_verb_is_shown_alike(stage):
    client, path = stage.client, f"/api/v1/namespaces/{stage.namespace}/configmaps"
    REVIEWS.clear()
    made = await client.request(
        "POST", path, query=[("fieldManager", "me")],
        body=b'{"metadata":{"generateName":"g-","labels":{"noted":"yes"}},"data":{"a":"1"}}',
    )  # fmt: skip
    name = json.loads(made.body)["metadata"]["name"]
    key = ObjectKey(stage.namespace, name)
    await client.patch(ConfigMap, key, {"data": {"a": "2"}})
    applied = ConfigMap.new(name, namespace=stage.namespace, data={"b": "3"})
    await client.apply(applied, dry_run=True)
    body = b'{"gracePeriodSeconds":3}'
    await client.request("DELETE", path, query=[("labelSelector", "noted=yes")], body=body)

    shown = [
        (
            phase,
            review.operation,
            review.name == name,
            (review.object or {}).get("data"),
            (review.old_object or {}).get("data"),
            (review.options or {}).get("kind"),
            review.dry_run,
        )
        for phase, review in REVIEWS
    ]
    one, two, three = {"a": "1"}, {"a": "2"}, {"a": "2", "b": "3"}
    assert shown == [
        ("mutating", "CREATE", False, one, None, "CreateOptions", False),
        ("validating", "CREATE", True, one, None, "CreateOptions", False),
        ("mutating", "UPDATE", True, two, one, "UpdateOptions", False),
        ("validating", "UPDATE", True, two, one, "UpdateOptions", False),
        ("mutating", "UPDATE", True, three, two, "UpdateOptions", True),
        ("validating", "UPDATE", True, three, two, "UpdateOptions", True),
        ("mutating", "DELETE", False, None, two, "DeleteOptions", False),
        ("validating", "DELETE", False, None, two, "DeleteOptions", False),
    ]
    first, last = REVIEWS[0][1], REVIEWS[-1][1]
    assert (first.options or {})["fieldManager"] == "me"
    assert (last.options or {})["gracePeriodSeconds"] == 3
    assert first.requester.name == "admin"
    created = (first.object or {})["metadata"]
    assert "uid" not in created
    assert "name" not in created


async def test_a_scale_is_shown_as_a_scale(stage):
    labels = {"app": "scaled"}
    container = {"name": "main", "image": "registry.test/none"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    made = await stage.client.create(Deployment.new("scaled", namespace=stage.namespace, spec=spec))
    REVIEWS.clear()

    await stage.client.patch(Deployment, made.key, {"spec": {"replicas": 1}}, subresource="scale")

    assert [phase for phase, _ in REVIEWS] == ["mutating", "validating"]
    for _, review in REVIEWS:
        assert (review.kind.kind, review.resource.resource) == ("Scale", "deployments")
        assert (review.operation, review.name) == ("UPDATE", "scaled")
        assert (review.subresource, review.requested_subresource) == ("scale", "scale")
        assert (review.object or {})["spec"] == {"replicas": 1}
    await stage.client.delete(Deployment, made.key)


async def test_a_bundle_that_is_lost_is_written_again(stage):
    key = ObjectKey("", NAME)
    configuration = await stage.client.get(ValidatingWebhookConfiguration, key)
    bundle = configuration.webhooks[0]["clientConfig"]["caBundle"]
    configuration.webhooks[0]["clientConfig"].pop("caBundle")
    await stage.client.replace(configuration)

    async def carries_it_again():
        found = await stage.client.get(ValidatingWebhookConfiguration, key)
        return found.webhooks[0]["clientConfig"].get("caBundle") == bundle

    await stage.cluster.eventually(carries_it_again, timeout=PATIENCE_SECONDS)


async def test_calls_go_on_when_the_certificate_is_made_anew(stage):
    key = ObjectKey(stage.namespace, "webhook-cert")
    before = await stage.client.get(Secret, key)
    await stage.client.delete(Secret, key)

    async def made_anew():
        found = await stage.client.find(Secret, key)
        return found is not None and found.data["tls.crt"] != before.data["tls.crt"]

    await stage.cluster.eventually(made_anew, timeout=PATIENCE_SECONDS)
    await stage.cluster.eventually(lambda: refuses_plaid(stage), timeout=PATIENCE_SECONDS)
