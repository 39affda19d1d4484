from __future__ import annotations

import re

from dynamo_operator.api.labels import CANDIDATE_ID_LABEL
from dynamo_operator.api.v1beta2 import DynamoGraphDeploymentCandidate
from dynamo_operator.cli.rendering.candidates import candidate_table

AGGREGATED = DynamoGraphDeploymentCandidate.new(
    "a",
    labels={CANDIDATE_ID_LABEL: "evaluated-point-fc8d1bf32dc6"},
    spec={"parameters": {"deployment_mode": "agg", "backend": "vllm", "replicas": 2, "tp": 4}},
    status={
        "metrics": {
            "score": 3497.8,
            "usedGpus": 8,
            "performance": {
                "output_throughput_tok_s": 3497.8,
                "mean_ttft_ms": 43.71,
                "mean_itl_ms": 2.537,
            },
        }
    },
)
DISAGGREGATED = DynamoGraphDeploymentCandidate.new(
    "b",
    labels={CANDIDATE_ID_LABEL: "evaluated-point-8607c726f7d2"},
    spec={
        "parameters": {
            "deployment_mode": "disagg",
            "backend": "sglang",
            "prefill_replicas": 2,
            "prefill_tp": 1,
            "decode_replicas": 1,
            "decode_tp": 4,
            "decode_moe_ep": 8,
        }
    },
    status={"metrics": {"score": 2.5, "usedGpus": 6}},
)


def test_the_table_ranks_candidates_and_says_how_they_are_built():
    header, *rows = (
        re.split(r" {2,}", line.strip())
        for line in candidate_table([AGGREGATED, DISAGGREGATED]).splitlines()
    )

    assert [dict(zip(header, row, strict=True)) for row in rows] == [
        {
            "RANK": "1",
            "CANDIDATE": "fc8d1bf32dc6",
            "MODE": "aggregated",
            "BACKEND": "vllm",
            "PARALLELISM": "2 x tp4",
            "GPUS": "8",
            "SCORE": "3498",
            "TOKENS/S": "3498",
            "TTFT MS": "43.71",
            "ITL MS": "2.54",
        },
        {
            "RANK": "2",
            "CANDIDATE": "8607c726f7d2",
            "MODE": "disaggregated",
            "BACKEND": "sglang",
            "PARALLELISM": "prefill 2 x tp1 + decode 1 x tp4 ep8",
            "GPUS": "6",
            "SCORE": "2.50",
            "TOKENS/S": "-",
            "TTFT MS": "-",
            "ITL MS": "-",
        },
    ]


def test_nothing_to_show_is_a_header():
    assert candidate_table([]).splitlines()[0].startswith("RANK")
