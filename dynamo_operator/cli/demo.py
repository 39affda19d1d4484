"""`dynamo-operator demo`: a whole search on this machine, from Request to ranked candidates."""

from __future__ import annotations

import argparse
import asyncio
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dynamo_operator.api.conditions import ConditionType, find_condition
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
    RunPhase,
)
from dynamo_operator.cli.candidates import candidate_chart, candidate_table
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.cli.local import GPU_LABELS, image_map, install_planner, operated
from dynamo_operator.cli.logs import add_log_flags, configure_logs
from dynamo_operator.cli.progress import ProgressLine, describe
from dynamo_operator.cli.request import submit
from dynamo_operator.local_cluster.cluster import (
    ClusterOptions,
    LocalCluster,
    local_cluster,
    remove_abandoned,
)
from dynamo_operator.runtime.client import Client
from informers.objects import ObjectKey

_NAME = "demo"
_NAMESPACE = "default"
_LOOK_SECONDS = 0.5
_DIRECTORY_PREFIX = "dynamo-operator-demo-"
_RESULTS = ("audit.jsonl", "best.yaml", "candidates.svg", "kubeconfig")

# A search that takes half a minute; `--full` leaves it out.
_SHORT_SEARCH: dict[str, Any] = {
    "optimizer": {"algorithm": "random", "max_trials": 6, "parallelism": 2},
    "traffic": {"stop": {"requests": 200}},
    "dgdr_run": {"snapshot_interval_seconds": 1},
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what `demo` takes."""
    parser.add_argument("--model", default="meta-llama/Meta-Llama-3.1-8B")
    parser.add_argument("--sku", default="h200_sxm", help="GPU product of the catalogue")
    parser.add_argument("--budget", type=int, default=8, help="the most GPUs of a candidate")
    parser.add_argument("--full", action="store_true", help="the default search: many minutes")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up to look around")
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="where the results are written"
    )
    add_log_flags(parser)
    parser.set_defaults(run=run_demo, log_level="warning")


async def run_demo(arguments: argparse.Namespace) -> int:
    """Search, show, and leave nothing behind but the results."""
    configure_logs(arguments)
    output = _output_directory(arguments.output)
    planner = await asyncio.to_thread(install_planner, print)
    versions = ", ".join(f"{name} {version}" for name, version in planner.versions.items())
    print(f"planner: {versions}")
    offline = arguments.model in planner.models
    if offline:
        print(f"model configuration of {arguments.model}: AISimulate's own copy, no hub is asked")
    remove_abandoned(Path(tempfile.gettempdir()), f"{_DIRECTORY_PREFIX}*")
    with tempfile.TemporaryDirectory(prefix=_DIRECTORY_PREFIX) as directory:
        options = ClusterOptions(
            directory=Path(directory),
            images=image_map(planner, offline=offline),
            node_labels=GPU_LABELS,
            audit_file=output / "audit.jsonl",
        )
        async with local_cluster(options) as cluster, operated(cluster):
            print(f"cluster: {cluster.https.url}, one node, audit log {output / 'audit.jsonl'}")
            run = await _search(cluster.client, arguments)
            candidates = await _candidates(cluster.client, run)
            _report(run, candidates, output)
            if arguments.keep:
                arguments.ends_on_signal = True  # from here on it is the way to end
                await _stay(cluster, output)
    return 0


def _output_directory(path: Path) -> Path:
    """Make the directory of the results; those of an earlier demo go."""
    output = path.absolute()
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name in _RESULTS:
            (output / name).unlink(missing_ok=True)
    except FileExistsError:
        raise CliError(f"--output {path}: is no directory", exit_code=USAGE) from None
    except OSError as error:
        raise CliError(f"--output {path}: {error.strerror}", exit_code=USAGE) from None
    return output


def request_manifest(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the Request: model, sku and budget, and the overrides of a short search."""
    spec: dict[str, Any] = {
        "model": {"name": arguments.model},
        "hardware": {"gpu": {"sku": arguments.sku, "budget": arguments.budget}},
    }
    if not arguments.full:
        spec["aisimulate"] = {"inputOverrides": _SHORT_SEARCH}
    return {
        "apiVersion": DynamoGraphDeploymentRequest.resource_type.api_version,
        "kind": DynamoGraphDeploymentRequest.resource_type.kind,
        "metadata": {"name": _NAME, "namespace": _NAMESPACE},
        "spec": spec,
    }


async def _search(client: Client, arguments: argparse.Namespace) -> DynamoGraphDeploymentRun:
    """Submit the Request and show progress until its Run is over."""
    key, _ = await submit(client, request_manifest(arguments))
    print(f"submitted DynamoGraphDeploymentRequest {key}: {arguments.model} on {arguments.sku}")
    line = ProgressLine()
    while True:
        request = await client.get(DynamoGraphDeploymentRequest, key)
        active = request.status.active_run_ref
        run = None
        if active is not None:
            run = await client.find(DynamoGraphDeploymentRun, ObjectKey(key.namespace, active.name))
        line.show(describe(request, run))
        accepted = find_condition(request.status.conditions, ConditionType.ACCEPTED)
        if accepted is not None and accepted.status == "False":
            line.end()
            raise CliError(f"{accepted.reason}: {accepted.message}")
        if run is not None and run.status.phase in (RunPhase.SUCCEEDED, RunPhase.FAILED):
            line.end()
            return _require_success(run)
        await asyncio.sleep(_LOOK_SECONDS)


def _require_success(run: DynamoGraphDeploymentRun) -> DynamoGraphDeploymentRun:
    completed = find_condition(run.status.conditions, ConditionType.COMPLETED)
    if run.status.phase == RunPhase.SUCCEEDED or completed is None:
        return run
    raise CliError(f"Run {run.key.name}: {completed.reason}: {completed.message}")


async def _candidates(
    client: Client, run: DynamoGraphDeploymentRun
) -> list[DynamoGraphDeploymentCandidate]:
    return [
        await client.get(
            DynamoGraphDeploymentCandidate, ObjectKey(run.key.namespace, reference.name)
        )
        for reference in run.status.candidate_refs
    ]


def _report(
    run: DynamoGraphDeploymentRun,
    candidates: list[DynamoGraphDeploymentCandidate],
    output: Path,
) -> None:
    evaluated = run.status.progress.evaluated if run.status.progress else 0
    print(f"\n{evaluated} configurations evaluated, {len(candidates)} candidates, best first:\n")
    print(candidate_table(candidates))
    if not candidates:
        return
    best = output / "best.yaml"
    best.write_text(_yaml(graph_manifest(candidates[0])), encoding="utf-8")
    chart = output / "candidates.svg"
    chart.write_text(candidate_chart(candidates), encoding="utf-8")
    print(f"\nbest deployment: {best}\nchart: {chart}")


def graph_manifest(candidate: DynamoGraphDeploymentCandidate) -> dict[str, Any]:
    """Return the DynamoGraphDeployment that a Candidate stands for."""
    spec = {name: value for name, value in candidate.spec.items() if name != "parameters"}
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": _NAME},
        "spec": spec,
    }


async def _stay(cluster: LocalCluster, output: Path) -> None:
    kubeconfig = cluster.kubeconfig(path=output / "kubeconfig")
    print(
        f"\nThe cluster stays up until Ctrl-C. In another shell:\n"
        f"  export KUBECONFIG={kubeconfig}\n"
        f"  kubectl get dynamo\n"
        f"  kubectl describe dgdr {_NAME}\n"
        f"  kubectl get jobs,pods,configmaps\n"
        f"  kubectl logs -c planner -l nvidia.com/dgdr-run-uid --tail=20",
        flush=True,
    )
    await asyncio.Event().wait()


def _yaml(document: Mapping[str, Any]) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()
