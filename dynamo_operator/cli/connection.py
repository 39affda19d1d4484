"""How every command that talks to a cluster finds it."""

from __future__ import annotations

import argparse
import os

from dynamo_operator.runtime.client import Client, ClientConfig

FIELD_MANAGER = "dynamo-operator-cli"


def add_connection_flags(parser: argparse.ArgumentParser, *, namespaced: bool = True) -> None:
    """Add --kubeconfig and --context, and --namespace where objects have one."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, in-cluster, ~/.kube/config"
    )
    group.add_argument("--context", help="context of the kubeconfig; default: its current one")
    if namespaced:
        group.add_argument("-n", "--namespace", help="default: the context's")


def load_config(arguments: argparse.Namespace) -> ClientConfig:
    """Find the cluster: flags, $KUBECONFIG, in-cluster files, ~/.kube/config, in that order."""
    return ClientConfig.load(
        kubeconfig=arguments.kubeconfig, context=arguments.context, environ=os.environ
    )


def connect(arguments: argparse.Namespace) -> Client:
    """Make the command's client."""
    return Client.connect(load_config(arguments), field_manager=FIELD_MANAGER)
