"""Shows a search while it goes on: a block that changes, lines, or JSON."""

from __future__ import annotations

import json
import os
import sys

from dynamo_operator.cli.following import SearchState, follow
from dynamo_operator.cli.rendering.output import OutputFormat
from dynamo_operator.cli.rendering.progress import ProgressLine
from dynamo_operator.cli.rendering.search_view import (
    ScoreHistory,
    state_document,
    view_line,
    view_lines,
)
from dynamo_operator.cli.rendering.terminal import Screen, Terminal
from dynamo_operator.cli.searches import Search
from dynamo_operator.runtime.client import Client
from informers.clock import SystemClock


async def watch_search(
    client: Client, search: Search, *, every_seconds: float, output: str = OutputFormat.TABLE
) -> SearchState:
    """Show a search on standard output until it is over, and return its last state.

    Args:
        client: looks.
        search: what is followed; see `follow`.
        every_seconds: how often.
        output: TABLE or JSON.

    Raises:
        CliError: what is followed was deleted.
    """
    clock, history = SystemClock(), ScoreHistory()
    terminal = Terminal.of(sys.stdout, os.environ)
    screen, line = Screen(terminal), ProgressLine(sys.stdout)
    told = ""
    state = SearchState(search.request, search.run)
    async for state in follow(client, search, every_seconds=every_seconds):
        now = clock.now()
        history.observe(state, now)
        if output == OutputFormat.JSON:
            text = json.dumps(state_document(state), ensure_ascii=False)
            if text != told:
                print(text, flush=True)
            told = text
        elif terminal.is_interactive:
            screen.show(view_lines(state, history, now, terminal))
        else:
            line.show(view_line(state))
    return state
