"""Programs on others' clients, against what they said on a real cluster.

`python -m tests.clients.recording` records it anew; hack/install_clients installs the clients.
"""

import pytest

from tests.clients.running import (
    GO_TRACE,
    go_command,
    program_paths,
    python_command,
    run,
    trace_of,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("path", program_paths(), ids=lambda path: path.stem)
async def test_a_program_in_python_sees_what_it_sees_on_a_real_cluster(cluster, namespace, path):
    code, said = await run(cluster, namespace, python_command(path))

    assert (code, said.splitlines()) == (0, trace_of(path).read_text().splitlines())


async def test_a_program_in_go_sees_what_it_sees_on_a_real_cluster(cluster, namespace):
    code, said = await run(cluster, namespace, go_command())

    assert (code, said.splitlines()) == (0, GO_TRACE.read_text().splitlines())
