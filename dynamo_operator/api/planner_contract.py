"""What the planner container of a Run's Job is given: command, paths and user."""

from __future__ import annotations

from typing import Final

PLANNER_CONTAINER: Final = "planner"
PLANNER_USER_ID: Final = 1000

INPUT_DIRECTORY: Final = "/etc/aisimulate"
INPUT_FILE: Final = "input.yaml"
OUTPUT_DIRECTORY: Final = "/var/run/aisimulate/output"
SNAPSHOT_DIRECTORY: Final = "/var/run/aisimulate/snapshot"
TRACE_DIRECTORY: Final = "/var/run/aisimulate/trace"

OUTPUT_ADAPTER: Final = "dgdr_run"

PLANNER_COMMAND: Final = (
    "aisimulate",
    "recommend",
    "--stack",
    "dynamo",
    "--config",
    f"{INPUT_DIRECTORY}/{INPUT_FILE}",
    "--output",
    OUTPUT_ADAPTER,
    "--output-dir",
    OUTPUT_DIRECTORY,
    "--overwrite",
)
