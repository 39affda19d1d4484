"""Typed handlers: what they get, and what becomes of what they return or raise."""

from typing import Any

import pytest

from dynamo_operator.runtime.client.errors import InvalidError
from dynamo_operator.runtime.webhooks.admission import DeniedError, Verdict, all_of
from dynamo_operator.runtime.webhooks.webhook import Webhook
from informers.objects import ResourceType
from tests.dynamo_operator.runtime.webhooks.reviews import (
    MUTATE,
    VALIDATE,
    ask,
    review,
    serving,
    widget,
)
from tests.dynamo_operator.runtime.widgets import Widget


def sized(obj: Widget, admission: Any) -> Widget:
    obj.spec.setdefault("size", 1)
    return obj


def small(obj: Widget, admission: Any) -> list[str]:
    if obj.spec.get("size", 0) > 9:
        raise DeniedError("spec.size: must be at most 9", code=422, reason="Invalid")
    return ["spec.size: is large"] if obj.spec.get("size", 0) > 5 else []


async def test_a_default_becomes_a_patch_of_what_was_sent():
    webhooks = serving(Webhook(Widget, default=sized))

    answer = await ask(webhooks, MUTATE, review("CREATE", widget(spec={"unknown": None})))

    assert answer == {
        "uid": "0a1b",
        "allowed": True,
        "status": {"code": 200},
        "patch": [{"op": "add", "path": "/spec/size", "value": 1}],
    }


async def test_defaulting_twice_patches_nothing_more():
    webhooks = serving(Webhook(Widget, default=sized))

    answer = await ask(webhooks, MUTATE, review("UPDATE", widget(spec={"size": 1}), widget()))

    assert answer["allowed"] is True
    assert "patch" not in answer


async def test_a_defaulter_may_change_the_object_in_place_and_return_nothing():
    def labelled(obj, admission):
        obj.metadata.labels["size"] = "s"

    webhooks = serving(Webhook(Widget, default=labelled))

    answer = await ask(webhooks, MUTATE, review("CREATE", widget(spec={})))

    assert answer["patch"] == [{"op": "add", "path": "/metadata/labels", "value": {"size": "s"}}]


async def test_one_text_is_one_warning():
    webhooks = serving(Webhook(Widget, validate_create=lambda obj, admission: "careful"))

    answer = await ask(webhooks, VALIDATE, review("CREATE", widget()))

    assert answer["warnings"] == ["careful"]


async def test_several_defaulters_build_on_each_other():
    async def doubled(obj, admission):
        obj.spec["double"] = 2 * obj.spec["size"]
        return obj

    webhooks = serving(Webhook(Widget, default=[sized, doubled]))

    answer = await ask(webhooks, MUTATE, review("CREATE", widget(spec={})))

    assert [op["path"] for op in answer["patch"]] == ["/spec/size", "/spec/double"]


async def test_a_resource_type_gives_plain_json():
    def labelled(obj, admission):
        return {**obj, "metadata": {**obj["metadata"], "labels": {"by": admission.requester.name}}}

    webhooks = serving(Webhook(Widget.resource_type, default=labelled))

    answer = await ask(webhooks, MUTATE, review("CREATE", widget(spec={"a": None})))

    assert answer["patch"] == [{"op": "add", "path": "/metadata/labels", "value": {"by": "ann"}}]


@pytest.mark.parametrize(
    ("size", "allowed", "code", "warnings"),
    [(1, True, 200, None), (6, True, 200, ["spec.size: is large"]), (10, False, 422, None)],
)
async def test_a_validator_denies_or_warns(size, allowed, code, warnings):
    webhooks = serving(Webhook(Widget, validate_create=small))

    answer = await ask(webhooks, VALIDATE, review("CREATE", widget(spec={"size": size})))

    assert (answer["allowed"], answer["status"]["code"]) == (allowed, code)
    assert answer.get("warnings") == warnings


async def test_the_first_denial_wins_and_earlier_warnings_stay():
    def never(obj, admission):
        raise DeniedError("no", warnings=["and another thing"])

    def unreached(obj, admission):
        raise AssertionError("asked after a denial")

    webhooks = serving(Webhook(Widget, validate_create=[small, never, unreached]))

    answer = await ask(webhooks, VALIDATE, review("CREATE", widget(spec={"size": 6})))

    assert answer["status"] == {
        "code": 403,
        "status": "Failure",
        "reason": "Forbidden",
        "message": "no",
    }
    assert answer["warnings"] == ["spec.size: is large", "and another thing"]


async def test_an_update_is_judged_with_the_old_object():
    def only_grows(new, old, admission):
        if new.spec["size"] < old.spec["size"]:
            raise DeniedError(f"spec.size: must not shrink from {old.spec['size']}")

    webhooks = serving(Webhook(Widget, validate_update=only_grows))

    answer = await ask(
        webhooks, VALIDATE, review("UPDATE", widget(spec={"size": 1}), widget(spec={"size": 2}))
    )

    assert answer["status"]["message"] == "spec.size: must not shrink from 2"


async def test_a_deletion_is_judged_on_the_object_that_is_there():
    def kept(obj, admission):
        if obj.spec.get("keep"):
            raise DeniedError("spec.keep: unset it first")

    webhooks = serving(Webhook(Widget, validate_delete=kept))

    answer = await ask(webhooks, VALIDATE, review("DELETE", None, widget(spec={"keep": True})))

    assert answer["allowed"] is False


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (
            InvalidError(422, "Invalid", "bad size", details={"causes": [{"field": "spec.size"}]}),
            {
                "code": 422,
                "status": "Failure",
                "reason": "Invalid",
                "message": "bad size",
                "details": {"causes": [{"field": "spec.size"}]},
            },
        ),
        (
            ValueError("out of stock"),
            {"code": 403, "status": "Failure", "reason": "Forbidden", "message": "out of stock"},
        ),
    ],
    ids=["carries-a-status", "carries-none"],
)
async def test_an_error_with_a_status_keeps_it_and_others_are_forbidden(error, status):
    def fails(obj, admission):
        raise error

    webhooks = serving(Webhook(Widget, validate_create=fails, default=fails))

    validated = await ask(webhooks, VALIDATE, review("CREATE", widget()))
    defaulted = await ask(webhooks, MUTATE, review("CREATE", widget()))

    assert validated["status"] == defaulted["status"] == status


async def test_an_object_that_does_not_fit_its_model_is_a_bad_request():
    webhooks = serving(Webhook(Widget, validate_create=small))

    answer = await ask(webhooks, VALIDATE, review("CREATE", widget(spec="x")))

    assert answer["allowed"] is False
    assert answer["status"]["code"] == 400
    assert "lab/a does not fit its model: spec" in answer["status"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        review("DELETE", None, widget(spec="x")),
        review(
            "UPDATE",
            widget(spec="x"),
            widget(spec="x", metadata={"name": "a", "deletionTimestamp": "2030-01-01T00:00:00Z"}),
        ),
    ],
    ids=["deleted", "its-finalizer-removed"],
)
async def test_an_object_that_does_not_fit_its_model_can_go(body):
    def update(new, old, admission):
        return []

    webhooks = serving(
        Webhook(Widget, default=sized, validate_update=update, validate_delete=small)
    )

    validated = await ask(webhooks, VALIDATE, body)
    defaulted = await ask(webhooks, MUTATE, body)

    assert validated["allowed"] is defaulted["allowed"] is True
    assert "being deleted" in validated["warnings"][0]
    assert "patch" not in defaulted


V2 = {"group": "lab.test", "version": "v2", "kind": "Widget"}


@pytest.mark.parametrize(
    ("body", "warned"),
    [
        pytest.param(review("DELETE", None, widget()), False, id="delete"),
        pytest.param(review("DELETE", None, None), False, id="delete-without-an-old-object"),
        pytest.param(review("CONNECT", None, None, subResource="exec"), True, id="connect"),
        pytest.param(review("CREATE", None, None), True, id="no-object"),
        pytest.param(review("FROB", widget()), True, id="operation"),
        pytest.param(review("UPDATE", widget(), widget(), subResource="status"), True, id="status"),
        pytest.param(
            review("CREATE", widget(), resource={"group": "", "version": "v1", "resource": "pods"}),
            True,
            id="resource",
        ),
        pytest.param(review("CREATE", widget(), kind=None, resource=None), True, id="no-kind"),
        pytest.param(review("CREATE", widget(), requestKind=V2), False, id="another-version-asked"),
    ],
)
async def test_what_nobody_registered_is_allowed_untouched(body, warned):
    def never(*_):
        raise AssertionError("asked about what was not declared")

    webhook = Webhook(Widget, default=never, validate_create=never, ignores_other_versions=True)
    webhooks = serving(webhook)

    for path in (MUTATE, VALIDATE):
        answer = await ask(webhooks, path, body)

        assert answer["allowed"] is True
        assert answer["uid"] == "0a1b"
        assert "patch" not in answer
        assert bool(answer.get("warnings")) is warned


async def test_a_request_through_another_version_is_judged_as_it_was_converted():
    webhooks = serving(Webhook(Widget, default=sized))

    answer = await ask(webhooks, MUTATE, review("CREATE", widget(spec={}), requestKind=V2))

    assert answer["patch"] == [{"op": "add", "path": "/spec/size", "value": 1}]


async def test_a_subresource_has_webhooks_of_its_own():
    def ready(new, old, admission):
        raise DeniedError(f"{admission.subresource} of {admission.key}")

    webhooks = serving(Webhook(Widget, subresource="status", validate_update=ready))

    answer = await ask(
        webhooks,
        f"{VALIDATE}-status",
        review("UPDATE", widget(), widget(), subResource="status"),
    )

    assert answer["status"]["message"] == "status of lab/a"


async def test_handlers_see_that_nothing_will_be_stored():
    seen = []

    def note(obj, admission):
        seen.append((admission.dry_run, admission.options, admission.requester.groups))
        return obj

    webhooks = serving(Webhook(Widget, default=note))

    await ask(
        webhooks, MUTATE, review("CREATE", widget(), dryRun=True, options={"kind": "CreateOptions"})
    )

    assert seen == [(True, {"kind": "CreateOptions"}, ("staff",))]


async def test_a_validator_cannot_change_what_the_next_one_judges():
    def meddle(obj, admission):
        obj.spec["size"] = 99

    webhooks = serving(Webhook(Widget, validate_create=[meddle, small]))

    answer = await ask(webhooks, VALIDATE, review("CREATE", widget(spec={"size": 1})))

    assert answer["allowed"] is True


async def test_raw_handlers_add_up_until_one_denies():
    async def first(admission):
        return Verdict.allow("one", patch=[{"op": "add", "path": "/a", "value": 1}])

    async def second(admission):
        return Verdict.allow("two", patch=[{"op": "add", "path": "/b", "value": 2}])

    async def third(admission):
        return Verdict.deny("three")

    webhooks = serving(
        handlers={"/both": all_of(first, second), "/all": all_of(first, third, second)}
    )

    both = await ask(webhooks, "/both", review("CREATE", widget()))
    everyone = await ask(webhooks, "/all", review("CREATE", widget()))

    assert both["warnings"] == ["one", "two"]
    assert [op["path"] for op in both["patch"]] == ["/a", "/b"]
    assert (everyone["allowed"], everyone["warnings"]) == (False, ["one"])
    assert "patch" not in everyone


def test_the_paths_are_the_usual_ones():
    pods = ResourceType("", "v1", "Pod", "pods")
    deployments = ResourceType("apps", "v1", "Deployment", "deployments")

    assert Webhook(pods, default=sized).mutate_path == "/mutate--v1-pod"
    assert Webhook(deployments, default=sized).validate_path == "/validate-apps-v1-deployment"
    assert Webhook(pods, default=sized, mutate_path="/own/path_1").mutate_path == "/own/path_1"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"default": sized, "mutate_path": "no"}, "webhook path 'no'"),
        ({"default": sized, "mutate_path": "/a//b"}, "webhook path '/a//b'"),
        ({"default": sized, "timeout_seconds": 31}, "timeout_seconds is 31: must be 1 to 30"),
        ({}, "does nothing"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        Webhook(Widget, **options)


def test_two_webhooks_cannot_have_one_path():
    with pytest.raises(ValueError, match=f"POST {MUTATE}: is already served"):
        serving(Webhook(Widget, default=sized), Webhook(Widget, default=sized))
