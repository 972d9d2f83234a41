from __future__ import annotations

import os
import random
import tarfile
from pathlib import Path

import pytest

from tests.build import Files, a_dataset, a_scan, a_shard, samples
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.core.validate.structure import is_as_indexed

PLAIN = {**samples(0, 300, size=900), "000007.seg.png": b"mask"}


def asked(root: str, data: bytes | None = None) -> list[bool]:
    """Of every shard, whether it is as indexed; with the bytes of the first replaced."""
    place = locate(root)
    with Catalog(place.catalog) as published:
        rows, generation = published.shards(), published.generation
    if data is not None:
        Path(root, rows[0].path).write_bytes(data)
    storage = LocalStorage("/")
    return [
        is_as_indexed(storage, f"{root}/{row.path}", row.size, place.offsets_path(generation), row.id) for row in rows
    ]


def test_a_plain_shard_is_as_indexed_whatever_its_place_and_layouts(tmp_path: Path) -> None:
    large = samples(500, 4, "json", size=3 << 20)
    root = a_dataset(tmp_path, {"a.tar": samples(900, 3), "b.tar": sorted(PLAIN.items()), "c.tar": large})
    index(root)
    assert asked(root) == [True, True, True]


@pytest.mark.parametrize("length", [100, 101])
def test_a_name_is_plain_up_to_all_bytes_of_its_field_beside_shorter_ones(tmp_path: Path, length: int) -> None:
    files = {"0.jpg": b"x", "0.json": b"x", "k" * (length - 4) + ".jpg": b"x", "zz.a.rather.long.ending": b"x"}
    root = a_dataset(tmp_path, {"a.tar": a_shard(files, format=tarfile.GNU_FORMAT)})
    index(root)
    assert asked(root) == [length == 100]


def test_the_last_header_of_a_shard_of_many_is_looked_at_as_the_first_one(tmp_path: Path) -> None:
    sound = a_shard(samples(0, 2200, size=30))
    root = a_dataset(tmp_path, {"a.tar": sound})
    index(root)
    assert asked(root) == [True]
    for at in (110, sound.rindex(b"ustar") - 257 + 110):
        data = bytearray(sound)
        data[at] ^= 1
        assert asked(root, bytes(data)) == [False], at


def test_a_disk_that_fails_at_a_header_leaves_the_shard_to_the_scan(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 3)})
    index(root)
    place, path = locate(root), f"{root}/a.tar"
    with Catalog(place.catalog) as published:
        row, generation = published.shards()[0], published.generation
    assert is_as_indexed(NoHeaders("/"), path, row.size, place.offsets_path(generation), row.id) is False


class NoHeaders(LocalStorage):
    """Opens files so that nothing can be read from the descriptor."""

    def descriptor(self, path: str) -> int:
        self._descriptors["unreadable"] = os.open(path, os.O_WRONLY)
        return self._descriptors["unreadable"]


@pytest.mark.parametrize(
    "files",
    [
        {"0.jpg": b"", "0.txt": b"x"},
        {"readme": b"x", "0.jpg": b"x"},
        {"x" * 120 + ".jpg": b"x"},
        {"../0.jpg": b"x"},
        {"/0.jpg": b"x"},
        {"ü.jpg": b"x"},
        {".jpg": b"x", "0.jpg": b"x"},
    ],
)
def test_what_is_not_plain_is_left_to_the_scan(tmp_path: Path, files: Files) -> None:
    root = a_dataset(tmp_path, {"a.tar": a_shard(files, format=tarfile.GNU_FORMAT)})
    index(root)
    assert asked(root) == [False]


def test_a_shard_without_its_end_mark_or_with_more_behind_it_is_left_to_the_scan(tmp_path: Path) -> None:
    data = a_shard(samples(0, 3))
    root = a_dataset(tmp_path, {"a.tar": data[: 6 * 1024], "b.tar": data + b"x", "c.tar": data + bytes(70 << 10)})
    index(root)
    assert asked(root) == [False, False, False]


def test_it_is_never_said_of_a_shard_in_which_a_scan_finds_something_or_another_layout(tmp_path: Path) -> None:
    """A bit of any header, and any block of zeros, is noticed; a bit of the data is none of its business."""
    sound = a_shard(sorted(samples(0, 40, size=600).items()))
    root = a_dataset(tmp_path, {"a.tar": sound})
    index(root)
    layout, rng = a_scan(sound).layout_hash(), random.Random(1)
    for _ in range(150):
        data = bytearray(sound)
        at = rng.randrange(len(sound))
        if rng.random() < 0.3:
            data[at : at + 512] = bytes(len(data[at : at + 512]))
        else:
            data[at] ^= 1 << rng.randrange(8)
        scan = a_scan(bytes(data))
        is_same = scan.layout_hash() == layout and not scan.findings
        if asked(root, bytes(data)) == [True]:
            assert is_same, at
