"""A lane prefetches its next windows: how many, when, and in which order among several lanes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.shuffle import ShuffledOrder
from wdsctl.loader.plan.components import MAX_LEAD_SAMPLES, Component, ComponentCursor, SourceRange

SAMPLES, WINDOW = 4096, 64


class RecordingSource:
    """A remote source that records what is prefetched: (first position, samples, when they are due)."""

    is_remote = True

    def __init__(self, lead_seconds: float) -> None:
        self.lead_seconds = lead_seconds
        self.prefetched: list[tuple[int, int, float]] = []

    def prefetch(self, positions: Int64Array, units: Any, *, starts: bool, due: float) -> object:
        self.prefetched.append((int(positions[0]), len(positions), due))
        return object()

    def block(self, positions: Int64Array, passes: Int64Array) -> Any:
        return positions

    def will_need(self, slices: Int64Array, most_bytes: int) -> None:
        pass


def a_cursor(
    lead_seconds: float, lane: int = 0, share: float = 1.0, window: int = WINDOW
) -> tuple[ComponentCursor, RecordingSource]:
    source = RecordingSource(lead_seconds)
    order = ShuffledOrder(n=SAMPLES, slice_samples=16, window_samples=window, seed=1, passes=1, lanes=2)
    pieces = [SourceRange(cast("Any", source), 0, SAMPLES, SAMPLES)]
    return ComponentCursor(Component(order, pieces), Lane(lane), (), 1, share=share), source


def samples_ahead(cursor: ComponentCursor, source: RecordingSource, batches: int) -> list[int]:
    """Returns, after each batch of 16, how many samples after the ready window are prefetched."""
    result = []
    for number in range(1, batches + 1):
        cursor.take_ranges(16)
        ready = -(-number * 16 // WINDOW) * WINDOW
        result.append(WINDOW + sum(count for _, count, _ in source.prefetched) - ready)
    return result


def test_next_window_is_prefetched_after_half_of_current_one() -> None:
    cursor, source = a_cursor(lead_seconds=0.0)
    cursor.seek(0)

    assert samples_ahead(cursor, source, 8) == [0, 64, 64, 64] * 2
    assert [count for _, count, _ in source.prefetched] == [64, 64]


def test_slow_store_prefetches_several_windows_ahead() -> None:
    cursor, source = a_cursor(lead_seconds=1e6)
    cursor.seek(0)
    counts = samples_ahead(cursor, source, 40)

    assert counts[7:] == [MAX_LEAD_SAMPLES] * 33, "and not more, or a slow client would fetch ever further ahead"
    assert len(set(source.prefetched)) == len(source.prefetched), "none is fetched twice"


def test_prefetched_windows_match_windows_read_by_lane() -> None:
    cursor, source = a_cursor(lead_seconds=1e6)
    cursor.seek(0)
    read = np.concatenate([block[start:stop] for _, block, start, stop in cursor.take_ranges(640)])  # type: ignore[index]

    assert [first for first, _, _ in source.prefetched[:9]] == read[WINDOW : 10 * WINDOW : WINDOW].tolist()


def test_large_windows_are_prefetched_one_ahead_from_slow_store() -> None:
    cursor, source = a_cursor(lead_seconds=1e6, window=1024)
    cursor.seek(0)
    for _ in range(64):
        cursor.take_ranges(16)

    assert len(source.prefetched) == 1


def test_prefetched_window_is_due_at_its_first_draw() -> None:
    cursor, source = a_cursor(lead_seconds=0.0, share=0.25)
    cursor.seek(128, draws=1000)
    cursor.take_ranges(48)

    (window,) = source.prefetched
    assert window[2] == 1000 + 64 / 0.25


def test_prefetch_first_fetches_first_window_of_unopened_lane() -> None:
    lanes = [a_cursor(lead_seconds=0.0, lane=lane) for lane in (0, 1)]
    for cursor, _ in lanes:
        cursor.prefetch_first(0, due=3.0)
    firsts = [source.prefetched for _, source in lanes]
    for cursor, _ in lanes:
        cursor.seek(0)
    reads = [cursor.take_ranges(1)[0][1] for cursor, _ in lanes]

    assert firsts == [[(int(read[0]), WINDOW, 3.0)] for read in reads]  # type: ignore[index]
    assert firsts[0] != firsts[1]
