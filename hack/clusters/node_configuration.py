"""What the programs of the node are told: JSON, and for containerd TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hack.clusters.places import NAME, NODE_ADDRESS, POD_RANGE

CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"
SANDBOX_IMAGE: Final = "localhost/pause:1"
POD_BRIDGE: Final = "pods"

_CONTAINERD: Final = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]  # it makes a directory in /opt

[grpc]
address = "{socket}"

[plugins.'io.containerd.cri.v1.images']
snapshotter = "{snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{sandbox}"

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true  # lowering it needs a right that nested machines do not have
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{cni_programs}"]
conf_dir = "{cni_configuration}"
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
"""


def containerd(*, snapshotter: str, runc: Path, cni_programs: Path, cni_configuration: Path) -> str:
    """Return containerd's configuration."""
    return _CONTAINERD.format(
        socket=CONTAINERD_SOCKET,
        snapshotter=snapshotter,
        sandbox=SANDBOX_IMAGE,
        runc=runc,
        cni_programs=cni_programs,
        cni_configuration=cni_configuration,
    )


def pod_network() -> str:
    """Return the CNI configuration: a bridge, and no way out of the node."""
    bridge = {
        "type": "bridge",
        "bridge": POD_BRIDGE,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,  # a Pod reaches itself through its Service
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})


def kubelet(*, authority: Path, certificate: Path, key: Path) -> str:
    """Return the kubelet's configuration."""
    return _component(
        "kubelet.config.k8s.io/v1beta1",
        "KubeletConfiguration",
        address=NODE_ADDRESS,
        authentication={
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        authorization={"mode": "Webhook"},
        tlsCertFile=str(certificate),
        tlsPrivateKeyFile=str(key),
        containerRuntimeEndpoint=f"unix://{CONTAINERD_SOCKET}",
        cgroupDriver="cgroupfs",
        cgroupRoot=f"/{NAME}",
        failCgroupV1=False,
        failSwapOn=False,
        # The machine's disk and memory are others', too: Pods are not evicted for them.
        evictionHard={"memory.available": "100Mi", "nodefs.available": "1%"},
        imageGCHighThresholdPercent=100,  # nothing could bring an image back
        resolvConf="",
        registerWithTaints=[],
        serializeImagePulls=False,
    )


def kube_proxy(*, kubeconfig: Path) -> str:
    """Return the kube-proxy's configuration."""
    return _component(
        "kubeproxy.config.k8s.io/v1alpha1",
        "KubeProxyConfiguration",
        mode="nftables",
        clientConnection={"kubeconfig": str(kubeconfig)},
        clusterCIDR=POD_RANGE,
        conntrack={"maxPerCore": 0},  # that limit is the whole machine's
        metricsBindAddress="127.0.0.1:10249",
        healthzBindAddress="127.0.0.1:10256",
    )


def _component(api_version: str, kind: str, **fields: Any) -> str:
    document: Mapping[str, Any] = {"apiVersion": api_version, "kind": kind, **fields}
    return json.dumps(document, indent=1)
