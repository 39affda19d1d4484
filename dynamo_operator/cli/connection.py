"""How every command that talks to a cluster finds it."""

from __future__ import annotations

import argparse
import os

from dynamo_operator.runtime.client import Client, ClientConfig

FIELD_MANAGER = "dynamo-operator-cli"
KUBECONFIG_HELP = "default: $KUBECONFIG, in-cluster, ~/.kube/config"
CONTEXT_HELP = "context of the kubeconfig; default: its current one"


def add_connection_flags(parser: argparse.ArgumentParser) -> None:
    """Add --kubeconfig, --context and --namespace."""
    group = parser.add_argument_group("cluster")
    group.add_argument("--kubeconfig", metavar="FILE", help=KUBECONFIG_HELP)
    group.add_argument("--context", help=CONTEXT_HELP)
    group.add_argument("-n", "--namespace", help="default: the context's")


def load_config(arguments: argparse.Namespace) -> ClientConfig:
    """Find the cluster: flags, $KUBECONFIG, in-cluster files, ~/.kube/config, in that order."""
    return ClientConfig.load(
        kubeconfig=arguments.kubeconfig, context=arguments.context, environ=os.environ
    )


def connect(arguments: argparse.Namespace) -> Client:
    """Make the command's client."""
    return Client.connect(load_config(arguments), field_manager=FIELD_MANAGER)
