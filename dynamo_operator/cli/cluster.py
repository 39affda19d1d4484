"""`dynamo-operator cluster`: a cluster to work with, until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from dynamo_operator.cli.crds import apply_crds
from dynamo_operator.cli.local import (
    GPU_LABELS,
    add_control_plane_flag,
    find_control_plane,
    image_map,
    make_control_plane,
)
from dynamo_operator.cli.logs import add_log_flags, configure_logs
from dynamo_operator.cli.planner import install_planner, listed_versions
from dynamo_operator.local_cluster.cluster import ClusterOptions, local_cluster
from dynamo_operator.local_cluster.images import ImageMap

_LARGEST_PORT = 65535


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what `cluster` takes."""
    parser.add_argument(
        "--directory", type=Path, default=Path("cluster"), help="where it keeps its files"
    )
    parser.add_argument(
        "--port", type=_port, default=0, help="of the API server; default a free one"
    )
    parser.add_argument("--no-crds", action="store_true", help="do not install our CRDs")
    parser.add_argument(
        "--with-planner",
        action="store_true",
        help="install the planner, so that searches run for the models it knows",
    )
    add_control_plane_flag(parser)
    add_log_flags(parser)
    parser.set_defaults(run=run_cluster, ends_on_signal=True)


async def run_cluster(arguments: argparse.Namespace) -> int:
    """Run the cluster, say how to reach it, and wait for SIGTERM or SIGINT."""
    configure_logs(arguments.log_level, arguments.log_format)
    binaries = find_control_plane(arguments.control_plane)
    directory = arguments.directory.absolute()
    images = ImageMap({})
    if arguments.with_planner:
        planner = await install_planner()
        images = image_map(planner, offline=True)
        print(f"planner: {listed_versions(planner)}")
        print(
            f"no hub is asked: it searches for the {len(planner.models)} models that"
            " `dynamo-operator planner status` lists"
        )
    options = ClusterOptions(
        directory=directory,
        images=images,
        node_labels=GPU_LABELS,
    )
    control_plane = make_control_plane(
        binaries, directory, directory / "audit.jsonl", port=arguments.port
    )
    prepare = None if arguments.no_crds else apply_crds
    async with local_cluster(options, control_plane, prepare=prepare) as cluster:
        print(f"export KUBECONFIG={cluster.kubeconfig()}", flush=True)
        await asyncio.Event().wait()
    return 0


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= _LARGEST_PORT:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: a number from 0 to {_LARGEST_PORT}")
