"""Ties child processes to this one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

# The kernel's signal for a parent's death is asked for by the child itself, so a parent that dies
# before leaves a child that nobody will ever end; it looks whose child it is once it has asked.
# A shell adds PWD to the environment.
_UNLESS_ORPHANED = '[ "$PPID" = "$0" ] && unset PWD && exec "$@"'


def dying_with_this_process(command: Sequence[str]) -> list[str]:
    """Return a command that runs the given one and is killed when this process ends, however.

    More exactly, when the thread that starts it ends (prctl(2), PR_SET_PDEATHSIG). Where the system
    cannot (no `setpriv`: not Linux), it is the given command alone.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return [*command]
    shell = ["/bin/sh", "-c", _UNLESS_ORPHANED, str(os.getpid())]
    return [setpriv, "--pdeathsig", "KILL", "--", *shell, *command]
