from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder, some_shards, split_by_ratios, tree
from tests.core.pictures import a_gallery, rows_of
from tests.full_disk import files_of_at_most
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import lock_dataset
from wdsctl.core.errors import CatalogError, StorageError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.ls import open_listing
from wdsctl.core.views import sql as query_module
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.sql import sql
from wdsctl.core.views.views import create_view

ENDLESS_ROWS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT "


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = a_gallery(tmp_path_factory.mktemp("gallery"))
    create_view(root, "wide", ViewDefinition(where="width >= 60"))
    return root


def query_rows(root: str, text: str, **options: Any) -> list[tuple[Any, ...]]:
    with sql(root, text, **options) as answer:
        return list(answer.rows)


def test_catalog_views_can_be_queried(gallery: str) -> None:
    rows = rows_of(gallery)
    assert query_rows(gallery, "SELECT count(*), sum(size) FROM v_part") == [
        (len(rows), sum(row["size"] for row in rows))
    ]
    assert query_rows(gallery, "SELECT max(width) FROM v_media WHERE part = 'jpg';") == [(104,)]


def test_ledger_views_can_be_queried(gallery: str) -> None:
    assert query_rows(gallery, "SELECT name, samples > 0, definition FROM v_view") == [
        ("wide", 1, '{"where": "width >= 60"}')
    ]
    assert ("view create", "ok") in query_rows(gallery, "SELECT command, status FROM v_run")
    assert query_rows(gallery, "SELECT DISTINCT code, part FROM v_finding") == [("WDS110", "txt")]
    for view in ("v_quarantine", "v_excluded"):
        assert query_rows(gallery, f"SELECT * FROM {view}") == []


def test_view_of_dataset_restricts_its_samples(gallery: str) -> None:
    wide = {(r["shard"], r["position"]) for r in rows_of(gallery) if (r["width"] or 0) >= 60}
    assert set(query_rows(f"{gallery}@wide", "SELECT shard, position FROM v_sample")) == wide
    parts = sum((row["shard"], row["position"]) in wide for row in rows_of(gallery))
    assert query_rows(f"{gallery}@wide", "SELECT count(*) FROM v_part") == [(parts,)]


def test_v_sample_split_contains_every_sample(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3, 37)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1, "test": 1}, by="sample", seed=1)

    for name in ("train", "val", "test"):
        with open_listing(root, what="samples", split=name) as listing:
            expected = set(listing.names)
        rows = query_rows(root, f"SELECT key FROM v_sample_split WHERE split = '{name}'")
        assert {key for (key,) in rows} == expected
    assert query_rows(root, "SELECT count(*), count(DISTINCT id) FROM v_sample_split") == [(111, 111)]
    create_view(root, "few", ViewDefinition(where="key like '%7'"))
    assert query_rows(f"{root}@few", "SELECT count(*) FROM v_sample_split") == query_rows(
        f"{root}@few", "SELECT count(*) FROM v_sample"
    )


def test_sql_returns_column_names(gallery: str) -> None:
    with sql(gallery, 'SELECT key AS "the key", count(*) FROM v_sample') as answer:
        assert answer.columns == ("the key", "count(*)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM shard",
        "DELETE FROM v_shard",
        "ATTACH 'x' AS y",
        "PRAGMA page_size",
        "CREATE TEMP TABLE t (a)",
        "BEGIN",
        "SELECT 1; SELECT 2",
        ";",
        "SELECT name FROM ledger.sqlite_master",
        "SELECT * FROM ledger.run",
        "REINDEX",
        "VACUUM",
    ],
)
def test_other_statements_are_refused_and_write_nothing(gallery: str, text: str) -> None:
    before = tree(gallery)
    with pytest.raises(UsageError) as caught:
        query_rows(gallery, text)
    assert caught.value.code == "WDS332"
    assert tree(gallery) == before


def test_view_name_with_schema_prefix_is_refused(gallery: str) -> None:
    with pytest.raises(UsageError) as caught:
        query_rows(gallery, "SELECT * FROM ledger.v_run")
    assert caught.value.hint == "write v_run without a prefix"


def test_query_ends_after_timeout(gallery: str) -> None:
    with pytest.raises(UsageError, match=r"longer than 0\.2 s") as caught:
        query_rows(gallery, f"{ENDLESS_ROWS} count(*) FROM r", timeout_seconds=0.2)
    assert caught.value.code == "WDS334"
    with pytest.raises(UsageError, match="longer"):
        query_rows(gallery, f"{ENDLESS_ROWS} n FROM r WHERE n % 100000 = 0", timeout_seconds=0.2)


def test_query_ends_at_limit_of_temporary_files(gallery: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_module, "MAX_TEMPORARY_BYTES", 1 << 20)
    monkeypatch.setattr(query_module, "_SECONDS_PER_LOOK", 0)
    with pytest.raises(UsageError, match="more than 1 MiB of temporary files") as caught:
        query_rows(gallery, f"{ENDLESS_ROWS} count(DISTINCT printf('%.*c', 9999, 'x') || n) FROM r", timeout_seconds=60)
    assert caught.value.code == "WDS332"


def test_rows_are_returned_as_soon_as_found(gallery: str) -> None:
    with sql(gallery, f"{ENDLESS_ROWS} n FROM r") as answer:
        assert [next(answer.rows) for _ in range(3)] == [(1,), (2,), (3,)]


def test_error_between_two_rows_is_raised(gallery: str) -> None:
    with sql(gallery, f"{ENDLESS_ROWS} json(CASE n WHEN 3 THEN '{{' ELSE n END) FROM r") as answer:
        assert next(answer.rows) == ("1",)
        with pytest.raises(UsageError, match="malformed JSON"):
            list(answer.rows)


def test_damaged_ledger_is_noted_and_catalog_is_read(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    Path(locate(root).ledger_path).write_bytes(b"nonsense" * 999)
    with sql(root, "SELECT count(*) FROM v_run") as answer:
        assert list(answer.rows) == [(0,)]
        assert "cannot read the ledger" in answer.note
    assert query_rows(root, "SELECT count(*) FROM v_sample") == [(5,)]


@pytest.mark.usefixtures("place")
def test_dataset_without_ledger_has_no_runs(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with lock_dataset(locate(root)):  # publishes that the ledger is gone
        Path(locate(root).ledger_path).unlink()
    assert query_rows(root, "SELECT * FROM v_run") == []
    assert not Path(locate(root).ledger_path).exists()


def test_damaged_catalog_is_reported(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1, 2000)
    index(root)
    path = Path(locate(root).catalog_path)
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = b"\xee" * (len(data) - 4096 * 3)
    path.write_bytes(bytes(data))
    with pytest.raises(CatalogError) as caught:
        query_rows(root, "SELECT sum(length(key)) FROM v_sample")
    assert caught.value.code == "WDS302"


def test_full_disk_during_sort_is_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = some_shards(tmp_path / "d", 1, 300)
    index(root)
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    many = "SELECT one.key FROM v_sample one, v_sample other, v_shard ORDER BY one.key || other.key || v_shard.path"
    with files_of_at_most(1 << 16), pytest.raises(StorageError, match="the query cannot run") as caught:
        query_rows(root, many)
    assert (caught.value.code, caught.value.where) == ("WDS401", str(tmp_path))
    assert "SQLITE_TMPDIR=DIR" in caught.value.hint
    assert len(query_rows(root, many)) == 300**2


@pytest.mark.usefixtures("place")
def test_query_without_sample_rows_is_refused(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, sample_rows=False)
    with pytest.raises(CatalogError, match="no sample rows"):
        query_rows(root, "SELECT count(*) FROM v_part")
    assert query_rows(root, "SELECT samples FROM v_shard") == [(5,)]


def test_text_that_is_not_utf_8_is_escaped(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with closing(sqlite3.connect(locate(root).catalog_path)) as connection:
        connection.execute("UPDATE sample SET key = CAST(x'61ff' AS TEXT) WHERE key = '000001'")
        connection.commit()
    assert ("a\\xff",) in query_rows(root, "SELECT key FROM v_sample")


def a_set_of_lines(folder: Path) -> str:
    index(a_folder(folder, {"a.jsonl": b'{"id": 1}\n' * 3}))
    return str(folder)


@pytest.mark.parametrize("name", ["v_sample", "'v_sample'", '"v_sample"', "'V_Sample'", "main.'v_sample'"])
def test_jsonl_dataset_has_rows_for_any_spelling_of_view(tmp_path: Path, name: str) -> None:
    assert query_rows(a_set_of_lines(tmp_path), f"SELECT count(*) FROM {name}") == [(3,)]


def test_timeout_includes_creation_of_jsonl_rows(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        query_rows(a_set_of_lines(tmp_path), "SELECT 1 FROM v_sample LIMIT 1", timeout_seconds=1e-9)
    assert caught.value.code == "WDS334"
