import asyncio

import pytest

from dynamo_operator.runtime.client import ConflictError, NotFoundError, retry_on_conflict

pytestmark = pytest.mark.virtual_time


class Attempts:
    def __init__(self, *errors):
        self.errors = list(errors)
        self.times: list[float] = []

    async def __call__(self):
        self.times.append(asyncio.get_running_loop().time())
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_an_operation_runs_again_after_a_conflict():
    attempts = Attempts(ConflictError(409), ConflictError(409))

    assert await retry_on_conflict(attempts) == "done"

    assert len(attempts.times) == 3
    assert 0.02 <= attempts.times[-1] <= 0.022


async def test_the_last_conflict_is_raised():
    attempts = Attempts(*[ConflictError(409)] * 9)

    with pytest.raises(ConflictError):
        await retry_on_conflict(attempts, attempts=4, factor=5.0)

    waits = [b - a for a, b in zip(attempts.times, attempts.times[1:], strict=False)]
    assert waits == pytest.approx([0.01, 0.05, 0.25], rel=0.1)


async def test_other_errors_are_raised_at_once():
    attempts = Attempts(NotFoundError(404))

    with pytest.raises(NotFoundError):
        await retry_on_conflict(attempts)

    assert attempts.times == [0.0]
