"""A catalog of JSONL files stores no sample rows, but answers queries as if it did."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder, samples
from tests.full_disk import files_of_at_most
from wdsctl.core.catalog.rows import add_implied_rows, copy_with_implied_rows
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, StorageError
from wdsctl.core.index.index import index
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.sql import sql
from wdsctl.core.views.views import create_view

ROWS = "SELECT id, key, offset, size, parts FROM sample ORDER BY id"


def lines(count: int) -> bytes:
    return b"".join(json.dumps({"id": f"q{i}é", "text": "t" * (i % 7)}).encode() + b"\r\n" for i in range(count))


@pytest.fixture(params=["", "id"])
def roots(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Two equal datasets: one with the default settings, and one with sample rows."""
    datasets = [a_folder(tmp_path / name, {"a.jsonl": lines(5), "b/c.jsonl": lines(30)}) for name in ("bare", "rows")]
    assert not index(datasets[0], key=request.param).sample_rows
    assert index(datasets[1], key=request.param, sample_rows=True).sample_rows
    return datasets[0], datasets[1]


def test_implied_rows_equal_stored_rows(roots: tuple[str, str]) -> None:
    found = []
    for root in roots:
        path = locate(root).catalog_path
        with closing(sqlite3.connect(path)) as connection:
            added = add_implied_rows(connection, path)
            found.append(connection.execute(ROWS).fetchall())
        assert added is (root == roots[0])
    assert found[0] == found[1]
    assert len(found[0]) == 35


QUERIES = [
    "SELECT * FROM v_sample ORDER BY id",
    "SELECT * FROM v_part ORDER BY id",
    "SELECT shard, count(*), sum(size) FROM V_Sample GROUP BY shard",
    "SELECT * FROM main.v_sample",
    "SELECT path, samples FROM v_shard ORDER BY path",
    "WITH mine AS (SELECT key FROM v_part WHERE size > 15) SELECT count(*) FROM mine",
]


def test_queries_have_same_result_with_implied_rows(roots: tuple[str, str]) -> None:
    for root in roots:
        create_view(root, "long", ViewDefinition(where="size > 18 AND key LIKE '%1%'"))
    for query in QUERIES:
        for view in ("", "@long"):
            answers = []
            for root in roots:
                with sql(root + view, query) as answer:
                    answers.append((answer.columns, list(answer.rows)))
            assert answers[0] == answers[1], (query, view)
            assert answers[0][1], (query, view)


def test_sample_rows_setting_is_kept_by_later_index(roots: tuple[str, str]) -> None:
    default_root, _ = roots
    assert index(default_root, sample_rows=True).sample_rows
    assert index(default_root).up_to_date
    a_folder(Path(default_root), {"d.jsonl": lines(3)})
    assert index(default_root).sample_rows
    assert not index(default_root, sample_rows=False).sample_rows


def test_tars_without_sample_rows_have_no_implied_rows(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 5)})
    index(root, sample_rows=False)
    path = locate(root).catalog_path
    with closing(sqlite3.connect(path)) as connection:
        assert not add_implied_rows(connection, path)


def test_empty_jsonl_files_have_no_implied_rows(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.jsonl": b"\n", "b.jsonl": b""})
    index(root)
    with closing(sqlite3.connect(locate(root).catalog_path)) as connection:
        assert add_implied_rows(connection, locate(root).catalog_path)
        assert connection.execute(ROWS).fetchall() == []
    with sql(root, "SELECT * FROM v_sample") as answer:
        assert list(answer.rows) == []


def test_copy_with_implied_rows_attaches_uris_without_key_index(roots: tuple[str, str]) -> None:
    path = locate(roots[0]).catalog_path
    with closing(copy_with_implied_rows(sqlite3.connect(path), path)) as copy:
        copy.execute("ATTACH ? AS other", (f"file:{path}?mode=ro",))
        assert copy.execute("SELECT count(*) FROM other.shard").fetchone() == (2,)
        assert copy.execute("SELECT count(*) FROM sqlite_master WHERE name = 'sample_key'").fetchone() == (0,)
        assert copy.execute("SELECT count(*) FROM sample").fetchone() == (35,)


def test_implied_rows_are_retried_after_failure(roots: tuple[str, str]) -> None:
    place = locate(roots[0])
    offsets = next(Path(place.meta).glob("offsets-*.bin"))
    with closing(sqlite3.connect(place.catalog_path)) as connection:
        aside = offsets.rename(offsets.with_suffix(".aside"))
        for _ in range(2):
            with pytest.raises(CatalogError, match="missing"):
                add_implied_rows(connection, place.catalog_path)
        aside.rename(offsets)
        assert add_implied_rows(connection, place.catalog_path)
        assert len(connection.execute(ROWS).fetchall()) == 35


def test_interrupted_copy_keeps_catalog_connection_open(roots: tuple[str, str]) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    path = locate(roots[0]).catalog_path
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(KeyboardInterrupt):
            copy_with_implied_rows(connection, path, stop)
        assert connection.execute("SELECT count(*) FROM shard").fetchone() == (2,)


def test_full_disk_for_implied_rows_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_folder(tmp_path / "d", {"a.jsonl": b"{}\n" * 120_000})
    index(root)
    path = locate(root).catalog_path
    monkeypatch.setenv("SQLITE_TMPDIR", os.fspath(tmp_path))
    for add_rows in (lambda each: copy_with_implied_rows(each, path), lambda each: add_implied_rows(each, path)):
        with closing(sqlite3.connect(path)) as connection:
            with files_of_at_most(1 << 16), pytest.raises(StorageError, match="sample rows of JSONL files") as caught:
                add_rows(connection)
            assert (caught.value.code, caught.value.where) == ("WDS401", os.fspath(tmp_path))
            assert add_implied_rows(connection, path)
            assert connection.execute("SELECT count(*) FROM sample").fetchone() == (120_000,)
