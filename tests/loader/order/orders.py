"""Orders, and their windows one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from wdsctl.loader.order.shuffle import Shuffled, Strand, Window


def an_order(
    n: int, slice_samples: int = 16, window_samples: int = 1000, *, seed: int = 0, passes: int = 1
) -> Shuffled:
    return Shuffled(n=n, slice_samples=slice_samples, window_samples=window_samples, seed=seed, passes=passes)


def windows(order: Shuffled, strand: Strand) -> Iterator[tuple[int, Window]]:
    """(start, window), without end."""
    start = 0
    while True:
        window = order.window(strand, start)
        yield start, window
        start = window.stop
