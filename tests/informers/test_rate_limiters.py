from random import Random

import pytest

from informers.backoff import Backoff
from informers.rate_limiters import (
    FastSlow,
    ItemExponential,
    MaxOf,
    TokenBucket,
    WithJitter,
    WithMaxWait,
)


class ManualClock:
    def __init__(self):
        self.time = 0.0

    def monotonic(self):
        return self.time

    def now(self):
        raise NotImplementedError


def test_an_items_delay_doubles_from_5_ms_to_1000_s_until_it_is_forgotten():
    limiter = ItemExponential[str]()

    delays = [limiter.when("a") for _ in range(20)]

    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-2:] == [1000, 1000]
    assert (limiter.retries("a"), limiter.retries("b")) == (20, 0)
    assert limiter.when("b") == 0.005
    limiter.forget("a")
    limiter.forget("never seen")
    assert (limiter.retries("a"), limiter.when("a")) == (0, 0.005)


def test_very_many_failures_do_not_overflow():
    limiter = ItemExponential[str]()

    delays = {limiter.when("a") for _ in range(5000)}

    assert max(delays) == 1000


def test_a_fast_and_slow_limiter_changes_its_mind_after_so_many_failures():
    limiter = FastSlow[str](fast_seconds=0.1, slow_seconds=10, fast_attempts=2)

    assert [limiter.when("a") for _ in range(4)] == [0.1, 0.1, 10, 10]
    assert (limiter.retries("a"), limiter.retries("b")) == (4, 0)
    limiter.forget("a")
    assert limiter.when("a") == 0.1


def test_a_bucket_lets_the_burst_pass_then_reserves_into_the_future():
    clock = ManualClock()
    limiter = TokenBucket[str](clock, rate=10, burst=100)

    delays = [limiter.when(str(n)) for n in range(103)]
    clock.time = 1000.0
    refilled = [limiter.when("x") for _ in range(101)]

    assert delays[:100] == [0.0] * 100
    assert delays[100:] == pytest.approx([0.1, 0.2, 0.3])
    assert refilled == pytest.approx([0.0] * 100 + [0.1])
    assert limiter.retries("x") == 0


def test_a_maximum_charges_every_limiter():
    clock = ManualClock()
    items, bucket = ItemExponential[str](), TokenBucket[str](clock, rate=10, burst=2)
    limiter = MaxOf(items, bucket)

    delays = [limiter.when("a") for _ in range(4)]

    assert delays == pytest.approx([0.005, 0.01, 0.1, 0.2])
    assert limiter.retries("a") == 4
    limiter.forget("a")
    assert limiter.retries("a") == 0
    with pytest.raises(ValueError, match="at least one"):
        MaxOf[str]()


def test_a_longest_wait_cuts_the_delay_and_nothing_else():
    limiter = WithMaxWait(ItemExponential[str](), 0.015)

    assert [limiter.when("a") for _ in range(4)] == [0.005, 0.01, 0.015, 0.015]
    assert limiter.retries("a") == 4
    limiter.forget("a")
    assert limiter.when("a") == 0.005


def test_jitter_stretches_a_delay_by_up_to_its_factor():
    limiter = WithJitter(ItemExponential[int](), Random(3), factor=0.5)

    delays = [limiter.when(key) for key in range(200)]

    assert 0.005 <= min(delays) < 0.0055
    assert 0.007 < max(delays) <= 0.0075
    limiter.forget(1)
    assert (limiter.retries(1), limiter.retries(2)) == (0, 1)


def test_list_and_watch_delays_double_with_jitter_up_to_a_cap():
    backoff = Backoff(Random(1))

    now, delays = 0.0, []
    for _ in range(9):
        delays.append(backoff.next_delay(now))
        now += delays[-1]

    bases = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]
    assert all(base <= delay <= 2 * base for base, delay in zip(bases, delays, strict=True))
    assert len({round(delay / base, 6) for base, delay in zip(bases, delays, strict=True)}) > 5


def test_list_and_watch_delays_begin_anew_after_two_quiet_minutes():
    backoff = Backoff(Random(1), jitter=0)

    delays = [backoff.next_delay(now) for now in (0, 1, 2, 121, 242)]

    assert delays == [0.8, 1.6, 3.2, 6.4, 0.8]


@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [(None, 0.8), (0, 0.8), (-5, 0.8), (7, 7), (3600, 60)],
)
def test_retry_after_is_a_capped_lower_bound(retry_after, delay):
    backoff = Backoff(Random(1), jitter=0)

    assert backoff.next_delay(0, retry_after_seconds=retry_after) == delay
