from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.errors import CatalogError
from wdsctl.core.offsets import write
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.mapped_arrays import MAX_UNMAPPED_BYTES
from wdsctl.core.offsets.read import Offsets, ShardColumns, open_cached_offsets
from wdsctl.core.offsets.write import OffsetsWriter

EXTENSIONS = ["jpg", "txt", "cls"]

Sample = tuple[str, list[tuple[int, int, int]]]  # key, [(extension, offset, size), ...]
Shard = list[Sample]


def columns_of(shard: Shard) -> ShardColumns:
    keys = [key.encode() for key, _ in shard]
    parts = np.array([part for _, parts in shard for part in parts], np.int64).reshape(-1, 3)
    return ShardColumns(
        keys=b"".join(keys),
        key_sizes=np.array([len(key) for key in keys], np.uint32),
        counts=np.array([len(parts) for _, parts in shard], np.uint32),
        part_names=parts[:, 0].copy(),
        part_offsets=parts[:, 1].copy(),
        part_sizes=parts[:, 2].copy(),
    )


def write_offsets(folder: Path, shards: list[Shard]) -> str:
    writer = OffsetsWriter(str(folder))
    for i, shard in enumerate(shards):
        writer.add(ShardEntry(i + 1, f"{i}.tar", 1 << 52, len(shard), f"hash {i}"), columns_of(shard))
    path = str(folder / "offsets-7.bin")
    writer.finish(path, 7, EXTENSIONS)
    writer.close()
    return path


def read_shards(offsets: Offsets) -> list[Shard]:
    return [
        [
            (offsets.key(row), [(EXTENSIONS.index(name), at, size) for name, at, size in offsets.parts(row)])
            for row in range(int(offsets.shard_row[i]), int(offsets.shard_row[i + 1]))
        ]
        for i in range(len(offsets.shards))
    ]


parts = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1 << 50), st.integers(0, 1 << 40)), max_size=4)
uniform = st.tuples(st.integers(0, 1 << 50), st.integers(0, 9)).map(lambda pair: [(0, *pair), (1, *pair)])
samples = st.tuples(st.text(min_size=1, max_size=8), st.one_of(parts, uniform))
shards = st.lists(st.lists(samples, max_size=6), max_size=5)


@given(shards)
@settings(max_examples=50, deadline=None)
def test_offsets_return_written_shards(tmp_path_factory: pytest.TempPathFactory, shard_list: list[Shard]) -> None:
    offsets = Offsets(write_offsets(tmp_path_factory.mktemp("offsets"), shard_list))

    assert read_shards(offsets) == shard_list
    assert (offsets.generation, offsets.samples) == (7, sum(map(len, shard_list)))
    for i, shard in enumerate(shard_list):
        for row in range(int(offsets.shard_row[i]), int(offsets.shard_row[i]) + len(shard)):
            assert offsets.shard_of(row) == i


@given(shards)
@settings(max_examples=40, deadline=None)
def test_copied_shard_columns_give_identical_file(
    tmp_path_factory: pytest.TempPathFactory, shard_list: list[Shard]
) -> None:
    path = write_offsets(tmp_path_factory.mktemp("offsets"), shard_list)
    first = Path(path).read_bytes()
    for _ in range(2):
        old = Offsets(path)
        folder = tmp_path_factory.mktemp("offsets")
        writer = OffsetsWriter(str(folder))
        for i, entry in enumerate(old.shards):
            writer.add(entry, old.shard_columns(i, {name: i for i, name in enumerate(EXTENSIONS)}))
        path = str(folder / "next")
        writer.finish(path, 7, EXTENSIONS)
        writer.close()

    assert Path(path).read_bytes() == first


@given(shards, st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_offsets_file_is_independent_of_memory_limit(
    tmp_path_factory: pytest.TempPathFactory, shard_list: list[Shard], memory_limit: int
) -> None:
    whole = Path(write_offsets(tmp_path_factory.mktemp("offsets"), shard_list)).read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "MAX_COLUMN_MEMORY_BYTES", memory_limit)
        assert Path(write_offsets(tmp_path_factory.mktemp("offsets"), shard_list)).read_bytes() == whole


def test_offsets_with_one_layout_have_no_layout_column(tmp_path: Path) -> None:
    shard: Shard = [(f"{i}", [(0, i * 1000, 3), (1, i * 1000 + 512, 4)]) for i in range(5)]
    offsets = Offsets(write_offsets(tmp_path, [shard, [], shard]))

    assert offsets.layout is None
    assert offsets.part_start is None
    assert offsets.layouts == [("jpg", "txt")]
    assert offsets.find_with_layouts([0]) == (10, 0)


def test_find_with_layouts_counts_samples_and_first_row(tmp_path: Path) -> None:
    offsets = Offsets(write_offsets(tmp_path, [[("a", [(0, 0, 1)]), ("b", [(1, 0, 1)]), ("c", [(1, 9, 1)])]]))

    assert offsets.layouts == [("jpg",), ("txt",)]
    assert offsets.find_with_layouts([1]) == (2, 1)
    assert offsets.find_with_layouts([]) == (0, -1)


@pytest.mark.parametrize("shard_list", [[], [[]], [[], []]])
def test_offsets_file_without_samples_is_readable(tmp_path: Path, shard_list: list[Shard]) -> None:
    offsets = Offsets(write_offsets(tmp_path, shard_list))

    assert (offsets.samples, len(offsets.shards)) == (0, len(shard_list))
    assert (len(offsets.keys), len(offsets.part_offset)) == (0, 0)


SHARDS: list[Shard] = [[("a", [(0, 512, 3), (1, 1536, 4)]), ("b", [(0, 2048, 3)])], [("c", [])]]


@given(st.integers(0, 1 << 30))
@settings(max_examples=50, deadline=None)
def test_truncated_offsets_file_raises_wds302(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = Path(write_offsets(tmp_path_factory.mktemp("offsets"), SHARDS))
    path.write_bytes(path.read_bytes()[: cut % path.stat().st_size])

    with pytest.raises(CatalogError) as caught:
        Offsets(str(path))
    assert (caught.value.code, caught.value.where) == ("WDS302", str(path))


@given(st.integers(0, 1 << 30))
@settings(max_examples=120, deadline=None)
def test_flipped_header_bit_raises_only_catalog_error(tmp_path_factory: pytest.TempPathFactory, bit: int) -> None:
    path = Path(write_offsets(tmp_path_factory.mktemp("offsets"), SHARDS))
    data = bytearray(path.read_bytes())
    bit %= 8 * (16 + int.from_bytes(data[8:16], "little"))
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)

    with suppress(CatalogError):
        assert Offsets(str(path)).samples == 3


MANY = 5000  # samples of a shard


@pytest.fixture(scope="module")
def many_shards() -> list[Shard]:
    return [
        [(f"{s}/{i:06}", [(0, 512 * i, i % 500)] + [(1, 7 * i, 3)] * (i % 50 == 0)) for i in range(MANY)]
        for s in range(5)
    ]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, many_shards: list[Shard]) -> bytes:
    """An offsets file that is large enough to be mapped into memory."""
    data = Path(write_offsets(tmp_path_factory.mktemp("many"), many_shards)).read_bytes()
    assert len(data) > MAX_UNMAPPED_BYTES
    return data


@given(st.integers(0, (1 << 32) - 1), st.integers(0, 7))
@settings(max_examples=40, deadline=None)
def test_flipped_bit_never_gives_wrong_rows(
    tmp_path_factory: pytest.TempPathFactory, many: bytes, many_shards: list[Shard], at: int, bit: int
) -> None:
    data = bytearray(many)
    at %= len(data)
    data[at] ^= 1 << bit
    path = tmp_path_factory.getbasetemp() / "flipped.bin"
    path.write_bytes(data)

    errors: list[CatalogError] = []
    try:
        offsets = Offsets(str(path))
    except CatalogError:
        return
    for i, shard in enumerate(many_shards):
        for row in range(0, len(shard), 37):
            try:
                assert read_sample(offsets, row + MANY * i) == shard[row]
            except CatalogError as error:
                errors.append(error)
    assert len(errors) < 100
    assert {(error.code, error.where) for error in errors} <= {("WDS302", str(path))}
    assert all("wdsctl index" in error.hint for error in errors)
    with pytest.raises(CatalogError):
        offsets.check_all()


def read_sample(offsets: Offsets, row: int) -> Sample:
    return offsets.key(row), [(EXTENSIONS.index(name), at, size) for name, at, size in offsets.parts(row)]


@pytest.mark.parametrize("name", ["key_start", "keys", "layout", "part_start", "part_offset", "part_size"])
def test_damaged_column_raises_on_first_access(
    tmp_path: Path, many: bytes, many_shards: list[Shard], name: str
) -> None:
    path = tmp_path / "flipped.bin"
    header = json.loads(many[16 : 16 + int.from_bytes(many[8:16], "little")])
    at, dtype, count = header["columns"][name]
    data = bytearray(many)
    data[at + count * np.dtype(dtype).itemsize // 2] ^= 16
    path.write_bytes(data)
    offsets = Offsets(str(path))

    assert offsets.key(0) == many_shards[0][0][0]
    with pytest.raises(CatalogError):
        getattr(offsets, name)
    with pytest.raises(CatalogError):
        offsets.check_rows(np.arange(12_000, 13_000, 7))
    with pytest.raises(CatalogError):
        offsets.check_range(0, offsets.samples)
    with pytest.raises(CatalogError):
        offsets.shard_columns(2, {ext: i for i, ext in enumerate(EXTENSIONS)})


def test_part_past_end_of_smaller_shard_raises_wds302(tmp_path: Path) -> None:
    """A hostile file has valid checksums."""
    writer = OffsetsWriter(str(tmp_path))
    for i, size in enumerate((1_000, 9_000)):
        writer.add(ShardEntry(i + 1, f"{i}.tar", size, 1, f"hash {i}"), columns_of([("a", [(0, 2_000, 10)])]))
    path = str(tmp_path / "offsets-7.bin")
    writer.finish(path, 7, EXTENSIONS)
    writer.close()
    with pytest.raises(CatalogError):
        Offsets(path).parts(0)


def test_missing_offsets_file_error_hints_at_index(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="the offsets file is missing") as caught:
        Offsets(str(tmp_path / ".wdsctl" / "none"))
    assert (caught.value.code, caught.value.hint) == ("WDS302", f"run `wdsctl index {tmp_path}` to write it again")


def test_open_offsets_stay_readable_after_unlink(tmp_path: Path) -> None:
    path = Path(write_offsets(tmp_path, SHARDS))
    offsets = Offsets(str(path))
    path.unlink()

    assert read_shards(offsets) == SHARDS


def test_open_cached_offsets_reopens_replaced_file(tmp_path: Path) -> None:
    path = write_offsets(tmp_path, SHARDS)
    before = open_cached_offsets(path)
    assert open_cached_offsets(path) is before

    Path(write_offsets(tmp_path / "other", SHARDS[:1])).replace(path)
    assert read_shards(open_cached_offsets(path)) == SHARDS[:1]
    assert read_shards(before) == SHARDS
