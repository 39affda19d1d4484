"""The first process of a container: builds its view of the machine and starts its command.

A program of its own, standard library only, run as `python -I -S container_init.py STATUS_FD` with
a JSON specification on standard input (`container_process.Launch` writes it).

Process tree, each made to die with its parent:

    agent -> supervisor -> init (PID 1 of a new PID namespace) -> command

When the agent dies, however it dies, the kernel kills the supervisor, then init, and with PID 1
every process of the container. Without namespaces the supervisor is a subreaper and starts the
command itself.

Root file system: a tmpfs whose directories are overlays of the host's (what the container writes
there stays in memory and goes with it), a private /tmp and /run, a minimal /dev, its own /proc.
Hidden directories are empty but for the paths that the image's environment needs. Then the volumes
are bound, those paths once more over a scratch volume that covers them, and the host's tree is let
go.

Signals to the supervisor: STOP_SIGNAL is passed on to the command; KILL_SIGNAL kills the container
and is answered by the supervisor's exit once no process is left. The exit status is the command's,
128 + n when signal n ended it. STATUS_FD gets one JSON line with init's pid, then, only when the
command could not be started, one with the error; it is closed when the command runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import stat
import sys
import warnings  # noqa: F401 - os.execvpe wants it when this Python is out of sight already
from typing import Any, NoReturn

STOP_SIGNAL = int(signal.SIGTERM)
KILL_SIGNAL = int(signal.SIGUSR1)
KILL_NOW = int(signal.SIGKILL)
START_FAILED = 128

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_PR_SET_CHILD_SUBREAPER = 36
_SYS_MOUNT_SETATTR = 442  # the same number on every architecture
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY = 1
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_HOST = "/.host"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# What a container engine leaves a root user by default: chown, dac_override, fowner, fsetid, kill,
# setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap.
_DEFAULT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31})

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount something; raises OSError naming the target."""
    _check(
        _libc.mount(
            source.encode(),
            target.encode(),
            kind.encode() or None,
            ctypes.c_ulong(flags),
            options.encode() or None,
        ),
        f"mount {kind or 'bind'} on {target}",
    )


def unmount(target: str) -> None:
    """Unmount, at once from the tree and wholly when nothing uses it any more."""
    _check(_libc.umount2(target.encode(), _MNT_DETACH), f"unmount {target}")


def _bind(source: str, target: str, *, read_only: bool) -> None:
    mount(source, target, flags=_MS_BIND | _MS_REC)
    if read_only:
        _set_read_only(target, recursive=True)


def _set_read_only(target: str, *, recursive: bool = False) -> None:
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    _check(
        _libc.syscall(
            _SYS_MOUNT_SETATTR,
            _AT_FDCWD,
            target.encode(),
            _AT_RECURSIVE if recursive else 0,
            ctypes.byref(attributes),
            ctypes.c_size_t(ctypes.sizeof(attributes)),
        ),
        f"make {target} read-only",
    )


def _prctl(option: int, argument: int) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), f"prctl {option}")


def _die_with(parent: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:  # it died before the call above
        os._exit(START_FAILED)


# --- the root file system -----------------------------------------------------------------------


class _Root:
    """Builds the container's tree below `scratch`, then makes it the root."""

    def __init__(self, spec: dict[str, Any], *, user_namespace: bool) -> None:
        self._spec = spec
        self._user_namespace = user_namespace
        self._path = os.path.join(spec["scratch"], "root")
        self._layers = os.path.join(spec["scratch"], "layers")
        self._mount_points = mount_points()
        self._pieces: list[str] = []
        self._targets = [m["target"] for m in spec["mounts"]] + spec["hidden"]
        self._places = _places(spec["readable"])

    def enter(self) -> None:
        mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        for directory in (self._path, self._layers):
            os.makedirs(directory, exist_ok=True)
            mount("tmpfs", directory, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
        mounts = [*self._spec["mounts"], *_resolver_mounts()]
        for entry in sorted(os.listdir("/")):
            if entry not in ("proc", "sys", "dev", "tmp", "run"):
                self._mirror(f"/{entry}")
        self._make_own_directories()
        self._hide()
        self._pivot()
        self._mount_devices()
        for entry in mounts:
            self._mount_volume(entry)
        unmount(_HOST)
        os.rmdir(_HOST)
        if self._spec["read_only"]:
            for piece in [*self._pieces, "/"]:
                _set_read_only(piece)

    def _mirror(self, path: str) -> None:
        """Show the host's `path`: as a writable overlay where nothing is mounted below it."""
        target = self._path + path
        if os.path.islink(path):
            os.symlink(os.readlink(path), target)
        elif not os.path.isdir(path):
            with contextlib.suppress(PermissionError), open(target, "xb"):
                _bind(path, target, read_only=True)
        elif not self._has_mounts(path):
            os.mkdir(target)
            self._overlay(path, target)
        elif path not in self._mount_points and _any_below(self._targets, path):
            os.mkdir(target)
            os.chmod(target, os.stat(path).st_mode & 0o7777)
            for entry in sorted(os.listdir(path)):
                self._mirror(os.path.join(path, entry))
        else:
            os.mkdir(target)
            _bind(path, target, read_only=True)

    def _has_mounts(self, path: str) -> bool:
        return path in self._mount_points or _any_below(self._mount_points, path)

    def _overlay(self, path: str, target: str) -> None:
        layer = os.path.join(self._layers, path[1:].replace("%", "%25").replace("/", "%2F"))
        options = [f"lowerdir={_escaped(path)}"]
        for option, name in (("upperdir", "upper"), ("workdir", "work")):
            os.makedirs(os.path.join(layer, name))
            options.append(f"{option}={_escaped(os.path.join(layer, name))}")
        os.chmod(os.path.join(layer, "upper"), os.stat(path).st_mode & 0o7777)
        if self._user_namespace:
            options.append("userxattr")
        mount("overlay", target, "overlay", _MS_NOSUID | _MS_NODEV, ",".join(options))
        self._pieces.append(path)

    def _make_own_directories(self) -> None:
        for name, mode in (("proc", 0o555), ("sys", 0o555), ("dev", 0o755), ("run", 0o755)):
            os.mkdir(f"{self._path}/{name}", mode)
        os.mkdir(f"{self._path}/tmp")
        os.chmod(f"{self._path}/tmp", 0o1777)  # noqa: S103 # as everywhere, the sticky bit set
        os.mkdir(self._path + _HOST)

    def _hide(self) -> None:
        """Cover each hidden directory, and show what the environment reads where it is not seen."""
        for hidden in sorted(self._spec["hidden"]):
            target = self._path + hidden
            if not os.path.isdir(target):
                continue
            mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
            self._pieces.append(hidden)
        for place, path in self._places.items():
            target = self._path + place
            if not os.path.exists(target):
                _make_place(self._path, place[1:], directory=os.path.isdir(path))
                _bind(path, target, read_only=True)

    def _pivot(self) -> None:
        number = _SYS_PIVOT_ROOT[os.uname().machine]
        old = self._path + _HOST
        _check(_libc.syscall(number, self._path.encode(), old.encode()), "pivot_root")
        os.chdir("/")

    def _mount_devices(self) -> None:
        mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV)
        _bind(f"{_HOST}/sys", "/sys", read_only=True)
        mount("tmpfs", "/dev", "tmpfs", _MS_NOSUID, "mode=755")
        for name in _DEVICES:
            if os.path.exists(f"{_HOST}/dev/{name}"):
                _make_mount_point(f"/dev/{name}", directory=False)
                _bind(f"{_HOST}/dev/{name}", f"/dev/{name}", read_only=False)
        for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
            os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
        os.mkdir("/dev/shm")
        mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")

    def _mount_volume(self, entry: dict[str, Any]) -> None:
        source, target = _HOST + entry["source"], entry["target"]
        covered = [p for p in self._places if entry["is_scratch"] and p.startswith(f"{target}/")]
        for place in covered:
            is_directory = os.path.isdir(_HOST + self._places[place])
            _make_place(source, place[len(target) + 1 :], directory=is_directory)
        _make_mount_point(target, directory=os.path.isdir(source))
        _bind(source, target, read_only=entry["read_only"])
        for place in covered:
            _bind(_HOST + self._places[place], place, read_only=True)


def mount_points() -> set[str]:
    """Return where things are mounted in this mount namespace, the root left out."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        points = [line.split(" ")[4] for line in lines]
    return {point.replace("\\040", " ").replace("\\011", "\t") for point in points} - {"/"}


def _resolver_mounts() -> list[dict[str, Any]]:
    """Keep name resolution working where /etc/resolv.conf points into the host's /run."""
    real = os.path.realpath("/etc/resolv.conf")
    if real.startswith("/run/") and os.path.exists(real):
        return [{"source": real, "target": real, "read_only": True}]
    return []


def _any_below(paths: Any, directory: str) -> bool:
    return any(path.startswith(directory + "/") for path in paths)


def _make_mount_point(path: str, *, directory: bool) -> None:
    if os.path.exists(path):
        return
    os.makedirs(path if directory else os.path.dirname(path), mode=0o755, exist_ok=True)
    if not directory:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _places(readable: list[str]) -> dict[str, str]:
    """Map where the image's paths are to be seen to what lies there; the outermost of each.

    A path that leads through links is seen under both names, the real one first.
    """
    places = {
        place: os.path.realpath(path)
        for path in readable
        if os.path.exists(path)
        for place in (os.path.abspath(path), os.path.realpath(path))
    }
    order = sorted(places, key=lambda place: (place != places[place], place))
    return {p: places[p] for p in order if not any(p.startswith(f"{o}/") for o in places)}


def _make_place(parent_path: str, place: str, *, directory: bool) -> None:
    """Make a mount point below a directory, following no link that others may have put there.

    What is made is as open as the directory that it is made in, so that whoever may write there may
    write beside the mount point.
    """
    *parents, name = place.split("/")
    parent = os.open(parent_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in [*parents, name] if directory else parents:
            inner = _open_made(parent, part)
            os.close(parent)
            parent = inner
        if not directory:
            with contextlib.suppress(FileExistsError):
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                os.close(os.open(name, flags, 0o644, dir_fd=parent))
    except OSError as error:
        raise OSError(error.errno, f"make mount point {place}: {error.strerror}") from error
    finally:
        os.close(parent)


def _open_made(parent: int, name: str) -> int:
    is_new = True
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        is_new = False
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(name, flags, dir_fd=parent)
    if is_new:
        os.fchmod(made, stat.S_IMODE(os.fstat(parent).st_mode))
    return made


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


# --- identity -----------------------------------------------------------------------------------


def _enter_user_namespace(uid: int, gid: int) -> None:
    """Make the agent's own user appear as the container's."""
    outer_uid, outer_gid = os.getuid(), os.getgid()
    _check(_libc.unshare(_CLONE_NEWUSER), "unshare user namespace")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {outer_uid} 1"),
        ("gid_map", f"{gid} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _take_identity(spec: dict[str, Any]) -> None:
    keep = frozenset() if spec["drop_all_capabilities"] else _DEFAULT_CAPABILITIES
    if spec["isolation"] != "none":
        for capability in range(64):
            if capability not in keep:
                with contextlib.suppress(OSError):  # the kernel knows fewer than 64
                    _prctl(_PR_CAPBSET_DROP, capability)
    if spec["isolation"] != "user_namespace" and os.geteuid() == 0:
        os.setgroups(spec["groups"])
        os.setresgid(spec["gid"], spec["gid"], spec["gid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    if spec["no_new_privileges"]:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)


# --- processes ----------------------------------------------------------------------------------


class _Reporter:
    """The status pipe: written until the command runs, then closed."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        os.set_inheritable(fd, False)

    def send(self, **message: Any) -> None:
        os.write(self._fd, json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        os.close(self._fd)


def _exec_command(spec: dict[str, Any], reporter: _Reporter) -> NoReturn:
    """Become the container's command."""
    parent = os.getppid()
    try:
        os.setsid()
        _take_identity(spec)
        _die_with(parent)  # after the change of user, which clears it
        os.umask(0o022)
        os.chdir(spec["directory"])
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, commands expect it
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.execvpe(  # noqa: S606 # a container's command is what a Pod says
            spec["command"][0], spec["command"], spec["environment"]
        )
    except OSError as error:
        reporter.send(error=_start_error(spec, error))
    except ValueError as error:  # what no system call takes: a NUL, half a surrogate pair
        reporter.send(error=f"command, environment or directory: {error}")
    os._exit(START_FAILED)


def _start_error(spec: dict[str, Any], error: OSError) -> str:
    command = spec["command"][0]
    if error.errno == errno.ENOENT and not os.path.isdir(spec["directory"]):
        return f"working directory {spec['directory']}: no such directory"
    if error.errno == errno.ENOENT:
        return f'exec: "{command}": executable file not found in $PATH'
    return f'exec: "{command}": {error.strerror or error}'


def _wait_for(child: int, *, everything: bool) -> int:
    """Pass signals on and reap until `child` has ended; returns its exit status as a shell's."""
    waited = {signal.SIGCHLD, STOP_SIGNAL, KILL_SIGNAL}
    status: int | None = None
    while status is None:
        number = signal.sigwait(waited)
        if number == STOP_SIGNAL:
            os.kill(child, STOP_SIGNAL)
        elif number == KILL_SIGNAL:
            os.kill(child, signal.SIGKILL)
        else:
            status = _reap(child)
    if everything:
        _end_descendants()
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _reap(child: int) -> int | None:
    result: int | None = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return result
        if pid == 0:
            return result
        if pid == child:
            result = status


def _end_descendants() -> None:
    """Kill what the command left running; its orphans became ours."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _run_init(spec: dict[str, Any], reporter: _Reporter) -> int:
    """PID 1 of the container."""
    try:
        _die_with(0)
        if spec["hostname"]:
            with contextlib.suppress(OSError):
                _set_host_name(spec["hostname"])
        _Root(spec["root"], user_namespace=spec["isolation"] == "user_namespace").enter()
    except OSError as error:
        reporter.send(error=f"setting up the container: {error.strerror or error}")
        return START_FAILED
    except ValueError as error:
        reporter.send(error=f"setting up the container: host name or a mount's path: {error}")
        return START_FAILED
    command = os.fork()
    if command == 0:
        _exec_command(spec, reporter)
    reporter.close()
    return _wait_for(command, everything=False)


def _set_host_name(name: str) -> None:
    encoded = name.encode()[:64]
    _check(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))), "set the host name")


def _supervise(spec: dict[str, Any], reporter: _Reporter) -> int:
    isolated = spec["isolation"] != "none"
    _die_with(spec["agent_pid"])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, STOP_SIGNAL, KILL_SIGNAL})
    try:
        if spec["isolation"] == "user_namespace":
            _enter_user_namespace(spec["uid"], spec["gid"])
        if isolated:
            _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWUTS), "unshare")
        else:
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    except OSError as error:
        reporter.send(error=f"setting up the container: {error.strerror or error}")
        return START_FAILED
    # The pid is said before the child runs, so that it precedes any error of the child's.
    ready_read, ready_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ready_write)
        os.read(ready_read, 1)
        os.close(ready_read)
        if not isolated:
            _exec_command(spec, reporter)
        os._exit(_run_init(spec, reporter))
    reporter.send(pid=child)
    reporter.close()
    os.close(ready_read)
    os.close(ready_write)
    return _wait_for(child, everything=not isolated)


def _enter(spec: dict[str, Any], reporter: _Reporter) -> int:
    """Run one more command inside a running container (an exec probe)."""
    _die_with(spec["agent_pid"])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, STOP_SIGNAL, KILL_SIGNAL})
    try:
        if spec["isolation"] != "none":
            kinds = ["pid", "uts", "mnt"]
            if spec["isolation"] == "user_namespace":
                kinds.insert(0, "user")
            files = [os.open(f"/proc/{spec['enter']}/ns/{kind}", os.O_RDONLY) for kind in kinds]
            for fd in files:
                _check(_libc.setns(fd, 0), "enter the container's namespaces")
                os.close(fd)
    except OSError as error:
        reporter.send(error=f"entering the container: {error.strerror or error}")
        return START_FAILED
    child = os.fork()
    if child == 0:
        _exec_command(spec, reporter)
    reporter.close()
    return _wait_for(child, everything=False)


def main() -> int:
    """Read the specification and run it."""
    reporter = _Reporter(int(sys.argv[1]))
    spec = json.load(sys.stdin)
    if spec.get("enter"):
        return _enter(spec, reporter)
    return _supervise(spec, reporter)


if __name__ == "__main__":
    os._exit(main())
