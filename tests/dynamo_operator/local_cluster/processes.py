"""Looks at the processes of this machine."""

import os
import subprocess
import sys
import time
from pathlib import Path


def with_word(word):
    """The pids whose command line holds `word`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line.split(b"\0"):
                found.append(int(entry.name))
    return found


def wait_gone(word, seconds=5.0):
    """Wait until no process has `word` in its command line; returns those that are left."""
    end = time.monotonic() + seconds
    while (left := with_word(word)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def existing(*paths):
    """Those of the paths that exist."""
    return [path for path in paths if os.path.exists(path)]


def start_agent(program, *arguments):
    """Start a Python program that plays the agent."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
