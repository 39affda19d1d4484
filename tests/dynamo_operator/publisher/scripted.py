"""A search that shows what a test has written down, look by look."""

from __future__ import annotations

from collections.abc import Sequence

Step = tuple[int | Exception | None, bytes | None]


class ScriptedSearch:
    """Planner states and files, one pair a look; the last stays. Notes what is read, in order."""

    def __init__(self, trace: list[str], steps: Sequence[Step]) -> None:
        self.trace = trace
        self._steps = list(steps)
        self._look = 0

    def _step(self) -> Step:
        return self._steps[min(self._look, len(self._steps) - 1)]

    async def planner_exit(self) -> int | None:
        self.trace.append("planner")
        state = self._step()[0]
        if isinstance(state, Exception):
            raise state
        return state

    def snapshot(self) -> bytes | None:
        self.trace.append("file")
        data = self._step()[1]
        self._look += 1
        return data
