"""A late request is sent a second time, and the first answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from wdsctl.core.storage.hedging import FIRST_HEDGE_SECONDS, MIN_HEDGE_SECONDS, HedgePolicy, hedged

KIB = 1 << 10


def a_policy(latency: float = 0.001, requests: int = 40) -> HedgePolicy:
    policy = HedgePolicy()
    for _ in range(requests):
        policy.add(KIB, latency)
    return policy


def answering(*seconds: float, cancelled: list[int] | None = None) -> Callable[[], Awaitable[int]]:
    """A request whose first copy takes the first of these times, and so on; it answers with the number of the copy."""
    begun = iter(range(len(seconds)))

    async def send() -> int:
        number = next(begun)
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


def run(send: Callable[[], Awaitable[int]], policy: HedgePolicy) -> tuple[int, int]:
    """(the answer, copies that were sent)."""
    hedges: list[int] = []

    async def both() -> int:
        found = await hedged(send, KIB, policy, lambda: hedges.append(1))
        await asyncio.sleep(0.01)
        return found

    return asyncio.run(both()), len(hedges)


def test_a_request_in_time_is_sent_once() -> None:
    assert run(answering(0.001), a_policy()) == (0, 0)


def test_the_first_answer_wins_and_the_other_copy_is_cancelled() -> None:
    cancelled: list[int] = []
    assert run(answering(30, 0.001, cancelled=cancelled), a_policy()) == (1, 1)
    assert cancelled == [0]

    assert run(answering(0.1, 30, cancelled=cancelled), a_policy()) == (0, 1)
    assert cancelled == [0, 1]


def test_a_copy_that_fails_leaves_the_other_one() -> None:
    assert run(answering(0.15, -0.001), a_policy()) == (0, 1)
    with pytest.raises(ConnectionResetError):
        run(answering(-0.1, -0.001), a_policy())
    with pytest.raises(ConnectionResetError):
        run(answering(-0.001), a_policy())


def test_copies_are_a_share_of_the_requests() -> None:
    policy = a_policy()
    sent = 0
    for _ in range(100):
        policy.earn()
        sent += policy.spend()

    assert sent == 2 + 5 - 1 or sent == 2 + 5


def test_when_a_request_is_late_follows_from_those_of_its_size() -> None:
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
