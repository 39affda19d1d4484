"""Plays `aisimulate recommend`: the product's own output adapter, fed by a script.

A Request chooses the script with its model's name, `scripted/<script>`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from ruamel.yaml import YAML

from dynamo_operator.aisimulate.output_adapter import DgdrRunAdapter, DgdrRunConfig
from dynamo_operator.aisimulate.snapshot import SNAPSHOT_FILE

SCORES = {1: 900.0, 2: 1700.0, 4: 3100.0, 8: 2900.0}
"""Score by tensor parallelism, in the order of evaluation: the best is neither first nor last."""

ORDER = [4, 8, 2, 1]
"""The same, best first."""

REFUSAL = "input.yaml: engine.model: no such model"
BREAK_SIGNAL = signal.SIGUSR1
GO_SIGNAL = signal.SIGUSR2
INFEASIBLE = "ttft 900 ms > 1 ms"

_MANIFEST = """\
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {{name: {name}}}
spec:
  backendFramework: {backend}
  components:
  - {{name: Frontend, type: frontend, replicas: 1}}
  - {{name: Worker, type: worker, replicas: {replicas}}}
"""


class ScriptedUpstream:
    """AISimulate's and Dynamo's part of what the adapter needs."""

    def callbacks(self, **handlers: Callable[..., None]) -> tuple[Any, bool]:
        """Return the handlers; the end is announced."""
        return SimpleNamespace(**handlers), True

    def check(self, config: DgdrRunConfig) -> None:
        """Derive an image, as Dynamo's renderer would be given one."""
        config.image_for("vllm")

    def render(self, candidate: Any, workload: Any, config: DgdrRunConfig, name: str) -> str:
        """Return a deployment of the candidate's size."""
        point = candidate.config
        replicas = 8 // point["tp"]
        return _MANIFEST.format(name=name, backend=point["backend"], replicas=replicas)

    def workload(self, result: Any) -> Any:
        """Return nothing: the script's renderer does without."""
        return None

    def finished(self) -> bool:
        """Say no: the end is announced."""
        return False


class Search:
    """A search that the adapter reports."""

    def __init__(self, section: dict[str, Any], output: Path) -> None:
        self.snapshot = Path(section["snapshot_dir"])
        self._section = section
        self._output = output
        self._adapter = DgdrRunAdapter(ScriptedUpstream())
        self._callbacks = self._adapter.subscribe(section, SimpleNamespace(workload=None))
        self._rounds = 0

    def evaluate(self, *sizes: int) -> None:
        """Evaluate points, one round each."""
        for tp in sizes:
            self._rounds += 1
            self._callbacks.on_candidate(_feasible(tp))
            self._callbacks.on_round(self._rounds, [_feasible(tp)])

    def reject(self, *sizes: int) -> None:
        """Evaluate points of which none will do, and end."""
        for tp in sizes:
            self._callbacks.on_candidate(_infeasible(tp))
        self._callbacks.on_complete()

    def succeed(self) -> None:
        """End with every point, best first."""
        ranked = [_feasible(tp) for tp in ORDER]
        result = SimpleNamespace(
            selected_candidates=ranked,
            counts=SimpleNamespace(evaluated=len(ranked)),
            views=SimpleNamespace(pareto_front=[]),
        )
        self._callbacks.on_complete()
        self._adapter.write(self._section, result=result, output_dir=self._output)


def succeeds(search: Search) -> int:
    """Find all points."""
    search.evaluate(*SCORES)
    search.succeed()
    return 0


def waits_at_first(search: Search) -> int:
    """Wait to be told before anything is found, then find all points."""
    return _succeeds_when_told(search, after=0)


def waits_halfway(search: Search) -> int:
    """Find two points, wait to be told, then find the rest."""
    return _succeeds_when_told(search, after=2)


def waits_at_last(search: Search) -> int:
    """Find all points, then wait to be told before saying that this was all."""
    return _succeeds_when_told(search, after=len(SCORES))


def _succeeds_when_told(search: Search, *, after: int) -> int:
    told = threading.Event()
    signal.signal(GO_SIGNAL, lambda *_: told.set())
    sizes = list(SCORES)
    search.evaluate(*sizes[:after])
    told.wait()
    search.evaluate(*sizes[after:])
    search.succeed()
    return 0


def goes_on(search: Search) -> NoReturn:
    """Find two points, start a helper that no signal ends, and search on for ever."""
    search.evaluate(1, 2)
    helper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    subprocess.Popen([sys.executable, "-c", helper], start_new_session=True)
    while True:
        time.sleep(1)


def refuses(search: Search) -> int:
    """Refuse the input as AISimulate does."""
    sys.stderr.write(f"{REFUSAL}\naisimulate: execution process exited with status 2\n")
    return 2


def crashes(search: Search) -> int:
    """End with an error after a point was found."""
    search.evaluate(1)
    sys.stderr.write("Traceback (most recent call last):\nRuntimeError: out of luck\n")
    return 1


def breaks_protocol(search: Search) -> NoReturn:
    """Report two points; when told to by a signal, overwrite the snapshot with something else."""
    told = threading.Event()
    signal.signal(BREAK_SIGNAL, lambda *_: told.set())
    search.evaluate(1, 2)
    told.wait()
    temporary = search.snapshot / "temporary"
    temporary.write_text("schemaVersion: 2\n", encoding="utf-8")
    os.replace(temporary, search.snapshot / SNAPSHOT_FILE)
    while True:
        time.sleep(1)


def finds_nothing(search: Search) -> int:
    """Evaluate points of which none meets the bound."""
    search.reject(1, 2)
    return 1


SCRIPTS: dict[str, Callable[[Search], int]] = {
    script.__name__.replace("_", "-"): script
    for script in (
        succeeds,
        waits_at_first,
        waits_halfway,
        waits_at_last,
        goes_on,
        refuses,
        crashes,
        breaks_protocol,
        finds_nothing,
    )
}


def main() -> int:
    """Run the script that the input names."""
    parser = argparse.ArgumentParser(prog="aisimulate")
    parser.add_argument("command", choices=["recommend"])
    parser.add_argument("--stack", choices=["dynamo"], required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--output", choices=["dgdr_run"], required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--overwrite", action="store_true", required=True)
    arguments = parser.parse_args()
    document = YAML(typ="safe", pure=True).load(arguments.config)
    script = SCRIPTS[document["engine"]["model"].removeprefix("scripted/")]
    return script(Search(document["dgdr_run"], arguments.output_dir))


def _feasible(tp: int) -> SimpleNamespace:
    return SimpleNamespace(
        status="feasible",
        config={"backend": "vllm", "deployment_mode": "agg", "tp": tp, "replicas": 8 // tp},
        used_gpus=8,
        score=SCORES[tp],
        metrics={"output_throughput_tok_s": SCORES[tp], "wall_time_ms": 1.0},
        objectives=None,
        reason_category=None,
        reason=None,
    )


def _infeasible(tp: int) -> SimpleNamespace:
    point = _feasible(tp)
    point.status, point.score = "infeasible", None
    point.reason_category, point.reason = "sla_constraint", INFEASIBLE
    return point


if __name__ == "__main__":
    sys.exit(main())
