"""Every sample once a pass, any window at once, and the same for ever."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.order.orders import an_order, windows
from wdsctl.core.errors import UsageError
from wdsctl.core.keys import WORD, derive
from wdsctl.loader.order.permutation import MOST, permute
from wdsctl.loader.order.short import keyed_places
from wdsctl.loader.order.shuffle import ORDER_VERSION, Shuffled, Strand, Window, slice_size

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parents[2] / "golden" / "order-v2.json"
ORDERS = st.builds(
    an_order,
    st.integers(1, 200),
    st.integers(1, 20),
    st.integers(1, 60),
    seed=st.integers(0, WORD),
    passes=st.integers(-1, 4),
)
STRANDS = st.builds(Strand, st.integers(0, 500), st.integers(1, 70))


def windows_before(order: Shuffled, strand: Strand, slot: int) -> Iterator[Window]:
    """All windows of the strand that begin before this slot."""
    for start, window in windows(order, strand):
        if strand.first + start * strand.step >= slot:
            return
        yield window


def came(order: Shuffled, lanes: int, slots: int) -> Counter[tuple[int, int]]:
    """How often each (pass, position) comes in the first `slots` slots, over all lanes."""
    counts: Counter[tuple[int, int]] = Counter()
    for lane in range(lanes):
        for window in windows_before(order, Strand(lane, lanes), slots):
            counts.update(zip(window.passes.tolist(), window.positions.tolist(), strict=True))
    return counts


def slices_by_definition(order: Shuffled, slots: int) -> list[tuple[int, int]]:
    """(slice, pass) of every slot of whole epochs, by dealing slot after slot."""
    full = order.n // order.size
    stretches = max(1, order.passes)
    dealt: list[tuple[int, int]] = []
    while len(dealt) < slots:
        epoch = len(dealt) // (order.slices * stretches)
        elements = iter(range(full))
        if order.passes:
            key = derive("slices", order.seed, epoch)
            elements = iter(permute(np.arange(full * stretches), full * stretches, key).tolist())
        for stretch in range(epoch * stretches, (epoch + 1) * stretches):
            for place in range(order.slices):
                if order.slices > full and place == short_place(order, stretch):
                    dealt.append((full, stretch))
                else:
                    element = next(elements)
                    dealt.append((element % full, epoch * stretches + element // full))
    return dealt[:slots]


def short_place(order: Shuffled, stretch: int) -> int:
    places = keyed_places(order.slices, order.seed)
    return int(places[stretch % places.size]) if order.passes else order.slices - 1


def samples_of(order: Shuffled, dealt: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(pass, position), slice by slice."""
    size = order.size
    return [(number, i) for j, number in dealt for i in range(j * size, min((j + 1) * size, order.n))]


@pytest.mark.parametrize("n", [1, 2, 7, 64, 500, 1000])
@pytest.mark.parametrize("lanes", [1, 8, 64])
@pytest.mark.parametrize(("slice_samples", "window_samples"), [(1, 60), (3, 10), (16, 1000), (128, 1000)])
@pytest.mark.parametrize("passes", [0, 1, 3])
def test_every_sample_comes_once_a_pass(
    n: int, lanes: int, slice_samples: int, window_samples: int, passes: int
) -> None:
    order = an_order(n, slice_samples, window_samples, passes=passes)

    counts = came(order, lanes, slots=6 * order.slices)

    assert counts == Counter((number, position) for number in range(6) for position in range(n))


@settings(max_examples=150, deadline=None)
@given(ORDERS.filter(lambda order: order.passes >= 0), STRANDS)
def test_windows_are_what_dealing_slot_by_slot_gives(order: Shuffled, strand: Strand) -> None:
    epoch_slots, width = order.epoch_slices, max(1, order.window_samples // order.slice_samples)
    slots = ((strand.first + 20 * strand.step) // epoch_slots + 2) * epoch_slots
    dealt = slices_by_definition(order, slots)
    mine = list(range(strand.first, slots, strand.step))

    begin = 0
    for window in windows_before(order, strand, slots):
        epoch = mine[begin] // epoch_slots
        turns = [slot for slot in mine[begin : begin + width] if slot // epoch_slots == epoch]
        expected = samples_of(order, [dealt[slot] for slot in turns])
        got = list(zip(window.passes.tolist(), window.positions.tolist(), strict=True))
        assert got == expected if order.passes == 0 else sorted(got) == sorted(expected)
        begin += len(turns)
        assert window.stop == order.end_of(strand, begin - 1) == begin
    assert begin == len(mine)


@settings(max_examples=150, deadline=None)
@given(ORDERS, STRANDS)
def test_a_sample_is_found_where_walking_meets_it(order: Shuffled, strand: Strand) -> None:
    taken = 0
    for start, window in islice(windows(order, strand), 12):
        assert order.samples_before(strand, start) == taken
        for at in range(window.positions.size):
            assert order.find(strand, taken + at) == (start, at)
        taken += window.positions.size
    assert order.find(strand, taken) == (window.stop, 0)


@settings(max_examples=150, deadline=None)
@given(
    st.builds(
        an_order, st.integers(1, MOST), st.integers(1, 300), st.integers(1, 3000), seed=st.integers(0, 9),
        passes=st.integers(-1, 1),
    ),
    st.integers(0, 10**15), st.integers(1, 10**6), st.integers(0, MOST),
)  # fmt: skip
def test_places_far_away_are_exact(order: Shuffled, first: int, step: int, taken: int) -> None:
    strand = Strand(first, step)
    taken //= 2 * step

    start, at = order.find(strand, taken)
    window = order.window(strand, start)

    assert order.samples_before(strand, start) + at == taken
    assert at < window.positions.size
    assert order.samples_before(strand, window.stop) == taken - at + window.positions.size
    assert order.end_of(strand, start) == window.stop


@settings(deadline=None)
@given(ORDERS, STRANDS)
def test_reads_are_the_slices_of_the_window_none_twice(order: Shuffled, strand: Strand) -> None:
    for _, window in islice(windows(order, strand), 8):
        rows = window.slices.tolist()
        assert window.positions.dtype == window.passes.dtype == window.slices.dtype == np.int64
        assert window.positions.size == window.passes.size
        assert [i for start, stop in rows for i in range(start, stop)] == sorted(set(window.positions.tolist()))


@settings(deadline=None)
@given(ORDERS, STRANDS, st.integers(0, 4), st.integers(1, 60))
def test_windows_opened_together_are_the_windows_one_after_the_other(
    order: Shuffled, strand: Strand, skipped: int, slices: int
) -> None:
    start = next(islice(windows(order, strand), skipped, None))[0]

    together = order.window(strand, start, slices)

    each = [order.window(strand, start)]
    while each[-1].stop < together.stop:
        each.append(order.window(strand, each[-1].stop))
    assert each[-1].stop == together.stop
    assert all(window.stop - start < slices for window in each[:-1])
    assert together.stop - start >= slices
    for column in ("positions", "passes"):
        assert getattr(together, column).tolist() == [i for one in each for i in getattr(one, column).tolist()]
    rows = together.slices.tolist()
    assert [i for a, b in rows for i in range(a, b)] == sorted(set(together.positions.tolist()))


def test_windows_opened_together_end_where_slots_do() -> None:
    order = an_order(3, 1, 1)
    strand = Strand(MOST - 5, 2)

    assert order.window(strand, 0, 100).stop == 2
    with pytest.raises(IndexError, match="slots go up to"):
        order.window(strand, 2)


@settings(deadline=None)
@given(ORDERS.filter(lambda order: order.passes >= 1), STRANDS)
def test_windows_never_straddle_epochs(order: Shuffled, strand: Strand) -> None:
    for _, window in islice(windows(order, strand), 20):
        assert len(set((window.passes // order.passes).tolist())) == 1


@settings(deadline=None)
@given(ORDERS, st.data())
def test_windows_come_out_the_same_in_any_sequence(order: Shuffled, data: st.DataObject) -> None:
    in_turn = {start: window.positions.tolist() for start, window in islice(windows(order, Strand(1, 3)), 8)}
    again = an_order(
        order.n, order.slice_samples, order.window_samples, seed=order.seed, passes=order.passes
    )  # fmt: skip

    for start in data.draw(st.permutations(sorted(in_turn))):
        assert again.window(Strand(1, 3), start).positions.tolist() == in_turn[start]


def test_as_they_lie_samples_come_in_order_pass_after_pass() -> None:
    order = an_order(10, 3, 6, passes=0)

    one = [i for window in windows_before(order, Strand(0, 1), 8) for i in window.positions.tolist()]
    two = [i for window in windows_before(order, Strand(0, 2), 8) for i in window.positions.tolist()]

    assert one == [*range(10), *range(10)]
    assert two == [0, 1, 2, 6, 7, 8, 0, 1, 2, 6, 7, 8]


def test_passes_shuffled_together_are_mixed() -> None:
    order = an_order(1000, 10, 100, passes=4)

    first = np.concatenate([window.passes for window in windows_before(order, Strand(0, 1), 100)])

    assert (np.bincount(first, minlength=4) > 100).all()


@pytest.mark.parametrize("n", [10_000, 9_993])
def test_with_replacement_a_stretch_covers_its_share_of_the_slices(n: int) -> None:
    order = an_order(n, 10, 100, seed=3, passes=-1)
    strand = Strand(0, 1)

    stretches = [
        {int(i) // 10 for window in (order.window(strand, start) for start in range(p * 1000, (p + 1) * 1000, 10))
         for i in window.positions} for p in range(20)
    ]  # fmt: skip

    # 1 - 1/e of a thousand slices, give or take five standard deviations of the mean of twenty.
    assert abs(np.mean([len(stretch) for stretch in stretches]) / 1000 - (1 - np.exp(-1))) < 0.011
    assert len(set().union(*stretches)) == 1000


def test_with_replacement_windows_are_never_cut() -> None:
    order = an_order(50, 4, 100, passes=-1)

    assert [start for start, _ in islice(windows(order, Strand(3, 7)), 5)] == [0, 25, 50, 75, 100]


def test_epochs_differ_and_so_do_seeds() -> None:
    ways = {
        tuple(order.window(Strand(0, 1), epoch * order.slices).positions.tolist())
        for order in (an_order(500, seed=seed, passes=passes) for seed in range(4) for passes in (-1, 1))
        for epoch in range(4)
        if order.passes == 1 or epoch == 0
    }

    assert len(ways) == 4 * 5


def test_one_seed_in_its_second_epoch_is_not_the_next_seed_in_its_first() -> None:
    one, next_one = an_order(512, seed=1), an_order(512, seed=2)

    assert one.window(Strand(0, 1), 64).positions.tolist() != next_one.window(Strand(0, 1), 32).positions.tolist()
    assert one.window(Strand(0, 1), 32).positions.tolist() != next_one.window(Strand(0, 1), 0).positions.tolist()


def test_windows_are_shuffled_unlike_each_other() -> None:
    order = an_order(64 * 16, slice_samples=512, window_samples=512)

    ways = {
        tuple((window.positions % 512).tolist())
        for lane in range(2)
        for _, window in islice(windows(order, Strand(lane, 2)), 10)
    }

    assert len(ways) == 20


def test_lanes_that_split_read_the_windows_of_their_own_slots() -> None:
    """The strands (0, 6) and (3, 6) hold the slots of (0, 3), each once."""
    order = an_order(400, 4, 40)

    whole = came(order, 3, 600)
    parts: Counter[tuple[int, int]] = Counter()
    for first in range(6):
        for window in windows_before(order, Strand(first, 6), 600):
            parts.update(zip(window.passes.tolist(), window.positions.tolist(), strict=True))

    assert parts == whole


@pytest.mark.parametrize(
    ("n", "lanes", "wanted", "size"),
    [(10**6, 8, 16, 16), (1024, 8, 16, 16), (1023, 8, 16, 15), (500, 64, 16, 1), (1, 1, 16, 1), (10**6, 8, 1, 1)],
)
def test_slices_shrink_so_that_every_lane_has_eight(n: int, lanes: int, wanted: int, size: int) -> None:
    assert slice_size(n, lanes, wanted) == size


@pytest.mark.parametrize(
    ("n", "slice_samples", "window_samples", "passes"),
    [(0, 1, 1, 1), (-1, 1, 1, 1), (2**62 + 1, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, -2), (2**61, 1, 1, 3)],
)
def test_an_order_that_cannot_be_is_refused(n: int, slice_samples: int, window_samples: int, passes: int) -> None:
    with pytest.raises(UsageError) as caught:
        an_order(n, slice_samples, window_samples, passes=passes)

    assert caught.value.hint


@pytest.mark.parametrize(("strand", "number"), [(Strand(-1, 2), 0), (Strand(0, 0), 0), (Strand(0, 2), -1)])
def test_there_is_nothing_outside_a_strand(strand: Strand, number: int) -> None:
    order = an_order(100)

    for question in (order.window, order.samples_before, order.end_of, order.find):
        with pytest.raises(IndexError, match=r"strand"):
            question(strand, number)


def test_a_window_begins_where_it_begins_and_nowhere_else() -> None:
    order = an_order(1000, 10, 100)

    with pytest.raises(IndexError, match=r"no window begins at slice 7 .* inside the one from 0"):
        order.window(Strand(0, 1), 7)
    with pytest.raises(IndexError, match="slot 4611686018427387900 is too far"):
        order.window(Strand(MOST - 4, 1), 0)


def golden_windows() -> list[dict[str, Any]]:
    """What the golden file holds. To write it anew: `python -m tests.loader.order.test_shuffle`."""
    places = [
        (an_order(7, 1, 4, seed=0), Strand(0, 1), 0),
        (an_order(500, 7, 70, seed=1), Strand(3, 8), 0),
        (an_order(500, 7, 70, seed=1), Strand(3, 8), 10**12 + 7),
        (an_order(500, 7, 70, seed=1, passes=3), Strand(5, 24), 100),
        (an_order(500, 7, 70, seed=1, passes=0), Strand(3, 8), 10),
        (an_order(500, 7, 70, seed=1, passes=-1), Strand(3, 8), 10**12),
        (an_order(20_000, 16, 1000, seed=42), Strand(63, 64), 10**12),
        (an_order(10**9, 128, 1000, seed=2**64 - 1), Strand(7, 8), 0),
        (an_order(10**9, 16, 1000, seed=5), Strand(7, 8), 62 * 10**12),
        (an_order(10**9, 48, 1000, seed=5, passes=2), Strand(7, 8), 20 * 10**12),
    ]
    return [a_golden_window(*place) for place in places]


def a_golden_window(order: Shuffled, strand: Strand, near: int) -> dict[str, Any]:
    start, _ = order.find(strand, order.samples_before(strand, near))
    window = order.window(strand, start)
    return {
        "order": [order.n, order.slice_samples, order.window_samples, order.seed, order.passes],
        "strand": list(strand),
        "start": start,
        "stop": window.stop,
        "before": order.samples_before(strand, start),
        "positions": window.positions[:12].tolist(),
        "passes": window.passes[:12].tolist(),
    }


def test_orders_never_change() -> None:
    golden = json.loads(GOLDEN.read_text("utf-8"))

    assert golden["order_version"] == ORDER_VERSION
    assert golden_windows() == golden["windows"]


if __name__ == "__main__":
    text = json.dumps({"order_version": ORDER_VERSION, "windows": golden_windows()}, indent=1)
    GOLDEN.write_text(text + "\n", encoding="utf-8")
