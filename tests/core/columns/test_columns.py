from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.columns.column_file import (
    ARRAY_ALIGNMENT_BYTES,
    ColumnFacts,
    ColumnShard,
    check_column_name,
    column_path,
    digest_shards,
    find_column,
    list_columns,
    read_column,
    read_column_values,
    write_column,
)
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.core.offsets.bounds import ShardEntry

SHARDS = [
    ShardEntry(1, "a.tar", 2048, 3, "aa"),
    ShardEntry(4, "b.tar", 1024, 0, "bb"),
    ShardEntry(5, "c.tar", 9, 2, "cc"),
]
VALUES = [[5, 6, 7], [], [1 << 62, 0]]


def a_location(folder: Path) -> DatasetLocation:
    return DatasetLocation(str(folder), str(folder / ".wdsctl"))


def write(location: DatasetLocation, name: str = "tokens", generation: int = 3) -> ColumnFacts:
    facts = ColumnFacts(name, "lengths:tokens", "ab" * 8, generation, digest_shards(SHARDS), zero=True)
    pieces = [
        ColumnShard(shard.id, bytes([shard.id] * 16), i, np.array(values, np.int64))
        for i, (shard, values) in enumerate(zip(SHARDS, VALUES, strict=True))
    ]
    return write_column(column_path(location, name, generation), facts, pieces)


def test_written_column_is_read_back(tmp_path: Path) -> None:
    location = a_location(tmp_path)
    facts = write(location)
    column = find_column(location, "tokens", 3, shards=SHARDS)

    assert column.facts == facts
    assert column.values.tolist() == [5, 6, 7, 1 << 62, 0]
    assert column.table.tolist() == [[1, 3, 0], [4, 0, 1], [5, 2, 2]]
    assert column.shard_digests.tolist() == [[1] * 16, [4] * 16, [5] * 16]
    assert (facts.samples, facts.failed, facts.zero) == (5, 3, True)
    assert facts.summary is not None
    assert facts.summary.total == (1 << 62) + 18


def test_values_are_aligned_to_64_bytes_and_read_only(tmp_path: Path) -> None:
    location = a_location(tmp_path)
    write(location)
    values = read_column_values(location, "tokens", 3)
    data = Path(column_path(location, "tokens", 3)).read_bytes()

    assert data.index(np.array([5, 6, 7], "<i8").tobytes()) % ARRAY_ALIGNMENT_BYTES == 0
    assert not values.flags.writeable
    assert values.dtype == np.int64


@given(st.lists(st.lists(st.integers(0, (1 << 63) - 1), max_size=9), max_size=9))
def test_any_values_round_trip(tmp_path_factory: pytest.TempPathFactory, shards: list[list[int]]) -> None:
    path = str(tmp_path_factory.mktemp("columns") / "x-1.bin")
    facts = ColumnFacts("x", "size:jpg", "", 1, "")
    written_facts = write_column(
        path, facts, [ColumnShard(i, bytes(16), 0, np.array(v, np.int64)) for i, v in enumerate(shards)]
    )
    column = read_column(path)

    assert column.facts == written_facts
    assert column.values.tolist() == [value for values in shards for value in values]


def test_digest_does_not_depend_on_division_into_shards(tmp_path: Path) -> None:
    facts = ColumnFacts("x", "size:jpg", "", 1, "")
    pieces = [[[1, 2], [3]], [[1], [2, 3]], [[1, 2, 4]]]
    digests = [
        write_column(
            str(tmp_path / f"x-{i}.bin"), facts, [ColumnShard(0, bytes(16), 0, np.array(v, np.int64)) for v in values]
        ).digest
        for i, values in enumerate(pieces)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_missing_column_error_lists_existing_columns(tmp_path: Path) -> None:
    location = a_location(tmp_path)
    with pytest.raises(InputError, match="it has none yet") as caught:
        read_column_values(location, "tokens", 3)
    assert (caught.value.code, "--column tokens=MODULE:FUNCTION" in caught.value.hint) == ("WDS310", True)

    write(location)
    with pytest.raises(InputError, match="it has tokens") as caught:
        read_column_values(location, "tokenz", 3)
    assert caught.value.hint == "did you mean tokens?"
    with pytest.raises(InputError):
        read_column_values(location, "../tokens", 3)


def test_column_of_other_generation_is_out_of_date_with_command(tmp_path: Path) -> None:
    location = a_location(tmp_path)
    write(location)
    with pytest.raises(CatalogError, match="generation 3, expected 4") as caught:
        read_column_values(location, "tokens", 4)
    assert (caught.value.code, "--column tokens=lengths:tokens" in caught.value.hint) == ("WDS314", True)


def test_column_of_other_shards_is_out_of_date(tmp_path: Path) -> None:
    location = a_location(tmp_path)
    write(location)
    with pytest.raises(CatalogError, match="other shards") as caught:
        read_column_values(location, "tokens", 3, shards=SHARDS[:2])
    assert caught.value.code == "WDS314"


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def truncate_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def truncate_before_values(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


def overwrite_file(path: Path) -> None:
    path.write_bytes(b"?" * path.stat().st_size)


def change_header(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"values"', b'"valves"'))


def change_name(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"name":"tokens"', b'"name":"tokenz"'))


@pytest.mark.parametrize(
    "damage", [empty_file, truncate_file, truncate_before_values, overwrite_file, change_header, change_name]
)
def test_damaged_column_error_has_hint_to_recompute(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    location = a_location(tmp_path)
    write(location)
    damage(Path(column_path(location, "tokens", 3)))
    with pytest.raises(CatalogError, match="damaged") as caught:
        read_column_values(location, "tokens", 3)
    assert (caught.value.code, "--drop-column tokens" in caught.value.hint) == ("WDS311", True)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a/b", "a b", "ä", "a" * 65])
def test_column_names_that_are_no_file_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_column_name(name)


def test_list_columns_returns_names_with_generations(tmp_path: Path) -> None:
    location = a_location(tmp_path)
    assert list_columns(location) == {}
    for name, generation in (("tokens", 3), ("a-2", 5), ("tokens", 1), ("tokens", 10)):
        write(location, name, generation)
    Path(location.meta, "columns", "notes.txt").write_text("")
    assert list_columns(location) == {"a-2": [5], "tokens": [1, 3, 10]}
