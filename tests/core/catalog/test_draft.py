from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import a_dataset, a_scan, a_shard, samples, some_shards
from tests.core.catalog.drafts import open_draft
from tests.core.dumps import query
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.catalog_check import check_orphans
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import ShardColumns
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.staging import CatalogStage
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.split_rules.rule import SplitRule


def a_catalog(folder: Path, *shards: bytes) -> str:
    path = str(folder / "meta" / "catalog.sqlite")
    with open_draft(path) as draft:
        draft.generation += 1
        for i, data in enumerate(shards):
            draft.add_shard(draft.next_shard_ids(1)[0], ShardFile(f"{i}.tar", len(data), i), a_scan(data))
    return path


def test_draft_is_published_if_block_succeeds(tmp_path: Path) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 3)))

    assert os.listdir(tmp_path / "meta") == ["catalog.sqlite"]
    with Catalog.open(path) as catalog:
        assert [row.samples for row in catalog.shards()] == [3]
        assert catalog.facts()["generation"] == "1"


def test_draft_is_dropped_if_block_fails(tmp_path: Path) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 3)))
    before = Path(path).read_bytes()

    def fail() -> None:
        with open_draft(path) as draft:
            draft.remove_shard(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert Path(path).read_bytes() == before
    assert os.listdir(tmp_path / "meta") == ["catalog.sqlite"]


@pytest.mark.parametrize(("fact", "value"), [("generation", "x"), ("last_shard_id", ""), ("exclude", "[")])
def test_invalid_facts_are_reported_as_damage(tmp_path: Path, fact: str, value: str) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 3)))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (f"{value} ", fact))

    with pytest.raises(CatalogError) as caught, open_draft(path):
        pass
    assert (caught.value.code, caught.value.where) == ("WDS302", path)
    assert os.listdir(tmp_path / "meta") == ["catalog.sqlite"]


def test_draft_from_scratch_ignores_old_catalog(tmp_path: Path) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 3)))
    with Catalog.open(path) as catalog:
        uuid = catalog.facts()["uuid"]
    with open_draft(path):
        pass
    with Catalog.open(path) as catalog:
        assert catalog.facts()["uuid"] == uuid
    with open_draft(path, from_scratch=True):
        pass
    with Catalog.open(path) as catalog:
        assert catalog.shards() == []
        assert catalog.facts()["uuid"] != uuid


def test_draft_ignores_partial_file_of_killed_run(tmp_path: Path) -> None:
    leftover = Path(a_catalog(tmp_path, a_shard(samples(0, 3))))
    leftover.rename(leftover.with_name(f".catalog.sqlite.{os.getpid()}.partial"))

    with Catalog.open(a_catalog(tmp_path, a_shard(samples(0, 2)))) as catalog:
        assert [row.samples for row in catalog.shards()] == [2]


def test_remove_shard_leaves_no_orphan_rows(tmp_path: Path) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 3)), a_shard(samples(3, 3)))
    with open_draft(path) as draft:
        draft.splits.begin_set("", SplitRule({"train": 1}))
        draft.splits.add_split_shards("", "train", [SplitShard(1, 2, b"\3"), SplitShard(2, 2, b"\3")])
        draft.splits.store_excluded([SplitShard(1, 1, b"\4"), SplitShard(2, 1, b"\4")])
    with open_draft(path) as draft:
        draft.remove_shard(2)

    with OpenDataset(DatasetLocation(str(tmp_path), os.path.dirname(path))) as dataset:
        assert check_orphans(dataset) == []
    assert query(path, "SELECT shard FROM excluded_shard") == [(1,)]


def test_shard_ids_are_not_reused(tmp_path: Path) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 3)), a_shard(samples(3, 3)))
    with open_draft(path) as draft:
        draft.remove_shard(2)
        assert draft.next_shard_ids(1)[0] == 3
    with open_draft(path) as draft:
        assert draft.next_shard_ids(1)[0] == 4


@pytest.mark.parametrize(
    "data",
    [
        a_shard(samples(0, 7)),
        a_shard({"é.jpg": b"a", "é.seg.png": b"", "2.txt": b"xyz"}),
        a_shard([("1.jpg", b"a"), ("1.jpg", b"b"), ("3.txt", b"c"), ("1.cls", b"d")]),
        a_shard({}),
    ],
)
def test_read_shard_columns_round_trips(tmp_path: Path, data: bytes) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 2, "txt", "jpg")), data)
    scan = a_scan(data)
    with open_draft(path) as draft:
        rows = draft.read_shard_columns(2)
        names = draft.part_numbers(scan)[scan.part_names]
    expected = ShardColumns(scan.keys, scan.key_sizes, scan.counts, names, scan.part_offsets, scan.part_sizes)

    assert rows.keys == expected.keys
    for column in ("key_sizes", "counts", "part_names", "part_offsets", "part_sizes"):
        assert getattr(rows, column).tolist() == getattr(expected, column).tolist(), column


def test_add_shard_writes_all_rows_beyond_one_block(tmp_path: Path) -> None:
    from wdsctl.core.tar_header import build_tar_header

    data = b"".join(build_tar_header(f"{i:06d}.t".encode(), 0) for i in range(50_003)) + bytes(1024)
    path = a_catalog(tmp_path, data)

    assert query(path, "SELECT count(*), min(key), max(key) FROM sample") == [(50_003, "000000", "050002")]
    assert query(path, "SELECT id & 268435455, key, offset FROM sample WHERE key = '050001'") == [
        (50_001, "050001", 50_001 * 512)
    ]


def test_remove_shard_keeps_only_shard_row(tmp_path: Path) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 3)), a_shard(samples(3, 3)))
    with open_draft(path) as draft:
        draft.splits.begin_set("", SplitRule({"train": 1.0}, "shard", 0))
        draft.splits.add_split_shards("", "train", [SplitShard(1, 3), SplitShard(2, 3)])
    with open_draft(path) as draft:
        draft.generation += 1
        draft.remove_shard(1)

    assert query(path, "SELECT id, added, removed FROM shard") == [(1, 1, 2), (2, 1, None)]
    for table, column in (("sample", "id >> 28"), ("shard_part", "shard"), ("split_shard", "shard")):
        assert {row[0] for row in query(path, f"SELECT {column} FROM {table}")} == {2}


def test_draft_recreates_dropped_key_index(tmp_path: Path) -> None:
    path = a_catalog(tmp_path, a_shard(samples(0, 3)))
    with open_draft(path) as draft:
        draft.drop_index_before_growth(1.0)

    assert query(path, "SELECT name FROM sqlite_master WHERE name = 'sample_key'") == [("sample_key",)]


def test_sample_of_two_parts_takes_less_than_100_bytes(tmp_path: Path) -> None:
    files = {f"{i:09d}.{part}": b"" for i in range(20_000) for part in ("jpg", "txt")}
    path = a_catalog(tmp_path, build_tar(files))

    assert os.path.getsize(path) / 20_000 < 100


def build_tar(files: dict[str, bytes]) -> bytes:
    from wdsctl.core.tar_header import build_tar_header

    return b"".join(build_tar_header(name.encode(), 0) for name in files) + bytes(1024)


def test_open_draft_reports_file_in_place_of_folder(tmp_path: Path) -> None:
    a_dataset(tmp_path, {"meta": b"a file"})

    with pytest.raises(OSError, match="cannot write"), open_draft(str(tmp_path / "meta" / "catalog.sqlite")):
        pass


def test_stage_is_not_published_without_lock(tmp_path: Path) -> None:
    location = locate(some_shards(tmp_path, 1))
    index(location.root)
    before = Path(location.catalog_path).read_bytes()

    with OpenDataset(location) as dataset, hold_lock(location.lock):
        stage = CatalogStage(dataset)
        with stage.begin(from_scratch=True):
            os.unlink(location.lock)
        with pytest.raises(CatalogError, match="another process took the lock"):
            stage.publish()
    assert Path(location.catalog_path).read_bytes() == before
