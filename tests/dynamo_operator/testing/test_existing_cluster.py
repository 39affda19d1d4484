import pytest

from dynamo_operator.runtime.builtin_kinds import ConfigMap
from dynamo_operator.runtime.client.errors import ConfigError, ForbiddenError
from dynamo_operator.testing import Cluster


@pytest.fixture
async def environ():
    async with Cluster.start(mode="http") as cluster:
        yield {"USE_EXISTING_CLUSTER": "true", "KUBECONFIG": str(cluster.kubeconfig())}


async def test_tests_can_run_on_a_cluster_that_was_there_before(environ):
    async with Cluster.start(mode="real", environ=environ) as cluster:
        await cluster.client.create(ConfigMap.new("a", namespace="default"))

        with pytest.raises(ForbiddenError, match='User "nobody" cannot list'):
            await cluster.client_of("nobody").list(ConfigMap)
        with pytest.raises(RuntimeError, match="another process"):
            cluster.audit  # noqa: B018 - the property raises


async def test_a_kubeconfig_without_a_user_is_refused(tmp_path):
    path = tmp_path / "config"
    path.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a}}],"
        " clusters: [{name: a, cluster: {server: 'https://localhost:1'}}]}"
    )
    environ = {"USE_EXISTING_CLUSTER": "true", "KUBECONFIG": str(path)}

    with pytest.raises(ConfigError, match="context 'a' names no user"):
        async with Cluster.start(mode="real", environ=environ):
            pass
