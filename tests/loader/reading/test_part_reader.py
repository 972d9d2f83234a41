"""How the parts of a sample are read: how many reads, and what comes as a handle."""

from __future__ import annotations

from typing import Any

import numpy as np

from wdsctl.core.catalog.keyframe_file import KeyframeFile
from wdsctl.loader.reading.part_reader import PartReader
from wdsctl.loader.reading.reference_blocks import SEPARATE_READS, PartBounds, ReferenceBlock
from wdsctl.loader.samples.lazy_part import LAZY_PART_BYTES, LazyPart

DATA = bytes(range(100))
NAMES = ["jpg", "mp4"]


class Disk:
    """One shard. `reads`: (offset, size) of each."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []

    def read(self, path: str, offset: int, size: int) -> bytes:
        assert path == "a.tar"
        self.reads.append((offset, size))
        return DATA[offset : offset + size]


def reader_of(disk: Any, *, path: str = "a.tar", ranged: tuple[bool, ...] = (), films: Any = None) -> PartReader:
    return PartReader(disk, [path], {path: len(DATA)}, [NAMES], [ranged], films)


def block_of(span: int, cuts: PartBounds) -> ReferenceBlock:
    """A sample, the 7th of its shard, whose parts begin at byte 10."""
    return ReferenceBlock([0], [7], [7], ["key"], [0], [0], [10], [span], {0: cuts}, -1)


def test_parts_that_lie_close_together_are_one_read() -> None:
    disk = Disk()

    parts = reader_of(disk).read(block_of(20, [([0], [5]), ([15], [20])]), 0)

    assert parts == [DATA[10:15], DATA[25:30]]
    assert disk.reads == [(10, 20)]


def test_parts_that_lie_apart_are_read_one_by_one() -> None:
    disk = Disk()

    parts = reader_of(disk).read(block_of(SEPARATE_READS, [([0], [5]), ([80], [90])]), 0)

    assert parts == [DATA[10:15], DATA[90:100]]
    assert disk.reads == [(10, 5), (90, 10)]


def test_a_large_part_is_a_handle_that_nothing_is_read_for() -> None:
    disk = Disk()

    small, large = reader_of(disk).read(block_of(LAZY_PART_BYTES + 9, [([0], [5]), ([8], [LAZY_PART_BYTES + 9])]), 0)

    assert small == DATA[10:15]
    assert isinstance(large, LazyPart)
    assert (large.offset, len(large), disk.reads) == (18, LAZY_PART_BYTES + 1, [(10, 5)])
    assert large.read(2, 4) == DATA[20:24]


def test_a_part_that_is_wanted_as_a_handle_is_one_with_the_places_where_its_film_can_be_entered() -> None:
    disk = Disk()
    films = KeyframeFile(
        {"mp4": 0}, np.array([7]), np.array([0], np.uint32), np.array([0, 3]), np.frombuffer(b"key", np.uint8)
    )
    reader = reader_of(disk, ranged=(False, True), films=films)

    image, film = reader.read(block_of(5, [([0], [5]), ([15], [20])]), 0)

    assert image == DATA[10:15]
    assert isinstance(film, LazyPart)
    assert (film.keyframes, disk.reads) == (b"key", [(10, 5)])
