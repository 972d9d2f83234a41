"""References say which bytes of which shard each needed part is; ranges say what a window will read."""

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
    """Three layouts: parts missing, parts more, parts in another order."""
    txt, jpg, json = {"txt": b"text %d" % i}, {"jpg": b"image %d" % i * (i + 1)}, {"json": b"[%d]" % i}
    return {0: {**txt, **jpg, **json}, 1: {**jpg, **txt}, 2: {**json, **txt}}[i % 3]


def indexed(root: Path, counts: Sequence[int] = (SAMPLES,) * SHARDS) -> Offsets:
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


def test_every_part_is_found_in_samples_of_any_layout(tmp_path: Path) -> None:
    offsets = indexed(tmp_path)
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


def test_a_block_of_one_layout_says_so(tmp_path: Path) -> None:
    references = references_of(tmp_path, indexed(tmp_path), ["txt"])

    block = references.block(np.array([0, 3, 6]), np.zeros(3, np.int64))

    assert block.common_layout == block.layouts[0]
    assert [read(references, block, i) for i in range(3)] == [[b"text 0"], [b"text 3"], [b"text 6"]]


def test_a_sample_that_needs_nothing_reads_nothing(tmp_path: Path) -> None:
    references = references_of(tmp_path, indexed(tmp_path), [])

    block = references.block(np.arange(4), np.zeros(4, np.int64))

    assert block.spans == [0] * 4
    assert [read(references, block, i) for i in range(4)] == [[]] * 4


@pytest.mark.parametrize(("between", "apart"), [(MAX_PART_GAP_BYTES - 4096, False), (MAX_PART_GAP_BYTES + 4096, True)])
def test_parts_with_much_between_them_are_read_one_by_one(between: int, apart: bool, tmp_path: Path) -> None:
    a_shard(tmp_path / "a.tar", [("a", {"jpg": b"i" * 10, "pdf": b"p" * between, "txt": b"t" * 10})])
    offsets = Offsets(locate(str(tmp_path)).offsets_path(index(str(tmp_path)).generation))
    references = references_of(tmp_path, offsets, ["jpg", "txt"])

    block = references.block(np.array([0]), np.zeros(1, np.int64))

    assert (block.spans[0] == SEPARATE_READS) is apart
    assert (block.common_layout == -1) is apart
    assert read(references, block, 0) == [b"i" * 10, b"t" * 10]


def covered(ranges: Sequence[FileRange]) -> set[tuple[str, int]]:
    return {(each.path, byte) for each in ranges for byte in range(each.offset, each.offset + each.size)}


def of_rows(root: Path, offsets: Offsets, rows: Sequence[int]) -> set[tuple[str, int]]:
    found = set()
    for row in rows:
        path = str(root / offsets.shards[offsets.shard_of(row)].path)
        found |= {(path, byte) for _, at, size in offsets.parts(row) for byte in range(at, at + size)}
    return found


@pytest.mark.parametrize("slices", [[[0, 4]], [[4, 8], [20, 24]], [[0, 24]], [[5, 19], [2, 3]]])
def test_ranges_cover_what_the_blocks_of_these_slices_read_and_no_other_sample(
    slices: list[list[int]], tmp_path: Path
) -> None:
    offsets = indexed(tmp_path)
    references = references_of(tmp_path, offsets, ["jpg", "txt"])

    ranges = references.byte_ranges(np.array(slices))

    rows = [row for start, stop in slices for row in range(start, stop)]
    others = [row for row in range(SHARDS * SAMPLES) if row not in rows]
    assert covered(ranges) >= of_rows(tmp_path, offsets, rows)
    assert not covered(ranges) & of_rows(tmp_path, offsets, others)
    assert all(each.size > 0 for each in ranges)


def test_ranges_pass_over_shards_that_are_not_in_the_split(tmp_path: Path) -> None:
    offsets = indexed(tmp_path)
    references = references_of(tmp_path, offsets, ["txt"], [SplitShard(1, SAMPLES), SplitShard(4, SAMPLES)])

    ranges = references.byte_ranges(np.array([[4, 8]]))

    assert sorted(Path(each.path).name for each in ranges) == ["0.tar", "3.tar"]
    assert covered(ranges) >= of_rows(tmp_path, offsets, [4, 5, 18, 19])


def test_ranges_pass_over_shards_without_samples(tmp_path: Path) -> None:
    offsets = indexed(tmp_path, (4, 0, 4))
    references = references_of(tmp_path, offsets, ["txt"])

    ranges = references.byte_ranges(np.array([[2, 6]]))

    assert sorted(Path(each.path).name for each in ranges) == ["0.tar", "2.tar"]
    assert covered(ranges) >= of_rows(tmp_path, offsets, range(2, 6))


def test_ranges_of_a_split_by_samples_cover_its_samples(tmp_path: Path) -> None:
    offsets = indexed(tmp_path)
    split = [SplitShard(i, 3, bytes([0b101010])) for i in range(1, SHARDS + 1)]
    references = references_of(tmp_path, offsets, ["txt"], split)

    block = references.block(np.arange(3 * SHARDS), np.zeros(3 * SHARDS, np.int64))
    ranges = references.byte_ranges(np.array([[1, 5]]))

    assert block.keys == [f"{i:03}" for i in range(1, SHARDS * SAMPLES, 2)]
    assert covered(ranges) >= of_rows(tmp_path, offsets, [3, 5, 7, 9])
    assert len(ranges) == 2


@pytest.mark.parametrize(("between", "ranges"), [(0, 4), (1 << 20, 2)])
def test_ranges_that_lie_close_in_a_shard_become_one(between: int, ranges: int, tmp_path: Path) -> None:
    offsets = indexed(tmp_path, (4, 4))
    references = references_of(tmp_path, offsets, ["txt"])
    slices = np.array([[0, 1], [2, 3], [4, 5], [7, 8]])

    found = references.byte_ranges(slices, between)

    assert len(found) == ranges
    assert covered(found) >= of_rows(tmp_path, offsets, [0, 2, 4, 7])
