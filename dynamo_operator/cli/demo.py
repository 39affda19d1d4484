"""`dynamo-operator demo`: a whole search on this machine, from Request to ranked candidates."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from dynamo_operator.aisimulate.document import dump_yaml
from dynamo_operator.api.sku_catalog import SKUS
from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.cli.arguments import gpus, model
from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.cli.errors import USAGE, CliError
from dynamo_operator.cli.graph_manifest import graph_manifest
from dynamo_operator.cli.local import (
    GPU_LABELS,
    add_control_plane_flag,
    find_control_plane,
    image_map,
    make_control_plane,
    operated,
)
from dynamo_operator.cli.logs import add_log_flags, configure_logs
from dynamo_operator.cli.planner import install_planner, listed_versions
from dynamo_operator.cli.relay_demo import RELAY_MODULE, prepare_relays, show_relays
from dynamo_operator.cli.rendering.candidates import candidate_table
from dynamo_operator.cli.rendering.chart import candidate_chart
from dynamo_operator.cli.searches import Search, ranked_candidates
from dynamo_operator.cli.submission import submit
from dynamo_operator.cli.watching import watch_search
from dynamo_operator.local_cluster.cluster import (
    ClusterOptions,
    local_cluster,
    remove_abandoned,
)
from dynamo_operator.planner.environment import PlannerEnvironment
from dynamo_operator.planner.model_cache import is_hub_reachable
from dynamo_operator.runtime.client import Client

_NAME = "demo"
_NAMESPACE = "default"
_LOOK_SECONDS = 0.5
_DIRECTORY_PREFIX = "dynamo-operator-demo-"
_RESULTS = ("audit.jsonl", "best.yaml", "candidates.svg", "kubeconfig")

_SEARCH_LOOKS = (
    f"kubectl describe dgdr {_NAME}",
    "kubectl get jobs,pods,configmaps",
    "kubectl logs -c planner -l nvidia.com/dgdr-run-uid --tail=20",
)
_RELAY_LOOKS = (
    f"kubectl describe dpr {_NAME}",
    "kubectl get deployments,pods,services,endpointslices,configmaps",
    "kubectl logs -l nvidia.com/dynamo-pool-relay-uid --tail=20",
)

# A search that takes half a minute; `--full` leaves it out.
_SHORT_SEARCH: dict[str, Any] = {
    "optimizer": {"algorithm": "random", "max_trials": 6, "parallelism": 2},
    "traffic": {"stop": {"requests": 200}},
    "dgdr_run": {"snapshot_interval_seconds": 1},
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what `demo` takes."""
    parser.add_argument(
        "--model", type=model, default="meta-llama/Meta-Llama-3.1-8B", help="default: %(default)s"
    )
    parser.add_argument(
        "--sku",
        choices=SKUS,
        default="h200_sxm",
        metavar="SKU",
        help="GPU product, one of %(choices)s; default: %(default)s",
    )
    parser.add_argument(
        "--budget", type=gpus, default=8, help="the most GPUs of a candidate; default: %(default)s"
    )
    parser.add_argument("--full", action="store_true", help="the default search: many minutes")
    parser.add_argument(
        "--pool-relay",
        action="store_true",
        help="show two relays of a DynamoPoolRelay beside a graph instead of a search",
    )
    parser.add_argument(
        "--keep", action="store_true", help="say how to look around, and leave the cluster up"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="where the results are written"
    )
    add_control_plane_flag(parser)
    add_log_flags(parser)
    parser.set_defaults(run=run_demo, log_level="warning")


async def run_demo(arguments: argparse.Namespace) -> int:
    """Search, show, and leave nothing behind but the results."""
    configure_logs(arguments.log_level, arguments.log_format)
    output = _output_directory(arguments.output)
    binaries = find_control_plane(arguments.control_plane)
    planner = await install_planner()
    print(f"planner: {listed_versions(planner)}")
    relays = arguments.pool_relay
    offline = relays or await _needs_no_hub(arguments.model, planner)
    for name in _RESULTS:  # of an earlier demo
        (output / name).unlink(missing_ok=True)
    remove_abandoned(Path(tempfile.gettempdir()), f"{_DIRECTORY_PREFIX}*")
    with tempfile.TemporaryDirectory(prefix=_DIRECTORY_PREFIX) as directory:
        options = ClusterOptions(
            directory=Path(directory),
            images=image_map(planner, offline=offline),
            node_labels=GPU_LABELS,
        )
        control_plane = make_control_plane(binaries, Path(directory), output / "audit.jsonl")
        async with (
            local_cluster(
                options, control_plane, prepare=prepare_relays if relays else apply_crds
            ) as cluster,
            operated(cluster, pool_relay={"module": RELAY_MODULE}),
        ):
            print(f"cluster: {cluster.url}, one node, audit log {output / 'audit.jsonl'}")
            if arguments.keep:
                kubeconfig = cluster.kubeconfig(path=output / "kubeconfig")
                _tell_how_to_look_around(kubeconfig, _RELAY_LOOKS if relays else _SEARCH_LOOKS)
            if relays:
                await show_relays(cluster.client)
            else:
                run = await _search(cluster.client, arguments)
                _report(arguments, run, await ranked_candidates(cluster.client, run), output)
            if arguments.keep:
                arguments.ends_on_signal = True  # from here on it is the way to end
                print("\nThe cluster stays up until Ctrl-C.", flush=True)
                await asyncio.Event().wait()
    return 0


def _output_directory(path: Path) -> Path:
    """Make the directory of the results."""
    output = path.absolute()
    try:
        output.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise CliError(f"--output {path}: is no directory", exit_code=USAGE) from None
    except OSError as error:
        raise CliError(f"--output {path}: {error.strerror}", exit_code=USAGE) from None
    if not os.access(output, os.W_OK | os.X_OK):
        raise CliError(f"--output {path}: no permission to write in it", exit_code=USAGE)
    return output


async def _needs_no_hub(model: str, planner: PlannerEnvironment) -> bool:
    """Say where the model's configuration comes from.

    Raises:
        CliError: it could come only from the hub, which is out of reach.
    """
    if model in planner.models:
        print(f"model configuration of {model}: AISimulate's own copy, no hub is asked")
        return True
    if not await asyncio.to_thread(is_hub_reachable, os.environ):
        raise CliError(
            f"--model {model}: AISimulate ships no configuration of it and the Hugging Face hub is"
            " out of reach; `dynamo-operator planner status` lists the models that it ships",
            exit_code=USAGE,
        )
    print(f"model configuration of {model}: AISimulate ships none, the Hugging Face hub is asked")
    return False


def _tell_how_to_look_around(kubeconfig: Path, looks: tuple[str, ...]) -> None:
    print("to look around, from now on, in another shell:")
    for command in (f"export KUBECONFIG={kubeconfig}", "kubectl get dynamo", *looks):
        print(f"  {command}", flush=True)


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
    request = await client.get(DynamoGraphDeploymentRequest, key)
    state = await watch_search(client, Search(request, None), every_seconds=_LOOK_SECONDS)
    if state.failure or state.run is None:
        raise CliError(state.failure or f"DynamoGraphDeploymentRequest {key} has no Run")
    return state.run


def _report(
    arguments: argparse.Namespace,
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
    best.write_text(dump_yaml(graph_manifest(candidates[0], name=_NAME)), encoding="utf-8")
    chart = output / "candidates.svg"
    title = f"{arguments.model} on {arguments.sku}"
    chart.write_text(candidate_chart(candidates, title=title), encoding="utf-8")
    print(f"\nbest deployment: {best}\nchart: {chart}")
