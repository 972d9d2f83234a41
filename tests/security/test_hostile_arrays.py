"""Mapped files with right checksums and wrong numbers cause no wrong sample, no crash and no hang."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.build import a_dataset, samples, split_by_ratios
from tests.core.dumps import catalog_of
from tests.security.hostile_arrays import change_column, change_header
from wdsctl.core.columns.column_file import find_column
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.joins.index import JoinIndex
from wdsctl.core.offsets.block_checksums import append_checksums
from wdsctl.core.offsets.key_index import open_key_index
from wdsctl.core.offsets.read import Offsets
from wdsctl.loader import get_loader, get_train_dataset

pytestmark = pytest.mark.timeout(120)

Change = Callable[[Any], None]


def set_one(place: int, value: int) -> Change:
    def change(column: Any) -> None:
        column[place] = value

    return change


def set_all(value: int) -> Change:
    def change(column: Any) -> None:
        column[:] = value

    return change


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = a_dataset(
        tmp_path_factory.mktemp("intact") / "data",
        {
            "a.tar": samples(0, 8, "bin", "txt"),
            "b.tar": samples(8, 8, "bin", "txt"),
            "c.tar": samples(16, 4, "bin", "txt", "md"),
        },
    )
    index(root)
    split_by_ratios(root, {"train": 1})
    return root


@pytest.fixture
def root(intact: str, tmp_path: Path) -> str:
    """A dataset of two shards of one layout and one of another."""
    return shutil.copytree(intact, str(tmp_path / "data"))


@pytest.fixture
def uniform(tmp_path: Path) -> str:
    root = a_dataset(tmp_path / "uniform", {"a.tar": samples(0, 8, "bin", "txt"), "b.tar": samples(8, 8, "bin", "txt")})
    index(root)
    split_by_ratios(root, {"train": 1})
    return root


def offsets_of(root: str) -> Path:
    return catalog_of(root).with_name("offsets-1.bin")


def read_keys(root: str) -> list[Any]:
    """Return the keys of all samples, as a training reads them."""
    with get_loader(get_train_dataset(root, batch_size=4, shuffle=False, repeat=False)) as loader:
        return [key for batch in loader for key in batch.__key__]


NUMBERS: dict[str, tuple[str, Change]] = {
    "all sizes are -1": ("part_size", set_all(-1)),
    "a size is beyond the shard": ("part_size", set_one(3, 1 << 20)),
    "a size is as large as a number can be": ("part_size", set_one(3, (1 << 63) - 1)),
    "an offset is -1": ("part_offset", set_one(0, -1)),
    "an offset is beyond the shard": ("part_offset", set_one(5, 1 << 40)),
    "offset and size go over": ("part_offset", set_all((1 << 63) - 1)),
    "a key ends before it begins": ("key_start", set_one(3, 0)),
    "a key begins below zero": ("key_start", set_one(0, -5)),
    "the keys are no UTF-8": ("keys", set_all(0xFF)),
    "a key begins within a character": ("keys", set_one(6, 0x80)),
}
LAYOUTS: dict[str, tuple[str, Change]] = {
    "a layout is not there": ("layout", set_one(1, 7)),
    "a layout has more parts": ("layout", set_one(1, 1)),
    "parts begin below zero": ("part_start", set_one(0, -4)),
    "parts begin beyond all": ("part_start", set_one(2, 1 << 61)),
    "parts begin where others do": ("part_start", set_one(2, 0)),
}
HEADERS: dict[str, Callable[[Any], object]] = {
    "a shard has -1 samples": lambda header: header["shards"][0].__setitem__(3, -1),
    "a shard has samples of another": lambda header: (
        header["shards"][0].__setitem__(3, 7),
        header["shards"][1].__setitem__(3, 9),
    ),
    "a shard's size is below zero": lambda header: header["shards"][0].__setitem__(2, -1),
    "a shard's number is too large": lambda header: header["shards"][0].__setitem__(0, 1 << 40),
    "a shard's number is a text": lambda header: header["shards"][0].__setitem__(0, "1"),
    "a part's name has a slash": lambda header: header["extensions"].__setitem__(0, "/in"),
    "a part has no name": lambda header: header["extensions"].__setitem__(0, 7),
    "two parts have one name": lambda header: header["extensions"].__setitem__(0, "txt"),
    "a layout counts from the end": lambda header: header["layouts"].__setitem__(0, [-1, 0]),
    "a column begins below zero": lambda header: header["columns"]["keys"].__setitem__(0, -8),
    "a column has -1 numbers": lambda header: header["columns"]["part_size"].__setitem__(2, -1),
    "a column is beyond the file": lambda header: header["columns"]["part_size"].__setitem__(0, 9999999),
    "a column of objects": lambda header: header["columns"]["part_size"].__setitem__(1, "O"),
    "a generation of another type": lambda header: header.__setitem__("generation", "1"),
    "a generation below zero": lambda header: header.__setitem__("generation", -1),
    "a size without end": lambda header: header["shards"][0].__setitem__(2, float("inf")),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_offsets_with_invalid_numbers_are_refused(root: str, uniform: str, name: str) -> None:
    for each in (root, uniform):
        change_column(offsets_of(each), *NUMBERS[name])
        _assert_refused(each)


@pytest.mark.parametrize("name", LAYOUTS)
def test_offsets_with_invalid_layouts_are_refused(root: str, name: str) -> None:
    change_column(offsets_of(root), *LAYOUTS[name])
    _assert_refused(root)


@pytest.mark.parametrize("name", HEADERS)
def test_offsets_with_invalid_header_are_refused(uniform: str, name: str) -> None:
    change_header(offsets_of(uniform), HEADERS[name])
    with pytest.raises(CatalogError) as caught:
        Offsets(str(offsets_of(uniform)))
    assert caught.value.code == "WDS302"


def test_offsets_with_deeply_nested_header_are_refused(uniform: str) -> None:
    path = offsets_of(uniform)
    data = bytearray(path.read_bytes())
    text = b"[" * 100_000
    path.write_bytes(bytes(data[:8]) + len(text).to_bytes(8, "little") + text)
    with open(path, "r+b") as file:
        append_checksums(file)
    with pytest.raises(CatalogError):
        Offsets(str(path))


def _assert_refused(root: str) -> None:
    with pytest.raises(WdsctlError) as caught:
        read_keys(root)
    assert caught.value.code == "WDS302"
    offsets = Offsets(str(offsets_of(root)))
    with pytest.raises(CatalogError):
        offsets.check_all()
    with pytest.raises(CatalogError):
        _read_rows(offsets)


def _read_rows(offsets: Offsets) -> None:
    for row in range(offsets.samples):
        offsets.key(row)
        offsets.parts(row)


def test_valid_offsets_are_accepted(root: str, uniform: str) -> None:
    assert (len(read_keys(root)), len(read_keys(uniform))) == (20, 16)
    Offsets(str(offsets_of(root))).check_all()


@pytest.mark.parametrize("change", [set_one(0, -1), set_all(-(1 << 62))])
def test_column_with_negative_values_is_refused(uniform: str, change: Change) -> None:
    index(uniform, columns={"n": "size:bin"})
    path = catalog_of(uniform).parent / "columns" / "n-1.bin"
    change_column(path, "values", change, table="arrays")
    column = find_column(locate(uniform), "n", 1)
    for read in (
        lambda: column.checked_values[0],
        lambda: column.checked_values[np.array([0, 3])],
        lambda: column.values,
    ):
        with pytest.raises(CatalogError) as caught:
            read()
        assert caught.value.code == "WDS311"


def test_column_with_other_sample_counts_than_shards_is_refused(uniform: str) -> None:
    index(uniform, columns={"n": "size:bin"})
    path = catalog_of(uniform).parent / "columns" / "n-1.bin"

    def change(table: Any) -> None:
        table[1], table[4] = 7, 9

    change_column(path, "table", change, table="arrays")
    with pytest.raises(CatalogError):
        find_column(locate(uniform), "n", 1, shards=Offsets(str(offsets_of(uniform))).shards)


@pytest.mark.parametrize("change", [set_all(1 << 30), set_one(0, 16)])
def test_key_index_with_invalid_rows_is_rebuilt(uniform: str, change: Change) -> None:
    place = locate(uniform)
    open_key_index(place, Offsets(str(offsets_of(uniform))))
    change_column(catalog_of(uniform).with_name("names-1.bin"), "rows", change)
    found = open_key_index(place, Offsets(str(offsets_of(uniform))))
    assert found.find("000003").rows == (3,)


@pytest.mark.parametrize("partner", [99, -7, 1 << 62, -(1 << 63)])
def test_join_index_refuses_rows_out_of_range(tmp_path: Path, partner: int) -> None:
    path = tmp_path / "join"
    header = {"fingerprint": "f", "rows": 4, "members": 1, "skipped": 0}
    with open(path, "w+b") as file:
        file.write(b"WDSJOIN1" + (240).to_bytes(8, "little") + json.dumps(header).encode().ljust(240))
        file.write(np.array([1, 2, partner, 0], "<i8").tobytes().ljust(64, b"\0"))
        append_checksums(file)
    join = JoinIndex(str(path), "f", 4, [5])
    assert join.partners(0, np.array([0, 1, 3])).tolist() == [0, 1, -1]
    with pytest.raises(CatalogError):
        join.partners(0, np.arange(4))
