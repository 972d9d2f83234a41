from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder, some_shards, tree
from tests.core.pictures import a_gallery, rows_of
from tests.full_disk import files_of_at_most
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, StorageError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.ls import open_listing
from wdsctl.core.split.split import split_by_ratios
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.sql import sql
from wdsctl.core.views.views import create_view

FOR_EVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT "


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = a_gallery(tmp_path_factory.mktemp("gallery"))
    create_view(root, "wide", ViewDefinition(where="width >= 60"))
    return root


def asked(root: str, text: str, **options: Any) -> list[tuple[Any, ...]]:
    with sql(root, text, **options) as answer:
        return list(answer.rows)


def test_the_views_of_the_catalog_can_be_asked(gallery: str) -> None:
    rows = rows_of(gallery)
    assert asked(gallery, "SELECT count(*), sum(size) FROM v_part") == [(len(rows), sum(row["size"] for row in rows))]
    assert asked(gallery, "SELECT max(width) FROM v_media WHERE part = 'jpg';") == [(104,)]


def test_the_views_of_the_ledger_can_be_asked(gallery: str) -> None:
    assert asked(gallery, "SELECT name, samples > 0, definition FROM v_view") == [
        ("wide", 1, '{"where": "width >= 60"}')
    ]
    assert ("view create", "ok") in asked(gallery, "SELECT command, status FROM v_run")
    assert asked(gallery, "SELECT DISTINCT code, part FROM v_finding") == [("WDS110", "txt")]
    for view in ("v_quarantine", "v_excluded"):
        assert asked(gallery, f"SELECT * FROM {view}") == []


def test_a_view_of_the_dataset_narrows_its_samples(gallery: str) -> None:
    wide = {(r["shard"], r["position"]) for r in rows_of(gallery) if (r["width"] or 0) >= 60}
    assert set(asked(f"{gallery}@wide", "SELECT shard, position FROM v_sample")) == wide
    parts = sum((row["shard"], row["position"]) in wide for row in rows_of(gallery))
    assert asked(f"{gallery}@wide", "SELECT count(*) FROM v_part") == [(parts,)]


def test_every_sample_has_its_split(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3, 37)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1, "test": 1}, by="sample", seed=1)

    for name in ("train", "val", "test"):
        with open_listing(root, what="samples", split=name) as listing:
            expected = set(listing.names)
        rows = asked(root, f"SELECT key FROM v_sample_split WHERE split = '{name}'")
        assert {key for (key,) in rows} == expected
    assert asked(root, "SELECT count(*), count(DISTINCT id) FROM v_sample_split") == [(111, 111)]
    create_view(root, "few", ViewDefinition(where="key like '%7'"))
    assert asked(f"{root}@few", "SELECT count(*) FROM v_sample_split") == asked(
        f"{root}@few", "SELECT count(*) FROM v_sample"
    )


def test_names_of_columns_come_with_the_rows(gallery: str) -> None:
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
def test_nothing_else_can_be_asked_and_nothing_is_written(gallery: str, text: str) -> None:
    before = tree(gallery)
    with pytest.raises(UsageError) as raised:
        asked(gallery, text)
    assert raised.value.code == "WDS332"
    assert tree(gallery) == before


def test_a_view_is_asked_for_by_its_name_alone(gallery: str) -> None:
    with pytest.raises(UsageError) as raised:
        asked(gallery, "SELECT * FROM ledger.v_run")
    assert raised.value.hint == "write v_run without a prefix"


def test_a_query_ends_after_its_time(gallery: str) -> None:
    with pytest.raises(UsageError, match=r"longer than 0\.2 s") as raised:
        asked(gallery, f"{FOR_EVER} count(*) FROM r", timeout_seconds=0.2)
    assert raised.value.code == "WDS334"
    with pytest.raises(UsageError, match="longer"):
        asked(gallery, f"{FOR_EVER} n FROM r WHERE n % 100000 = 0", timeout_seconds=0.2)


def test_rows_come_as_they_are_found(gallery: str) -> None:
    with sql(gallery, f"{FOR_EVER} n FROM r") as answer:
        assert [next(answer.rows) for _ in range(3)] == [(1,), (2,), (3,)]


def test_an_error_between_two_rows_is_told(gallery: str) -> None:
    with sql(gallery, f"{FOR_EVER} json(CASE n WHEN 3 THEN '{{' ELSE n END) FROM r") as answer:
        assert next(answer.rows) == ("1",)
        with pytest.raises(UsageError, match="malformed JSON"):
            list(answer.rows)


def test_a_damaged_ledger_is_a_note_and_the_catalog_is_read(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    Path(locate(root).ledger).write_bytes(b"nonsense" * 999)
    with sql(root, "SELECT count(*) FROM v_run") as answer:
        assert list(answer.rows) == [(0,)]
        assert "cannot read the ledger" in answer.note
    assert asked(root, "SELECT count(*) FROM v_sample") == [(5,)]


@pytest.mark.usefixtures("place")
def test_a_dataset_without_a_ledger_has_no_runs(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    Path(locate(root).ledger).unlink()
    assert asked(root, "SELECT * FROM v_run") == []
    assert not Path(locate(root).ledger).exists()


def test_a_damaged_catalog_is_told(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1, 2000)
    index(root)
    path = Path(locate(root).catalog)
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = b"\xee" * (len(data) - 4096 * 3)
    path.write_bytes(bytes(data))
    with pytest.raises(CatalogError) as raised:
        asked(root, "SELECT sum(length(key)) FROM v_sample")
    assert raised.value.code == "WDS302"


def test_a_disk_without_room_to_sort_is_no_mistake_of_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = some_shards(tmp_path / "d", 1, 300)
    index(root)
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    many = "SELECT one.key FROM v_sample one, v_sample other, v_shard ORDER BY one.key || other.key || v_shard.path"
    with files_of_at_most(1 << 16), pytest.raises(StorageError, match="the query cannot run") as raised:
        asked(root, many)
    assert (raised.value.code, raised.value.where) == ("WDS401", str(tmp_path))
    assert "SQLITE_TMPDIR=DIR" in raised.value.hint
    assert len(asked(root, many)) == 300**2


@pytest.mark.usefixtures("place")
def test_samples_without_rows_are_asked_for_by_a_command(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, sample_rows=False)
    with pytest.raises(CatalogError, match="no sample rows"):
        asked(root, "SELECT count(*) FROM v_part")
    assert asked(root, "SELECT samples FROM v_shard") == [(5,)]


def test_text_that_is_no_utf_8_is_shown_escaped(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with closing(sqlite3.connect(locate(root).catalog)) as connection:
        connection.execute("UPDATE sample SET key = CAST(x'61ff' AS TEXT) WHERE key = '000001'")
        connection.commit()
    assert ("a\\xff",) in asked(root, "SELECT key FROM v_sample")


def a_set_of_lines(folder: Path) -> str:
    index(a_folder(folder, {"a.jsonl": b'{"id": 1}\n' * 3}))
    return str(folder)


@pytest.mark.parametrize("name", ["v_sample", "'v_sample'", '"v_sample"', "'V_Sample'", "main.'v_sample'"])
def test_lines_have_rows_however_their_view_is_named(tmp_path: Path, name: str) -> None:
    assert asked(a_set_of_lines(tmp_path), f"SELECT count(*) FROM {name}") == [(3,)]


def test_the_timeout_counts_while_rows_of_lines_are_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        asked(a_set_of_lines(tmp_path), "SELECT 1 FROM v_sample LIMIT 1", timeout_seconds=1e-9)
    assert caught.value.code == "WDS334"
