"""A late request is sent a second time, and the first answer counts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from wdsctl.core.storage.hedging import (
    EARLY_LATE_FACTOR,
    FIRST_HEDGE_SECONDS,
    HEDGED_SHARE,
    LATE_FACTOR,
    MIN_HEDGE_SECONDS,
    UNAWAITED_FACTOR,
    HedgePolicy,
    hedged,
)

KIB = 1 << 10


def a_policy(latency: float = 0.001, requests: int = 40) -> HedgePolicy:
    policy = HedgePolicy()
    for _ in range(requests):
        policy.add(KIB, latency)
    return policy


def make_request(*seconds: float, cancelled: list[int] | None = None) -> Callable[[], Awaitable[int]]:
    """A request whose copies take these seconds in turn and return their number; after negative seconds they fail."""
    copies = iter(range(len(seconds)))

    async def send() -> int:
        number = next(copies)
        try:
            await asyncio.sleep(abs(seconds[number]))
        except asyncio.CancelledError:
            if cancelled is not None:
                cancelled.append(number)
            raise
        if seconds[number] < 0:
            raise ConnectionResetError
        return number

    return send


def run(
    send: Callable[[], Awaitable[int]], policy: HedgePolicy, is_awaited: Callable[[], bool] = lambda: True
) -> tuple[int, int]:
    """Returns the answer and the number of copies that were sent."""
    hedges: list[int] = []

    async def send_hedged() -> int:
        found = await hedged(send, KIB, policy, lambda: hedges.append(1), is_awaited)
        await asyncio.sleep(0.01)
        return found

    return asyncio.run(send_hedged()), len(hedges)


def test_request_in_time_is_sent_once() -> None:
    assert run(make_request(0.001), a_policy()) == (0, 0)


def test_first_answer_wins_and_other_copy_is_cancelled() -> None:
    cancelled: list[int] = []
    assert run(make_request(30, 0.001, cancelled=cancelled), a_policy()) == (1, 1)
    assert cancelled == [0]

    assert run(make_request(0.1, 30, cancelled=cancelled), a_policy()) == (0, 1)
    assert cancelled == [0, 1]


def test_failed_copy_leaves_other_copy_running() -> None:
    assert run(make_request(0.15, -0.001), a_policy()) == (0, 1)
    with pytest.raises(ConnectionResetError):
        run(make_request(-0.1, -0.001), a_policy())
    with pytest.raises(ConnectionResetError):
        run(make_request(-0.001), a_policy())


def test_hedged_copies_are_limited_to_share_of_requests() -> None:
    policy = a_policy()
    sent = 0
    for _ in range(100):
        policy.earn()
        sent += policy.spend()

    assert sent == 2 + 5 - 1 or sent == 2 + 5


def test_late_after_depends_on_latencies_of_request_size() -> None:
    policy = HedgePolicy()
    assert policy.late_after(KIB) == FIRST_HEDGE_SECONDS
    for _ in range(100):
        policy.add(KIB, 0.001)
        policy.add(8 << 20, 0.4)

    assert policy.late_after(KIB) == MIN_HEDGE_SECONDS
    assert policy.late_after(8 << 20) == pytest.approx(0.6)
    assert policy.late_after(1 << 20) == pytest.approx(0.6), "not known: that of longer ones"
    for _ in range(200):
        policy.add(KIB, 0.2)
    assert policy.late_after(KIB) == pytest.approx(0.3), "a store that became slower"


def test_unawaited_request_is_hedged_later() -> None:
    slow = 2 * MIN_HEDGE_SECONDS  # late for somebody who waits
    assert run(make_request(slow, 0.001), a_policy(), lambda: False) == (0, 0)
    assert run(make_request(slow, 0.001), a_policy(), lambda: True) == (1, 1)
    assert run(make_request(30, 0.001), a_policy(), lambda: False) == (1, 1), "and not for ever"


def test_request_is_hedged_at_once_when_it_becomes_awaited() -> None:
    awaited = iter([False] * 2)
    policy = a_policy(latency=MIN_HEDGE_SECONDS)  # late after 75 ms, or 300 ms

    assert run(make_request(30, 0.001), policy, lambda: next(awaited, True)) == (1, 1)


def test_late_after_adapts_after_few_latencies() -> None:
    policy = HedgePolicy()
    for seconds in (0.02, 0.03, 2.0, 0.02, 0.03):
        assert policy.late_after(KIB) == FIRST_HEDGE_SECONDS
        policy.add(KIB, seconds)

    assert policy.late_after(KIB) == pytest.approx(EARLY_LATE_FACTOR * 0.03)


def test_lead_seconds_covers_late_request_and_its_copy() -> None:
    policy = a_policy(latency=0.2)
    late = UNAWAITED_FACTOR * LATE_FACTOR * 0.2

    assert policy.lead_seconds == pytest.approx(late + LATE_FACTOR * 0.2)


def test_hedge_budget_suffices_for_one_percent_late_requests() -> None:
    """Of 10,000 requests, of which random ones are late, none is refused a copy."""
    policy, refused = a_policy(), 0
    draw = random.Random(17)
    late = [draw.random() < 0.01 for _ in range(10_000)]
    for is_late in late:
        policy.earn()
        refused += is_late and not policy.spend()

    assert HEDGED_SHARE == 0.05
    assert 50 < sum(late) < 200
    assert refused == 0
