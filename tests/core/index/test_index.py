from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_dataset, a_shard, rewrite_shard, samples, some_shards, tree
from tests.core.dumps import catalog_of, dump, query
from tests.core.indexed import contents, expected, leftovers, offsets
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError
from wdsctl.core.index.index import index
from wdsctl.core.offsets.read import Offsets


def test_first_index_contains_every_sample_and_part(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    report = index(root)

    assert (report.shards, report.samples, report.parts, report.added, report.generation) == (3, 15, 30, 3, 1)
    assert report.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    assert (report.findings, report.up_to_date) == ((), False)
    assert contents(root) == expected(0, 15)
    assert leftovers(root) == []


def test_sample_ids_combine_shard_number_and_position(tmp_path: Path) -> None:
    index(some_shards(tmp_path, 2, 3))

    rows = query(catalog_of(tmp_path), "SELECT id, key FROM sample ORDER BY id")
    assert [row[0] for row in rows] == [shard << 28 | i for shard in (1, 2) for i in range(3)]
    assert [row[1] for row in rows] == [f"{i:06d}" for i in range(6)]


def test_catalog_views_give_location_of_each_part(tmp_path: Path) -> None:
    index(some_shards(tmp_path, 2, 3))

    for key, part, shard, offset, size in query(
        catalog_of(tmp_path), "SELECT key, part, shard, offset, size FROM v_part"
    ):
        assert (tmp_path / shard).read_bytes()[offset : offset + size] == samples(0, 6)[f"{key}.{part}"]
    assert query(catalog_of(tmp_path), "SELECT shard, position FROM v_sample WHERE key = '000004'") == [
        ("shard-001.tar", 1)
    ]


@pytest.mark.usefixtures("place")
def test_index_of_unchanged_dataset_writes_no_catalog(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    before = tree(root)
    report = index(root)

    assert (report.up_to_date, report.unchanged, report.generation, report.samples) == (True, 2, 1, 10)
    after = tree(root)
    assert {name for name in after if after[name] != before.get(name)} <= {".wdsctl", ".wdsctl/ledger.sqlite"}


def test_index_appends_new_shards_and_reads_only_them(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2, first=1)
    index(root)
    before = dump(root)["sample"]
    some_shards(tmp_path, 1)
    progress = RecordingProgress()
    report = index(root, progress=progress)

    assert (report.added, report.unchanged, report.samples, report.generation) == (1, 2, 15, 2)
    assert progress.items == 1
    assert [row for row in dump(root)["sample"] if row[0] < 3 << 28] == before
    assert [shard.path for shard in offsets(root).shards] == ["shard-001.tar", "shard-002.tar", "shard-000.tar"]
    assert sorted(contents(root)) == expected(0, 15)


def test_changed_shard_gets_new_number_and_old_row_is_marked_removed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    rewrite_shard(tmp_path / "shard-000.tar", samples(100, 3))
    report = index(root)

    assert (report.changed, report.unchanged, report.samples) == (1, 1, 8)
    rows = query(catalog_of(tmp_path), "SELECT id, path, added, removed FROM shard ORDER BY id")
    assert rows == [
        (1, "shard-000.tar", 1, 2),
        (2, "shard-001.tar", 1, None),
        (3, "shard-000.tar", 2, None),
    ]
    assert sorted(contents(root)) == expected(5, 10) + [
        (f"{i:06d}", v) for i, (_, v) in enumerate(expected(100, 103), 100)
    ]


def test_index_of_missing_folder_raises_with_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist") as caught:
        index(str(tmp_path / "nothing"))
    assert caught.value.where == str(tmp_path / "nothing")


@pytest.mark.usefixtures("place")
def test_index_dry_run_reports_changes_and_writes_nothing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    before = tree(root)
    report = index(root, dry_run=True)

    assert (report.added, report.dry_run, report.up_to_date) == (2, True, False)
    assert (report.shards, report.samples) == (2, 0)
    assert report.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    assert tree(root) == before
    index(root)
    some_shards(tmp_path, 1, first=2)
    before = tree(root)
    report = index(root, dry_run=True)
    assert (report.added, report.unchanged, report.shards, report.samples) == (1, 2, 3, 10)
    assert tree(root) == before


def test_index_skips_excluded_shards(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a/1.tar": samples(0, 2), "b/1.tar": samples(2, 2), "b/2.tar": samples(4, 2)})

    progress = RecordingProgress()
    assert index(root, exclude=["b/*", "none*"], progress=progress).samples == 2
    assert progress.notes == ["nothing matches --exclude none*"]
    with Catalog.open(locate(root).catalog_path) as catalog:
        assert catalog.exclude_patterns() == ("b/*", "none*")


@pytest.mark.parametrize("no_patterns", [None, []])
def test_exclude_patterns_persist_until_replaced(tmp_path: Path, no_patterns: list[str] | None) -> None:
    root = a_dataset(tmp_path, {"a/1.tar": samples(0, 2), "b/1.tar": samples(2, 2), "b/2.tar": samples(4, 2)})
    index(root, exclude=["b/*"])

    assert index(root, exclude=no_patterns).up_to_date
    assert index(root, exclude=no_patterns, rebuild=True).samples == 2
    assert index(root, exclude=["b/1.tar"]).samples == 4
    assert index(root, exclude=[""]).samples == 6


@pytest.mark.parametrize("rebuild", [False, True])
def test_newly_excluded_shards_are_removed_and_not_vanished(tmp_path: Path, rebuild: bool) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    report = index(root, exclude=["*-001.tar"], missing="keep", rebuild=rebuild)

    assert (report.removed, report.samples, report.generation) == (1, 10, 2)
    assert index(root).up_to_date


def test_new_exclude_patterns_are_stored_even_without_effect(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    report = index(root, exclude=["later/*"])

    assert (report.up_to_date, report.generation, report.samples) == (False, 1, 10)
    with Catalog.open(locate(root).catalog_path) as catalog:
        assert catalog.exclude_patterns() == ("later/*",)
    a_dataset(tmp_path, {"later/1.tar": samples(50, 2)})
    assert index(root).up_to_date


def test_index_keeps_offsets_of_last_three_generations(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    first = Offsets(locate(root).offsets_path(1))
    for i in range(1, 5):
        some_shards(tmp_path, 1, first=i)
        index(root)

    offsets_files = sorted(name for name in os.listdir(tmp_path / ".wdsctl") if name.startswith("offsets-"))
    assert offsets_files == ["offsets-3.bin", "offsets-4.bin", "offsets-5.bin"]
    assert Offsets(locate(root).offsets_path(3)).samples == 15
    assert first.key(4) == "000004"


@pytest.mark.parametrize("workers", [2, 3])
def test_catalog_and_offsets_are_independent_of_worker_count(tmp_path: Path, workers: int) -> None:
    shards = {f"{i}.tar": samples(i * 10, 3 + i, *("jpg", "txt", "cls")[: 1 + i % 3]) for i in range(7)}
    sequential, parallel = a_dataset(tmp_path / "one", shards), a_dataset(tmp_path / "many", shards)
    for path in (tmp_path / "one").glob("*.tar"):
        shutil.copystat(path, tmp_path / "many" / path.name)
    index(sequential)
    index(parallel, workers=workers)

    assert dump(sequential) == dump(parallel)
    assert Path(locate(sequential).offsets_path(1)).read_bytes() == Path(locate(parallel).offsets_path(1)).read_bytes()


def test_keys_with_sql_characters_are_indexed(tmp_path: Path) -> None:
    keys = ["'; DROP TABLE sample; --", 'a"b', "%s", "?", ":key", "[1]", "漢字", "x\ny", "{}"]
    root = a_dataset(tmp_path, {"a.tar": {f"{key}.txt": b"x" for key in keys}})
    index(root)

    assert [row[0] for row in query(catalog_of(root), "SELECT key FROM sample ORDER BY id")] == keys
    assert [offsets(root).key(row) for row in range(len(keys))] == keys


def test_odd_shard_names_are_indexed_and_undecodable_ones_reported(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a b/'é'%?#.tar": samples(0, 2)})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.tar")).write_bytes(a_shard(samples(2, 2)))
    report = index(root)

    assert report.samples == 2
    assert [(found.code, found.shard) for found in report.findings] == [("WDS116", "\\xff.tar")]
