"""Programs that print credentials: run without a terminal, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

PROGRAM_TIMEOUT_SECONDS = 30.0

_LARGEST_OUTPUT = 1024 * 1024


class ProgramError(Exception):
    """The program did not answer; one line that shows nothing of its arguments or output."""


async def output_of(
    command: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout_seconds: float = PROGRAM_TIMEOUT_SECONDS,
) -> bytes:
    """Run a program and return what it prints; its errors go where ours go.

    Args:
        command: absolute, or looked for in PATH.
        arguments: its arguments.
        environment: its whole environment.
        timeout_seconds: after which it is ended.

    Raises:
        FileNotFoundError: there is no such program.
        ProgramError: it cannot be run, fails, takes too long or prints too much.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ProgramError(error.strerror or str(error)) from None
    try:
        async with asyncio.timeout(timeout_seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        raise ProgramError(f"no answer in {timeout_seconds:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ProgramError(f"ended with exit code {process.returncode}")
    if len(output) > _LARGEST_OUTPUT:
        raise ProgramError("its answer is too long")
    return output
