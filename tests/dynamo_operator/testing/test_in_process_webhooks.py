"""Webhooks in a test without a socket, in virtual time."""

import asyncio

import pytest

from dynamo_operator.runtime.builtin_kinds import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from dynamo_operator.runtime.client.errors import InvalidError, ServerError
from dynamo_operator.runtime.webhooks.admission import DeniedError
from dynamo_operator.runtime.webhooks.configuration import (
    conversion_strategy,
    mutating_configuration,
    validating_configuration,
)
from dynamo_operator.runtime.webhooks.server import Webhooks
from dynamo_operator.runtime.webhooks.webhook import Webhook
from dynamo_operator.testing import Cluster, NoCertificate
from informers.objects import ObjectKey
from tests.dynamo_operator.runtime.webhooks.gadgets import (
    CONVERSION,
    Gadget,
    GadgetV1alpha1,
    gadget_crd,
)
from tests.dynamo_operator.runtime.widgets import WIDGET_CRD, Widget

pytestmark = pytest.mark.virtual_time


def sized(widget, admission):
    widget.spec.setdefault("size", 1)
    return widget


def small(widget, admission):
    if widget.spec["size"] > 9:
        raise DeniedError("spec.size: must be at most 9", code=422, reason="Invalid")


async def test_a_webhook_is_called_in_the_same_process():
    webhook = Webhook(Widget, default=sized, validate_create=small)
    async with Cluster.start(crds=[WIDGET_CRD]) as cluster:
        endpoint = cluster.serve(Webhooks([webhook], certificate=NoCertificate()))
        await cluster.client.create(
            MutatingWebhookConfiguration.model_validate(
                mutating_configuration("lab", [webhook], endpoint)
            )
        )
        await cluster.client.create(
            ValidatingWebhookConfiguration.model_validate(
                validating_configuration("lab", [webhook], endpoint)
            )
        )

        made = await cluster.client.create(Widget.new("a", namespace="default"))
        with pytest.raises(InvalidError, match=r"spec\.size: must be at most 9"):
            await cluster.client.create(Widget.new("b", namespace="default", spec={"size": 10}))

    assert made.spec == {"size": 1}


async def test_a_webhook_that_takes_too_long_costs_virtual_seconds_only():
    async def slow(widget, admission):
        await asyncio.sleep(60)

    webhook = Webhook(Widget, validate_create=slow, timeout_seconds=20)
    async with Cluster.start(crds=[WIDGET_CRD]) as cluster:
        endpoint = cluster.serve(Webhooks([webhook], certificate=NoCertificate()))
        await cluster.client.create(
            ValidatingWebhookConfiguration.model_validate(
                validating_configuration("lab", [webhook], endpoint)
            )
        )
        started = asyncio.get_running_loop().time()

        with pytest.raises(ServerError, match=r"no verdict in 19\.5 s"):
            await cluster.client.create(Widget.new("a", namespace="default"))

        assert asyncio.get_running_loop().time() == pytest.approx(started + 20, abs=1)


async def test_conversion_is_called_in_the_same_process():
    async with Cluster.start() as cluster:
        webhooks = Webhooks(conversions=[CONVERSION], certificate=NoCertificate())
        await cluster.install(gadget_crd(conversion_strategy(cluster.serve(webhooks))))
        spec = {"size": {"number": 4}}
        await cluster.client.create(Gadget.new("a", namespace="default", spec=spec))

        old = await cluster.client.get(GadgetV1alpha1, ObjectKey("default", "a"))

    assert old.spec == {"size": "4mm"}


async def test_webhooks_without_a_certificate_cannot_listen():
    with pytest.raises(RuntimeError, match="without a certificate cannot listen"):
        await NoCertificate().prepare()
