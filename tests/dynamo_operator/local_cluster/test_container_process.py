import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dynamo_operator.local_cluster import container_init
from dynamo_operator.local_cluster.container_init import mount_points
from dynamo_operator.local_cluster.container_process import (
    Isolation,
    Launch,
    Mount,
    RootView,
    StartError,
    end_leftovers,
    probe_isolation,
    run_container,
    run_inside,
)
from dynamo_operator.local_cluster.logs import LogFile, read_entries
from dynamo_operator.testing.polling import eventually
from informers.clock import SystemClock
from tests.dynamo_operator.local_cluster.processes import (
    existing,
    start_agent,
    wait_gone,
    with_word,
)

pytestmark = pytest.mark.node

ROOT = os.geteuid() == 0
OWN = (os.geteuid(), os.getegid())
STRONGEST = Isolation.PRIVILEGED if ROOT else Isolation.USER_NAMESPACE


@pytest.fixture(params=[STRONGEST, Isolation.NONE])
async def isolation(request, tmp_path):
    if request.param is not Isolation.NONE:
        await require_namespaces(tmp_path)
    return request.param


@pytest.fixture
async def namespaces(tmp_path):
    await require_namespaces(tmp_path)
    return STRONGEST


async def require_namespaces(tmp_path):
    if await probe_isolation(tmp_path, SystemClock()) is not STRONGEST:
        pytest.skip("this machine has no namespaces for us")


def launch(tmp_path, script, *, isolation, root=None, uid=OWN[0], gid=OWN[1], **options):
    return Launch(
        command=("sh", "-c", script) if isinstance(script, str) else tuple(script),
        environment={"PATH": "/usr/bin:/bin", **options.pop("environment", {})},
        isolation=isolation,
        root=RootView(scratch=str(tmp_path / "root"), **(root or {})),
        uid=uid,
        gid=gid,
        **options,
    )


async def run(tmp_path, script, started=lambda _: None, **options):
    log = LogFile(tmp_path / "0.log", SystemClock())
    code = await run_container(launch(tmp_path, script, **options), log, started)
    lines = [(e.stream, e.text.decode().rstrip("\n")) for e in read_entries(log.path)]
    return code, lines


async def test_output_and_exit_code_are_kept(tmp_path, isolation):
    code, lines = await run(tmp_path, "echo out; echo err >&2; exit 7", isolation=isolation)

    assert code == 7
    assert sorted(lines) == [("stderr", "err"), ("stdout", "out")]


async def test_a_signal_is_an_exit_code_above_128(tmp_path, isolation):
    code, _ = await run(tmp_path, "kill -SEGV $$", isolation=isolation)

    assert code == 128 + signal.SIGSEGV


@pytest.mark.parametrize(
    ("command", "directory", "text"),
    [
        (["no-such-command"], "/", "executable file not found"),
        (["/etc/passwd"], "/", "Permission denied"),
        (["true"], "/no/such/directory", "working directory /no/such/directory"),
        (["true", "a\0b"], "/", "embedded null byte"),
        (["true", "a\ud800b"], "/", "surrogates not allowed"),
        (["true"], "/\0", "embedded null byte"),
    ],
    ids=["not found", "not executable", "no directory", "NUL", "surrogate", "NUL in directory"],
)
async def test_a_command_that_cannot_start_says_why(tmp_path, isolation, command, directory, text):
    with pytest.raises(StartError, match=text):
        await run(tmp_path, command, isolation=isolation, directory=directory)


async def test_terminating_gives_the_command_its_signal(tmp_path, isolation):
    script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"

    async def stop(container):
        await eventually((tmp_path / "0.log").exists)
        await container.stop(10)

    async with asyncio.TaskGroup() as tasks:
        code, lines = await run(
            tmp_path, script, lambda c: tasks.create_task(stop(c)), isolation=isolation
        )

    assert (code, lines[-1]) == (3, ("stdout", "bye"))


async def test_what_outlives_the_grace_period_is_killed_with_its_children(tmp_path, isolation):
    word = f"sleeper-{tmp_path.name}-{isolation}"
    script = f"trap '' TERM; (exec -a x sh -c 'sleep 60' {word}) & sh -c 'sleep 60; :' {word}"

    async def stop(container):
        await eventually(lambda: len(with_word(word)) >= 2)
        await container.stop(0.1)

    async with asyncio.TaskGroup() as tasks:
        code, _ = await run(
            tmp_path,
            ["bash", "-c", script],
            lambda c: tasks.create_task(stop(c)),
            isolation=isolation,
        )

    assert (code, with_word(word)) == (137, [])


async def test_what_the_command_leaves_behind_ends_with_it(tmp_path, isolation):
    word = f"left-{tmp_path.name}-{isolation}"

    code, _ = await run(
        tmp_path, f"setsid sh -c 'sleep 60; :' {word} & sleep 0.1", isolation=isolation
    )

    assert (code, wait_gone(word)) == (0, [])


async def test_cancelling_kills(tmp_path, isolation):
    word = f"cancelled-{tmp_path.name}-{isolation}"
    running = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(
            run(
                tmp_path,
                ["sh", "-c", "sleep 60; :", word],
                lambda _: running.set(),
                isolation=isolation,
            )
        )
        await running.wait()
        task.cancel()

    assert wait_gone(word) == []


async def test_a_container_dies_with_a_killed_agent(tmp_path, isolation):
    word = f"orphan-{tmp_path.name}-{isolation}"
    with start_agent(_AGENT, tmp_path, isolation, word, *OWN) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        await eventually(lambda: with_word(word))
        process.kill()

    # Only a PID namespace dies as a whole; without one the agent's successor ends the rest.
    if isolation is Isolation.NONE:
        end_leftovers(tmp_path)
    assert wait_gone(word) == []


_AGENT = """
import asyncio, sys
from pathlib import Path
from dynamo_operator.local_cluster.container_process import *
from dynamo_operator.local_cluster.logs import LogFile
from dynamo_operator.testing.polling import eventually
from informers.clock import SystemClock

directory, isolation, word, uid, gid = sys.argv[1:]
launch = Launch(
    command=("sh", "-c", f"sh -c 'sleep 60; :' {word}; :"),
    environment={"PATH": "/usr/bin:/bin", CONTAINER_VARIABLE: directory + "/main"},
    isolation=Isolation(isolation),
    root=RootView(scratch=directory + "/root"),
    uid=int(uid),
    gid=int(gid),
)
log = LogFile(Path(directory) / "0.log", SystemClock())
asyncio.run(run_container(launch, log, lambda _: print("running", flush=True)))
"""


async def test_mounts_are_where_they_should_be(tmp_path, namespaces):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "input.yaml").write_text("hello")
    (tmp_path / "out").mkdir(mode=0o777)
    root = {
        "mounts": (
            Mount(str(tmp_path / "in"), "/etc/lab", read_only=True),
            Mount(str(tmp_path / "out"), "/var/run/lab/out"),
        )
    }
    script = "cat /etc/lab/input.yaml; touch /etc/lab/x; echo hi > /var/run/lab/out/file"

    code, lines = await run(tmp_path, script, isolation=namespaces, root=root)

    texts = dict(lines)
    assert code == 0
    assert texts["stdout"] == "hello"
    assert "Read-only file system" in texts["stderr"]
    assert (tmp_path / "out" / "file").read_text() == "hi\n"
    assert existing("/etc/lab") == []


async def test_what_is_written_elsewhere_never_reaches_the_machine(tmp_path, namespaces):
    name = f"lab-{tmp_path.name}"

    code, _ = await run(
        tmp_path, f"touch /etc/{name} /tmp/{name} /usr/{name} /{name}", isolation=namespaces
    )

    assert code == 0
    assert existing(f"/etc/{name}", f"/tmp/{name}", f"/usr/{name}", f"/{name}") == []


async def test_a_read_only_root_takes_no_writes_but_its_mounts_do(tmp_path, namespaces):
    (tmp_path / "out").mkdir()
    root = {"read_only": True, "mounts": (Mount(str(tmp_path / "out"), "/out"),)}
    script = "for d in /etc /tmp /usr /run / /out; do touch $d/x 2>/dev/null && echo $d; done"

    _, lines = await run(tmp_path, script, isolation=namespaces, root=root)

    assert lines == [("stdout", "/out")]


async def test_hidden_directories_show_only_what_is_readable(tmp_path, namespaces):
    home = tmp_path / "home"
    for name in ("secret", "python/bin"):
        (home / name).mkdir(parents=True)
        (home / name / "file").write_text(name)
    # The private /tmp hides a temporary directory anyway: show it as any other.
    root = {"hidden": (str(home),), "readable": (str(home / "python"),)}

    _, lines = await run(tmp_path, f"cd {home} && find . -type f", isolation=namespaces, root=root)

    assert lines == [("stdout", "./python/bin/file")]


@pytest.fixture
def image():
    """What an image reads, below /tmp; next to it a link to its parent."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        image = Path(directory, "image", "python")
        image.mkdir(parents=True)
        (image / "file").write_text("image")
        Path(directory, "link").symlink_to(image.parent)
        yield image


@pytest.fixture
def scratch(tmp_path):
    """A scratch volume for /tmp."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o777)
    return Mount(str(tmp_path / "scratch"), "/tmp", is_scratch=True)


def below_tmp(mounts, *readable):
    return {"mounts": mounts, "readable": tuple(map(str, readable))}


@pytest.mark.parametrize("mounted", [False, True], ids=["private /tmp", "volume on /tmp"])
async def test_what_the_image_reads_below_tmp_stays_in_sight(
    tmp_path, namespaces, image, scratch, mounted
):
    root = below_tmp((scratch,) if mounted else (), image)
    script = f"cat {image}/file && touch /tmp/x {image.parent}/beside && touch {image}/x"

    for _ in range(2):  # the second finds what the first left in the volume
        _, lines = await run(tmp_path, script, isolation=namespaces, root=root, uid=1234, gid=1234)

        assert ("stdout", "image") in lines
        assert [text for stream, text in lines if stream == "stderr"] == [
            f"touch: cannot touch '{image}/x': Read-only file system"
        ]
        (tmp_path / "0.log").unlink()
    assert [path.name for path in image.iterdir()] == ["file"]
    assert (tmp_path / "scratch" / "x").exists() is mounted


async def test_an_image_is_seen_under_the_name_that_it_was_given(
    tmp_path, namespaces, image, scratch
):
    file = image.parent.parent / "link" / "python" / "file"

    _, lines = await run(
        tmp_path, f"cat {file}", isolation=namespaces, root=below_tmp((scratch,), file)
    )

    assert lines == [("stdout", "image")]


async def test_a_volume_inside_the_covered_part_still_counts(tmp_path, namespaces, image, scratch):
    (image / "data").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("volume")
    mounts = (scratch, Mount(str(tmp_path / "data"), f"{image}/data"))

    _, lines = await run(
        tmp_path,
        f"cat {image}/file {image}/data/file",
        isolation=namespaces,
        root=below_tmp(mounts, image),
    )

    assert lines == [("stdout", "imagevolume")]


async def test_a_volume_of_anything_else_hides_the_image_and_is_left_as_it_is(
    tmp_path, namespaces, image, scratch
):
    claim = Mount(scratch.source, "/tmp")

    code, _ = await run(
        tmp_path, f"test ! -e {image}", isolation=namespaces, root=below_tmp((claim,), image)
    )

    assert code == 0
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_a_link_in_a_volume_leads_nothing_out_of_it(tmp_path, namespaces, image, scratch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "scratch" / image.parts[2]).symlink_to(f"/.host{outside}")

    with pytest.raises(StartError, match="make mount point"):
        await run(tmp_path, "true", isolation=namespaces, root=below_tmp((scratch,), image))

    assert list(outside.iterdir()) == []


async def test_processes_see_only_their_own(tmp_path, namespaces):
    _, lines = await run(tmp_path, "ls /proc | grep -c '^[0-9]'", isolation=namespaces)

    assert int(lines[0][1]) < 8


async def test_the_container_has_its_own_host_name(tmp_path, namespaces):
    _, lines = await run(tmp_path, "uname -n", isolation=namespaces, hostname="pod-a")

    assert lines == [("stdout", "pod-a")]


async def test_the_command_runs_as_the_wanted_user(tmp_path, namespaces):
    _, lines = await run(
        tmp_path,
        "id -u; id -g; grep NoNewPrivs /proc/self/status",
        isolation=namespaces,
        uid=1234,
        gid=2345,
        groups=(77,),
    )

    assert [text.split()[-1] for _, text in lines] == ["1234", "2345", "1"]


@pytest.mark.skipif(not ROOT, reason="only root keeps capabilities to lose")
@pytest.mark.parametrize(
    ("drop", "left"), [(True, "0000000000000000"), (False, "00000000a80425fb")]
)
async def test_root_keeps_only_the_usual_capabilities(tmp_path, namespaces, drop, left):
    _, lines = await run(
        tmp_path,
        "grep CapEff /proc/self/status",
        isolation=namespaces,
        drop_all_capabilities=drop,
    )

    assert lines[0][1].split() == ["CapEff:", left]


async def test_one_more_command_runs_inside(tmp_path, isolation):
    started = asyncio.Event()
    containers = []

    def on_start(container):
        containers.append(container)
        started.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            run(tmp_path, "sleep 60", on_start, isolation=isolation, hostname="inner")
        )
        await started.wait()
        base = launch(tmp_path, "", isolation=isolation)
        ok = await run_inside(containers[0], base, ["true"], 5)
        bad = await run_inside(containers[0], base, ["sh", "-c", "exit 9"], 5)
        missing = await run_inside(containers[0], base, ["no-such-command"], 5)
        slow = await run_inside(containers[0], base, ["sleep", "60"], 0.2)
        containers[0].kill()

    assert (ok, bad, missing, slow) == (0, 9, 126, None)


async def test_nothing_stays_mounted(tmp_path, namespaces):
    await run(tmp_path, "true", isolation=namespaces)

    assert not [point for point in mount_points() if point.startswith(str(tmp_path))]


def test_nothing_is_imported_any_more_once_the_host_is_out_of_sight():
    program = (
        "import os, runpy, sys\n"
        f"runpy.run_path({container_init.__file__!r}, run_name='init')\n"
        "sys.meta_path.clear()\n"
        "sys.path_importer_cache.clear()\n"
        "print(os.get_exec_path({'PATH': '/bin'}))\n"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("['/bin']\n", "")
