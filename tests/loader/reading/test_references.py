"""References locate each needed part in its shard; byte ranges say what a window will read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.loader.datasets import Parts, a_shard
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.storage.storage import FileRange
from wdsctl.loader.reading.reference_blocks import MAX_PART_GAP_BYTES, SEPARATE_READS, ReferenceBlock, ReferenceResolver
from wdsctl.loader.reading.selection import SampleSelection

SHARDS = 4
SAMPLES = 6  # a shard


def parts_of(i: int) -> Parts:
    """Returns parts of three layouts: with parts missing, with more parts, and in another order."""
    txt, jpg, json = {"txt": b"text %d" % i}, {"jpg": b"image %d" % i * (i + 1)}, {"json": b"[%d]" % i}
    return {0: {**txt, **jpg, **json}, 1: {**jpg, **txt}, 2: {**json, **txt}}[i % 3]


def make_offsets(root: Path, counts: Sequence[int] = (SAMPLES,) * SHARDS) -> Offsets:
    start = 0
    for shard, count in enumerate(counts):
        a_shard(root / f"{shard}.tar", ((f"{i:03}", parts_of(i)) for i in range(start, start + count)))
        start += count
    return Offsets(locate(str(root)).offsets_path(index(str(root)).generation))


def references_of(
    root: Path, offsets: Offsets, names: Sequence[str], split: Sequence[SplitShard] = ()
) -> ReferenceResolver:
    parts = split or [SplitShard(shard.id, shard.samples) for shard in offsets.shards]
    needed = [[layout.index(name) for name in names if name in layout] for layout in offsets.layouts]
    return ReferenceResolver(str(root), offsets, SampleSelection(offsets, parts), needed)


def read(references: ReferenceResolver, block: ReferenceBlock, i: int) -> list[bytes]:
    data = Path(references.paths[block.shards[i]]).read_bytes()
    first = block.first_bytes[i]
    return [data[first + starts[i] : first + ends[i]] for starts, ends in block.part_bounds[block.layouts[i]]]


def test_block_locates_every_part_in_samples_of_any_layout(tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path)
    references = references_of(tmp_path, offsets, ["jpg", "txt"])
    order = np.random.default_rng(0).permutation(SHARDS * SAMPLES)

    block = references.block(order, np.full(len(order), 3))

    assert len(offsets.layouts) == 3
    assert block.keys == [f"{i:03}" for i in order.tolist()]
    assert block.passes == [3] * len(order)
    for i, number in enumerate(order.tolist()):
        expected = parts_of(number)
        assert read(references, block, i) == [expected[name] for name in ("jpg", "txt") if name in expected]
        assert block.ids[i] == (number // SAMPLES + 1) << 28 | number % SAMPLES
    assert block.common_layout == -1


def test_block_of_one_layout_has_common_layout(tmp_path: Path) -> None:
    references = references_of(tmp_path, make_offsets(tmp_path), ["txt"])

    block = references.block(np.array([0, 3, 6]), np.zeros(3, np.int64))

    assert block.common_layout == block.layouts[0]
    assert [read(references, block, i) for i in range(3)] == [[b"text 0"], [b"text 3"], [b"text 6"]]


def test_block_without_needed_parts_reads_nothing(tmp_path: Path) -> None:
    references = references_of(tmp_path, make_offsets(tmp_path), [])

    block = references.block(np.arange(4), np.zeros(4, np.int64))

    assert block.spans == [0] * 4
    assert [read(references, block, i) for i in range(4)] == [[]] * 4


@pytest.mark.parametrize(("gap", "apart"), [(MAX_PART_GAP_BYTES - 4096, False), (MAX_PART_GAP_BYTES + 4096, True)])
def test_parts_with_large_gap_are_read_separately(gap: int, apart: bool, tmp_path: Path) -> None:
    a_shard(tmp_path / "a.tar", [("a", {"jpg": b"i" * 10, "pdf": b"p" * gap, "txt": b"t" * 10})])
    offsets = Offsets(locate(str(tmp_path)).offsets_path(index(str(tmp_path)).generation))
    references = references_of(tmp_path, offsets, ["jpg", "txt"])

    block = references.block(np.array([0]), np.zeros(1, np.int64))

    assert (block.spans[0] == SEPARATE_READS) is apart
    assert (block.common_layout == -1) is apart
    assert read(references, block, 0) == [b"i" * 10, b"t" * 10]


def covered_bytes(ranges: Sequence[FileRange]) -> set[tuple[str, int]]:
    return {(each.path, byte) for each in ranges for byte in range(each.offset, each.offset + each.size)}


def bytes_of_rows(root: Path, offsets: Offsets, rows: Sequence[int]) -> set[tuple[str, int]]:
    result = set()
    for row in rows:
        path = str(root / offsets.shards[offsets.shard_of(row)].path)
        result |= {(path, byte) for _, at, size in offsets.parts(row) for byte in range(at, at + size)}
    return result


@pytest.mark.parametrize("slices", [[[0, 4]], [[4, 8], [20, 24]], [[0, 24]], [[5, 19], [2, 3]]])
def test_byte_ranges_cover_exactly_samples_of_their_slices(slices: list[list[int]], tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path)
    references = references_of(tmp_path, offsets, ["jpg", "txt"])

    ranges = references.byte_ranges(np.array(slices))

    rows = [row for start, stop in slices for row in range(start, stop)]
    others = [row for row in range(SHARDS * SAMPLES) if row not in rows]
    assert covered_bytes(ranges) >= bytes_of_rows(tmp_path, offsets, rows)
    assert not covered_bytes(ranges) & bytes_of_rows(tmp_path, offsets, others)
    assert all(each.size > 0 for each in ranges)


def test_byte_ranges_of_slices_that_go_backwards_are_apart(tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path)
    references = references_of(tmp_path, offsets, ["jpg", "txt"])

    ranges = references.byte_ranges(np.array([[4, 6], [0, 2]]), MAX_PART_GAP_BYTES)

    assert len(ranges) == 2
    assert covered_bytes(ranges) == covered_bytes(references.byte_ranges(np.array([[0, 2], [4, 6]])))


def test_byte_ranges_skip_shards_outside_split(tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path)
    references = references_of(tmp_path, offsets, ["txt"], [SplitShard(1, SAMPLES), SplitShard(4, SAMPLES)])

    ranges = references.byte_ranges(np.array([[4, 8]]))

    assert sorted(Path(each.path).name for each in ranges) == ["0.tar", "3.tar"]
    assert covered_bytes(ranges) >= bytes_of_rows(tmp_path, offsets, [4, 5, 18, 19])


def test_byte_ranges_skip_shards_without_samples(tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path, (4, 0, 4))
    references = references_of(tmp_path, offsets, ["txt"])

    ranges = references.byte_ranges(np.array([[2, 6]]))

    assert sorted(Path(each.path).name for each in ranges) == ["0.tar", "2.tar"]
    assert covered_bytes(ranges) >= bytes_of_rows(tmp_path, offsets, range(2, 6))


def test_byte_ranges_of_split_by_samples_cover_its_samples(tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path)
    split = [SplitShard(i, 3, bytes([0b101010])) for i in range(1, SHARDS + 1)]
    references = references_of(tmp_path, offsets, ["txt"], split)

    block = references.block(np.arange(3 * SHARDS), np.zeros(3 * SHARDS, np.int64))
    ranges = references.byte_ranges(np.array([[1, 5]]))

    assert block.keys == [f"{i:03}" for i in range(1, SHARDS * SAMPLES, 2)]
    assert covered_bytes(ranges) >= bytes_of_rows(tmp_path, offsets, [3, 5, 7, 9])
    assert len(ranges) == 2


@pytest.mark.parametrize(("gap", "ranges"), [(0, 4), (1 << 20, 2)])
def test_byte_ranges_merge_neighbours_within_gap(gap: int, ranges: int, tmp_path: Path) -> None:
    offsets = make_offsets(tmp_path, (4, 4))
    references = references_of(tmp_path, offsets, ["txt"])
    slices = np.array([[0, 1], [2, 3], [4, 5], [7, 8]])

    result = references.byte_ranges(slices, gap)

    assert len(result) == ranges
    assert covered_bytes(result) >= bytes_of_rows(tmp_path, offsets, [0, 2, 4, 7])
