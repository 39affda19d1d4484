"""A finished search costs nothing any more."""

from __future__ import annotations

from functools import partial

import pytest

from dynamo_operator.app import build_manager
from dynamo_operator.cli.local import grant_operator
from dynamo_operator.generate.layout import IMAGE as OPERATOR_IMAGE
from dynamo_operator.runtime import Manager
from dynamo_operator.settings import OperatorSettings
from dynamo_operator.testing.polling import eventually
from tests.main_job.stage import Stage, completed_with

pytestmark = [pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

RESTARTS = 3


async def test_after_success_three_new_operators_write_nothing(scripted: Stage):
    await scripted.submit("succeeds")
    await eventually(scripted.request, completed_with("Succeeded"), timeout=30)
    run = await scripted.run_that(completed_with("Succeeded"))
    await eventually(scripted.request, lambda request: request.status.best)
    user = await grant_operator(scripted.client)
    audit = scripted.cluster.audit
    before = len(audit.writes(user=user))

    for _ in range(RESTARTS):  # each takes everything that exists for new, as a resync does
        async with scripted.cluster.connect(user, field_manager="dynamo-operator") as client:
            manager = build_manager(client, OperatorSettings(operator_image=OPERATOR_IMAGE))
            async with manager.running():
                await eventually(partial(reconciled, manager))

    assert before > 5
    assert [str(entry) for entry in audit.writes(user=user)[before:]] == []
    assert await scripted.run_that(completed_with("Succeeded")) == run


def reconciled(manager: Manager) -> bool:
    """Whether both controllers have looked at what there is, and have nothing left to do."""
    text = manager.metrics.render().decode()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    looked = {
        name
        for name, value in samples.items()
        if name.startswith("controller_runtime_reconcile_total{") and float(value) > 0
    }
    busy = [
        name
        for name, value in samples.items()
        if name.startswith(("workqueue_depth{", "controller_runtime_active_workers{"))
        and float(value) > 0
    ]
    return len(looked) >= 2 and not busy
