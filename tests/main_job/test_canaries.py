"""What is secret stays where it is: in no log, Event, status, metric or object of ours."""

from __future__ import annotations

import base64
import json
import logging

import pytest
from structlog.testing import capture_logs

from dynamo_operator.api.labels import GROUP
from dynamo_operator.app import build_manager
from dynamo_operator.cli.local import grant_operator
from dynamo_operator.generate.layout import IMAGE
from dynamo_operator.runtime.builtin_kinds import Event, Secret
from dynamo_operator.runtime.client.transport import fetch_text
from dynamo_operator.settings import MetricsSettings, OperatorSettings, ServerSettings
from tests.main_job.stage import CAUSED_KINDS, Stage, completed_with

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

CANARY = "c4nary-4f1e"
TEXT = (CANARY, base64.b64encode(CANARY.encode()).decode())
REGISTRY = {"auths": {"registry.lab": {"auth": base64.b64encode(CANARY.encode()).decode()}}}


async def test_no_secret_and_no_annotation_is_told_anywhere(
    unoperated: Stage, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    client, namespace = unoperated.client, unoperated.namespace
    registry = {".dockerconfigjson": base64.b64encode(json.dumps(REGISTRY).encode()).decode()}
    hub = {"HF_TOKEN": TEXT[1]}
    kind = "kubernetes.io/dockerconfigjson"
    await client.create(Secret.new("registry", namespace=namespace, type=kind, data=registry))
    await client.create(Secret.new("hf-token-secret", namespace=namespace, data=hub))
    user = await grant_operator(client, image_pull_secrets=["registry"])
    settings = OperatorSettings(
        operator_image=IMAGE,
        image_pull_secrets=("registry",),
        server=ServerSettings(
            metrics=MetricsSettings(bind_address="127.0.0.1", port=0, secure=False)
        ),
    )

    with capture_logs() as lines:
        async with unoperated.cluster.connect(user, field_manager="dynamo-operator") as operator:
            manager = build_manager(operator, settings)
            async with manager.running():
                made = await unoperated.submit("crashes")
                note = {"metadata": {"annotations": {f"note.{GROUP}/of-mine": CANARY}}}
                await client.patch(type(made), made.key, note)
                run = await unoperated.run_that(completed_with("Failed"))
                (port,) = manager.addresses.values()
                metrics = await fetch_text(f"http://127.0.0.1:{port}/metrics")
                caused = [
                    each
                    for kind in CAUSED_KINDS
                    for each in await client.list(kind, namespace=namespace)
                ]
                events = await client.list(Event, namespace=namespace)

    assert run.status.execution_message
    assert lines
    assert events
    assert "workqueue" in metrics
    told = {
        "logs": f"{lines}{caplog.text}",
        "metrics": metrics,
        "events": "".join(event.model_dump_json() for event in events),
        **{f"{each.resource_type.kind} {each.key}": each.model_dump_json() for each in caused},
    }
    assert [where for where, text in told.items() for secret in TEXT if secret in text] == []
