"""Positions of a split are rows of the offsets file: by whole shards and by bits, each sample once."""

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
    found: list[int] = selection.rows(np.arange(selection.n)).tolist()
    return found


def test_whole_shards_are_ranges_of_rows(offsets: Offsets) -> None:
    selection = SampleSelection(offsets, [SplitShard(1, 7), SplitShard(4, 9)])

    assert selection.n == 16
    assert rows(selection) == [*range(7), *range(12, 21)]


def test_parts_of_shards_are_bits(offsets: Offsets) -> None:
    selection = SampleSelection(
        offsets, [SplitShard(1, 2, bits(7, [1, 6])), SplitShard(3, 5), SplitShard(4, 1, bits(9, [8]))]
    )

    assert rows(selection) == [1, 6, 7, 8, 9, 10, 11, 20]


def test_positions_may_be_asked_for_in_any_order_and_more_than_once(offsets: Offsets) -> None:
    selection = SampleSelection(offsets, [SplitShard(1, 2, bits(7, [1, 6])), SplitShard(3, 5)])

    assert selection.rows(np.array([6, 0, 1, 0])).tolist() == [11, 1, 6, 1]


def test_an_empty_shard_gives_no_rows(offsets: Offsets) -> None:
    selection = SampleSelection(offsets, [SplitShard(1, 7), SplitShard(2, 0), SplitShard(3, 5)])

    assert rows(selection) == list(range(12))


def test_a_split_without_samples_has_none(offsets: Offsets) -> None:
    assert SampleSelection(offsets, []).n == 0


def test_shards_that_a_generation_does_not_have_yet_are_left_out(tmp_path: Path) -> None:
    before = offsets_of(tmp_path, (4, 4))
    parts = [SplitShard(1, 4), SplitShard(2, 4)]
    truth = SampleSelection(before, parts)

    grown = SampleSelection(before, [*parts, SplitShard(3, 100)])

    assert rows(grown) == rows(truth)
    assert grown.digest(before) == truth.digest(before)


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_every_chosen_sample_has_one_position_and_no_other_has(offsets: Offsets, data: st.DataObject) -> None:
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
    """As much of an offsets file as a selection looks at: shards of three samples."""

    count: int

    @property
    def shards(self) -> list[ShardEntry]:
        return [ShardEntry(i, f"{i}.tar", 1, 3, "") for i in range(1, self.count + 1)]

    @property
    def shard_row(self) -> Any:
        return np.arange(0, 3 * self.count + 1, 3)


def test_bits_of_so_many_shards_are_kept_and_all_are_found_again() -> None:
    count = MAX_UNPACKED_SHARDS + 10
    offsets: Any = ManyShards(count)
    selection = SampleSelection(offsets, [SplitShard(i, 2, bits(3, [0, 2])) for i in range(1, count + 1)])

    for _ in range(2):
        assert rows(selection) == [row for i in range(count) for row in (3 * i, 3 * i + 2)]
        assert len(selection._unpacked) == MAX_UNPACKED_SHARDS
    oldest = next(iter(selection._unpacked))
    selection.rows(np.array([2 * oldest]))  # is now the one that was used last
    selection.rows(np.array([0]))
    assert list(selection._unpacked)[-2:] == [oldest, 0]
    assert len(selection._unpacked) == MAX_UNPACKED_SHARDS


def test_slices_are_cut_where_a_shard_of_the_split_ends(offsets: Offsets) -> None:
    parts = [SplitShard(1, 7), SplitShard(2, 0), SplitShard(3, 2, bits(5, [0, 3])), SplitShard(4, 9)]
    selection = SampleSelection(offsets, parts)

    cut = selection.cut_by_shard(np.array([[0, 4], [4, 8], [5, 18], [7, 9]]))

    assert sorted(cut.tolist()) == [[0, 4], [4, 7], [5, 7], [7, 8], [7, 9], [7, 9], [9, 18]]


def test_the_digest_changes_when_anything_does(tmp_path: Path) -> None:
    offsets = offsets_of(tmp_path / "a", (7, 5))
    truth = SampleSelection(offsets, [SplitShard(1, 7), SplitShard(2, 5)])
    others = [
        SampleSelection(offsets, [SplitShard(1, 7)]),
        SampleSelection(offsets, [SplitShard(2, 5), SplitShard(1, 7)]),
        SampleSelection(offsets, [SplitShard(1, 7), SplitShard(2, 4, bits(5, [0, 1, 2, 3]))]),
        SampleSelection(offsets, [SplitShard(1, 7), SplitShard(2, 4, bits(5, [0, 1, 2, 4]))]),
    ]
    digests = [selection.digest(offsets) for selection in (truth, *others)]
    moved = offsets_of(tmp_path / "b", (7, 5))
    digests_elsewhere = SampleSelection(moved, [SplitShard(1, 7), SplitShard(2, 5)]).digest(moved)
    grown = offsets_of(tmp_path / "c", (7, 6))
    longer = SampleSelection(grown, [SplitShard(1, 7), SplitShard(2, 5)]).digest(grown)

    assert len({*digests, longer}) == len(digests) + 1
    assert digests_elsewhere == digests[0], "where a dataset lies is not part of it"


@given(st.data())
def test_what_is_not_kept_is_left_out_whatever_the_split_was(whole: Offsets, data: st.DataObject) -> None:
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
