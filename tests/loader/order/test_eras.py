"""Orders one after the other: every slot is where it was, and every era has whole epochs of its own samples."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.loader.order.eras import Eras
from wdsctl.loader.order.shuffle import Shuffled, Strand


def an_order(n: int, size: int, window: int, passes: int, seed: int = 1) -> Shuffled:
    return Shuffled(n=n, slice_samples=size, window_samples=window, seed=seed, passes=passes)


sizes = st.tuples(st.integers(1, 40), st.integers(1, 5))


@st.composite
def eras(draw: st.DrawFn) -> Eras:
    window, passes = draw(st.integers(1, 12)), draw(st.sampled_from([0, 1, 2]))
    given = [
        an_order(n, size, window, passes, seed) for seed, (n, size) in enumerate(draw(st.lists(sizes, max_size=3)))
    ]
    ends, end = [], 0
    for order in given:
        end += order.epoch_slices * draw(st.integers(1, 3))
        ends.append(end)
    return Eras([*given, an_order(*draw(sizes), window, passes, 99)], ends)


def laid_out(order: Eras, strand: Strand, slices: int) -> tuple[list[tuple[int, int]], list[int]]:
    """(position, pass) of a strand's samples, and where its windows begin, as slices."""
    samples: list[tuple[int, int]] = []
    starts, at = [], 0
    while at < slices:
        starts.append(at)
        window = order.window(strand, at)
        samples += zip(window.positions.tolist(), window.passes.tolist(), strict=True)
        assert window.stop == order.end_of(strand, at)
        at = window.stop
    return samples, starts


@given(eras(), st.integers(1, 5))
def test_strands_together_have_every_sample_of_each_era_once_a_pass(order: Eras, lanes: int) -> None:
    last = order.eras[-1]
    slots = last.begin + order.epoch_slices
    found: Counter[tuple[int, int]] = Counter()
    for lane in range(lanes):
        slices = max(0, -((lane - slots) // lanes))
        samples, _ = laid_out(order, Strand(lane, lanes), slices)
        found.update(samples[: order.samples_before(Strand(lane, lanes), slices)])

    expected: Counter[tuple[int, int]] = Counter()
    for era in order.eras:
        end = slots if era.end is None else era.end
        for number in range((end - era.begin) // era.order.slices):
            expected.update((era.positions + position, era.passes + number) for position in range(era.order.n))
    assert found == expected
    assert set(found.values()) == {1}


@given(eras(), st.integers(0, 4), st.integers(1, 5), st.integers(0, 60))
def test_places_are_found_where_windows_lay_them_out(order: Eras, first: int, step: int, slices: int) -> None:
    strand = Strand(first, step)
    samples, starts = laid_out(order, strand, slices)

    assert order.samples_before(strand, starts[-1] if starts else 0) <= len(samples)
    for taken in range(0, len(samples), 3):
        start, at = order.find(strand, taken)
        window = order.window(strand, start)
        assert (window.positions[at], window.passes[at]) == samples[taken]
        assert order.samples_before(strand, start) + at == taken


@given(eras(), st.integers(1, 5), st.integers(1, 30))
def test_several_windows_at_once_are_those_one_by_one_and_end_with_the_era(order: Eras, step: int, least: int) -> None:
    strand = Strand(0, step)
    together = order.window(strand, 0, least)

    samples, _ = laid_out(order, strand, together.stop)

    assert list(zip(together.positions.tolist(), together.passes.tolist(), strict=True)) == samples


def test_what_was_before_an_era_ended_is_what_it_was() -> None:
    alone = an_order(23, 3, 6, 1)
    grown = Eras([alone, an_order(40, 3, 6, 1, 7)], [2 * alone.epoch_slices])

    for lane in range(3):
        strand, at = Strand(lane, 3), 0
        while (at + 1) * 3 <= 2 * alone.epoch_slices:
            here, there = grown.window(strand, at), alone.window(strand, at)
            assert here.positions.tolist() == there.positions.tolist()
            at = here.stop


def test_an_era_ends_with_an_epoch() -> None:
    order = an_order(23, 3, 6, 1)

    for end in (0, order.epoch_slices + 1):
        with pytest.raises(ValueError, match="no epoch"):
            Eras([order, order], [end])
    with pytest.raises(ValueError, match="no epoch"):
        Eras([an_order(23, 3, 6, -1), order], [order.slices])
