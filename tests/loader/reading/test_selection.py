"""SampleSelection maps positions of a split to rows of the offsets file, for whole shards and for bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.datasets import a_shard, numbered
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.read import Offsets
from wdsctl.loader.reading.selection import MAX_UNPACKED_SHARDS, SampleSelection

SIZES = (7, 0, 5, 9)  # samples of each shard; ids count from 1


def offsets_of(root: Path, sizes: Sequence[int] = SIZES) -> Offsets:
    start = 0
    for shard, size in enumerate(sizes):
        a_shard(root / f"{shard}.tar", ((f"{i:03}", numbered(i)) for i in range(start, start + size)))
        start += size
    return Offsets(locate(str(root)).offsets_path(index(str(root)).generation))


@pytest.fixture(scope="module")
def offsets(tmp_path_factory: pytest.TempPathFactory) -> Offsets:
    return offsets_of(tmp_path_factory.mktemp("data"))


def bits(size: int, chosen: Sequence[int]) -> bytes:
    mask = np.zeros(size, np.bool_)
    mask[list(chosen)] = True
    return np.packbits(mask, bitorder="little").tobytes()


def rows(selection: SampleSelection) -> list[int]:
    result: list[int] = selection.rows(np.arange(selection.n)).tolist()
    return result


def test_selection_maps_whole_shards_to_row_ranges(offsets: Offsets) -> None:
    selection = SampleSelection(offsets, [SplitShard(1, 7), SplitShard(4, 9)])

    assert selection.n == 16
    assert rows(selection) == [*range(7), *range(12, 21)]


def test_selection_maps_bits_to_rows_of_partial_shards(offsets: Offsets) -> None:
    selection = SampleSelection(
        offsets, [SplitShard(1, 2, bits(7, [1, 6])), SplitShard(3, 5), SplitShard(4, 1, bits(9, [8]))]
    )

    assert rows(selection) == [1, 6, 7, 8, 9, 10, 11, 20]


def test_rows_accepts_positions_in_any_order_and_repeated(offsets: Offsets) -> None:
    selection = SampleSelection(offsets, [SplitShard(1, 2, bits(7, [1, 6])), SplitShard(3, 5)])

    assert selection.rows(np.array([6, 0, 1, 0])).tolist() == [11, 1, 6, 1]


def test_empty_shard_has_no_rows(offsets: Offsets) -> None:
    selection = SampleSelection(offsets, [SplitShard(1, 7), SplitShard(2, 0), SplitShard(3, 5)])

    assert rows(selection) == list(range(12))


def test_selection_of_empty_split_is_empty(offsets: Offsets) -> None:
    assert SampleSelection(offsets, []).n == 0


def test_selection_ignores_shards_missing_from_its_generation(tmp_path: Path) -> None:
    before = offsets_of(tmp_path, (4, 4))
    parts = [SplitShard(1, 4), SplitShard(2, 4)]
    expected = SampleSelection(before, parts)

    grown = SampleSelection(before, [*parts, SplitShard(3, 100)])

    assert rows(grown) == rows(expected)
    assert grown.digest(before) == expected.digest(before)


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_selection_rows_are_exactly_chosen_samples(offsets: Offsets, data: st.DataObject) -> None:
    parts, expected, first = [], [], 0
    for shard, size in enumerate(SIZES, 1):
        chosen = sorted(data.draw(st.sets(st.integers(0, size - 1)) if size else st.just(set())))
        if chosen:
            parts.append(SplitShard(shard, len(chosen), None if len(chosen) == size else bits(size, chosen)))
        expected += [first + i for i in chosen]
        first += size

    assert rows(SampleSelection(offsets, parts)) == expected


@dataclass
class ManyShards:
    """The part of an offsets file that a selection uses: shards of three samples."""

    count: int

    @property
    def shards(self) -> list[ShardEntry]:
        return [ShardEntry(i, f"{i}.tar", 1, 3, "") for i in range(1, self.count + 1)]

    @property
    def shard_row(self) -> Any:
        return np.arange(0, 3 * self.count + 1, 3)


def test_unpacked_bits_are_cached_with_lru_limit() -> None:
    count = MAX_UNPACKED_SHARDS + 10
    offsets: Any = ManyShards(count)
    selection = SampleSelection(offsets, [SplitShard(i, 2, bits(3, [0, 2])) for i in range(1, count + 1)])

    for _ in range(2):
        assert rows(selection) == [row for i in range(count) for row in (3 * i, 3 * i + 2)]
        assert len(selection._unpacked) == MAX_UNPACKED_SHARDS
    oldest = next(iter(selection._unpacked))
    selection.rows(np.array([2 * oldest]))  # makes it the most recently used one
    selection.rows(np.array([0]))
    assert list(selection._unpacked)[-2:] == [oldest, 0]
    assert len(selection._unpacked) == MAX_UNPACKED_SHARDS


def test_cut_by_shard_cuts_slices_at_shard_ends(offsets: Offsets) -> None:
    parts = [SplitShard(1, 7), SplitShard(2, 0), SplitShard(3, 2, bits(5, [0, 3])), SplitShard(4, 9)]
    selection = SampleSelection(offsets, parts)

    cut = selection.cut_by_shard(np.array([[0, 4], [4, 8], [5, 18], [7, 9]]))

    assert sorted(cut.tolist()) == [[0, 4], [4, 7], [5, 7], [7, 8], [7, 9], [7, 9], [9, 18]]


def test_selection_digest_depends_on_shards_and_samples(tmp_path: Path) -> None:
    offsets = offsets_of(tmp_path / "a", (7, 5))
    expected = SampleSelection(offsets, [SplitShard(1, 7), SplitShard(2, 5)])
    others = [
        SampleSelection(offsets, [SplitShard(1, 7)]),
        SampleSelection(offsets, [SplitShard(2, 5), SplitShard(1, 7)]),
        SampleSelection(offsets, [SplitShard(1, 7), SplitShard(2, 4, bits(5, [0, 1, 2, 3]))]),
        SampleSelection(offsets, [SplitShard(1, 7), SplitShard(2, 4, bits(5, [0, 1, 2, 4]))]),
    ]
    digests = [selection.digest(offsets) for selection in (expected, *others)]
    moved = offsets_of(tmp_path / "b", (7, 5))
    digests_elsewhere = SampleSelection(moved, [SplitShard(1, 7), SplitShard(2, 5)]).digest(moved)
    grown = offsets_of(tmp_path / "c", (7, 6))
    longer = SampleSelection(grown, [SplitShard(1, 7), SplitShard(2, 5)]).digest(grown)

    assert len({*digests, longer}) == len(digests) + 1
    assert digests_elsewhere == digests[0], "where a dataset lies is not part of it"


@given(st.data())
def test_masked_keeps_intersection_of_selection_and_mask(whole: Offsets, data: st.DataObject) -> None:
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=whole.samples, max_size=whole.samples)), np.bool_)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=whole.samples, max_size=whole.samples)), np.bool_)
    everything = SampleSelection(whole, [SplitShard(shard.id, shard.samples) for shard in whole.shards])

    once = everything.masked(whole, chosen)
    twice = once.masked(whole, kept)

    assert once.rows(np.arange(once.n)).tolist() == np.flatnonzero(chosen).tolist()
    assert twice.rows(np.arange(twice.n)).tolist() == np.flatnonzero(chosen & kept).tolist()
    assert once.masked(whole, chosen).digest(whole) == once.digest(whole)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Offsets:
    return offsets_of(tmp_path_factory.mktemp("whole"))
