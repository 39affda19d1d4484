"""The chart by helm on the embedded API server: the life of a release, where there is no other."""

from __future__ import annotations

from pathlib import Path

from dynamo_operator.runtime.builtin_kinds import Deployment
from dynamo_operator.testing.cluster import Cluster
from informers.objects import ObjectKey
from tests.manifests.crds import upstream_crd
from tests.manifests.releases import Helm, inventory
from tests.manifests.rendering import CHART, NAMESPACE


async def test_a_release_lives_and_leaves_the_crds(tmp_path: Path):
    deployment = ObjectKey(NAMESPACE, "dynamo-operator-manager")
    async with Cluster.start(mode="http") as cluster:
        helm = Helm(cluster.kubeconfig(), tmp_path)
        before = await inventory(cluster.client)

        await helm.install()
        await helm.done("upgrade", str(CHART), values={"controllerManager": {"replicas": 2}})
        assert (await cluster.client.get(Deployment, deployment)).spec["replicas"] == 2
        await helm.done("rollback", "1")
        assert (await cluster.client.get(Deployment, deployment)).spec["replicas"] == 1
        await helm.done("uninstall")

        left = await inventory(cluster.client) - before
        kinds = {name.partition(" ")[0] for name in left}
        assert kinds == {"CustomResourceDefinition", "Namespace"}
        assert len(left) == 5


async def test_an_upstream_crd_of_older_versions_is_left_alone(tmp_path: Path):
    async with Cluster.start(mode="http") as cluster:
        await cluster.client.create(upstream_crd("v1alpha1", "v1beta1"))
        before = await inventory(cluster.client)

        told = await Helm(cluster.kubeconfig(), tmp_path).refusal()

        assert "serves v1alpha1, v1beta1, not v1beta2; it is left as it is: install with" in told
        made = await inventory(cluster.client) - before
        assert made <= {f"Namespace /{NAMESPACE}"}
