"""PartReader: how many reads a sample takes, and which parts become LazyPart objects."""

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
    """A disk with one shard; `reads` lists (offset, size) of each read."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []

    def read(self, path: str, offset: int, size: int) -> bytes:
        assert path == "a.tar"
        self.reads.append((offset, size))
        return DATA[offset : offset + size]


def reader_of(disk: Any, *, path: str = "a.tar", ranged: tuple[bool, ...] = (), keyframes: Any = None) -> PartReader:
    return PartReader(disk, [path], {path: len(DATA)}, [NAMES], [ranged], keyframes)


def block_of(span: int, cuts: PartBounds) -> ReferenceBlock:
    """Returns the block of one sample, the 7th of its shard, whose parts begin at byte 10."""
    return ReferenceBlock([0], [7], [7], ["key"], [0], [0], [10], [span], {0: cuts}, -1)


def test_neighbouring_parts_are_read_at_once() -> None:
    disk = Disk()

    parts = reader_of(disk).read(block_of(20, [([0], [5]), ([15], [20])]), 0)

    assert parts == [DATA[10:15], DATA[25:30]]
    assert disk.reads == [(10, 20)]


def test_distant_parts_are_read_one_by_one() -> None:
    disk = Disk()

    parts = reader_of(disk).read(block_of(SEPARATE_READS, [([0], [5]), ([80], [90])]), 0)

    assert parts == [DATA[10:15], DATA[90:100]]
    assert disk.reads == [(10, 5), (90, 10)]


def test_large_part_becomes_lazy_part_without_read() -> None:
    disk = Disk()

    small, large = reader_of(disk).read(block_of(LAZY_PART_BYTES + 9, [([0], [5]), ([8], [LAZY_PART_BYTES + 9])]), 0)

    assert small == DATA[10:15]
    assert isinstance(large, LazyPart)
    assert (large.offset, len(large), disk.reads) == (18, LAZY_PART_BYTES + 1, [(10, 5)])
    assert large.read(2, 4) == DATA[20:24]


def test_lazy_video_part_has_keyframes() -> None:
    disk = Disk()
    keyframes = KeyframeFile(
        {"mp4": 0}, np.array([7]), np.array([0], np.uint32), np.array([0, 3]), np.frombuffer(b"key", np.uint8)
    )
    reader = reader_of(disk, ranged=(False, True), keyframes=keyframes)

    image, video = reader.read(block_of(5, [([0], [5]), ([15], [20])]), 0)

    assert image == DATA[10:15]
    assert isinstance(video, LazyPart)
    assert (video.keyframes, disk.reads) == (b"key", [(10, 5)])
