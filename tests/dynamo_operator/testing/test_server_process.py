import asyncio
import signal
import sys
from pathlib import Path

import pytest

from dynamo_operator.testing.polling import eventually
from dynamo_operator.testing.server_process import ServerProcess, ServerProcessError

READY = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); print('up'); time.sleep(60)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + READY


def server(tmp_path, program=READY, **options):
    flag = tmp_path / "ready"

    async def is_ready():
        return flag.exists()

    command = [sys.executable, "-uc", program, flag]
    return ServerProcess("lab", command, log_directory=tmp_path, is_ready=is_ready, **options)


async def is_gone(pid):
    return await eventually(lambda: not Path(f"/proc/{pid}").exists())


async def test_a_server_is_ready_when_started_and_gone_when_stopped(tmp_path):
    process = server(tmp_path)

    await process.start()
    pid = process.pid
    assert (tmp_path / "ready").exists()

    await process.stop()
    assert await is_gone(pid)
    assert process.log_tail() == "up\n"


async def test_a_server_can_be_started_again(tmp_path):
    process = server(tmp_path)
    await process.start()
    first = process.pid
    await process.stop()

    await process.start()
    second = process.pid
    await process.stop()

    assert first != second


async def test_a_server_that_ignores_the_request_to_end_is_killed(tmp_path):
    process = server(tmp_path, STUBBORN)
    await process.start()
    pid = process.pid

    await process.stop(grace_seconds=0.1)

    assert await is_gone(pid)


async def test_how_a_server_ended_is_told(tmp_path):
    process = server(tmp_path)
    assert await process.stop() is None

    await process.start()
    assert await process.stop() == -signal.SIGTERM
    await process.start()
    assert await process.kill() == -signal.SIGKILL


async def test_a_server_that_ends_by_itself_can_be_waited_for(tmp_path):
    process = ServerProcess("lab", [sys.executable, "-c", "exit(3)"], log_directory=tmp_path)
    assert [process.is_running] == [False]
    await process.start()
    assert [process.is_running] == [True]

    assert await process.wait() == 3
    assert [process.is_running] == [False]
    assert await process.stop() == 3


async def test_a_paused_server_does_nothing_until_it_is_resumed(tmp_path):
    process = server(tmp_path)
    await process.start()
    process.pause()
    state = Path(f"/proc/{process.pid}/stat")

    await eventually(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")
    process.resume()
    await eventually(lambda: state.read_text().rpartition(")")[2].split()[0] != "T")
    process.pause()

    assert await process.kill() == -signal.SIGKILL


async def test_a_server_has_the_environment_that_it_was_given_and_no_other(tmp_path):
    program = "import os; print(os.environ.get('LAB'), 'PATH' in os.environ)"
    command = [sys.executable, "-c", program]
    process = ServerProcess("lab", command, log_directory=tmp_path, environ={"LAB": "one"})

    await process.start()
    await process.wait()

    assert process.log_tail() == "one False\n"
    await process.stop()


async def test_a_server_that_ends_instead_shows_its_log(tmp_path):
    process = server(tmp_path, "print('port taken'); raise SystemExit(3)")

    with pytest.raises(ServerProcessError, match="lab ended with code 3: port taken"):
        await process.start()


async def test_a_server_that_is_never_ready_is_killed(tmp_path):
    process = server(tmp_path, "import time; time.sleep(60)", ready_seconds=0.3)

    with pytest.raises(ServerProcessError, match=r"lab was not ready within 0\.3 s"):
        await process.start()

    with pytest.raises(RuntimeError, match="lab is not running"):
        process.pid  # noqa: B018 - the property raises


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
async def test_a_server_dies_with_the_process_that_started_it(tmp_path):
    starter = f"""
import asyncio, os, sys
from pathlib import Path
from dynamo_operator.testing.server_process import ServerProcess

async def main():
    process = ServerProcess("lab", ["sleep", "60"], log_directory=Path({str(tmp_path)!r}))
    await process.start()
    print(process.pid, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", starter, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await child.communicate()

    assert child.returncode == -9
    assert await is_gone(int(output))
