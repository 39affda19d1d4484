"""This module plays kubectl's transcripts: commands, and what a real cluster made of them.

A line `$ ARGUMENTS` runs kubectl, `& ARGUMENTS` starts one that goes on until the line `.` ends it;
what they print follows, and `[exit CODE]` where the code is not 0. After `~` instead of `$` the
embedded server may say it in other words, as long as the code is the same; after `!` it lacks what
is asked for, and kubectl fails there; after `?` only the code matters, everywhere. A line `##`
comments. What differs from run to run is replaced by words in capitals.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TRANSCRIPTS = Path(__file__).with_name("kubectl")
KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")

_MARKS = ("$ ", "~ ", "! ", "? ", "& ", "## ")
_SECONDS = 20.0
_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
_LONG_STAMP = r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"
_VOLATILE = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (_STAMP, "TIME"),
    (_LONG_STAMP, "TIME"),
    (r'(resourceVersion"?: ?)"\d+"', r'\1"VERSION"'),
    (r"https://[\w.]+:\d+", "SERVER"),
    (r"(?<=\s)(<invalid>|\d+(s|m\d+s))(?=\s|$)", "AGE"),
    (r"(?<=\()x\d+ over \w+", "xN over AGE"),
    (r"/tmp/(LIVE|MERGED)-\d+", r"/tmp/\1"),
    (r"kube-api-access-\w{5}", "kube-api-access-XXXXX"),
    (r"\bweb-[bcdf-hj-np-tv-xz24-9]{6,10}\b", "web-HASH"),
    (r"(?m)^Waiting for deployment spec update to be observed\.\.\.\n", ""),
    (r"pod-template-hash=\w+", "pod-template-hash=HASH"),
    (r"debugger-\w{5}", "debugger-XXXXX"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000( UTC)?", "TIME"),
    (r"Resource Version: +\d+", "Resource Version: VERSION"),
    (r"(?m)^[IWE]\d{4} .*\n", ""),
    (r"X509SHA256=\w+", "X509SHA256=HASH"),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
    (r"(?<=\S)  +", "  "),
    (r"[ \t]+$", ""),
)


@dataclass(slots=True)
class Entry:
    """One line that is played, and what is expected of it."""

    line: str
    told: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The last line, where it is about the exit code."""
        return self.told[-1] if self.told and self.told[-1].startswith("[") else ""

    def agrees(self, recorded: Entry, *, embedded: bool) -> bool:
        """Whether what was told now is what was recorded, as far as the line's mark asks."""
        mark = self.line[0] if embedded else "$"
        if mark == "!":
            return self.code == "[exit 1]"
        return self.code == recorded.code if mark == "~" else self.told == recorded.told

    @property
    def text(self) -> str:
        """As the file has it."""
        return "\n".join([self.line, *self.told])


def read(path: Path) -> list[Entry]:
    """Return a transcript's entries."""
    entries: list[Entry] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line == "." or line.startswith(_MARKS):
            entries.append(Entry(line))
        elif line or (entries and entries[-1].told):
            entries[-1].told.append(line)
    for entry in entries:
        while entry.told and not entry.told[-1]:
            entry.told.pop()
    return entries


def write(path: Path, entries: list[Entry]) -> None:
    """Write a transcript."""
    path.write_text("\n".join(entry.text for entry in entries) + "\n", encoding="utf-8")


class Kubectl:
    """An unmodified kubectl that acts in a namespace.

    Args:
        kubeconfig: how it reaches the cluster.
        namespace: where it acts unless told otherwise.
        home: its caches, which may be shared, and its working directory is the transcripts'.
    """

    def __init__(self, kubeconfig: Path, namespace: str, home: Path) -> None:
        self._namespace = namespace
        self._home = home
        self._command = [str(KUBECTL), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
        self._following: list[asyncio.subprocess.Process] = []

    async def play(self, entries: list[Entry]) -> list[Entry]:
        """Run each entry's command and return the entries with what they told."""
        try:
            return [Entry(entry.line, await self._tell(entry.line)) for entry in entries]
        finally:
            for process in self._following:
                process.kill()

    async def _tell(self, line: str) -> list[str]:
        if line.startswith("##"):
            return []
        if line.startswith("& "):
            await self._follow(line[2:])
            return []
        if line == ".":
            process = self._following.pop()
            process.send_signal(signal.SIGINT)
        else:
            process = await self._start(line[2:])
        try:
            async with asyncio.timeout(_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            return [f"[no end within {_SECONDS:.0f} s]"]
        told = [] if line.startswith("? ") else list(self._lines(output.decode()))
        if process.returncode and line != ".":
            told.append(f"[exit {process.returncode}]")
        return told

    async def _follow(self, arguments: str) -> None:
        process = await self._start(arguments)
        self._following.append(process)
        await asyncio.sleep(0)

    async def _start(self, arguments: str) -> asyncio.subprocess.Process:
        words = shlex.split(arguments.replace("NAMESPACE", self._namespace))
        return await asyncio.create_subprocess_exec(
            *self._command,
            *words,
            cwd=TRANSCRIPTS,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    def _environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self._home),
            "PATH": os.environ["PATH"],
            "EDITOR": str(TRANSCRIPTS / "editor"),
            "NO_COLOR": "1",
            "TZ": "UTC",
        }

    def _lines(self, output: str) -> Iterator[str]:
        output = output.partition("\ngoroutine ")[0].replace(self._namespace, "NAMESPACE")
        for pattern, word in _VOLATILE:
            output = re.sub(pattern, word, output, flags=re.MULTILINE)
        yield from output.rstrip().splitlines()
