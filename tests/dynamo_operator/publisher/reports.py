"""Snapshots and reports for the publisher's tests."""

from __future__ import annotations

from typing import Any

from dynamo_operator.aisimulate.snapshot import Phase, Progress, Snapshot, dump_snapshot
from dynamo_operator.publisher.observe import Report, Result

MANIFEST = """\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: r1-0123
spec:
  backendFramework: vllm
  components:
  - name: Frontend
    type: frontend
    replicas: 1
  - name: worker
    type: worker
    replicas: 2
"""


def candidate(id_: str, *, manifest: str | None = MANIFEST, **changes: Any) -> dict[str, Any]:
    fields = {
        "id": id_,
        "outcome": "materialized",
        "parameters": {"tp": 4},
        "metrics": {"score": 3.5, "usedGpus": 8, "performance": {"power_w": None}},
        "manifest": manifest,
    }
    return {**fields, **changes}


def snapshot(
    *candidates: dict[str, Any] | str,
    phase: str = "Running",
    round_: int = 1,
    evaluated: int = 1,
    **run: Any,
) -> bytes:
    entries = [candidate(c) if isinstance(c, str) else c for c in candidates]
    return dump_snapshot(
        Snapshot.model_validate(
            {
                "schemaVersion": 1,
                "timestamp": run.pop("timestamp", "2026-01-02T03:04:05Z"),
                "run": {"phase": phase, "terminal": phase != "Running", **run},
                "progress": {"round": round_, "evaluated": evaluated},
                "candidates": entries,
            }
        )
    )


def report(*ids: str, evaluated: int = 1, message: str = "") -> Report:
    results = tuple(
        Result(id_, {"components": [], "parameters": {"tp": 4}}, {"score": 3.5, "usedGpus": 8})
        for id_ in ids
    )
    return Report(Phase.RUNNING, Progress(round=1, evaluated=evaluated), results, "", message)
