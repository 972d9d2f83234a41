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


def check_shards(root: str, data: bytes | None = None) -> list[bool]:
    """Whether each shard is as indexed; `data` replaces the bytes of the first shard."""
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        rows, generation = catalog.shards(), catalog.generation
    if data is not None:
        Path(root, rows[0].path).write_bytes(data)
    storage = LocalStorage("/")
    return [is_as_indexed(storage, f"{root}/{row.path}", row.size, place.offsets_path(generation), row) for row in rows]


def test_plain_shard_is_as_indexed_at_any_position_and_layout(tmp_path: Path) -> None:
    large = samples(500, 4, "json", size=3 << 20)
    root = a_dataset(tmp_path, {"a.tar": samples(900, 3), "b.tar": sorted(PLAIN.items()), "c.tar": large})
    index(root)
    assert check_shards(root) == [True, True, True]


@pytest.mark.parametrize("length", [100, 101])
def test_plain_name_may_fill_whole_name_field(tmp_path: Path, length: int) -> None:
    files = {"0.jpg": b"x", "0.json": b"x", "k" * (length - 4) + ".jpg": b"x", "zz.a.rather.long.ending": b"x"}
    root = a_dataset(tmp_path, {"a.tar": a_shard(files, format=tarfile.GNU_FORMAT)})
    index(root)
    assert check_shards(root) == [length == 100]


def test_last_header_of_large_shard_is_checked_like_first(tmp_path: Path) -> None:
    valid = a_shard(samples(0, 2200, size=30))
    root = a_dataset(tmp_path, {"a.tar": valid})
    index(root)
    assert check_shards(root) == [True]
    for at in (110, valid.rindex(b"ustar") - 257 + 110):
        data = bytearray(valid)
        data[at] ^= 1
        assert check_shards(root, bytes(data)) == [False], at


def test_unreadable_header_leaves_shard_to_scan(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 3)})
    index(root)
    place, path = locate(root), f"{root}/a.tar"
    with Catalog.open(place.catalog_path) as catalog:
        row, generation = catalog.shards()[0], catalog.generation
    assert is_as_indexed(NoHeaders("/"), path, row.size, place.offsets_path(generation), row) is False


class NoHeaders(LocalStorage):
    """Returns descriptors that cannot be read from."""

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
def test_shard_that_is_not_plain_is_left_to_scan(tmp_path: Path, files: Files) -> None:
    root = a_dataset(tmp_path, {"a.tar": a_shard(files, format=tarfile.GNU_FORMAT)})
    index(root)
    assert check_shards(root) == [False]


def test_shard_with_missing_end_or_trailing_data_is_left_to_scan(tmp_path: Path) -> None:
    data = a_shard(samples(0, 3))
    root = a_dataset(tmp_path, {"a.tar": data[: 6 * 1024], "b.tar": data + b"x", "c.tar": data + bytes(70 << 10)})
    index(root)
    assert check_shards(root) == [False, False, False]


def test_is_as_indexed_is_false_whenever_scan_differs(tmp_path: Path) -> None:
    """Changed header bits and zeroed blocks must be detected; changed data bits need not be."""
    valid = a_shard(sorted(samples(0, 40, size=600).items()))
    root = a_dataset(tmp_path, {"a.tar": valid})
    index(root)
    layout, rng = a_scan(valid).layout_hash(), random.Random(1)
    for _ in range(150):
        data = bytearray(valid)
        at = rng.randrange(len(valid))
        if rng.random() < 0.3:
            data[at : at + 512] = bytes(len(data[at : at + 512]))
        else:
            data[at] ^= 1 << rng.randrange(8)
        scan = a_scan(bytes(data))
        is_same = scan.layout_hash() == layout and not scan.findings
        if check_shards(root, bytes(data)) == [True]:
            assert is_same, at
