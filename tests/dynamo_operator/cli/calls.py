"""Calls of the command line in the test's own process and loop."""

from __future__ import annotations

import io
import sys
from collections.abc import Awaitable
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from dynamo_operator.cli.commands import EXPECTED_ERRORS, parser, told
from dynamo_operator.testing.cluster import Cluster


class Answer(NamedTuple):
    """What a command ended with."""

    code: int
    output: str
    errors: str


async def call(*words: str, typed: str = "") -> Answer:
    """Run `dynamo-operator WORDS` to its end, with that on standard input."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        redirect_stdout(output),
        redirect_stderr(errors),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        try:
            parsed = parser(words).parse_args(words)
            result = parsed.run(parsed)
            code = await result if isinstance(result, Awaitable) else result
        except SystemExit as end:
            code = end.code
        except EXPECTED_ERRORS as error:
            code = told(error)
    return Answer(code, output.getvalue(), errors.getvalue())


async def call_to(cluster: Cluster, *words: str, typed: str = "") -> Answer:
    """Run `dynamo-operator WORDS` against a cluster."""
    return await call(*words, "--kubeconfig", str(cluster.kubeconfig()), typed=typed)
